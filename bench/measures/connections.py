"""A call over few and many connections: CPU per call and calls per second, beside the ceiling."""

from functools import partial

from bench import load
from bench.client import Client
from bench.launch import CEILING_FULL, TOOLHALL, ServerSpec, serving
from bench.load import saturate
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import ratios

COUNTS = (4, 32, 1_000)
KINDS = (TOOLHALL, CEILING_FULL)
SECONDS = 2  # opening a thousand connections is a part of the load

ABOUT = """`add(a, b)` over MCP 2026-07-28; each connection sends its next call when the last one is answered. With few
connections fewer calls share one turn of the event loop, with a thousand their data no longer stays in the caches."""


def measure_connections(options: Options) -> Section:
    """Both servers at every number of connections in turn."""
    with serving(*map(ServerSpec, KINDS)) as servers:
        for server in servers:
            with Client(server.port) as client:
                client.call()
        lanes = {
            f"{kind} {count}": partial(saturate, server, SECONDS, connections=count)
            for count in COUNTS
            for kind, server in zip(KINDS, servers, strict=True)
        }
        seen = interleaved(lanes, options.halved().rounds)
    cpu = load.cpu_by_name(seen)
    rows = [
        [
            kind,
            f"{count:,}",
            *load.cells(seen[f"{kind} {count}"]),
            ratios(cpu[f"{kind} {count}"], cpu[f"{CEILING_FULL} {count}"]).text(2),
        ]
        for count in COUNTS
        for kind in KINDS
    ]
    columns = ["server", "connections", *load.COLUMNS, "times ceiling full"]
    return Section("Connections", ABOUT, columns, rows, [], load.figures(seen))
