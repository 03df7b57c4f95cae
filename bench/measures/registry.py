"""Beside ever more registered tools: how long a start takes, and what a call, a lookup and a page of the list cost."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import load, messages
from bench.client import Client
from bench.filled import fill
from bench.launch import TOOLHALL, Server, ServerSpec, start
from bench.load import Load, one_by_one, saturate
from bench.process import await_port
from bench.report import Section, Verdict
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

SIZES = (10, 1_000, 10_000)
CALL, LOOKUP, PAGE = "a call", "a lookup by range", "a page"
WAYS = {CALL: "registry.call", LOOKUP: "registry.lookup", PAGE: "registry.page"}

ABOUT = """Toolhall alone, with tools that were registered in toolkits of a hundred and activated, in SQLite. A lookup
by range is a call to `library0.search0@^1.0`, which nothing runs. A page is the first hundred of `tools/list`."""


class Started(NamedTuple):
    """One start."""

    seconds: float
    cpu_seconds: float


def measure_registry(options: Options) -> Section:
    """Every size in turn; first the starts, then the calls."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as kept:
        folders = {size: Path(kept) / str(size) for size in SIZES}
        for size, folder in folders.items():
            fill(folder, size)
        starts = interleaved({str(size): partial(_start, folders[size]) for size in SIZES}, options.halved().rounds)
        servers = {size: _serve(folders[size]) for size in SIZES}
        try:
            lanes = {_lane(way, size): _work(way, servers[size], options) for size in SIZES for way in WAYS}
            seen = interleaved(lanes, options.halved().rounds)
        finally:
            for server in servers.values():
                server.process.stop()
    cpu = load.cpu_by_name(seen)
    rows = [_row(size, starts[str(size)], cpu) for size in SIZES]
    columns = ["tools", "seconds to the first answer", "CPU seconds", *(f"CPU µs, {way}" for way in WAYS)]
    verdicts = [_start_verdict(starts), *_verdicts(cpu)]
    return Section("Registered tools", ABOUT, columns, rows, verdicts, load.figures(seen))


def _serve(folder: Path) -> Server:
    server = start(ServerSpec(TOOLHALL), folder)
    await_port(server.process, server.port)
    return server


def _start(folder: Path) -> Started:
    begin = time.monotonic()
    server = _serve(folder)
    try:
        with Client(server.port) as client:
            client.call()
        return Started(time.monotonic() - begin, server.process.cpu().total)
    finally:
        server.process.stop()


def _work(way: str, server: Server, options: Options) -> Callable[[], Load]:
    if way == CALL:
        return partial(saturate, server, options.seconds)
    if way == PAGE:
        return partial(one_by_one, server, [messages.listing()], "tools/list", options.seconds)
    return partial(one_by_one, server, [_lookup()], "tools/call", options.seconds, name=_LOOKED_UP)


_LOOKED_UP = "library0.search0@^1.0"


def _lookup() -> bytes:
    params = {"name": _LOOKED_UP, "arguments": {"query": "x"}, "_meta": messages.META}
    return messages.request("tools/call", params)


def _lane(way: str, size: int) -> str:
    return f"{way} {size}"


def _row(size: int, starts: list[Started], cpu: dict[str, list[float]]) -> list[str]:
    seconds, work = (Spread.of(values).text(2) for values in zip(*starts, strict=True))
    return [f"{size:,}", seconds, work, *(Spread.of(cpu[_lane(way, size)]).text(1) for way in WAYS)]


def _start_verdict(starts: dict[str, list[Started]]) -> Verdict:
    seconds = Spread.of([started.seconds for started in starts[str(SIZES[-1])]])
    return TARGETS["registry.start"].verdict(seconds)


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    # Ten tools fill no page, so pages are compared from a thousand up.
    bases = {way: SIZES[1] if way == PAGE else SIZES[0] for way in WAYS}
    return [
        TARGETS[key].verdict(ratios(cpu[_lane(way, SIZES[-1])], cpu[_lane(way, bases[way])]))
        for way, key in WAYS.items()
    ]
