"""RequestCycle: what is written for what an ASGI application sends, and what the application receives."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from tests.harness.connections import MemoryTransport, call_in_loop
from toolhall.auth.authenticator import AsgiMessage, Receive, Scope, Send
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.server.context import ServerContext
from toolhall.server.limits import ConnectionLimiter
from toolhall.server.protocol import HttpProtocol

App = Callable[[Scope, Receive, Send], Awaitable[None]]
LENGTH_2 = (b"content-length", b"2")


class Application:
    """An ASGI application with a limiter."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.limiter = ConcurrencyLimiter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


class Settings(NamedTuple):
    max_body_bytes: int = 1_000
    max_frame_bytes: int = 1_000
    access_log: bool = False


class Served(NamedTuple):
    http: Application
    config: Settings = Settings()


class Wire:
    """A connection to an application."""

    def __init__(self, app: App) -> None:
        self.context = ServerContext(Served(Application(app)), ConnectionLimiter())
        self.protocol = HttpProtocol(self.context)
        self.transport = MemoryTransport()
        self.protocol.connection_made(self.transport)

    async def send(self, data: bytes) -> bytes:
        """Send this; all that was written."""
        await call_in_loop(lambda: self.protocol.data_received(data))
        return await self.settled()

    async def settled(self) -> bytes:
        for _ in range(10):
            await asyncio.sleep(0)
        return bytes(self.transport.written)


def sends(*messages: AsgiMessage) -> App:
    """An application that sends these messages."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    return app


def start(*headers: tuple[bytes, bytes], status: int = 200) -> AsgiMessage:
    return {"type": "http.response.start", "status": status, "headers": headers}


def part(body: bytes, *, more: bool = False) -> AsgiMessage:
    return {"type": "http.response.body", "body": body, "more_body": more}


def get(version: str = "1.1", method: str = "GET", *lines: str) -> bytes:
    return "\r\n".join([f"{method} / HTTP/{version}", "Host: a", *lines, "", ""]).encode()


async def test_response_with_a_length_is_written_with_its_body() -> None:
    wire = Wire(sends(start(LENGTH_2), part(b"ok")))
    assert await wire.send(get()) == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    assert not wire.transport.closed


async def test_response_with_a_length_may_come_in_parts() -> None:
    wire = Wire(sends(start(LENGTH_2), part(b"o", more=True), part(b"k")))
    assert (await wire.send(get())).endswith(b"\r\n\r\nok")
    assert not wire.transport.closed


async def test_response_without_a_length_is_chunked() -> None:
    wire = Wire(sends(start(), part(b"one", more=True), part(b"", more=True), part(b"")))
    assert (await wire.send(get())).endswith(b"transfer-encoding: chunked\r\n\r\n3\r\none\r\n0\r\n\r\n")


async def test_response_without_a_length_to_http_1_0_ends_with_the_connection() -> None:
    wire = Wire(sends(start(), part(b"one", more=True), part(b"two")))
    assert await wire.send(get("1.0")) == b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nonetwo"
    assert wire.transport.closed


async def test_response_to_head_has_no_body() -> None:
    wire = Wire(sends(start(LENGTH_2), part(b"ok")))
    assert await wire.send(get(method="HEAD")) == b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n"
    assert not wire.transport.closed


@pytest.mark.parametrize("status", [204, 304])
async def test_response_without_content_has_no_body(status: int) -> None:
    wire = Wire(sends(start(status=status), part(b"stray")))
    written = await wire.send(get())
    assert written.startswith(b"HTTP/1.1 %d " % status)
    assert written.endswith(b"\r\n\r\n")
    assert b"chunked" not in written


@pytest.mark.parametrize("sent", [b"o", b"okay"], ids=["short", "long"])
async def test_response_with_another_length_than_it_states_closes_the_connection(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(sends(start(LENGTH_2), part(sent)))
    assert await wire.send(get()) == b""
    assert wire.transport.closed
    assert "does not have the length" in caplog.text


@pytest.mark.parametrize("header", [(b"x-a", b"b\r\nx-c: d"), (b"x a", b"b"), (b"x-a\r\nx-c", b"d"), (b"", b"")])
async def test_response_with_an_invalid_header_becomes_500(
    header: tuple[bytes, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(sends(start(header), part(b"")))
    written = await wire.send(get())
    assert written.startswith(b"HTTP/1.1 500 ")
    assert b"x-c" not in written
    assert wire.transport.closed
    assert "invalid header" in caplog.text


async def test_application_that_fails_before_it_responds_is_answered_for_with_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("as the test says")

    wire = Wire(app)
    assert (await wire.send(get())).startswith(b"HTTP/1.1 500 ")
    assert wire.transport.closed
    assert "as the test says" in caplog.text


async def test_application_that_fails_later_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(start())
        raise KeyError("as the test says")

    wire = Wire(app)
    assert (await wire.send(get())).count(b"HTTP/1.1") == 1
    assert wire.transport.closed
    assert "as the test says" in caplog.text


@pytest.mark.parametrize("messages", [(), (start(LENGTH_2),)], ids=["nothing", "head"])
async def test_application_that_does_not_finish_its_response_is_logged(
    messages: tuple[AsgiMessage, ...], caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(sends(*messages))
    await wire.send(get())
    assert wire.transport.closed
    assert "without a complete response" in caplog.text


@pytest.mark.parametrize(
    "messages",
    [
        (part(b"x"),),
        (start(LENGTH_2), start()),
        (start(LENGTH_2), part(b"ok"), part(b"more")),
    ],
    ids=["no_start", "two_starts", "after_the_end"],
)
async def test_messages_in_a_wrong_order_are_errors(
    messages: tuple[AsgiMessage, ...], caplog: pytest.LogCaptureFixture
) -> None:
    wire = Wire(sends(*messages))
    await wire.send(get())
    assert wire.transport.closed
    assert "RuntimeError" in caplog.text


async def test_receive_gives_the_body_in_parts_and_then_waits_for_the_disconnect() -> None:
    received: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            received.append((message["type"], message.get("body"), message.get("more_body")))
            if message["type"] == "http.disconnect":
                return

    wire = Wire(app)
    await wire.send(get("1.1", "POST", "Content-Length: 4") + b"ab")
    await wire.send(b"cd")
    assert received == [("http.request", b"ab", True), ("http.request", b"cd", False)]
    wire.protocol.connection_lost(None)
    await wire.settled()
    assert received[-1][0] == "http.disconnect"
    assert not wire.context.tasks


async def test_receive_of_chunks_joins_them() -> None:
    received: list[bytes] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        received.append(message["body"])
        assert not message["more_body"]
        await sends(start(LENGTH_2), part(b"ok"))(scope, receive, send)

    wire = Wire(app)
    await wire.send(get("1.1", "POST", "Transfer-Encoding: chunked") + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    assert received == [b"abc"]


@pytest.mark.parametrize("reads", [True, False])
async def test_expect_100_continue_is_answered_when_the_body_is_read(*, reads: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if reads:
            await receive()
        await sends(start(LENGTH_2), part(b"ok"))(scope, receive, send)

    wire = Wire(app)
    written = await wire.send(get("1.1", "POST", "Content-Length: 2", "Expect: 100-continue"))
    assert written.startswith(b"HTTP/1.1 100 Continue\r\n\r\n" if reads else b"HTTP/1.1 200 ")
    if reads:
        assert (await wire.send(b"{}")).endswith(b"ok")


async def test_connection_close_is_obeyed_in_both_directions() -> None:
    asked = Wire(sends(start(LENGTH_2), part(b"ok")))
    assert b"connection: close\r\n" in await asked.send(get("1.1", "GET", "Connection: close"))
    told = Wire(sends(start(LENGTH_2, (b"connection", b"close")), part(b"ok")))
    assert (await told.send(get())).count(b"connection: close\r\n") == 1
    assert asked.transport.closed
    assert told.transport.closed


async def test_send_waits_while_the_client_does_not_read() -> None:
    wire = Wire(sends(start(), part(b"one", more=True), part(b"two")))
    wire.protocol.pause_writing()
    assert await wire.send(get()) == b""
    assert len(wire.context.tasks) == 1
    wire.protocol.resume_writing()
    assert (await wire.settled()).endswith(b"3\r\ntwo\r\n0\r\n\r\n")
    assert not wire.context.tasks


async def test_pipelined_requests_are_answered_in_order_and_reading_pauses_meanwhile() -> None:
    gate = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await gate.wait()
        body = scope["path"].encode()
        await sends(start((b"content-length", b"%d" % len(body))), part(body))(scope, receive, send)

    wire = Wire(app)
    slow, quick = get().replace(b"/ ", b"/slow ", 1), get().replace(b"/ ", b"/quick ", 1)
    assert await wire.send(slow + quick + quick) == b""
    assert wire.transport.paused
    gate.set()
    written = await wire.settled()
    assert [each.rpartition(b"\r\n\r\n")[2] for each in written.split(b"HTTP/1.1")[1:]] == [
        b"/slow",
        b"/quick",
        b"/quick",
    ]
    assert not wire.transport.paused


async def test_client_that_ends_its_sending_side_gets_what_is_answered() -> None:
    wire = Wire(sends(start(LENGTH_2), part(b"ok")))

    def receive_all() -> None:
        wire.protocol.data_received(get())
        wire.protocol.eof_received()

    await call_in_loop(receive_all)
    assert bytes(wire.transport.written).endswith(b"ok")


async def test_request_before_malformed_bytes_is_answered_before_they_are_refused() -> None:
    wire = Wire(sends(start(LENGTH_2), part(b"ok")))
    written = await wire.send(get() + b"\x00\x01\x02\r\n\r\n")
    assert [each[:3] for each in written.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"]
    assert wire.transport.closed


async def test_malformed_bytes_in_a_body_are_refused_without_running_the_request() -> None:
    ran: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        ran.append(scope["path"])

    wire = Wire(app)
    written = await wire.send(get("1.1", "POST", "Transfer-Encoding: chunked") + b"xyz\r\n{}\r\n0\r\n\r\n")
    assert written.startswith(b"HTTP/1.1 400 ")
    assert ran == []


async def test_connection_of_an_unknown_address_is_aborted() -> None:
    """It would pass for a Unix socket, whose clients are of this machine."""
    wire = Wire(sends())
    transport = MemoryTransport()
    transport.get_extra_info = {"sockname": ("10.0.0.1", 80)}.get  # type: ignore[method-assign, assignment]
    protocol = HttpProtocol(wire.context)
    protocol.connection_made(transport)
    assert transport.aborted
    assert protocol.client is None
    protocol.connection_lost(None)
    assert wire.context.connection_limiter.open_connections == 1, "the other one"
