"""What is measured, and how each is started."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import messages
from bench.process import Place, Process, await_port, free_port

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ROOT / "bench" / "servers"
CLIENTS_PYTHON = ROOT / ".venv-clients" / "bin" / "python"
TOOLHALL_COMMAND = Path(sys.executable).parent / "toolhall"

TOOLHALL, FASTMCP, SDK = "toolhall", "fastmcp", "sdk"
FASTMCP_SESSION = "fastmcp session"
CEILING_WORK, CEILING_FULL = "ceiling work", "ceiling full"


class Target(NamedTuple):
    """A server with so many tools; `page_size` is Toolhall's only."""

    kind: str
    tools: int = 1
    page_size: int | None = None


class Server(NamedTuple):
    """A running one."""

    process: Process
    port: int


@contextmanager
def serving(*targets: Target) -> Generator[list[Server]]:
    """All of them over HTTP, started together, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        servers: list[Server] = []
        try:
            for number, target in enumerate(targets):
                servers.append(start(target, Path(folder) / str(number)))
            for server in servers:
                await_port(server.process, server.port)
            yield servers
        finally:
            for server in servers:
                server.process.stop()


@contextmanager
def piping(kind: str) -> Generator[Process]:
    """One of them over standard input and output."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        target = Target(kind)
        process = Process(kind, _command(target, Path(folder), None), _place(target, Path(folder)), piped=True)
        try:
            yield process
        finally:
            process.stop()


def start(target: Target, folder: Path) -> Server:
    """Start it on a port of its own, with a folder for what it records."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    return Server(Process(target.kind, _command(target, folder, port), _place(target, folder)), port)


def _command(target: Target, folder: Path, port: int | None) -> list[str]:
    listen = [] if port is None else ["--port", str(port)]
    peer = {FASTMCP: "fastmcp_peer.py", FASTMCP_SESSION: "fastmcp_peer.py", SDK: "sdk_peer.py"}.get(target.kind)
    if peer:
        session = ["--session"] if target.kind == FASTMCP_SESSION else []
        return [str(CLIENTS_PYTHON), str(SERVERS / peer), "--tools", str(target.tools), *listen, *session]
    if target.kind == TOOLHALL:  # as its users start it
        how = listen or ["--stdio"]
        return [str(TOOLHALL_COMMAND), "serve", str(SERVERS / "tools.py"), "--data", str(folder), *how]
    record = ["--record", str(folder / "record.jsonl")] if target.kind == CEILING_FULL else []
    return [sys.executable, str(SERVERS / "ceiling.py"), *listen, "--key", messages.KEY, *record]


def _place(target: Target, folder: Path) -> Place:
    """Away from our settings files, and without variables that would make the run special."""
    special = ("TOOLHALL_", "PYTHON", "FASTMCP_", "UVICORN_", "WEB_CONCURRENCY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(special)}
    page = {} if target.page_size is None else {"TOOLHALL_PAGE_SIZE": str(target.page_size)}
    return Place(folder, kept | page | {"BENCH_TOOLS": str(target.tools)})
