# ruff: noqa: N802 - tests carry the names of their rows
"""I2, I3, I8, P7: listeners, sessions and what is kept for them are bounded, each caller's for itself."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.harness.asgi_client import AsgiRequest
from tests.harness.mcp_messages import MODERN, NOVEMBER, encoded, handshake, request_in
from tests.threats.callers import InProcessHall, McpCaller
from tests.unit.builders import Clock
from toolhall.dialects.mcp.protocol import RATE_LIMITED, STATEFUL_REVISIONS, JsonRpcRequest
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.http import sse as streams
from toolhall.http import websocket
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.http.sse import EventStream
from toolhall.mcp import sessions, subscriptions
from toolhall.mcp.stateful import StatefulSession
from toolhall.model.caller import Caller

LISTEN = encoded(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
INITIALIZE = encoded(handshake(NOVEMBER))


@pytest.fixture
async def hall_app() -> AsyncGenerator[InProcessHall]:
    """A hall of this test's own."""
    held = InProcessHall(Clock())
    yield held
    held.close()


def session_of(hall_app: InProcessHall, caller: str) -> StatefulSession:
    """A session of this caller, before it has an id."""
    writer = McpEncoder(ServerInfo(name="hostile", version="0"), STATEFUL_REVISIONS[NOVEMBER])
    return StatefulSession(hall_app.hall.dispatcher, writer, Caller(caller), {})


async def open_subscription(caller: McpCaller) -> AsgiRequest:
    """A stream that was opened."""
    request = caller.request(LISTEN)
    assert await request.started() == 200
    return request


@pytest.mark.threat("I3")
async def test_I3_sixth_subscription_stream_of_a_caller_is_refused_with_429(hall_app: InProcessHall) -> None:
    """It is refused with 429 and in the dialect's words; other callers, and the same one later, are served."""
    ann, bob = McpCaller(hall_app, "ann", MODERN), McpCaller(hall_app, "bob", MODERN)
    requests = [await open_subscription(ann) for _ in range(subscriptions.MAX_PER_CALLER)]
    answer = await ann.ask(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    assert (answer.status, answer.code, len(requests)) == (429, RATE_LIMITED, 5)
    requests.append(await open_subscription(bob))
    await requests.pop(0).disconnect()
    requests.append(await open_subscription(ann))
    for request in requests:
        await request.disconnect()


@pytest.mark.threat("I3")
async def test_I3_subscription_streams_of_all_callers_together_are_limited(
    hall_app: InProcessHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many callers there are, streams are bounded; programs of this machine share one caller and have more."""
    monkeypatch.setattr(subscriptions, "MAX_STREAMS", 8)
    local = McpCaller(hall_app, "local", MODERN)
    requests = [await open_subscription(local) for _ in range(8)]
    answer = await McpCaller(hall_app, "ann", MODERN).ask(
        request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    )
    assert (answer.status, answer.code) == (429, RATE_LIMITED)
    for request in requests:
        await request.disconnect()
    await (await open_subscription(local)).disconnect()


@pytest.mark.threat("I8")
async def test_I8_session_beyond_the_callers_limit_replaces_its_idlest_one(hall_app: InProcessHall) -> None:
    """The idlest session of a caller makes room for its next one; another caller's is left alone."""
    ann, bob = McpCaller(hall_app, "ann", NOVEMBER), McpCaller(hall_app, "bob", NOVEMBER)
    await bob.open()
    first = McpCaller(hall_app, "ann", NOVEMBER)
    await first.open()
    await ann.open()
    for _ in range(sessions.MAX_PER_CALLER - 2):
        await McpCaller(hall_app, "ann", NOVEMBER).open()
    ping = request_in(NOVEMBER, "ping")
    assert (await first.ask(ping)).status == 200  # now the second is the idlest
    await McpCaller(hall_app, "ann", NOVEMBER).open()
    assert [(await caller.ask(ping)).status for caller in (first, ann, bob)] == [200, 404, 200]


@pytest.mark.threat("I8")
async def test_I8_new_session_while_all_others_are_busy_is_refused_with_429(
    hall_app: InProcessHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No running call is ended for a new session: the caller is told to end one itself."""
    monkeypatch.setattr(sessions, "MAX_PER_CALLER", 2)
    callers = [McpCaller(hall_app, "ann", NOVEMBER) for _ in range(2)]
    requests: list[AsgiRequest] = []
    for caller in callers:
        await caller.open()
        requests.append(caller.request(method="GET"))
        assert await requests[-1].started() == 200
    reply = await McpCaller(hall_app, "ann", NOVEMBER).request(INITIALIZE, headers=[]).reply()
    assert reply.status == 429
    assert b"DELETE" in reply.body
    await requests.pop().disconnect()
    await McpCaller(hall_app, "ann", NOVEMBER).open()
    await requests.pop().disconnect()


@pytest.mark.threat("I8")
async def test_I8_deleted_sessions_leave_no_entry_behind(hall_app: InProcessHall) -> None:
    """A caller that opens and ends sessions leaves nothing behind."""
    kept = sessions.McpSessions(Clock())
    for _ in range(300):
        kept.end(kept.open(session_of(hall_app, "ann")))
    opened = [kept.open(session_of(hall_app, name)) for name in ("ann", "bob", "bob")]
    assert (len(kept), kept.count_of("ann"), kept.count_of("bob")) == (3, 1, 2)
    for each in opened:
        kept.end(each)
    assert (len(kept), kept.count_of("ann"), kept.count_of("bob")) == (0, 0, 0)


@pytest.mark.threat("I2")
async def test_I2_notifications_buffered_for_a_stopped_reader_are_bounded_and_the_answer_is_kept() -> None:
    """Of notices 256 kB are kept, the latest; the answer is never dropped."""
    stream = EventStream()
    for _ in range(1_000):
        stream.send(b"n" * 10_000)
    assert stream.buffered_bytes <= streams.MAX_BUFFERED_BYTES
    stream.finish(b"a" * 1_000_000)
    items = [item.message async for item in stream.read()]
    assert items == [b"a" * 1_000_000]


@pytest.mark.threat("I2")
async def test_I2_number_of_buffered_small_notifications_is_bounded() -> None:
    """Many empty notices cost no more than a few."""
    stream = EventStream()
    for _ in range(10_000):
        stream.send(b"{}")
    stream.finish(b"answer")
    items = [item async for item in stream.read()]
    assert len(items) == streams.MAX_BUFFERED
    assert stream.buffered_bytes == sum(len(item.message) for item in items)


@pytest.mark.threat("P7")
async def test_P7_answers_buffered_for_a_session_are_bounded_in_bytes(hall_app: InProcessHall) -> None:
    """A session keeps its last streams so that a client can come back, and few of them when they are large."""
    held = sessions.HttpSession(session_of(hall_app, "ann"), 0.0)
    for _ in range(50):
        held.begin(JsonRpcRequest(1, "tools/call", {}), 0, None).stream.finish(b"x" * 900_000)
        assert held.buffered_bytes < sessions.MAX_BUFFERED_BYTES + 1_000_000
    held.close()


@pytest.mark.threat("I3")
async def test_I3_websocket_beyond_the_callers_limit_is_closed_before_it_is_accepted(
    hall_app: InProcessHall, monkeypatch: pytest.MonkeyPatch
) -> None:
    """WebSockets are bounded for each caller and in all; one too many is refused before it is accepted."""
    monkeypatch.setattr(websocket, "MAX_PER_CALLER", 1)
    sent: list[Any] = []
    hub = websocket.HubWebSocket(hall_app.hall.hub, 1_000)

    async def left() -> dict[str, Any]:
        return {"type": "websocket.disconnect"}

    async def send(said: Any) -> None:
        sent.append(said["type"])
        if said["type"] == "websocket.accept":  # while it is open, another comes
            await hub.serve(caller, ConcurrencyLimiter(), left, send)

    caller = Caller("ann")
    await hub.serve(caller, ConcurrencyLimiter(), left, send)
    assert sent == ["websocket.accept", "websocket.close"]
    await hub.serve(caller, ConcurrencyLimiter(), left, send)
    assert sent[2:] == ["websocket.accept", "websocket.close"]
