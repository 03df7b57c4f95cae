"""A good tool among bad ones: how long its calls take while others block, crash and leak, beside a quiet hall."""

import contextlib
import http.client
import json
import statistics
import threading
import time
from collections.abc import Generator
from functools import partial
from multiprocessing import get_context
from typing import NamedTuple

from bench import messages
from bench.client import Client
from bench.launch import TOOLHALL_TROUBLED, Server, ServerSpec, serving
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

BAD = ("block", "crash", "leak")
EACH = 2  # clients that call each of them, over and over
START_SECONDS = 1.0  # until the pesterers are at it
BREATH = 0.01  # seconds between two calls of one client

ABOUT = """`add(a, b)` over MCP 2026-07-28 and one connection, one call after the other. In the second row, six clients
in a process of their own call three isolated tools of the same hall a hundred times a second at most: one that never
returns (its timeout is half a second), one that aborts its process, one that leaks 64 MB with each call. Latency is the
client's, by the clock on the wall, so only a quiet machine tells anything."""


class Latency(NamedTuple):
    """Of one round, in microseconds."""

    median: float
    p99: float


def measure_trouble(options: Options) -> Section:
    """Quiet and troubled in turn, on one server."""
    with serving(ServerSpec(TOOLHALL_TROUBLED)) as (server,):
        lanes = {
            "quiet": partial(_latency, server, options.seconds),
            "troubled": partial(_troubled, server, options.seconds),
        }
        seen = interleaved(lanes, options.rounds)
    rows = [
        [name, Spread.of([each.median for each in found]).text(), Spread.of([each.p99 for each in found]).text()]
        for name, found in seen.items()
    ]
    quiet, troubled = ([each.p99 for each in seen[name]] for name in ("quiet", "troubled"))
    verdict = TARGETS["trouble.p99"].verdict(ratios(troubled, quiet))
    figures = {name: [each._asdict() for each in found] for name, found in seen.items()}
    return Section("Bad neighbours", ABOUT, ["hall", "median µs", "p99 µs"], rows, [verdict], figures)


def _troubled(server: Server, seconds: float) -> Latency:
    with _trouble(server):
        return _latency(server, seconds)


def _latency(server: Server, seconds: float) -> Latency:
    body, headers = messages.call(), messages.headers("tools/call")
    del headers["authorization"]  # this hall knows no key, and is asked by its own user
    taken: list[float] = []
    with Client(server.port) as client:
        end = time.perf_counter() + seconds
        while (start := time.perf_counter()) < end:
            answer, _ = client.post(body, headers)
            taken.append((time.perf_counter() - start) * 1e6)
            if b'"result":9.5' not in answer:
                raise RuntimeError(f"a wrong answer: {answer[:500].decode(errors='replace')}")
    return Latency(statistics.median(taken), statistics.quantiles(taken, n=100)[-1])


@contextlib.contextmanager
def _trouble(server: Server) -> Generator[None]:
    """Bad calls all the time, until the end."""
    pesterers = get_context("spawn").Process(target=_pester_all, args=(server.port,))
    pesterers.start()
    try:
        time.sleep(START_SECONDS)
        yield
    finally:
        pesterers.kill()
        pesterers.join()


def _pester_all(port: int) -> None:
    for name in BAD * EACH:
        threading.Thread(target=_pester, args=(port, name)).start()


def _pester(port: int, name: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        time.sleep(BREATH)
        connection.request("POST", f"/tools/troubled/{name}", json.dumps({}), {"content-type": "application/json"})
        connection.getresponse().read()
