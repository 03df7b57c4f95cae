"""A change of the list is told in the turn of the loop that made it: nothing waits for a time in between."""

import asyncio
import gc
import json
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from tests.harness.asgi_client import AsgiRequest
from tests.unit.builders import entry_named
from toolhall import Toolhall
from toolhall.config import Config
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    STATEFUL_REVISIONS,
    JsonRpcRequest,
    Revision,
)
from toolhall.dialects.mcp.requests import VERSION_KEY, VERSIONS_KEY
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.http.sse import EventStream
from toolhall.http.stdio_lines import open_lines
from toolhall.mcp.request_state import RequestState
from toolhall.mcp.sessions import McpSessions
from toolhall.mcp.stateful import StatefulSession
from toolhall.mcp.stateless import LISTEN_METHOD, StatelessMcp
from toolhall.mcp.stdio import McpStdio
from toolhall.mcp.subscriptions import Subscriptions
from toolhall.model.caller import LOCAL
from toolhall.model.json import JsonObject
from toolhall.model.names import ToolId
from toolhall.stores.crypto import KEY_BYTES, SealedBox

SERVER = ServerInfo(name="x", version="1")
CHANGED = b"notifications/tools/list_changed"
META: JsonObject = {VERSION_KEY: REVISION_2026_07_28.name, "io.modelcontextprotocol/clientCapabilities": {}}
WANTED: JsonObject = {"notifications": {"toolsListChanged": True}, "_meta": META}
EVERY_VERSION: JsonObject = {**WANTED, "_meta": {**META, VERSIONS_KEY: "all"}}
HELLO: JsonObject = {
    "protocolVersion": REVISION_2025_11_25.name,
    "capabilities": {},
    "clientInfo": {"name": "x", "version": "1"},
}
TURNS = 50  # more than enough to wake a reader
OLDER = entry_named("pinned", id=ToolId("Kit", "pinned", "0.9.0"))


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    """One whose clients search; `pinned` is listed, `unpinned` is not."""
    with Toolhall(config=Config(search=True, pinned=("pinned",))) as made:
        yield made


def pin(hall: Toolhall) -> None:
    """Add a tool, and nobody gets a turn meanwhile."""
    hall.registry.add([entry_named("unpinned")])
    hall.registry.add([entry_named("pinned")])


def message(method: str, params: JsonObject, **more: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": params, **more}


# --- before the change returns ----------------------------------------------------------------------------------------


async def test_listen_stream_is_notified_before_change_returns(hall: Toolhall) -> None:
    stream = EventStream()
    end = Subscriptions(hall.dispatcher, McpEncoder(SERVER, REVISION_2026_07_28)).listen(
        JsonRpcRequest(1, LISTEN_METHOD, WANTED), LOCAL, stream
    )
    acknowledged = stream.last_number
    pin(hall)
    assert stream.last_number == acknowledged + 1
    hall.registry.add([OLDER])
    assert stream.last_number == acknowledged + 1
    end()
    hall.registry.remove("pinned")
    assert stream.last_number == acknowledged + 1, "who has ended hears nothing"


async def test_listen_with_all_versions_is_notified_of_old_versions(hall: Toolhall) -> None:
    stream = EventStream()
    Subscriptions(hall.dispatcher, McpEncoder(SERVER, REVISION_2026_07_28)).listen(
        JsonRpcRequest(1, LISTEN_METHOD, EVERY_VERSION), LOCAL, stream
    )
    pin(hall)
    hall.registry.add([OLDER])
    assert stream.last_number == 3


@pytest.mark.parametrize("revision", STATEFUL_REVISIONS.values(), ids=lambda revision: revision.name)
async def test_session_is_notified_before_change_returns(hall: Toolhall, revision: Revision) -> None:
    sessions = McpSessions(lambda: 0.0)
    opened = sessions.open(StatefulSession(hall.dispatcher, McpEncoder(SERVER, revision), LOCAL, {}))
    opened.is_reading = True
    pin(hall)
    assert opened.standalone.last_number == 1
    sessions.end(opened)
    hall.registry.remove("pinned")
    assert opened.standalone.last_number == 1, "who has ended hears nothing"


async def test_ended_session_is_unsubscribed(hall: Toolhall) -> None:
    sessions = McpSessions(lambda: 0.0)
    opened = sessions.open(StatefulSession(hall.dispatcher, McpEncoder(SERVER, REVISION_2025_11_25), LOCAL, {}))
    sessions.end(opened)
    found = weakref.ref(opened)
    del opened
    gc.collect()
    assert found() is None, "the registry must not go on telling it"


async def test_session_that_listed_versions_is_notified_of_old_versions(hall: Toolhall) -> None:
    session, told = StatefulSession(hall.dispatcher, McpEncoder(SERVER, REVISION_2025_11_25), LOCAL, {}), list[str]()
    session.on_change(lambda _: told.append("changed"))
    pin(hall)
    hall.registry.add([OLDER])
    assert told == ["changed"]
    for params in ({"_meta": {VERSIONS_KEY: "all"}}, {}):
        await session.answer(JsonRpcRequest(1, "tools/list", params), EventStream(), 0)
    hall.registry.remove(OLDER.id)
    assert told == ["changed"] * 2


async def test_stdio_is_notified_before_change_returns(hall: Toolhall) -> None:
    """Not only handed over: it can be read from the pipe in the same turn."""
    (source, asking), (ours, target) = os.pipe(), os.pipe()
    os.set_blocking(ours, False)
    lines = await open_lines(source, target)
    modern = StatelessMcp(hall.dispatcher, SERVER, RequestState(SealedBox(bytes(KEY_BYTES)), lambda: 0.0))
    served = asyncio.create_task(McpStdio(hall.dispatcher, SERVER, modern, lines, 1_000_000).run())
    read = bytearray()

    def answered() -> bool:
        read.extend(_readable(ours))
        return b'"id":1' in read

    os.write(asking, json.dumps(message("initialize", HELLO, id=1)).encode() + b"\n")
    await turns_until(answered)
    pin(hall)
    assert CHANGED in _readable(ours)
    os.close(asking)
    await served
    cast("asyncio.WriteTransport", lines.target).close()
    os.close(ours)


def _readable(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65_536)
    except BlockingIOError:
        return b""


# --- over HTTP --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def sent(
    hall: Toolhall, method: str, headers: dict[str, str], body: JsonObject | None
) -> AsyncGenerator[AsgiRequest]:
    """Send a request without a socket; to leave the block is to hang up."""
    usual = {"host": "localhost", "content-type": "application/json", "accept": "application/json, text/event-stream"}
    content = b"" if body is None else json.dumps(body).encode()
    reply = AsgiRequest(hall, method, "/mcp", content, usual | headers, None).start()
    try:
        yield reply
    finally:
        await reply.disconnect()


async def turns_until(there: Callable[[], bool]) -> None:
    """Let everything run that is ready, and wait for nothing."""
    for _ in range(TURNS):
        if there():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"it is not there after {TURNS} turns of the loop")


async def test_http_listen_is_notified_without_delay(hall: Toolhall, monkeypatch: pytest.MonkeyPatch) -> None:
    async with sent(hall, "POST", {}, message("initialize", HELLO, id=1)) as hello:
        await turns_until(lambda: "mcp-session-id" in hello.headers)
    session = {"mcp-session-id": hello.headers["mcp-session-id"]}
    modern = {"mcp-protocol-version": REVISION_2026_07_28.name, "mcp-method": LISTEN_METHOD}
    async with (
        sent(hall, "GET", session, None) as older,
        sent(hall, "POST", modern, message(LISTEN_METHOD, WANTED, id=2)) as newer,
    ):
        await turns_until(lambda: b"acknowledged" in newer.sent and "content-type" in older.headers)
        now = asyncio.get_running_loop().time()
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: now)  # so that no timer ever fires
        pin(hall)
        await turns_until(lambda: CHANGED in newer.sent and CHANGED in older.sent)
        for reply in (older, newer):
            assert reply.sent.count(CHANGED) == 1
        monkeypatch.undo()
