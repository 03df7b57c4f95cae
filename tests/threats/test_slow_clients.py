# ruff: noqa: N802 - tests carry the names of their rows
"""I1, F7, F14: clients that send slowly, or never the rest, or too much at once, are sent away; nobody else waits."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.harness.http_client import HOST, AsyncConnection, http_request
from tests.harness.mcp_messages import MODERN, encoded, headers_for, request_in
from tests.harness.sync_mcp_client import post
from tests.threats.shielded import Shielded, connected, shielded
from toolhall.server.limits import (
    MIN_PROGRESS_BYTES,
    ConnectionLimiter,
    ConnectionTimeouts,
    TimeoutTracker,
    raise_connection_limit,
)
from toolhall.server.protocol import MAX_HEADER_BYTES, MAX_PIPELINED_REQUESTS

LIMITS = ConnectionTimeouts()
HEAD = b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
CROWD = 300


async def send_and_wait(served: Shielded, client: AsyncConnection, data: bytes) -> None:
    """Send this, and wait until the server has it."""
    client.send(data)
    (connection,) = served.connections
    await served.until(lambda: connection.parser.url)
    await asyncio.sleep(0)


@pytest.mark.threat("I1")
async def test_I1_connection_without_a_first_byte_is_closed_after_five_seconds() -> None:
    """It is closed after five seconds, and not before."""
    async with shielded() as served, connected(served) as client:
        served.after(LIMITS.first_byte - 0.1)
        assert not served.connections[0].transport.is_closing()
        served.after(0.1)
        assert await client.rest() == b""


@pytest.mark.threat("I1")
async def test_I1_slow_request_headers_get_408_at_the_deadline_of_the_whole_head() -> None:
    """More bytes buy no more time: the deadline is for the whole head."""
    async with shielded() as served, connected(served) as client:
        await send_and_wait(served, client, HEAD)
        served.after(LIMITS.headers - 1)
        (connection,) = served.connections
        before = len(connection.parser.headers)
        client.send(b"X-More: of the same\r\n")
        await served.until(lambda: len(connection.parser.headers) > before)
        served.after(0.5)
        assert not served.connections[0].transport.is_closing()
        served.after(0.5)
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")


@pytest.mark.threat("I1")
async def test_I1_request_body_that_never_ends_gets_408_at_its_deadline() -> None:
    """Thirty seconds are for the whole body; the request ends without a call."""
    async with shielded() as served, connected(served) as client:
        client.send(HEAD + b"Content-Length: 100\r\n\r\n{")
        await served.until(lambda: served.tasks == 1)
        served.after(LIMITS.body - 0.1)
        assert served.tasks == 1
        served.after(0.1)
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        await served.until(lambda: served.tasks == 0)


@pytest.mark.threat("I1")
@pytest.mark.parametrize(
    "more", [b"", b"\r\n", b"G"], ids=["nothing", "an empty line", "the next request's first byte"]
)
async def test_I1_idle_keep_alive_connection_is_closed_despite_stray_bytes(more: bytes) -> None:
    """Between two requests it may rest for a while; bytes that come to nothing do not keep it open."""
    async with shielded() as served, connected(served) as client:
        client.send(served.get("/health/live"))
        assert await client.status() == 200
        client.send(more)
        for _ in range(20):
            await asyncio.sleep(0)
        served.after(LIMITS.keep_alive - 0.1)
        assert served.connections
        served.after(LIMITS.headers)
        assert (await client.rest())[:13] in (b"", b"HTTP/1.1 408 ")


@pytest.mark.threat("I1")
async def test_I1_long_running_call_is_not_cut_by_any_connection_deadline() -> None:
    """While the client waits for us, no deadline runs; a kept connection serves the next request too."""
    async with shielded() as served, connected(served) as client:
        client.send(served.call("holds"))
        await served.until(lambda: served.held)
        served.after(1_000)
        served.gate.set()
        assert await client.status() == 200
        served.after(LIMITS.keep_alive - 1)
        client.send(served.call("holds"))
        assert await client.status() == 200


@pytest.mark.threat("I1")
async def test_I1_many_half_open_connections_are_closed_at_their_deadline_while_calls_are_answered() -> None:
    """All are gone at their deadline, and a normal call is answered meanwhile."""
    async with shielded() as served, AsyncExitStack() as stack:
        slow = [await stack.enter_async_context(connected(served)) for _ in range(CROWD)]
        for client in slow:
            client.send(HEAD)
        await served.until(lambda: sum(each.parser.has_begun for each in served.connections) == CROWD)
        async with connected(served) as client:
            served.gate.set()
            client.send(served.call("holds"))
            assert await client.status() == 200
        served.after(LIMITS.headers)
        await served.until(lambda: not served.connections)


@pytest.mark.threat("I1")
@pytest.mark.parametrize("line", [b"X-A: " + b"a" * 1_000 + b"\r\n", b"X-A: a\r\n"], ids=["long", "many"])
async def test_I1_request_headers_over_64_kilobytes_or_one_hundred_are_refused(line: bytes) -> None:
    """More than 64 kB of headers, or more than a hundred, are refused, however they come."""
    async with shielded() as served, connected(served) as client:
        many = line * (MAX_HEADER_BYTES // len(line) * 2 if len(line) > 100 else 101)
        client.send(HEAD + many + b"Content-Length: 2\r\n\r\n{}")
        # The connection ends before all was read, so that the words may be lost on their way.
        assert (await client.rest())[:13] in (b"", b"HTTP/1.1 431 ")
        assert served.held == 0


@pytest.mark.threat("I1")
async def test_I1_connection_with_too_many_pipelined_requests_is_closed() -> None:
    """Whoever sends requests without waiting for answers may have some in line, and not any number."""
    async with shielded() as served, connected(served) as client:
        client.send(served.call("holds") + served.get("/health/live") * MAX_PIPELINED_REQUESTS)
        await served.until(lambda: len(served.connections[0].pipeline) == MAX_PIPELINED_REQUESTS)
        client.send(served.get("/health/live"))
        assert await client.rest() == b""
        await served.until(lambda: served.ended == served.held == 1)


@pytest.mark.threat("I1")
async def test_I1_connection_beyond_the_limit_gets_503_until_another_closes() -> None:
    """One too many is told so at once; when another leaves, there is room again."""
    async with shielded(entrance=ConnectionLimiter(limit=2)) as served, connected(served), connected(served) as second:
        third = AsyncConnection(*await asyncio.open_connection(HOST, served.port))
        said = await third.rest()
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1\r\n" in said
        await third.close()
        await second.close()
        await served.until(lambda: len(served.connections) == 1)
        async with connected(served) as fourth:
            fourth.send(served.get("/health/live"))
            assert await fourth.status() == 200


@pytest.mark.threat("I1")
def test_I1_connection_limit_per_address_refuses_only_that_address_and_not_loopback() -> None:
    """An address that has too many keeps only itself out; this machine's own, where proxies are, is not counted."""
    entrance = ConnectionLimiter(limit=100, limit_per_address=2)
    assert [entrance.acquire("192.0.2.1") for _ in range(3)] == [True, True, False]
    assert entrance.acquire("192.0.2.2")
    assert all(entrance.acquire(address) for address in ["127.0.0.1", "127.0.0.9", "::1", None] * 4)
    assert [entrance.acquire("fe80::1%eth0") for _ in range(3)] == [True, True, False]
    entrance.release("192.0.2.1")
    assert entrance.acquire("192.0.2.1")
    assert not entrance.acquire("192.0.2.1")


@pytest.mark.threat("R10")
def test_R10_connection_limiter_forgets_addresses_without_open_connections() -> None:
    """Ten thousand addresses that came and went leave nothing behind, and the room is the same as before."""
    entrance = ConnectionLimiter(limit=2)
    for number in range(10_000):
        address = f"192.0.{number // 256}.{number % 256}"
        assert entrance.acquire(address)
        entrance.release(address)
    assert (entrance.open_connections, entrance.tracked_addresses) == (0, 0)
    assert [entrance.acquire("192.0.2.1") for _ in range(3)] == [True, True, False]


def test_file_descriptor_limit_is_raised_for_the_number_of_connections() -> None:
    """The process asks for as many files as it serves connections, as far as it may."""
    assert 1 <= raise_connection_limit() <= 10_000


@pytest.mark.threat("F7")
async def test_F7_disconnect_ends_a_stream_with_pipelined_requests_behind_it() -> None:
    """Every request of a lost connection ends, also one that others wait behind."""
    body = encoded(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    async with shielded() as served:
        async with connected(served) as client:
            client.send(post(served.port, body, *headers_for(body)) + served.get("/health") + served.call("holds"))
            assert b" 200 " in await client.head()
            await served.until(lambda: len(served.connections[0].pipeline) == 2)
        await served.until(lambda: served.tasks == 0)
        assert served.held == 0


@pytest.mark.threat("F14")
async def test_F14_websocket_upgrade_pipelined_behind_a_running_call_closes_the_connection() -> None:
    """Two answers in two protocols never share a connection."""
    upgrade = [
        ("Host", HOST),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    async with shielded() as served, connected(served) as client:
        client.send(served.call("holds") + http_request("GET", "/hub", upgrade))
        assert await client.rest() == b""
        await served.until(lambda: served.held == served.ended and served.tasks == 0)


@pytest.mark.threat("I2")
def test_I2_reader_that_takes_64_kilobytes_per_deadline_is_not_stalled() -> None:
    """Who takes 64 kB within the deadline has another one; who takes less is cut off."""
    wait = TimeoutTracker()
    assert wait.start("stall", None, 0.0, MIN_PROGRESS_BYTES * 2)
    assert not wait.is_stalled(30.0, MIN_PROGRESS_BYTES * 2, 29.9)
    assert not wait.is_stalled(30.0, MIN_PROGRESS_BYTES, 30.0)
    assert not wait.is_stalled(30.0, 1, 59.9)
    assert wait.is_stalled(30.0, 1, 60.0)


@pytest.mark.threat("I2")
async def test_I2_connection_whose_reader_stops_is_closed_after_thirty_seconds() -> None:
    """What waits to be read is bounded; after thirty seconds the connection is cut and nothing of it is left."""
    async with shielded() as served, connected(served, limit=1024) as client:
        client.send(served.call("large", size=900_000) * 20)
        (connection,) = served.connections
        await served.until(lambda: connection.write_paused)
        assert connection.transport.get_write_buffer_size() < 1_100_000
        served.after(LIMITS.write_stall - 0.1)
        assert served.connections
        served.after(0.1)
        await served.until(lambda: not served.connections and served.tasks == 0)


@pytest.mark.threat("I2")
async def test_I2_connection_whose_reader_resumes_in_time_is_served_to_the_end() -> None:
    """A stall that ends in time is forgotten."""
    async with shielded() as served, connected(served, limit=1024) as client:
        client.send(served.call("large", size=900_000) * 20)
        (connection,) = served.connections
        await served.until(lambda: connection.write_paused)
        served.after(LIMITS.write_stall - 1)
        for _ in range(20):
            assert await client.status() == 200
        served.after(LIMITS.keep_alive - 1)
        assert served.connections
