"""What a thousand open sessions and a thousand idle connections hold in memory."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.client import Client
from bench.launch import CEILING_FULL, FASTMCP_SESSION, TOOLHALL, ServerSpec, start
from bench.process import Process, await_port
from bench.report import Section
from bench.rounds import Options, interleaved
from bench.spread import Spread

COUNT = 1_000
WARM_CALLS = 200
KILOBYTES = 1024  # of one megabyte

ABOUT = f"""A new server for each figure, warm after {WARM_CALLS} calls. Sessions: {COUNT:,} are opened in turn
on one connection, by `initialize` of 2025-11-25, and stay open. Connections: {COUNT:,} are opened, each makes one call
and then stays idle. The figure is what the process and its children hold more than before, for each one. RSS counts
shared pages in full and PSS in part; neither shrinks at once when memory is freed."""


class Held(NamedTuple):
    """Kilobytes for each session or connection."""

    rss: float
    pss: float


def measure_memory(options: Options) -> Section:
    """Every server and kind in turn, each time from scratch."""
    lanes = {
        ("session", TOOLHALL): partial(_held, TOOLHALL, _open_sessions),
        ("session", FASTMCP_SESSION): partial(_held, FASTMCP_SESSION, _open_sessions),
        ("idle connection", TOOLHALL): partial(_held, TOOLHALL, _open_connections),
        ("idle connection", CEILING_FULL): partial(_held, CEILING_FULL, _open_connections),
    }
    by_name = {f"{what} of {kind}": lane for (what, kind), lane in lanes.items()}
    seen = interleaved(by_name, options.halved().rounds, warm=False)
    rows = [[name, *(Spread.of(values).text(1) for values in zip(*held, strict=True))] for name, held in seen.items()]
    figures = {name: [each._asdict() for each in held] for name, held in seen.items()}
    return Section("Memory per session and connection", ABOUT, ["one", "RSS kB", "PSS kB"], rows, [], figures)


def _held(kind: str, hold: Callable[[int, ExitStack], None]) -> Held:
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder, ExitStack() as stack:
        process, port, _ = start(ServerSpec(kind), Path(folder) / "data")
        stack.callback(process.stop)
        await_port(process, port)
        _warm(kind, port)
        before = process.memory()
        hold(port, stack)
        return _difference(process, before.rss, before.pss)


def _difference(process: Process, rss: float, pss: float) -> Held:
    after = process.memory()
    return Held((after.rss - rss) * KILOBYTES / COUNT, (after.pss - pss) * KILOBYTES / COUNT)


def _warm(kind: str, port: int) -> None:
    with Client(port) as client:
        session = client.open_session() if kind == FASTMCP_SESSION else None
        for _ in range(WARM_CALLS):
            client.call(session)


def _open_sessions(port: int, stack: ExitStack) -> None:
    client = stack.enter_context(Client(port))
    for _ in range(COUNT):
        client.open_session()


def _open_connections(port: int, stack: ExitStack) -> None:
    for _ in range(COUNT):
        stack.enter_context(Client(port)).call()
