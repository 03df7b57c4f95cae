"""`tools/call` over standard input and output, with one call in flight and with 32."""

import json
import os
import select
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from bench import load, messages
from bench.client import check_sum
from bench.launch import FASTMCP, SDK, SERVERS, TOOLHALL, piping
from bench.process import Process
from bench.report import Section
from bench.revision import THIS, Tree, checked_out
from bench.rounds import Options, interleaved
from bench.spread import ratios
from bench.targets import TARGETS

BEFORE = "toolhall before"
KINDS = (TOOLHALL, BEFORE, FASTMCP, SDK)
IN_FLIGHT = (1, 32)
SILENCE_SECONDS = 60.0

ABOUT = """MCP 2025-11-25 after its handshake, one JSON message per line. `toolhall before` runs the sources of revision
{before} with the same interpreter and packages."""


def measure_stdio(options: Options) -> Section:
    """Every server in turn, at both depths."""
    with ExitStack() as stack:
        before = stack.enter_context(checked_out(options.before))
        trees = {TOOLHALL: THIS, BEFORE: before}
        pipes = {
            kind: Pipe(stack.enter_context(_piping_tree(kind, trees[kind]) if kind in trees else piping(kind)))
            for kind in KINDS
        }
        for pipe in pipes.values():
            pipe.greet()
        lanes = {
            f"{kind} {depth}": partial(pipe.load, depth, options.seconds)
            for depth in IN_FLIGHT
            for kind, pipe in pipes.items()
        }
        seen = interleaved(lanes, options.rounds)
    cpu = load.cpu_by_name(seen)
    rows = [
        [kind, str(depth), *load.cells(seen[f"{kind} {depth}"]), *_compared(kind, depth, cpu)]
        for depth in IN_FLIGHT
        for kind in KINDS
    ]
    columns = ["server", "in flight", *load.COLUMNS, "times before", "times fastmcp"]
    verdicts = [TARGETS["stdio.before"].verdict(ratios(cpu[f"{TOOLHALL} 32"], cpu[f"{BEFORE} 32"]))]
    about = ABOUT.format(before=options.before)
    return Section("A call over stdio", about, columns, rows, verdicts, load.figures(seen))


@contextmanager
def _piping_tree(name: str, tree: Tree) -> Generator[Process]:
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        command = tree.command("serve", str(SERVERS / "tools.py"), "--data", folder, "--stdio")
        process = Process(name, command, tree.place(Path(folder)), piped=True)
        try:
            yield process
        finally:
            process.stop()


def _compared(kind: str, depth: int, cpu: dict[str, list[float]]) -> list[str]:
    bases = ((BEFORE, 2), (FASTMCP, 3))
    return [ratios(cpu[f"{kind} {depth}"], cpu[f"{base} {depth}"]).text(digits) for base, digits in bases]


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

    def load(self, depth: int, seconds: float) -> load.Load:
        """Send a new call for every answer, until the time is up; then wait for the last ones."""
        before, start = self._process.cpu(), time.monotonic()
        sent = answered = 0
        while (going := time.monotonic() < start + seconds) or answered < sent:
            wanted = depth - (sent - answered) if going else 0
            self._write([messages.call(sent + number, modern=False) for number in range(wanted)])
            sent += wanted
            answered += len(self._read())
        elapsed, cpu = time.monotonic() - start, self._process.cpu().since(before)
        return load.Load.of(cpu, answered, elapsed)

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
