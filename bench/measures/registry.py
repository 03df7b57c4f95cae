"""Beside ever more registered tools: how long a start takes, and what a call, a lookup and a page of the list cost."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench import messages
from bench.client import Client
from bench.filled import TOGETHER, fill
from bench.load import Load, one_by_one, saturate
from bench.process import await_port
from bench.report import Section, Verdict
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import TOOLHALL, Server, Target, start

SIZES = (10, 1_000, 10_000)
FLAT = 1.25
START_SECONDS = 3.0
WAYS = ("a call", "a lookup by range", "a page")

ABOUT = """Toolhall alone, with tools that were registered in toolkits of a hundred and activated, in SQLite. A lookup
by range is a call to `library0.search0@^1.0`, which nothing runs. A page is the first hundred of `tools/list`."""


class Started(NamedTuple):
    """One start."""

    seconds: float
    cpu_seconds: float


def measure_registry(effort: Effort) -> Section:
    """Every size in turn; first the starts, then the calls."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as kept:
        folders = {size: Path(kept) / str(size) for size in SIZES}
        for size, folder in folders.items():
            fill(folder, size)
        starts = interleaved({str(size): partial(_start, folders[size]) for size in SIZES}, effort.halved().rounds)
        servers = {size: _serve(folders[size]) for size in SIZES}
        try:
            lanes = {_lane(way, size): _work(way, servers[size], effort) for size in SIZES for way in WAYS}
            seen = interleaved(lanes, effort.halved().rounds)
        finally:
            for server in servers.values():
                server.process.stop()
    cpu = {lane: [load.cpu_us for load in loads] for lane, loads in seen.items()}
    rows = [_row(size, starts[str(size)], cpu) for size in SIZES]
    columns = ["tools", "seconds to the first answer", "CPU seconds", *(f"CPU µs, {way}" for way in WAYS)]
    figures = {lane: [load._asdict() for load in loads] for lane, loads in seen.items()}
    return Section("Registered tools", ABOUT, columns, rows, [_start_verdict(starts), *_verdicts(cpu)], figures)


def _serve(folder: Path) -> Server:
    server = start(Target(TOOLHALL), folder)
    await_port(server.process, server.port)
    return server


def _start(folder: Path) -> Started:
    begin = time.monotonic()
    server = _serve(folder)
    try:
        with Client(server.port) as client:
            client.call()
        return Started(time.monotonic() - begin, server.process.cpu())
    finally:
        server.process.stop()


def _work(way: str, server: Server, effort: Effort) -> Callable[[], Load]:
    if way == "a call":
        return partial(saturate, server, effort.seconds)
    if way == "a page":
        return partial(one_by_one, server, [messages.listing()], "tools/list", effort.seconds)
    return partial(one_by_one, server, [_lookup()], "tools/call", effort.seconds, name=_LOOKED_UP)


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
    spread = Spread.of([started.seconds for started in starts[str(SIZES[-1])]])
    target = f"start with {SIZES[-1]:,} registered tools in under {START_SECONDS:g} s"
    return Verdict(target, spread.median < START_SECONDS, f"{spread.text(2)} s")


def _verdicts(cpu: dict[str, list[float]]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for way in WAYS:
        sizes = SIZES[1:]
        # Ten tools fill no page, so pages are compared from a thousand up.
        base = SIZES[1] if way == "a page" and SIZES[0] < TOGETHER else SIZES[0]
        times = {size: ratios(cpu[_lane(way, size)], cpu[_lane(way, base)]) for size in sizes if size != base}
        figure = ", ".join(f"{spread.text(2)} times at {size:,}" for size, spread in times.items())
        met = all(spread.median <= FLAT for spread in times.values())
        verdicts.append(Verdict(f"{way} costs the same as at {base:,} tools (within {FLAT})", met, figure))
    return verdicts
