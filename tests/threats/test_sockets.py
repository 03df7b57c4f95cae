# ruff: noqa: N802 - tests carry the names of their rows
"""B14, B15, I1, I2, I9, K20: pages of other sites get in nowhere, and a WebSocket holds no more than a request does."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from tests.harness.http_client import HOST, AsyncConnection, Header, http_request
from tests.harness.mcp_messages import encoded
from tests.threats.shielded import Shielded, connected, shielded
from toolhall.server.limits import ConnectionLimiter, ConnectionTimeouts
from toolhall.server.websocket_protocol import MAX_FRAGMENTS, WebSocketProtocol

LIMITS = ConnectionTimeouts()
TEXT, MORE, LAST = 0x01, 0x00, 0x80
POSTED = ["/mcp", "/oxp/tools/call", "/hub", "/machine", "/machine/tools", "/tools/shielded/holds", "/api/tools"]


def upgrade(*extra: Header, path: str = "/hub", host: str = HOST) -> bytes:
    """The request that opens a WebSocket."""
    usual = [
        ("Host", host),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
    ]
    return http_request("GET", path, [*usual, *extra])


def frame(kind: int, data: bytes = b"") -> bytes:
    """A frame as a client sends it; the mask changes nothing."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + len(data).to_bytes(2, "big")
    return bytes([kind]) + size + bytes(4) + data


@asynccontextmanager
async def open_websocket(served: Shielded) -> AsyncGenerator[tuple[AsyncConnection, WebSocketProtocol]]:
    """A WebSocket, and the server's side of it."""
    async with connected(served) as client:
        client.send(upgrade())
        assert b" 101 " in await client.head()
        (socket,) = served.connections
        assert isinstance(socket, WebSocketProtocol)
        yield client, socket


@pytest.mark.threat("B14")
@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (upgrade(), b" 101 "),
        (upgrade(("Origin", f"http://{HOST}")), b" 101 "),
        (upgrade(("Origin", f"http://{HOST}:9")), b" 403 "),
        (upgrade(("Origin", "http://evil.example")), b" 403 "),
        (upgrade(("Origin", "null")), b" 403 "),
        (upgrade(host="evil.example"), b" 403 "),
        (upgrade(path="/mcp"), b" 403 "),
    ],
    ids=["no page", "own page", "another port", "foreign page", "no origin", "foreign host", "no such path"],
)
async def test_B14_websocket_upgrade_is_accepted_only_for_an_own_host_origin_and_path(
    request_line: bytes, status: bytes
) -> None:
    """Host and Origin count for a WebSocket as for every request, before it is accepted."""
    async with shielded() as served, connected(served) as client:
        client.send(request_line)
        assert status in await client.head()


@pytest.mark.threat("B15")
@pytest.mark.parametrize("path", POSTED)
@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_B15_post_with_a_form_content_type_is_refused_with_415_at_every_endpoint(path: str, kind: str) -> None:
    """What a page of another site can send without asking is no JSON, and is refused whatever is in it."""
    async with shielded() as served, connected(served) as client:
        headers = [("Host", HOST), ("Content-Length", "2"), ("Content-Type", kind)]
        client.send(http_request("POST", path, headers, b"{}"))
        assert await client.status() == 415
        assert served.held == 0


@pytest.mark.threat("I9")
async def test_I9_websocket_compression_offered_by_the_client_is_not_used() -> None:
    """A client that offers compression is served without it."""
    async with shielded() as served, connected(served) as client:
        client.send(upgrade(("Sec-WebSocket-Extensions", "permessage-deflate; client_max_window_bits")))
        assert b"extensions" not in (await client.head()).lower()


INVALID_FRAMES = {
    "text that is not UTF-8": (frame(TEXT | LAST, b"\xff\xfe"), 1007),
    "the same in two parts": (frame(TEXT, b"{") + frame(LAST, b"\xff"), 1007),
    "an unmasked frame": (b"\x81\x02{}", 1002),
    "an unknown kind": (frame(0x0B | LAST), 1002),
    "reserved bits": (frame(0x71 | LAST), 1002),
    "a continuation of nothing": (frame(LAST), 1002),
    "a new message within another": (frame(TEXT, b"{") + frame(TEXT | LAST, b"}"), 1002),
    "a control frame in parts": (frame(0x09), 1002),
    "a control frame that is too long": (frame(0x09 | LAST, b"x" * 126), 1002),
    "a reason without a code": (frame(0x08 | LAST, b"x"), 1002),
    "a code that is none": (frame(0x08 | LAST, b"\x00\x01"), 1002),
    "a frame of nine exabytes": (b"\x81\xff\x7f" + b"\xff" * 7 + bytes(4), 1009),
}


@pytest.mark.threat("K20")
@pytest.mark.parametrize(("sent", "code"), INVALID_FRAMES.values(), ids=INVALID_FRAMES)
async def test_K20_invalid_websocket_frame_closes_the_connection_without_a_traceback(
    sent: bytes, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The close frame says what was wrong; the log has at most one line, at a level that can be switched off."""
    caplog.set_level("DEBUG")
    async with shielded() as served, open_websocket(served) as (client, _):
        client.send(sent)
        said = await client.rest()
        assert said[:1] == b"\x88"
        assert said[2:4] == code.to_bytes(2, "big")
    assert not [record for record in caplog.records if record.exc_info or record.levelname in ("WARNING", "ERROR")]


@pytest.mark.threat("I1")
async def test_I1_websocket_message_of_too_many_fragments_is_closed_with_1009() -> None:
    """Even empty ones take memory, so a message has a bound on them too."""
    async with shielded() as served, open_websocket(served) as (client, _):
        client.send(frame(TEXT, b"{") + frame(MORE) * (MAX_FRAGMENTS + 1))
        said = await client.rest()
        assert said[:1] == b"\x88"
        assert said[2:4] == (1009).to_bytes(2, "big")


@pytest.mark.threat("I1")
async def test_I1_websocket_message_that_is_never_finished_is_cut_at_the_body_deadline() -> None:
    """The deadline of a body is also that of a message in pieces, however many pings are answered meanwhile."""
    async with shielded() as served, open_websocket(served) as (client, socket):
        client.send(frame(TEXT, b"{"))
        await served.until(lambda: socket.frames)
        served.after(LIMITS.body - 0.1)
        client.send(frame(MORE, b" "))
        await served.until(lambda: len(socket.frames) == 2)
        served.after(0.05)
        assert not socket.transport.is_closing()
        served.after(0.05)
        assert await client.rest() == b""


@pytest.mark.threat("I1")
async def test_I1_idle_websocket_stays_open() -> None:
    """Between messages nothing runs out: that the other side lives is asked by pings."""
    async with shielded() as served, open_websocket(served) as (client, _):
        served.after(100_000)
        client.send(frame(TEXT | LAST, encoded({"type": "request", "id": "1", "method": "health_check", "params": {}})))
        assert b"health" in await client.some()


@pytest.mark.threat("I2")
async def test_I2_websocket_whose_reader_stops_is_cut_after_thirty_seconds() -> None:
    """After thirty seconds it is cut, not closed, which would wait for the reader; nothing of it is left."""
    ask = {"type": "tool_request", "tool": "shielded", "method": "large", "params": {"size": 900_000}}
    entrance = ConnectionLimiter()
    async with shielded(entrance=entrance) as served:
        async with connected(served, limit=1024) as client:
            client.send(upgrade())
            assert b" 101 " in await client.head()
            (socket,) = served.connections
            for number in range(20):
                client.send(frame(TEXT | LAST, encoded({**ask, "id": str(number)})))
            await served.until(lambda: socket.write_paused)
            served.after(LIMITS.write_stall - 0.1)
            assert served.connections
            served.after(0.1)
            await served.until(lambda: not served.connections and served.tasks == 0)
        assert entrance.open_connections == 0


@pytest.mark.threat("K4")
async def test_K4_websocket_that_never_answers_the_close_frame_is_cut_after_five_seconds() -> None:
    """Five seconds after we closed it the connection is cut, whatever else its client sends meanwhile."""
    large, entrance = b"x" * 1_100_000, ConnectionLimiter()
    async with shielded(entrance=entrance) as served:
        async with open_websocket(served) as (client, socket):
            client.send(bytes([TEXT | LAST, 0xFF]) + len(large).to_bytes(8, "big") + bytes(4) + large)
            said = await client.some()
            assert said[2:4] == (1009).to_bytes(2, "big")
            served.after(LIMITS.close - 0.1)
            client.send(frame(TEXT | LAST, b"{}") * 10)
            await asyncio.sleep(0)
            assert not socket.transport.is_closing()
            served.after(0.1)
            assert socket.transport.is_closing()
            await served.until(lambda: not served.connections and served.tasks == 0)
        assert entrance.open_connections == 0
