"""What is measured, and how each is started."""

import json
import os
import subprocess
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
TOOLHALL_NAPPING = "toolhall napping"
TOOLHALL_TROUBLED = "toolhall troubled"
NAPPING_PLACES = 32  # so few that the places are what is scarce, and not this machine
FASTMCP_SESSION = "fastmcp session"
TOOLHALL_KEY, TOOLHALL_GRANT = "toolhall key", "toolhall grant"
HALLS = (TOOLHALL, TOOLHALL_KEY, TOOLHALL_GRANT)
GUARDED = {TOOLHALL_KEY: "1", TOOLHALL_GRANT: "4"}  # by kind, the tool's level: 4 asks for a grant and an intent
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
    key: str | None = None  # of a caller that may call the tool, where one must


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
    key = _founded(folder) if target.kind in GUARDED else None
    return Server(Process(target.kind, _command(target, folder, port), _place(target, folder)), port, key)


def _founded(folder: Path) -> str:
    """A hall with one caller, that was granted everything; its key."""
    where = ["--data", str(folder), "--json"]
    created = subprocess.run([TOOLHALL_COMMAND, "key", "create", "bench", *where], check=True, capture_output=True)
    subprocess.run([TOOLHALL_COMMAND, "grant", "add", "bench", "*", *where], check=True, capture_output=True)
    key: str = json.loads(created.stdout)["secret"]
    return key


def _command(target: Target, folder: Path, port: int | None) -> list[str]:
    listen = [] if port is None else ["--port", str(port)]
    peer = {FASTMCP: "fastmcp_peer.py", FASTMCP_SESSION: "fastmcp_peer.py", SDK: "sdk_peer.py"}.get(target.kind)
    if peer:
        session = ["--session"] if target.kind == FASTMCP_SESSION else []
        return [str(CLIENTS_PYTHON), str(SERVERS / peer), "--tools", str(target.tools), *listen, *session]
    special = {TOOLHALL_NAPPING: "napping.py", TOOLHALL_TROUBLED: "troubled.py"}
    tools = special.get(target.kind, "tools.py" if target.kind in HALLS else None)
    if tools:  # as its users start it
        how = [*(listen or ["--stdio"]), *(["--profile", "server"] if target.kind in GUARDED else [])]
        return [str(TOOLHALL_COMMAND), "serve", str(SERVERS / tools), "--data", str(folder), *how]
    record = ["--record", str(folder / "record.jsonl")] if target.kind == CEILING_FULL else []
    return [sys.executable, str(SERVERS / "ceiling.py"), *listen, "--key", messages.KEY, *record]


def apart(folder: Path, **settings: str) -> Place:
    """Away from our settings files, and without variables that would make the run special."""
    special = ("TOOLHALL_", "PYTHON", "FASTMCP_", "UVICORN_", "WEB_CONCURRENCY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(special)}
    return Place(folder, kept | settings)


def _place(target: Target, folder: Path) -> Place:
    page = {} if target.page_size is None else {"TOOLHALL_PAGE_SIZE": str(target.page_size)}
    if target.kind == TOOLHALL_NAPPING:
        page["TOOLHALL_MAX_CONCURRENCY"] = str(NAPPING_PLACES)
    if target.kind in GUARDED:
        limit = json.dumps({"per_second": 1_000_000, "burst": 1_000_000})
        page |= {"TOOLHALL_TOOL_LIMIT": limit, "TOOLHALL_PAIR_LIMIT": limit, "BENCH_LEVEL": GUARDED[target.kind]}
    return apart(folder, **page, BENCH_TOOLS=str(target.tools))
