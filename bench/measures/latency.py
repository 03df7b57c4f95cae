"""Latency at 70 % of what a server can take: p50 and p99 at a fixed rate, beside the ceiling."""

import time
from functools import partial

from bench import messages
from bench.client import Client
from bench.launch import CEILING_FULL, TOOLHALL, Server, ServerSpec, serving
from bench.load import CONNECTIONS, saturate
from bench.open_loop import Latency, measure_latency
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

KINDS = (TOOLHALL, CEILING_FULL)
LOAD = 0.7
SECONDS = 3
SETTLE_SECONDS = 0.2  # what saturation left behind, such as records to write

ABOUT = f"""`add(a, b)` over MCP 2026-07-28 and {CONNECTIONS} connections. In each round each server is first saturated
for a second, then called for {SECONDS} seconds at {LOAD:.0%} of the rate it had then, at random times. Latency is from
when a call was due to its whole answer. `generator` is the p99 of how late the generator itself sent a call, which is a
part of every latency: it shares the cores with the server."""


def measure_latencies(options: Options) -> Section:
    """Both servers in turn."""
    with serving(*map(ServerSpec, KINDS)) as servers:
        for server in servers:
            with Client(server.port) as client:
                client.call()
        lanes = {kind: partial(_latency, server) for kind, server in zip(KINDS, servers, strict=True)}
        seen = interleaved(lanes, options.rounds)
    p50 = {kind: [each.p50 for each in found] for kind, found in seen.items()}
    p99 = {kind: [each.p99 for each in found] for kind, found in seen.items()}
    rows = [
        [
            kind,
            *(Spread.of(values).text() for values in zip(*seen[kind], strict=True)),
            ratios(p50[kind], p50[CEILING_FULL]).text(2),
            ratios(p99[kind], p99[CEILING_FULL]).text(2),
        ]
        for kind in KINDS
    ]
    columns = [
        "server",
        "p50 µs",
        "p99 µs",
        "generator µs",
        "calls per second",
        "p50 times ceiling",
        "p99 times ceiling",
    ]
    figures = {kind: [each._asdict() for each in found] for kind, found in seen.items()}
    verdicts = [TARGETS["latency.p99"].verdict(ratios(p99[TOOLHALL], p99[CEILING_FULL]))]
    return Section(f"Latency at {LOAD:.0%} load", ABOUT, columns, rows, verdicts, figures)


def _latency(server: Server) -> Latency:
    rate = saturate(server, 1).per_second * LOAD
    time.sleep(SETTLE_SECONDS)
    return measure_latency(server, rate, SECONDS, CONNECTIONS, messages.mcp_call())
