# ruff: noqa: N802 - tests carry the names of their rows
"""K1-K3: neither strangers who send half a body nor a caller with many slow calls keep anybody else out."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tests.harness.http_client import HOST, AsyncConnection, Header, http_request
from tests.harness.mcp_messages import MODERN, encoded, headers_for, tool_call
from tests.harness.sync_mcp_client import post
from tests.threats.shielded import Shielded, connected, shielded
from tests.threats.test_sockets import LAST, TEXT, frame, upgrade
from toolhall import Config
from toolhall.http import request as arriving
from toolhall.http.request_slots import MAX_ANONYMOUS_BODIES, ConcurrencyLimiter
from toolhall.pipeline.limit import Concurrency
from toolhall.registration.access import NewKey

SLOTS = 8
CROWD = 80  # more than there are slots, reserves and places for incomplete bodies of strangers
SERVER = Config(profile="server", concurrency=Concurrency(total=SLOTS))
PAGES = ["/approve/x", "/enroll/x", "/connect/x"]


async def key_of(served: Shielded, name: str) -> Header:
    """The header that proves this caller."""
    _, text = await served.hall.access.keys.create(NewKey(name, scopes=("tools:*", "admin")), "test")
    return "Authorization", f"Bearer {text}"


def half_sent_request(served: Shielded, path: str) -> bytes:
    """A request without a credential, and half of its body."""
    kind = "application/json" if path == "/machine" else "application/x-www-form-urlencoded"
    host = f"{HOST}:{served.port}"
    headers = [("Host", host), ("Origin", f"http://{host}"), ("Content-Type", kind), ("Content-Length", "10")]
    return http_request("POST", path, headers, b'{"a":')


def call_request(served: Shielded, name: str, key: Header, **arguments: Any) -> bytes:
    """A whole call of the newest revision of MCP."""
    body = encoded(tool_call(MODERN, name, arguments))
    return post(served.port, body, *headers_for(body), key)


def machine_request(body: bytes) -> bytes:
    """A message of Machine Context, without a credential in its headers."""
    headers = [("Host", HOST), ("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return http_request("POST", "/machine", headers, body)


async def status_of(served: Shielded, request: bytes) -> int:
    """The answer to a request on a connection of its own."""
    async with connected(served) as client:
        client.send(request)
        return int((await client.head()).split()[1])


@asynccontextmanager
async def half_sent_clients(served: Shielded, path: str, addresses: int) -> AsyncGenerator[list[AsyncConnection]]:
    """A crowd of strangers, each with half a body."""
    async with AsyncExitStack() as stack:
        crowd = []
        for number in range(CROWD):
            address = (f"127.0.0.{2 + number % addresses}", 0)
            crowd.append(await stack.enter_async_context(connected(served, local_addr=address)))
            crowd[-1].send(half_sent_request(served, path))
        (*_, newest) = served.connections
        await served.until(lambda: newest.cycle is not None)
        await served.until(lambda: served.hall.http.limiter.bodies.anonymous == MAX_ANONYMOUS_BODIES)
        yield crowd


@pytest.mark.threat("K1")
@pytest.mark.parametrize("addresses", [1, CROWD])
@pytest.mark.parametrize("path", ["/machine", *PAGES])
async def test_K1_half_sent_bodies_without_a_key_leave_all_slots_to_authenticated_callers(
    path: str, addresses: int
) -> None:
    """A good key's calls and the health are answered; the oldest half-sent bodies have made way for new ones."""
    async with shielded(config=SERVER) as served:
        key = await key_of(served, "good")
        async with half_sent_clients(served, path, addresses) as crowd:
            for _ in range(SLOTS):
                assert await status_of(served, call_request(served, "large", key, size=1)) == 200
                assert await status_of(served, served.get("/health")) == 200
            assert served.hall.http.limiter.running == 0
            assert await crowd[0].status() == 408
            crowd[-1].send(b'"b"}}')
            assert int((await crowd[-1].head()).split()[1]) not in (408, 503)
        await served.until(lambda: served.hall.http.limiter.bodies.anonymous == 0)


@pytest.mark.threat("K1")
async def test_K1_address_with_many_half_sent_bodies_evicts_its_own_and_no_others() -> None:
    """Somebody else's slow body is not what makes way."""
    async with shielded(config=SERVER) as served, connected(served, local_addr=("127.0.1.1", 0)) as slow:
        slow.send(half_sent_request(served, "/machine"))
        await served.until(lambda: served.hall.http.limiter.bodies.anonymous == 1)
        async with half_sent_clients(served, "/machine", 1):
            slow.send(b'"b"}}')
            assert await slow.status() == 400


@pytest.mark.threat("K1")
async def test_K1_body_deadline_without_an_api_key_is_shorter_than_with_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few seconds, where a proven caller has the usual deadline."""
    monkeypatch.setattr(arriving, "ANONYMOUS_BODY_SECONDS", 0.01)
    async with shielded(config=SERVER) as served, connected(served) as client, connected(served) as proven:
        name, said = await key_of(served, "good")
        proven.send(half_sent_request(served, "/machine").replace(b"Origin:", f"{name}: {said}\r\nX-Origin:".encode()))
        await served.until(lambda: served.hall.http.limiter.bodies.callers.in_use == 1)
        client.send(half_sent_request(served, "/machine"))
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        proven.send(b'"b"}}')
        assert await proven.status() == 400  # it was read
        assert served.hall.http.limiter.bodies.callers.in_use == 0


@pytest.mark.threat("K1")
async def test_K1_half_sent_bodies_of_one_api_key_are_limited_to_half_of_the_places() -> None:
    """They take no slots, and of what there is for incomplete bodies no more than half."""
    async with shielded(config=SERVER) as served, AsyncExitStack() as stack:
        name, said = await key_of(served, "greedy")
        request = half_sent_request(served, "/machine").replace(b"Origin:", f"{name}: {said}\r\nX-Origin:".encode())
        crowd = [await stack.enter_async_context(connected(served)) for _ in range(SLOTS)]
        for client in crowd:
            client.send(request)
        assert [await client.status() for client in crowd[SLOTS // 2 :]] == [503] * (SLOTS // 2)
        assert served.hall.http.limiter.bodies.callers.in_use == SLOTS // 2
        assert await status_of(served, call_request(served, "large", (name, said), size=1)) == 200


@pytest.mark.threat("K1")
async def test_K1_machine_call_with_its_token_in_the_message_uses_a_caller_slot() -> None:
    """Machine Context: until the token in the message is read, its sender is a stranger, and not longer."""
    async with shielded(config=SERVER) as served, connected(served) as client:
        _, said = await key_of(served, "good")
        header = {"version": "1.0", "messageId": "m1", "messageType": "request", "source": "test"}
        tool = {"id": "shielded", "capability": "holds", "parameters": {}}
        payload = {"tool": tool, "security": {"token": said.removeprefix("Bearer ")}}
        client.send(machine_request(encoded({"header": header, "payload": payload})))
        await served.until(lambda: served.held == 1)
        admission = served.hall.http.limiter
        assert (admission.anonymous.in_use, admission.callers.in_use) == (0, 1)
        served.gate.set()
        assert await client.status() == 200


@pytest.mark.threat("K2")
@pytest.mark.parametrize("path", PAGES)
async def test_K2_health_and_management_answer_while_half_sent_bodies_fill_the_anonymous_slots(path: str) -> None:
    """The health, also for whoever proves nothing, and management for a key: the reserve is not for strangers."""
    async with shielded(config=SERVER) as served:
        key, admission = await key_of(served, "good"), served.hall.http.limiter
        async with half_sent_clients(served, path, CROWD):
            taken = [admission.anonymous.try_acquire(f"anonymous@192.0.2.{number}") for number in range(SLOTS)]
            assert taken.count(True) == admission.anonymous.limit
            assert await status_of(served, machine_request(b"{}")) == 503
            for vital in ("/health", "/health/live", "/oxp/health"):
                assert await status_of(served, served.get(vital)) == 200
            for vital in ("/api/tools", "/metrics"):
                assert await status_of(served, http_request("GET", vital, [("Host", HOST), key])) == 200
        assert admission.reserve.in_use == 0


@pytest.mark.threat("K3")
async def test_K3_caller_with_many_slow_calls_gets_half_of_the_slots_and_503_beyond() -> None:
    """It gets half of the slots and is told when to come back for more; every call of another one succeeds."""
    async with shielded(config=SERVER) as served, AsyncExitStack() as stack:
        greedy, modest = await key_of(served, "greedy"), await key_of(served, "modest")
        crowd = [await stack.enter_async_context(connected(served)) for _ in range(5 * SLOTS)]
        for client in crowd:
            client.send(call_request(served, "holds", greedy))
        for _ in range(2 * SLOTS):
            assert await status_of(served, call_request(served, "large", modest, size=1)) == 200
        refused = await asyncio.gather(*[client.reply() for client in crowd[SLOTS // 2 :]])
        assert {(status, headers["retry-after"]) for status, headers, _ in refused} == {(503, "1")}
        assert served.held == SLOTS // 2
        served.gate.set()
        assert [await client.status() for client in crowd[: SLOTS // 2]] == [200] * (SLOTS // 2)
        await served.until(lambda: served.hall.http.limiter.running == 0)


@pytest.mark.threat("K3")
async def test_K3_websocket_messages_and_http_requests_of_one_caller_share_one_limit() -> None:
    """Messages on a socket wait in the queue of all others, and are told when to come back."""
    ask = {"type": "tool_request", "tool": "shielded", "method": "holds", "params": {}}
    async with shielded(ConcurrencyLimiter(SLOTS, 0.0), config=SERVER) as served, connected(served) as client:
        greedy, modest = await key_of(served, "greedy"), await key_of(served, "modest")
        client.send(upgrade(greedy))
        assert b" 101 " in await client.head()
        for number in range(SLOTS // 2 + 1):
            client.send(frame(TEXT | LAST, encoded({**ask, "id": str(number)})))
        assert b"RATE_LIMITED" in await client.some()
        assert served.held == SLOTS // 2
        assert await status_of(served, call_request(served, "large", greedy, size=1)) == 503
        assert await status_of(served, call_request(served, "large", modest, size=1)) == 200


@pytest.mark.threat("K3")
async def test_K3_configured_concurrency_per_caller_and_per_tool_is_enforced() -> None:
    """`concurrency` bounds what one caller has at once, and how often one tool runs, whoever calls it."""
    bounds = Concurrency(per_caller=2, per_tool=3)
    async with shielded(config=Config(profile="server", concurrency=bounds)) as served, AsyncExitStack() as stack:
        keys = [await key_of(served, name) for name in ("anna", "ben")]
        holding = [await stack.enter_async_context(connected(served)) for _ in range(3)]
        for client, key in zip(holding, (keys[0], keys[0], keys[1]), strict=True):
            client.send(call_request(served, "holds", key))
        await served.until(lambda: served.held == 3)
        assert await status_of(served, call_request(served, "large", keys[0], size=1)) == 503
        assert await status_of(served, call_request(served, "large", keys[1], size=1)) == 200
        async with connected(served) as client:
            headers = [("Host", HOST), ("Content-Length", "0"), keys[1]]
            client.send(http_request("POST", "/tools/shielded/holds", headers))
            status, said, body = await client.reply()
        assert (status, said["retry-after"], "this tool runs" in str(body)) == (429, "1", True)
        served.gate.set()
        assert [await client.status() for client in holding] == [200] * 3
        assert await status_of(served, call_request(served, "holds", keys[0])) == 200
