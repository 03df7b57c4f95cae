"""Traces real requests through Toolhall: which source files and functions they cross, in order.

Each trace serves a hall in this process and follows a warm request from the connection to the last byte of its answer.
docs/explanation/architecture.md lists these files, and a test compares both; tools/measure.py prints the counts.
"""

import asyncio
import json
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import toolhall
from tests.harness.http_client import HOST, AsyncConnection, http_request
from tests.harness.mcp_messages import modern_request
from tests.harness.patience import patience
from toolhall import Toolhall, tool
from toolhall.model.upstream import Upstream, UpstreamSettings
from toolhall.server.server import HallServer

SOURCE = Path(toolhall.__file__).parent


class PathTrace(NamedTuple):
    """The source files that a request crossed in the order of their first call, and how many functions it called."""

    files: tuple[str, ...]
    functions: int
    calls: int


@tool(effect="reads")
async def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


class _Tracer:
    """Collects the functions of Toolhall that this thread calls."""

    def __init__(self) -> None:
        self._prefix = f"{SOURCE}/"
        self.files: dict[str, None] = {}
        self.functions: set[tuple[str, str]] = set()
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(self._prefix) or code.co_name == "<module>":
            return
        file = code.co_filename.removeprefix(self._prefix)
        self.files.setdefault(file)
        self.functions.add((file, code.co_qualname))
        self.calls += 1


@asynccontextmanager
async def serving(*targets: object) -> AsyncGenerator[tuple[Toolhall, int]]:
    """A hall served over HTTP by this loop; yields it and its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening, Toolhall(*targets) as hall:
        started = asyncio.Event()
        server = HallServer(hall, lambda _: started.set())
        running = asyncio.create_task(server.serve([listening]))
        try:
            async with asyncio.timeout(patience()):
                await started.wait()
                yield hall, listening.getsockname()[1]
        finally:
            server.stop()
            await running


async def post(port: int, path: str, body: Any, headers: dict[str, str] | None = None) -> bytes:
    """One POST on a connection of its own; returns the whole answer."""
    encoded = json.dumps(body).encode()
    usual = {"Host": f"{HOST}:{port}", "Content-Type": "application/json", "Connection": "close"}
    sent = usual | (headers or {}) | {"Content-Length": str(len(encoded))}
    connection = await AsyncConnection.open(port)
    try:
        connection.send(http_request("POST", path, sent.items(), encoded))
        return await connection.rest()
    finally:
        await connection.close()


async def traced(request: Callable[[], Awaitable[bytes]]) -> PathTrace:
    """Send a request until it is warm, then trace it: what every one of three equal requests crosses.

    Background work (health probes, heartbeats of tool servers) may run beside one of them and is left out.
    """
    tracers = [_Tracer() for _ in range(3)]
    await request()
    for tracer in tracers:
        sys.setprofile(tracer)
        try:
            answer = await request()
        finally:
            sys.setprofile(None)
        assert answer.startswith(b"HTTP/1.1 2"), answer[:300]
    least = min(tracers, key=lambda each: each.calls)
    common = set[str].intersection(*(set(each.files) for each in tracers))
    return PathTrace(tuple(file for file in least.files if file in common), len(least.functions), least.calls)


MCP_CALL, MCP_HEADERS = modern_request(
    "tools/call",
    {"name": "add", "arguments": {"a": 1, "b": 2}},
    headers={"Accept": "application/json, text/event-stream"},
)


async def trace_tools_call() -> PathTrace:
    """`tools/call` of MCP 2026-07-28 over HTTP, of an asynchronous tool."""
    async with serving(add) as (_, port):
        return await traced(lambda: post(port, "/mcp", MCP_CALL, MCP_HEADERS))


async def trace_rest_call() -> PathTrace:
    """The same tool by REST."""
    async with serving(add) as (_, port):
        return await traced(lambda: post(port, "/tools/call_trace/add", {"a": 1, "b": 2}))


async def trace_registration() -> PathTrace:
    """`POST /api/tools` with one MCP definition."""
    number = iter(range(10))

    def definition() -> dict[str, Any]:
        schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
        return {"name": f"lookup{next(number)}", "description": "Look a word up.", "inputSchema": schema}

    async with serving(add) as (_, port):
        return await traced(lambda: post(port, "/api/tools", definition()))


REMOTE_TOOLS = """
from toolhall import Toolkit, tool

class Remote(Toolkit, version="1.0.0"):
    \"\"\"Tools of a tool server.\"\"\"

    @tool(effect="reads")
    async def add(self, a: int, b: int) -> int:
        \"\"\"Add two whole numbers.\"\"\"
        return a + b
"""


async def trace_tool_server_call() -> PathTrace:
    """A REST call that the hall passes on to a tool server in another process, over HTTP; the hall's side only."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "remote.py"
        file.write_text(REMOTE_TOOLS, encoding="utf-8")
        async with serving(add) as (_, port):
            url = f"http://127.0.0.1:{port}"
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "toolhall.cli", "serve", str(file), "--join", url, "--json"),
                stdout=asyncio.subprocess.PIPE,
                cwd=folder,
            )
            try:
                assert process.stdout is not None
                await process.stdout.readline()  # it has joined
                await post(port, "/api/tools/Remote.add@1.0.0/activate", {})
                return await traced(lambda: post(port, "/tools/Remote/add", {"a": 1, "b": 2}))
            finally:
                process.terminate()
                await process.wait()


def _from(trace: PathTrace, first: str) -> PathTrace:
    """The part of a path that begins with a file."""
    return trace._replace(files=trace.files[trace.files.index(first) :])


@asynccontextmanager
async def _hall_with_upstream() -> AsyncGenerator[tuple[Toolhall, int]]:
    """A hall, and its port, with an upstream `Docs`, which lists another tool beside `add` each time."""
    from tests.servers.http_mcp import MODERN, HttpMcpServer, Wire
    from tests.servers.http_mcp import serving as serving_upstream

    async def tools(wire: Wire) -> None:
        schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
        names = ("add", f"other{len(server.seen)}")
        listed = [{"name": name, "description": "Add.", "inputSchema": schema} for name in names]
        wire.result({"tools": listed, "resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "public"})

    server = HttpMcpServer(MODERN, capabilities={"tools": {}})
    server.on["tools/list"] = tools
    async with serving_upstream(server), serving(add) as (hall, port):
        settings = UpstreamSettings(url=server.url)
        hall.add_upstreams([Upstream(name="Docs", settings=settings, source="file", named_by_person=True)])
        async with asyncio.timeout(patience()):
            await hall.upstreams.manager.connection("Docs").wait_synced()
        yield hall, port


async def trace_upstream_call() -> PathTrace:
    """A REST call of a tool of an upstream, a server of MCP 2026-07-28 over HTTP, from the run stage on."""
    async with _hall_with_upstream() as (_, port):
        return _from(await traced(lambda: post(port, "/tools/Docs/add", {"a": 1, "b": 2})), "pipeline/run.py")


async def trace_upstream_sync() -> PathTrace:
    """The sync of an upstream that lists a new tool."""
    async with _hall_with_upstream() as (hall, _):
        connection = hall.upstreams.manager.connection("Docs")

        async def sync() -> bytes:
            before = connection.syncs
            await connection.sync_now()
            async with asyncio.timeout(patience()):
                while connection.syncs < before + 2:  # noqa: ASYNC110 - its own life lists once more after that
                    await asyncio.sleep(0.01)
            return b"HTTP/1.1 200"

        return await traced(sync)


TRACES: dict[str, Callable[[], Awaitable[PathTrace]]] = {
    "MCP tools/call": trace_tools_call,
    "REST call": trace_rest_call,
    "registration": trace_registration,
    "call to a tool server": trace_tool_server_call,
    "sync of an upstream": trace_upstream_sync,
    "call to an upstream": trace_upstream_call,
}
