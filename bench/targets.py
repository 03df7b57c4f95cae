"""What is measured, and how each is started."""

import os
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import messages
from bench.process import Process, await_port, free_port

ROOT = Path(__file__).parent.parent
SERVERS = ROOT / "bench" / "servers"
CLIENTS_PYTHON = ROOT / ".venv-clients" / "bin" / "python"

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
        process = Process(kind, _command(target, Path(folder), None), _environment(target), piped=True)
        try:
            yield process
        finally:
            process.stop()


def start(target: Target, folder: Path) -> Server:
    """Start it on a port of its own, with a folder for what it records."""
    folder.mkdir()
    port = free_port()
    return Server(Process(target.kind, _command(target, folder, port), _environment(target)), port)


def _command(target: Target, folder: Path, port: int | None) -> list[str]:
    listen = [] if port is None else ["--port", str(port)]
    tools = ["--tools", str(target.tools)]
    match target.kind:
        case "toolhall":
            return [sys.executable, "-m", "bench.servers.serve_tools", "--data", str(folder), *listen]
        case "fastmcp":
            return [str(CLIENTS_PYTHON), str(SERVERS / "fastmcp_peer.py"), *listen, *tools]
        case "fastmcp session":
            return [str(CLIENTS_PYTHON), str(SERVERS / "fastmcp_peer.py"), *listen, *tools, "--session"]
        case "sdk":
            return [str(CLIENTS_PYTHON), str(SERVERS / "sdk_peer.py"), *listen, *tools]
        case "ceiling work":
            return [sys.executable, str(SERVERS / "ceiling.py"), *listen, "--key", messages.KEY]
        case "ceiling full":
            record = ["--record", str(folder / "record.jsonl")]
            return [sys.executable, str(SERVERS / "ceiling.py"), *listen, "--key", messages.KEY, *record]
        case unknown:
            raise ValueError(unknown)


def _environment(target: Target) -> dict[str, str]:
    """Ours, without settings of Toolhall or Python that would make the run special."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TOOLHALL_", "PYTHON", "FASTMCP_"))
    }
    page = {} if target.page_size is None else {"TOOLHALL_PAGE_SIZE": str(target.page_size)}
    return kept | page | {"BENCH_TOOLS": str(target.tools)}
