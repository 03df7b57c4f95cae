"""Tool servers come and go under clients that listen: they hear that the list changed only when it did."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from tests.harness.patience import patience
from tests.unit.execution.remote.fake_transports import eventually
from tests.unit.toolserver.handler_harness import open_handler
from toolhall import Toolhall, Toolkit, tool
from toolhall.dialects.hub.lease_messages import ToolServerEndpoint, write_join
from toolhall.dialects.mcp.protocol import REVISION_2025_11_25, REVISION_2026_07_28
from toolhall.dialects.mcp.requests import VERSION_KEY
from toolhall.mcp.stateless import LISTEN_METHOD
from toolhall.server.server import HallServer, HttpServer
from toolhall.server.tool_server import EmbeddedServer, JoinOptions, ServedToolServer
from toolhall.toolserver.http import ToolServerApp
from toolhall.toolserver.lease import HttpHubClient, LeaseClient

ACKNOWLEDGED, CHANGED = "notifications/subscriptions/acknowledged", "notifications/tools/list_changed"
TOKEN, MAX_BODY = "the-token-of-the-hall", 100_000
META = {VERSION_KEY: REVISION_2026_07_28.name, "io.modelcontextprotocol/clientCapabilities": {}}
HELLO = {"protocolVersion": REVISION_2025_11_25.name, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}


class Shelf(Toolkit, name="Shelf", version="1.0.0"):
    """What there is."""

    @tool
    async def pick(self) -> str:
        """Take one."""
        return "one"


class Longer(Toolkit, name="Shelf", version="1.1.0"):
    """What there is, and more."""

    @tool
    async def pick(self) -> str:
        """Take one."""
        return "one"

    @tool
    async def drop(self) -> str:
        """Put one back."""
        return "none"


class ToolHostServer(HallServer):
    """Hears no signals: those are the test's."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()


@asynccontextmanager
async def listening(server: HttpServer, bound: socket.socket) -> AsyncGenerator[str]:
    """Serve on this socket until the block ends; the address."""
    serving = asyncio.create_task(server.serve([bound]))
    await eventually(lambda: server.started)
    try:
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    finally:
        server.stop()
        await serving


@asynccontextmanager
async def joined(hall: str, kit: type[Toolkit], replica: str) -> AsyncGenerator[dict[str, str]]:
    """A tool server that has joined, and leaves when the block ends; what became of its tools."""
    async with open_handler(kit) as counter:
        app = ServedToolServer(
            ToolServerApp(counter.handler, TOKEN, MAX_BODY), JoinOptions(hall, "", "shelves", MAX_BODY)
        )
        with socket.create_server(("127.0.0.1", 0)) as bound:
            async with listening(EmbeddedServer(app), bound) as url:
                asks = HttpHubClient(hall, "")
                params = write_join("shelves", replica, counter.handler.declarations, ToolServerEndpoint(url, TOKEN))
                joining = LeaseClient(params, _healthy)
                staying = asyncio.create_task(joining.run(asks))
                await asyncio.wait(
                    {staying, asyncio.ensure_future(joining.joined.wait())}, return_when="FIRST_COMPLETED"
                )
                assert joining.granted is not None, staying
                yield joining.granted.tools
                await joining.leave(asks)
                staying.cancel()
                await asyncio.wait({staying})
                await asks.close()


async def _healthy() -> str:
    return "healthy"


class Listener:
    """An MCP client, and what it was told on its stream."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client
        self.told: list[str] = []

    async def read(self, lines: AsyncIterator[str]) -> None:
        """Until the hall ends."""
        async for line in lines:
            if line.startswith("data:") and (said := line[5:].strip()):
                self.told.append(json.loads(said).get("method", "the end"))

    @property
    def notices(self) -> int:
        return self.told.count(CHANGED)


def message(method: str, params: Any, number: int = 1) -> Any:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


@asynccontextmanager
async def listens(url: str, *, modern: bool) -> AsyncGenerator[Listener]:
    """By a subscription, or by the stream of a session as before; after the block all that was told is there."""
    headers = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=patience()) as client:
        if modern:
            client.headers |= {"mcp-protocol-version": REVISION_2026_07_28.name, "mcp-method": LISTEN_METHOD}
            wanted = message(LISTEN_METHOD, {"notifications": {"toolsListChanged": True}, "_meta": META})
            opening = client.stream("POST", "/mcp", json=wanted)
        else:
            hello = await client.post("/mcp", json=message("initialize", HELLO))
            client.headers |= {"mcp-session-id": hello.headers["mcp-session-id"]}
            opening = client.stream("GET", "/mcp")
        async with opening as stream:
            assert stream.headers["content-type"] == "text/event-stream"
            listener = Listener(client)
            reading = asyncio.create_task(listener.read(stream.aiter_lines()))
            if modern:
                await eventually(lambda: ACKNOWLEDGED in listener.told)
            yield listener
            await reading


async def test_tool_server_join_and_leave_notify_only_of_new_tools() -> None:
    with Toolhall() as hall, socket.create_server(("127.0.0.1", 0)) as bound:
        server = ToolHostServer(hall)
        async with listening(server, bound) as url:
            async with joined(url, Shelf, "replica-one-0123456789") as tools:
                assert tools == {"Shelf.pick@1.0.0": "active"}
            async with listens(url, modern=True) as newer, listens(url, modern=False) as older:
                for replica in ("replica-one-0123456789", "replica-two-0123456789"):
                    async with joined(url, Shelf, replica):
                        pass  # it came with what is known, and leaves
                async with joined(url, Longer, "replica-new-0123456789") as tools:
                    assert set(tools.values()) == {"active"}
                    await eventually(lambda: newer.notices >= 1 and older.notices >= 1)
                server.stop()  # so that both streams end, and nothing more can come
    assert (newer.notices, older.notices) == (1, 1)
