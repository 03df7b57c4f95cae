"""Starts `toolhall serve` as a process of its own, over HTTP or on its standard input and output."""

import json
import select
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.harness.patience import patience

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TOOLHALL = Path(sys.executable).with_name("toolhall")


class Served(NamedTuple):
    """A server that runs: its origin, its MCP endpoint and its process."""

    origin: str
    process: int

    @property
    def mcp(self) -> str:
        """The URL that clients are given."""
        return f"{self.origin}/mcp"


def stdio_command(name: str) -> list[str]:
    """The command that serves a file of this folder on standard input and output."""
    return [*_command(name), "--stdio"]


@contextmanager
def served(name: str | None = None) -> Generator[Served]:
    """Serve a file of this folder, or the example toolkit, on a free loopback port, until the block ends."""
    command = [*_command(name), "--port", "0", "--json"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        try:
            yield Served(_origin(process), process.pid)
        finally:
            stop(process)


@contextmanager
def served_on_stdio(name: str) -> "Generator[subprocess.Popen[bytes]]":
    """Serve a file of this folder on standard input and output, until the block ends."""
    pipe = subprocess.PIPE
    with subprocess.Popen(stdio_command(name), cwd=ROOT, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            stop(process)


def stop(process: "subprocess.Popen[bytes]") -> int:
    """Ask it to end, and insist; its exit code."""
    process.terminate()
    try:
        return process.wait(patience())
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("the server did not end when it was asked to") from None


def _command(name: str | None) -> list[str]:
    target = [] if name is None else [str((HERE / name).relative_to(ROOT))]
    return [str(TOOLHALL), "serve", *target]


def _origin(process: "subprocess.Popen[bytes]") -> str:
    """The server says where it listens in its first line."""
    assert process.stdout is not None
    ready, _, _ = select.select([process.stdout], [], [], patience())
    line = process.stdout.readline() if ready else b""
    if not line:
        process.kill()
        raise AssertionError("the server did not start")
    said: dict[str, str] = json.loads(line)
    return said["url"]
