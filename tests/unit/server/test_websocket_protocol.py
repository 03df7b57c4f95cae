"""WebSocketProtocol: ASGI over a WebSocket in both directions, and what becomes of silent clients."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol

from tests.harness.patience import patience
from tests.unit.server.test_request_cycle import App, Application, Served
from toolhall.auth.authenticator import AsgiMessage, Receive, Scope, Send
from toolhall.http.request import SERVER_EXTENSION, WebSocketExtension
from toolhall.server import websocket_protocol
from toolhall.server.context import ServerContext
from toolhall.server.limits import ConnectionLimiter
from toolhall.server.protocol import HttpProtocol


class Running:
    """A server of an application on a free port."""

    def __init__(self, app: App) -> None:
        self.context = ServerContext(Served(Application(app)), ConnectionLimiter())
        self.url = ""

    async def ended(self) -> None:
        """Wait until no connection and no task is left."""
        async with asyncio.timeout(patience()):
            while self.context.connections or self.context.tasks:  # noqa: ASYNC110 - nothing tells when
                await asyncio.sleep(0)
        assert self.context.connection_limiter.open_connections == 0


@asynccontextmanager
async def running(app: App) -> AsyncGenerator[Running]:
    served = Running(app)
    server = await asyncio.get_running_loop().create_server(lambda: HttpProtocol(served.context), "127.0.0.1", 0)
    served.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/a%20b?c=d"
    try:
        yield served
    finally:
        server.close()
        for connection in list(served.context.connections):
            connection.abort()
        await served.ended()


def client(served: Running, **options: Any) -> connect:
    return connect(served.url, compression=None, proxy=None, open_timeout=patience(), **options)


async def close_code(websocket: ClientConnection) -> int | None:
    async with asyncio.timeout(patience()):
        await websocket.wait_closed()
    return websocket.close_code


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Accept, send back what comes, and end with the client."""
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({**message, "type": "websocket.send"})


async def test_websocket_messages_go_both_ways_in_order() -> None:
    async with running(echo) as served, client(served) as websocket:
        for sent in ("text", b"bytes", "", "ä" * 300):
            await websocket.send(sent)
        assert [await websocket.recv() for _ in range(4)] == ["text", b"bytes", "", "ä" * 300]


async def test_websocket_message_in_fragments_is_one_message() -> None:
    async with running(echo) as served, client(served) as websocket:
        await websocket.send(["o", "n", "e"])
        assert await websocket.recv() == "one"


async def test_websocket_scope_has_path_query_headers_and_subprotocols() -> None:
    scopes: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "two", "headers": [(b"x-a", b"b")]})
        await receive()

    offered = [Subprotocol("one"), Subprotocol("two")]
    async with running(app) as served, client(served, subprotocols=offered) as websocket:
        assert websocket.subprotocol == "two"
        assert websocket.response is not None
        assert websocket.response.headers["x-a"] == "b"
    (scope,) = scopes
    assert (scope["type"], scope["path"], scope["raw_path"], scope["query_string"]) == (
        *("websocket", "/a b", b"/a%20b"),
        b"c=d",
    )
    assert scope["subprotocols"] == ["one", "two"]
    assert scope["client"][0] == "127.0.0.1"
    assert (b"upgrade", b"websocket") in scope["headers"]


@pytest.mark.parametrize(
    ("messages", "status", "body"),
    [
        (({"type": "websocket.close"},), 403, b""),
        (
            (
                {"type": "websocket.http.response.start", "status": 401, "headers": [(b"x-a", b"b")]},
                {"type": "websocket.http.response.body", "body": b"who ", "more_body": True},
                {"type": "websocket.http.response.body", "body": b"are you"},
            ),
            401,
            b"who are you",
        ),
    ],
    ids=["close", "response"],
)
async def test_websocket_refused_by_the_application_gets_an_http_response(
    messages: tuple[AsgiMessage, ...], status: int, body: bytes
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    async with running(app) as served:
        with pytest.raises(InvalidStatus) as refused:
            await client(served)
        assert refused.value.response.status_code == status
        assert (refused.value.response.body or b"") == body
        await served.ended()


async def test_websocket_application_that_fails_before_it_accepts_is_answered_for_with_500(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("as the test says")

    async with running(app) as served:
        with pytest.raises(InvalidStatus) as refused:
            await client(served)
        assert refused.value.response.status_code == 500
    assert "as the test says" in caplog.text


async def test_websocket_closed_by_the_application_ends_with_its_code() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4321, "reason": "enough"})

    async with running(app) as served:
        async with client(served) as websocket:
            assert await close_code(websocket) == 4321
            assert websocket.close_reason == "enough"
        await served.ended()


async def test_websocket_closed_by_the_client_tells_the_application_its_code() -> None:
    received: list[AsgiMessage] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        received.append(await receive())

    async with running(app) as served:
        async with client(served) as websocket:
            await websocket.close(4000, "bye")
        await served.ended()
    assert received == [{"type": "websocket.disconnect", "code": 4000, "reason": "bye"}]


async def test_websocket_send_after_the_client_has_gone_is_an_os_error() -> None:
    raised: list[BaseException] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
        try:
            await send({"type": "websocket.send", "text": "anybody?"})
        except OSError as error:
            raised.append(error)

    async with running(app) as served:
        async with client(served):
            pass
        await served.ended()
    assert len(raised) == 1


async def test_websocket_message_over_the_size_limit_is_closed_with_1009() -> None:
    async with running(echo) as served, client(served) as websocket:
        await websocket.send("x" * 1_001)
        assert await close_code(websocket) == 1009


async def test_websocket_at_shutdown_is_closed_with_1012() -> None:
    async with running(echo) as served, client(served) as websocket:
        await websocket.send("one")
        await websocket.recv()
        for connection in list(served.context.connections):
            connection.shutdown()
        assert await close_code(websocket) == 1012
        await served.ended()


async def test_websocket_client_that_answers_pings_stays_connected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "PING_SECONDS", 0.001)
    async with running(echo) as served, client(served, ping_interval=None) as websocket:
        pings = 0
        handle = websocket.protocol.recv_frame

        def counting(frame: Any) -> None:
            nonlocal pings
            pings += frame.opcode == 9
            handle(frame)

        monkeypatch.setattr(websocket.protocol, "recv_frame", counting)
        async with asyncio.timeout(patience()):
            while pings < 3:  # noqa: ASYNC110 - the client tells nobody of a ping
                await asyncio.sleep(0)
        await websocket.send("still here")
        assert await websocket.recv() == "still here"


async def test_websocket_client_that_answers_no_ping_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(websocket_protocol, "PING_SECONDS", 0.001)
    monkeypatch.setattr(websocket_protocol, "PONG_SECONDS", 0.001)
    async with running(echo) as served, client(served, ping_interval=None) as websocket:
        monkeypatch.setattr(websocket.protocol, "send_pong", print)  # not to the server
        with pytest.raises(ConnectionClosed):
            async with asyncio.timeout(patience()):
                await websocket.recv()
        await served.ended()


async def exchange(served: Running, data: bytes, end: bytes) -> bytes:
    """Send this in one write, and return what comes back up to this end."""
    port = int(served.url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(patience()):
            writer.write(data)
            return await reader.readuntil(end)
    finally:
        writer.close()


HANDSHAKE = (
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
)


async def test_websocket_frame_in_the_same_read_as_the_handshake_is_taken() -> None:
    async with running(echo) as served:
        frame = Frame(Opcode.TEXT, b"early").serialize(mask=True)
        received = await exchange(served, HANDSHAKE + b"\r\n" + frame, b"\x81\x05early")
    assert received.startswith(b"HTTP/1.1 101 ")


async def test_websocket_handshake_that_websockets_refuses_is_answered_with_400(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running(echo) as served:
        received = await exchange(served, HANDSHAKE + b"X-Long: " + b"x" * 9_000 + b"\r\n\r\n", b"\r\n")
    assert received.startswith(b"HTTP/1.1 400 ")
    assert "Traceback" not in caplog.text


class Taking:
    """An application that takes messages that begin with `report` as they arrive, and echoes the others."""

    def __init__(self) -> None:
        self.taken: list[bytes] = []
        self.extension: WebSocketExtension

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.extension = scope[SERVER_EXTENSION]
        self.extension.take_text(self.take)
        await echo(scope, receive, send)

    def take(self, message: bytes) -> bool:
        if not message.startswith(b"report"):
            return False
        self.taken.append(message)
        return self.extension.send_text(b"took " + message)


async def test_websocket_text_that_the_application_takes_is_not_received() -> None:
    app, received = Taking(), []
    async with running(app) as served, client(served) as websocket:
        for sent in ("one", "report ä", "two", b"report", "report " + "x" * 300):
            await websocket.send(sent)
            received.append(await websocket.recv())
    assert received == ["one", "took report ä", "two", b"report", "took report " + "x" * 300]
    assert len(app.taken) == 2


async def test_websocket_text_behind_one_that_waits_is_not_taken() -> None:
    """So that the application gets them in order."""
    app = Taking()
    async with running(app) as served, client(served) as websocket:
        await websocket.send("one")
        await websocket.recv()
        websocket.transport.write(text_frame(b"two") + text_frame(b"report"))
        assert [await websocket.recv() for _ in range(2)] == ["two", "report"]
    assert app.taken == []


def text_frame(payload: bytes) -> bytes:
    """A short frame of a client; its mask of zeros changes nothing."""
    return bytes((0x81, 0x80 + len(payload))) + bytes(4) + payload


async def test_websocket_text_that_is_not_utf8_is_never_taken() -> None:
    app = Taking()
    async with running(app) as served, client(served) as websocket:
        await websocket.send(b"report \xff", text=True)
        assert await close_code(websocket) == 1007
    assert app.taken == []


async def test_websocket_text_cannot_be_sent_without_waiting_once_it_is_closed() -> None:
    app = Taking()
    async with running(app) as served, client(served) as websocket:
        await websocket.send("here")
        assert await websocket.recv() == "here"
        await websocket.close()
        await served.ended()
    assert not app.extension.send_text(b"more")
