"""Serves files of this folder by `toolhall serve`, over HTTP or on standard input and output."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path

from tests.harness import mcp_client
from tests.harness.mcp_client import Pipes
from tests.harness.patience import patience
from tests.harness.server_process import ROOT, ServerProcess, server_process, stdio_server

HERE = Path(__file__).parent
TOOLHALL = Path(sys.executable).with_name("toolhall")


def stdio_command(name: str) -> list[str]:
    """The command that serves a file on standard input and output."""
    return [*_command(name), "--stdio"]


@contextmanager
def served(name: str | None = None) -> Generator[ServerProcess]:
    """Serve a file, or the example toolkit, on a free loopback port; at the end it stops when it is told to."""
    with server_process([*_command(name), "--port", "0", "--json"], ROOT) as server:
        yield server
        server.stop()


@contextmanager
def served_on_stdio(name: str) -> "Generator[subprocess.Popen[bytes]]":
    """Serve a file on standard input and output; at the end it stops when it is told to."""
    with stdio_server(stdio_command(name), ROOT) as process:
        yield process
        process.terminate()
        process.wait(patience())


def stdio_process(name: str) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """A server on standard input and output that serves nobody else."""
    return mcp_client.stdio_process(stdio_command(name), ROOT)


@asynccontextmanager
async def own_pipes(name: str) -> AsyncGenerator[Pipes]:
    """The pipes of a server that serves nobody else."""
    async with stdio_process(name) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        yield Pipes(process.stdout, process.stdin)


def _command(name: str | None) -> list[str]:
    target = [] if name is None else [str((HERE / name).relative_to(ROOT))]
    return [str(TOOLHALL), "serve", *target]
