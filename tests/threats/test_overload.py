# ruff: noqa: N802 - tests carry the names of their rows
"""I4, I6: when everything is taken, a request is told so at once; who looks after the server still gets through."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.harness.http_client import HOST, AsyncConnection, http_request
from tests.harness.mcp_messages import MODERN, NOVEMBER, encoded, handshake, headers_for, request_in
from tests.harness.sync_mcp_client import post
from tests.threats.shielded import Shielded, connected, shielded
from toolhall.http.request_slots import ConcurrencyLimiter

NO_TIME, NO_END = 0.0, 600.0  # how long a request waits for a place
PATHS = ["/mcp", "/oxp/tools/call", "/hub", "/machine", "/tools/a/b"]


@asynccontextmanager
async def slot_taken(served: Shielded) -> AsyncGenerator[AsyncConnection]:
    """A call that has the only place."""
    async with connected(served) as client:
        before = served.held
        client.send(served.call("holds"))
        await served.until(lambda: served.held > before)
        yield client


def post_request(path: str) -> bytes:
    """A request with a body that no dialect can use."""
    headers = [("Host", HOST), ("Content-Type", "application/json"), ("Content-Length", "2")]
    return http_request("POST", path, headers, b"{}")


@pytest.mark.threat("I6")
@pytest.mark.parametrize("path", PATHS)
async def test_I6_request_without_a_free_slot_gets_503_in_the_dialects_own_form(path: str) -> None:
    """503, when to come back, and an error that the dialect's clients can read; the message was not looked at."""
    async with shielded(ConcurrencyLimiter(1, NO_TIME)) as served, slot_taken(served), connected(served) as client:
        client.send(post_request(path))
        status, headers, content = await client.reply()
        body = json.loads(content)
        assert (status, headers["retry-after"]) == (503, "1")
        assert headers["content-type"] == "application/json"
        assert "as many requests as it can" in str(body)
        told = {"/mcp": ("jsonrpc", "2.0"), "/oxp/tools/call": ("$schema", None), "/hub": ("type", None)}
        key, said = told.get(path, ("header" if path == "/machine" else "error", None))
        assert key in body
        assert said is None or body[key] == said


@pytest.mark.threat("I6")
async def test_I6_request_beyond_the_full_queue_is_refused_without_a_task() -> None:
    """Beyond those who wait, a refusal costs no task, and the connection goes on afterwards."""
    async with (
        shielded(ConcurrencyLimiter(1, NO_END)) as served,
        slot_taken(served) as first,
        connected(served) as second,
    ):
        second.send(served.call("holds"))
        await served.until(lambda: served.tasks == 2)
        async with connected(served) as third:
            for _ in range(2):
                third.send(served.call("holds"))
                status, headers, _ = await third.reply()
                assert (status, headers["retry-after"], served.tasks) == (503, "1", 2)
            served.gate.set()
            assert [await first.status(), await second.status()] == [200, 200]
            third.send(served.call("holds"))
            assert await third.status() == 200


@pytest.mark.threat("I4")
async def test_I4_call_refused_for_want_of_a_slot_succeeds_when_repeated_later() -> None:
    """A refused call succeeds once there is a place; at no time did more calls run than there are places."""
    async with shielded(ConcurrencyLimiter(1, NO_TIME)) as served, connected(served) as second:
        async with slot_taken(served) as first:
            second.send(served.call("holds"))
            assert await second.status() == 503
            assert served.held == 1
            served.gate.set()
            assert await first.status() == 200
        second.send(served.call("holds"))
        assert await second.status() == 200


@pytest.mark.threat("I6")
@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready", "/oxp/health", "/api/tools"])
async def test_I6_health_and_management_are_answered_while_all_slots_are_taken(path: str) -> None:
    """Whoever has to see what is wrong, and to mend it, is answered while everything is taken."""
    async with shielded(ConcurrencyLimiter(1, NO_TIME)) as served, slot_taken(served), connected(served) as client:
        client.send(served.get(path))
        assert await client.status() == 200


@pytest.mark.threat("I6")
async def test_I6_call_of_an_older_revision_keeps_its_slot_after_its_client_disconnects() -> None:
    """In the older revisions to hang up is not to cancel, so to hang up gives no place back either."""
    admission = ConcurrencyLimiter(1, NO_TIME)
    async with shielded(admission) as served:
        async with connected(served) as client:
            client.send(post(served.port, encoded(handshake(NOVEMBER))))
            _, headers, _ = await client.reply()
            session = headers["mcp-session-id"]
            await served.until(lambda: admission.running == 0)
            body = encoded(request_in(NOVEMBER, "tools/call", {"name": "holds", "arguments": {}}))
            client.send(post(served.port, body, ("Mcp-Session-Id", session)))
            await served.until(lambda: served.held)
        await served.until(lambda: not served.connections)
        assert admission.running == 1
        served.gate.set()
        await served.until(lambda: admission.running == 0)


@pytest.mark.threat("I6")
async def test_I6_subscription_stream_takes_no_call_slot() -> None:
    """Streams are counted apart: one that stays open keeps no call out."""
    body = encoded(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    admission = ConcurrencyLimiter(1, NO_TIME)
    async with shielded(admission) as served, connected(served) as listening:
        listening.send(post(served.port, body, *headers_for(body)))
        assert b" 200 " in await listening.head()
        assert admission.running == 0


@pytest.mark.threat("I6")
@pytest.mark.parametrize("how", ["hangs up", "is refused", "is wrong"])
async def test_I6_slot_is_released_however_its_request_ends(how: str) -> None:
    """However a request ends, its place is free again."""
    admission = ConcurrencyLimiter(2, NO_TIME)
    async with shielded(admission) as served:
        for _ in range(5):
            async with connected(served) as client:
                if how == "hangs up":
                    client.send(served.call("holds"))
                    await served.until(lambda: admission.running == 1)
                elif how == "is refused":
                    client.send(post_request("/mcp").replace(b"127.0.0.1", b"evil.example"))
                    assert await client.status() == 421
                else:
                    client.send(served.call("nothing"))
                    assert await client.status() == 200
            await served.until(lambda: admission.running == 0)


@pytest.mark.threat("I6")
@pytest.mark.parametrize("waits", [NO_END, NO_TIME])
async def test_I6_websocket_message_without_a_free_slot_waits_or_is_rate_limited(waits: float) -> None:
    """Nothing more is read while a message waits for a slot; one that finds none is told when to come back."""
    admission, sent, left = ConcurrencyLimiter(1, waits), list[Any](), asyncio.Event()
    ask = encoded({"type": "request", "id": "1", "method": "health_check", "params": {}}).decode()
    waiting: list[dict[str, Any]] = [{"type": "websocket.receive", "text": ask}, {"type": "websocket.connect"}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await left.wait()
        return {"type": "websocket.disconnect", "code": 1000}

    async def send(said: Any) -> None:
        sent.append(said)

    async with shielded(admission) as served, slot_taken(served) as client:
        scope = {"type": "websocket", "path": "/hub", "headers": [(b"host", HOST.encode())], "client": (HOST, 1)}
        socket = asyncio.create_task(served.hall(scope, receive, send))
        if waits == NO_END:
            await served.until(lambda: admission.callers.is_queue_full)
            assert [said["type"] for said in sent] == ["websocket.accept"]
            served.gate.set()
            assert await client.status() == 200
        await served.until(lambda: len(sent) == 2)
        assert ('"status":' if waits == NO_END else "RATE_LIMITED") in sent[1]["text"]
        left.set()
        await socket
        await served.until(lambda: admission.running == (0 if waits == NO_END else 1))
