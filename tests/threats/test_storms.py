# ruff: noqa: N802 - tests carry the names of their rows
"""I2, I3, I8, P7: listeners, sessions and what is kept for them are bounded, each caller's for itself."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from tests.harness.asgi_client import AsgiRequest as Visit
from tests.harness.mcp_messages import MODERN, NOVEMBER, encoded, handshake
from tests.harness.mcp_messages import request_in as message
from tests.threats.callers import Guest, Halls
from tests.unit.parts import Clock
from toolhall.dialects.mcp.protocol import RATE_LIMITED, STATEFUL_REVISIONS, JsonRpcRequest
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.http import sse as streams
from toolhall.http import websocket
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.http.sse import EventStream
from toolhall.mcp import sessions, subscriptions
from toolhall.mcp.stateful import McpSession
from toolhall.model.caller import Caller

LISTEN = encoded(message(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
INITIALIZE = encoded(handshake(NOVEMBER))


@pytest.fixture
async def halls() -> AsyncGenerator[Halls]:
    """A hall of this test's own."""
    held = Halls(Clock())
    yield held
    held.close()


def session_of(halls: Halls, caller: str) -> McpSession:
    """A session of this caller, before it has an id."""
    writer = McpEncoder(ServerInfo(name="hostile", version="0"), STATEFUL_REVISIONS[NOVEMBER])
    return McpSession(halls.hall.dispatcher, writer, Caller(caller), {})


async def listening(guest: Guest) -> Visit:
    """A stream that was opened."""
    visit = guest.visit(LISTEN)
    assert await visit.begun() == 200
    return visit


@pytest.mark.threat("I3")
async def test_I3_the_sixth_stream_of_a_caller(halls: Halls) -> None:
    """It is refused with 429 and in the dialect's words; other callers, and the same one later, are served."""
    ann, bob = Guest(halls, "ann", MODERN), Guest(halls, "bob", MODERN)
    visits = [await listening(ann) for _ in range(subscriptions.MAX_PER_CALLER)]
    answer = await ann.ask(message(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    assert (answer.status, answer.code, len(visits)) == (429, RATE_LIMITED, 5)
    visits.append(await listening(bob))
    await visits.pop(0).hang_up()
    visits.append(await listening(ann))
    for visit in visits:
        await visit.hang_up()


@pytest.mark.threat("I3")
async def test_I3_all_streams_of_a_process(halls: Halls, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many callers there are, streams are bounded; programs of this machine share one caller and have more."""
    monkeypatch.setattr(subscriptions, "MAX_STREAMS", 8)
    local = Guest(halls, "local", MODERN)
    visits = [await listening(local) for _ in range(8)]
    answer = await Guest(halls, "ann", MODERN).ask(
        message(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    )
    assert (answer.status, answer.code) == (429, RATE_LIMITED)
    for visit in visits:
        await visit.hang_up()
    await (await listening(local)).hang_up()


@pytest.mark.threat("I8")
async def test_I8_sessions_of_one_caller(halls: Halls) -> None:
    """The idlest session of a caller makes room for its next one; another caller's is left alone."""
    ann, bob = Guest(halls, "ann", NOVEMBER), Guest(halls, "bob", NOVEMBER)
    await bob.open()
    first = Guest(halls, "ann", NOVEMBER)
    await first.open()
    await ann.open()
    for _ in range(sessions.MAX_PER_CALLER - 2):
        await Guest(halls, "ann", NOVEMBER).open()
    ping = message(NOVEMBER, "ping")
    assert (await first.ask(ping)).status == 200  # now the second is the idlest
    await Guest(halls, "ann", NOVEMBER).open()
    assert [(await guest.ask(ping)).status for guest in (first, ann, bob)] == [200, 404, 200]


@pytest.mark.threat("I8")
async def test_I8_sessions_that_are_all_at_work(halls: Halls, monkeypatch: pytest.MonkeyPatch) -> None:
    """No running call is ended for a new session: the caller is told to end one itself."""
    monkeypatch.setattr(sessions, "MAX_PER_CALLER", 2)
    guests = [Guest(halls, "ann", NOVEMBER) for _ in range(2)]
    visits: list[Visit] = []
    for guest in guests:
        await guest.open()
        visits.append(guest.visit(method="GET"))
        assert await visits[-1].begun() == 200
    reply = await Guest(halls, "ann", NOVEMBER).visit(INITIALIZE, headers=[]).reply()
    assert reply.status == 429
    assert b"DELETE" in reply.body
    await visits.pop().hang_up()
    await Guest(halls, "ann", NOVEMBER).open()
    await visits.pop().hang_up()


@pytest.mark.threat("I8")
async def test_I8_ended_sessions_are_forgotten(halls: Halls) -> None:
    """A caller that opens and ends sessions leaves nothing behind."""
    kept = sessions.McpSessions(Clock())
    for _ in range(300):
        kept.end(kept.open(session_of(halls, "ann")))
    opened = [kept.open(session_of(halls, name)) for name in ("ann", "bob", "bob")]
    assert (len(kept), kept.count_of("ann"), kept.count_of("bob")) == (3, 1, 2)
    for each in opened:
        kept.end(each)
    assert (len(kept), kept.count_of("ann"), kept.count_of("bob")) == (0, 0, 0)


@pytest.mark.threat("I2")
async def test_I2_what_is_kept_for_a_reader_that_stops() -> None:
    """Of notices 256 kB are kept, the latest; the answer is never dropped."""
    stream = EventStream()
    for _ in range(1_000):
        stream.send(b"n" * 10_000)
    assert stream.buffered_bytes <= streams.MAX_BUFFERED_BYTES
    stream.finish(b"a" * 1_000_000)
    items = [item.message async for item in stream.read()]
    assert items == [b"a" * 1_000_000]


@pytest.mark.threat("I2")
async def test_I2_small_notices_are_counted_too() -> None:
    """Many empty notices cost no more than a few."""
    stream = EventStream()
    for _ in range(10_000):
        stream.send(b"{}")
    stream.finish(b"answer")
    items = [item async for item in stream.read()]
    assert len(items) == streams.MAX_BUFFERED
    assert stream.buffered_bytes == sum(len(item.message) for item in items)


@pytest.mark.threat("P7")
async def test_P7_answers_kept_for_a_session(halls: Halls) -> None:
    """A session keeps its last streams so that a client can come back, and few of them when they are large."""
    held = sessions.HttpSession(session_of(halls, "ann"), 0.0)
    for _ in range(50):
        held.begin(JsonRpcRequest(1, "tools/call", {}), 0, None).stream.finish(b"x" * 900_000)
        assert held.buffered_bytes < sessions.MAX_BUFFERED_BYTES + 1_000_000
    held.close()


@pytest.mark.threat("I3")
async def test_I3_sockets_of_one_caller(halls: Halls, monkeypatch: pytest.MonkeyPatch) -> None:
    """WebSockets are bounded for each caller and in all; one too many is refused before it is accepted."""
    monkeypatch.setattr(websocket, "MAX_PER_CALLER", 1)
    sent: list[Any] = []
    hub = websocket.HubWebSocket(halls.hall.hub, 1_000)

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
