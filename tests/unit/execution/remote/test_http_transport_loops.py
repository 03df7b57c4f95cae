"""Connections belong to a loop, and a hall may outlive that: nothing of an ended loop is used, or in the way."""

import asyncio
import json
from typing import Any

import pytest

from tests.harness.patience import patience
from tests.unit.execution.remote.fake_tool_server import (
    ServerConnection,
    fake_tool_server,
    fake_tool_server_in_thread,
    http_response,
    tool_response,
    until,
)
from toolhall import Toolhall
from toolhall.dialects.hub.call_messages import CallEvent
from toolhall.egress.connection_pool import MAX_CALL_CONNECTIONS
from toolhall.egress.exchange import ExchangeLost
from toolhall.execution.remote.http_transport import HttpTransport
from toolhall.http.tool_server_join import HttpPeer
from toolhall.model.caller import LOCAL
from toolhall.model.json import encode
from toolhall.model.messages import CallTool, CompletedCall

REQUEST = b'{"type":"tool_request","id":"1","tool":"Calendar","method":"create","params":{}}'
TOOL = {"name": "Calendar", "version": "1.0.0", "capabilities": {"methods": [{"name": "create", "params": {}}]}}
# A loop that ends without a word to the hall leaves its sockets to the collector, which says so.
unsettled = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")


async def ignore_event(_: CallEvent) -> None:
    return None


async def answer(body: bytes, wire: ServerConnection) -> None:
    asked = json.loads(body)
    if asked["type"] == "tool_request":
        wire.write(http_response(tool_response(asked["id"], {"a": 1})))
    else:
        well: Any = {"type": "response", "id": asked["id"], "result": {"status": "healthy"}, "error": None}
        wire.write(http_response(encode(well)))


async def silent(_: bytes, wire: ServerConnection) -> None:
    await wire.gone.wait()


def unsaid(_: asyncio.AbstractEventLoop, __: dict[str, Any]) -> None:
    """A loop says that tasks were left."""


async def one(line: HttpTransport) -> object:
    async with asyncio.timeout(patience()):
        return (await line.call(REQUEST, "1", ignore_event)).result


@unsettled
def test_http_transport_each_loop_has_own_connections() -> None:
    with fake_tool_server_in_thread(answer) as server:
        line = server.line()
        for number in (1, 2):
            assert asyncio.run(one(line)) == {"a": 1}
            assert (server.connections, line.open_count) == (number, 1)
        line.close()
        assert line.open_count == 0


@unsettled
def test_http_transport_stopped_loop_is_replaced() -> None:
    with fake_tool_server_in_thread(answer) as server, asyncio.Runner() as first, asyncio.Runner() as second:
        line = server.line()
        for runner in (first, second, first):
            assert runner.run(one(line)) == {"a": 1}
        assert server.connections == 3
        line.close()


@unsettled
def test_http_transport_closes_after_loop_ended_during_calls() -> None:
    """Nobody in such a loop waits any more, and nothing can be said to it; some calls ran, and one waited for them."""
    with fake_tool_server_in_thread(silent) as server:
        line, loop = server.line(), asyncio.new_event_loop()
        loop.set_exception_handler(unsaid)
        calls = [loop.create_task(line.call(REQUEST, "1", ignore_event)) for _ in range(MAX_CALL_CONNECTIONS + 1)]
        loop.run_until_complete(until(lambda: len(server.bodies) == MAX_CALL_CONNECTIONS))
        loop.close()
        line.close()
        with pytest.raises(ExchangeLost, match="closed"):
            asyncio.run(one(line))
        assert not any(call.done() for call in calls)


async def test_http_transport_close_idle_then_call_reconnects() -> None:
    async with fake_tool_server(answer) as server:
        line = server.line()
        await asyncio.gather(*(one(line) for _ in range(3)))
        assert (line.open_count, line.idle_count) == (3, 3)
        line.close_idle()
        await until(lambda: not server.wires)
        assert (line.open_count, line.idle_count) == (0, 0)
        assert await one(line) == {"a": 1}
        line.close()


async def test_http_transport_close_idle_keeps_running_calls() -> None:
    go = asyncio.Event()

    async def late(body: bytes, wire: ServerConnection) -> None:
        await go.wait()
        await answer(body, wire)

    async with fake_tool_server(late) as server:
        line = server.line()
        call = asyncio.ensure_future(one(line))
        await until(lambda: bool(server.bodies))
        line.close_idle()
        go.set()
        assert await call == {"a": 1}
        line.close()


async def called(hall: Toolhall) -> object:
    async with asyncio.timeout(patience()):
        reply = await hall.dispatcher.answer(CallTool("Calendar.create", {}, "test"), LOCAL)
    assert isinstance(reply, CompletedCall)
    return json.loads(reply.result.encoded or b"")


async def replica_info(hall: Toolhall, url: str) -> object:
    """Open the hall, join, and call."""
    await hall.open()
    params = {"server": "calendars", "replica": "replica-0123456789", "url": url, "token": "token-0123456789"}
    message = {"type": "request", "id": "1", "method": "join", "params": {**params, "tools": [{"tool": TOOL}]}}
    sender = HttpPeer({"client": ("127.0.0.1", 9)}, {})
    wire = await hall.hub.answer(json.dumps(message).encode(), LOCAL, "", sender)
    assert b"lease" in wire.body
    return await called(hall)


async def opened(hall: Toolhall) -> object:
    await hall.open()
    return await called(hall)


@unsettled
def test_http_transport_replica_is_callable_in_next_loop() -> None:
    with fake_tool_server_in_thread(answer) as server, Toolhall() as hall:
        assert asyncio.run(replica_info(hall, server.url)) == {"a": 1}
        assert asyncio.run(opened(hall)) == {"a": 1}


def test_http_transport_settled_hall_leaves_no_connection() -> None:
    async def settled(hall: Toolhall, url: str) -> None:
        assert await replica_info(hall, url) == {"a": 1}
        await hall.settle()

    with fake_tool_server_in_thread(answer) as server, Toolhall() as hall:
        asyncio.run(settled(hall, server.url))
        assert len(hall.tool_servers.pools) == 1
