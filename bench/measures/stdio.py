"""`tools/call` over standard input and output, with one call in flight and with 32."""

import json
import os
import select
import time
from contextlib import ExitStack
from functools import partial

from bench import messages
from bench.client import check_sum
from bench.load import Load
from bench.process import Process
from bench.report import Section
from bench.rounds import Effort, interleaved
from bench.spread import Spread, ratios
from bench.targets import FASTMCP, SDK, TOOLHALL, piping

KINDS = (TOOLHALL, FASTMCP, SDK)
IN_FLIGHT = (1, 32)
SILENCE_SECONDS = 60.0

ABOUT = """MCP 2025-11-25 after its handshake, one JSON message per line."""


def measure_stdio(effort: Effort) -> Section:
    """Every target in turn, at both depths."""
    with ExitStack() as stack:
        pipes = {kind: Pipe(stack.enter_context(piping(kind))) for kind in KINDS}
        for pipe in pipes.values():
            pipe.greet()
        lanes = {
            f"{kind} {depth}": partial(pipe.load, depth, effort.seconds)
            for depth in IN_FLIGHT
            for kind, pipe in pipes.items()
        }
        seen = interleaved(lanes, effort.halved().rounds)
    rows = [_row(kind, depth, seen) for depth in IN_FLIGHT for kind in KINDS]
    columns = ["server", "in flight", "CPU µs per call", "calls per second", "times fastmcp"]
    figures = {name: [load._asdict() for load in loads] for name, loads in seen.items()}
    return Section("A call over stdio", ABOUT, columns, rows, [], figures)


def _row(kind: str, depth: int, seen: dict[str, list[Load]]) -> list[str]:
    cpu = {name: [load.cpu_us for load in loads] for name, loads in seen.items()}
    mine = cpu[f"{kind} {depth}"]
    rate = Spread.of([load.per_second for load in seen[f"{kind} {depth}"]])
    return [kind, str(depth), Spread.of(mine).text(1), rate.text(), ratios(mine, cpu[f"{FASTMCP} {depth}"]).text(3)]


class Pipe:
    """A client that keeps so many calls in flight."""

    def __init__(self, process: Process) -> None:
        self._process = process
        stdin, stdout = process.popen.stdin, process.popen.stdout
        if stdin is None or stdout is None:
            raise RuntimeError(f"{process.name} has no pipes")
        self._in, self._out = stdin.fileno(), stdout.fileno()
        self._rest = b""

    def greet(self) -> None:
        """Shake hands, and see that the tool answers right."""
        self._write([messages.request("initialize", messages.CLIENT)])
        self._read()
        self._write([messages.INITIALIZED, messages.call(modern=False)])
        check_sum(self._read()[0])

    def load(self, depth: int, seconds: float) -> Load:
        """Send a new call for every answer, until the time is up; then wait for the last ones."""
        before, start = self._process.cpu(), time.monotonic()
        sent = answered = 0
        while (going := time.monotonic() < start + seconds) or answered < sent:
            wanted = depth - (sent - answered) if going else 0
            self._write([messages.call(sent + number, modern=False) for number in range(wanted)])
            sent += wanted
            answered += len(self._read())
        elapsed, cpu = time.monotonic() - start, self._process.cpu() - before
        return Load(cpu / answered * 1e6, answered / elapsed)

    def _write(self, lines: list[bytes]) -> None:
        data = b"".join(line + b"\n" for line in lines)
        while data:
            data = data[os.write(self._in, data) :]

    def _read(self) -> list[bytes]:
        """At least one answer, and all that are there; notices are left out."""
        answers: list[bytes] = []
        while not answers:
            if not select.select([self._out], [], [], SILENCE_SECONDS)[0]:
                raise RuntimeError(f"{self._process.name} says nothing:\n{self._process.said()}")
            chunk = os.read(self._out, 1 << 16)
            if not chunk:
                raise RuntimeError(f"{self._process.name} hung up:\n{self._process.said()}")
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            answers = [line for line in lines if _is_answer(line)]
        return answers


def _is_answer(line: bytes) -> bool:
    if b'"method"' in line or not line.strip():
        return False
    if b'"structuredContent"' in line or b'"serverInfo"' in line:
        return True
    raise RuntimeError(f"a wrong answer: {json.dumps(line[:500].decode(errors='replace'))}")
