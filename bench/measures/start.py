"""Time from process start to the first response, and memory of an idle server."""

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.client import Client
from bench.launch import FASTMCP, SDK, TOOLHALL, ServerSpec, start
from bench.process import await_port
from bench.report import Section, Verdict
from bench.rounds import Options, interleaved
from bench.spread import Spread, ratios
from bench.targets import TARGETS

KINDS = (TOOLHALL, FASTMCP, SDK)
SETTLE_SECONDS = 0.3

ABOUT = """A process with one tool, started over HTTP, until its first `tools/call` is answered; memory a moment later.
PSS counts what is shared with other running processes only in part and falls where more Pythons run: compare RSS."""


class Started(NamedTuple):
    """One start."""

    seconds: float
    cpu_seconds: float
    rss: float
    pss: float


def measure_start(options: Options) -> Section:
    """Every target in turn, each time from scratch."""
    seen = interleaved({kind: partial(_start, kind) for kind in KINDS}, options.halved().rounds)
    rows = [[kind, *_texts(seen[kind])] for kind in KINDS]
    columns = ["server", "seconds to the first answer", "CPU seconds", "RSS MB", "PSS MB"]
    figures = {kind: [started._asdict() for started in starts] for kind, starts in seen.items()}
    return Section("Start and memory", ABOUT, columns, rows, _verdicts(seen), figures)


def _start(kind: str) -> Started:
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        begin = time.monotonic()
        process, port, _ = start(ServerSpec(kind), Path(folder) / "data")
        try:
            await_port(process, port)
            with Client(port) as client:
                client.call()
            seconds, cpu = time.monotonic() - begin, process.cpu().total
            time.sleep(SETTLE_SECONDS)
            return Started(seconds, cpu, *process.memory())
        finally:
            process.stop()


def _texts(starts: list[Started]) -> list[str]:
    digits = (2, 2, 0, 0)
    return [Spread.of(values).text(places) for values, places in zip(zip(*starts, strict=True), digits, strict=True)]


def _verdicts(seen: dict[str, list[Started]]) -> list[Verdict]:
    ours, theirs = seen[TOOLHALL], seen[FASTMCP]
    seconds = ratios([each.seconds for each in ours], [each.seconds for each in theirs])
    memory = ratios([each.rss for each in ours], [each.rss for each in theirs])
    return [TARGETS["start.seconds"].verdict(seconds), TARGETS["start.memory"].verdict(memory)]
