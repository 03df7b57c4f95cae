"""The servers that are measured, and how each is started."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench import messages
from bench.process import Place, Process, await_port, free_port

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ROOT / "bench" / "servers"
CLIENTS_PYTHON = ROOT / ".venv-clients" / "bin" / "python"
PYTHON = Path(sys.executable)
TOOLHALL_COMMAND = PYTHON.parent / "toolhall"

TOOLHALL, FASTMCP, SDK = "toolhall", "fastmcp", "sdk"
TOOLHALL_NAPPING = "toolhall napping"
TOOLHALL_TROUBLED = "toolhall troubled"
TOOLHALL_COMPUTING = "toolhall computing"
NAPPING_PLACES = 32  # so few that the places are what is scarce, and not this machine
FASTMCP_SESSION = "fastmcp session"
TOOLHALL_KEY, TOOLHALL_GRANT = "toolhall key", "toolhall grant"
HALLS = (TOOLHALL, TOOLHALL_KEY, TOOLHALL_GRANT)
GUARDED = {TOOLHALL_KEY: "1", TOOLHALL_GRANT: "4"}  # by kind, the tool's level: 4 asks for a grant and an intent
LIMIT = {"per_second": 1_000_000, "burst": 1_000_000}  # of a tool, and of a caller and a tool
CEILING_WORK, CEILING_FULL = "ceiling work", "ceiling full"


class ServerSpec(NamedTuple):
    """A server with so many tools; `page_size` and `workers` are Toolhall's only."""

    kind: str
    tools: int = 1
    page_size: int | None = None
    workers: int = 1
    python: Path = PYTHON  # of Toolhall and the ceiling


class Server(NamedTuple):
    """A running one."""

    process: Process
    port: int
    key: str | None = None  # of a caller that may call the tool, where one must


@contextmanager
def serving(*specs: ServerSpec) -> Generator[list[Server]]:
    """All of them over HTTP, started together, stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="toolhall-bench-") as folder:
        servers: list[Server] = []
        try:
            for number, spec in enumerate(specs):
                servers.append(start(spec, Path(folder) / str(number)))
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
        spec = ServerSpec(kind)
        process = Process(kind, _command(spec, Path(folder), None), _place(spec, Path(folder)), piped=True)
        try:
            yield process
        finally:
            process.stop()


def start(spec: ServerSpec, folder: Path) -> Server:
    """Start it on a port of its own, with a folder for what it records."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    key = _create_key(folder) if spec.kind in GUARDED else None
    return Server(Process(spec.kind, _command(spec, folder, port), _place(spec, folder)), port, key)


def _create_key(folder: Path) -> str:
    """Give the hall of this folder one caller, that is granted everything; its key."""
    where = ["--data", str(folder), "--json"]
    created = subprocess.run([TOOLHALL_COMMAND, "key", "create", "bench", *where], check=True, capture_output=True)
    subprocess.run([TOOLHALL_COMMAND, "grant", "add", "bench", "*", *where], check=True, capture_output=True)
    key: str = json.loads(created.stdout)["secret"]
    return key


def _command(spec: ServerSpec, folder: Path, port: int | None) -> list[str]:
    listen = [] if port is None else ["--port", str(port)]
    peer = {FASTMCP: "fastmcp_peer.py", FASTMCP_SESSION: "fastmcp_peer.py", SDK: "sdk_peer.py"}.get(spec.kind)
    if peer:
        session = ["--session"] if spec.kind == FASTMCP_SESSION else []
        return [str(CLIENTS_PYTHON), str(SERVERS / peer), "--tools", str(spec.tools), *listen, *session]
    special = {
        TOOLHALL_NAPPING: "napping.py",
        TOOLHALL_TROUBLED: "troubled.py",
        TOOLHALL_COMPUTING: "computing.py",
    }
    tools = special.get(spec.kind, "tools.py" if spec.kind in HALLS else None)
    if tools:  # as its users start it
        return [str(spec.python.parent / "toolhall"), "serve", *_serve_options(spec, folder, tools, listen)]
    record = ["--record", str(folder / "record.jsonl")] if spec.kind == CEILING_FULL else []
    return [str(spec.python), str(SERVERS / "ceiling.py"), *listen, "--key", messages.KEY, *record]


def _serve_options(spec: ServerSpec, folder: Path, tools: str, listen: Sequence[str]) -> list[str]:
    profile = ["--profile", "server"] if spec.kind in GUARDED else []
    workers = ["--workers", str(spec.workers)] if spec.workers > 1 else []
    return [str(SERVERS / tools), "--data", str(folder), *(listen or ["--stdio"]), *profile, *workers]


def apart(folder: Path, **settings: str) -> Place:
    """Away from our settings files, and without variables that would make the run special."""
    special = ("TOOLHALL_", "PYTHON", "FASTMCP_", "UVICORN_", "WEB_CONCURRENCY")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(special)}
    return Place(folder, kept | settings)


def _place(spec: ServerSpec, folder: Path) -> Place:
    settings = {} if spec.page_size is None else {"TOOLHALL_PAGE_SIZE": str(spec.page_size)}
    if spec.kind == TOOLHALL_NAPPING:
        settings["TOOLHALL_CONCURRENCY"] = json.dumps({"total": NAPPING_PLACES})
    if spec.kind in GUARDED:
        limit = json.dumps(LIMIT)
        settings |= {"TOOLHALL_TOOL_LIMIT": limit, "TOOLHALL_PAIR_LIMIT": limit, "BENCH_LEVEL": GUARDED[spec.kind]}
    return apart(folder, **settings, BENCH_TOOLS=str(spec.tools))
