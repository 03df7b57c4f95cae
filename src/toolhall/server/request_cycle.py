"""RequestCycle: one request and its response on a connection, and WriteBatcher, which writes responses together.

Theory of operation. A response that is complete when the application sends it is written in one piece: `send_json`
takes status and body (the application finds the cycle in the ASGI scope under SERVER_EXTENSION), and `send` holds the
head of a response back until its body follows. Responses that become ready in the same iteration of the
event loop are written by WriteBatcher right after one another, after the tasks of that iteration have run; a response
is written at once when no other request is in progress.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from toolhall.http.request import SERVER_EXTENSION, RequestHead

if TYPE_CHECKING:
    from toolhall.server.protocol import HttpProtocol

BUSY_PAUSE_SECONDS = 0.25  # without reading after a 503: the client was told to retry later, and some retry at once
_CONTENT_LENGTH = b"content-length"
_JSON_HEADERS = b"content-type: application/json\r\ncontent-length: "

Message: TypeAlias = Any  # an ASGI message; uvicorn's types differ from ours
App: TypeAlias = Any

_log = logging.getLogger("toolhall.http")


class PendingWrite(Protocol):
    """A response that is ready to be written."""

    def flush(self) -> None:
        """Write it now."""
        ...


class WriteBatcher:
    """Writes responses that become ready in the same iteration of the event loop right after one another.

    All connections of an event loop share one. A response that cannot be written is logged and delays no other.
    """

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[PendingWrite] = []

    def schedule(self, write: PendingWrite, loop: asyncio.AbstractEventLoop) -> None:
        """Write it after everything else that is scheduled for this iteration has run."""
        if not self._pending:
            loop.call_soon(self._flush)
        self._pending.append(write)

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for write in pending:
            try:
                write.flush()
            except Exception:  # noqa: BLE001 - the other responses are written all the same
                _log.exception("a reply could not be sent")


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def write_batcher_for(loop: asyncio.AbstractEventLoop) -> WriteBatcher:
    """The WriteBatcher that all connections of this event loop share."""
    batcher = _batchers.get(loop)
    if batcher is None:
        batcher = _batchers[loop] = WriteBatcher()
    return batcher


class LazyEvent:
    """An asyncio.Event that is created only when a task waits for it: most requests never do."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Event | None = None

    def set(self) -> None:
        """Wake the waiting task."""
        self._is_set = True
        if self._waiter is not None:
            self._waiter.set()

    def clear(self) -> None:
        """Make `wait` block again."""
        self._is_set = False
        if self._waiter is not None:
            self._waiter.clear()

    async def wait(self) -> None:
        """Return once it is set."""
        if not self._is_set:
            if self._waiter is None:
                self._waiter = asyncio.Event()
            await self._waiter.wait()


class HeaderCache:
    """The server's default headers as encoded lines, encoded again only when uvicorn replaces the list (date)."""

    __slots__ = ("_encoded", "_headers", "_json_prefixes")

    def __init__(self) -> None:
        self._headers: object = None
        self._encoded = b""
        self._json_prefixes: dict[int, bytes] = {}

    def encode(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Encode these headers, or return the cached lines of the same list."""
        if headers is not self._headers:
            self._headers, self._encoded = headers, _encode_headers(headers)
            self._json_prefixes.clear()
        return self._encoded

    def json_prefix(self, status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The head of a JSON response up to the value of its content length."""
        prefix = self._json_prefixes.get(status) if headers is self._headers else None
        if prefix is None:
            prefix = STATUS_LINE[status] + self.encode(headers) + _JSON_HEADERS
            self._json_prefixes[status] = prefix
        return prefix


class RequestCycle(RequestResponseCycle):
    """Answers one request: runs the application, hands it the body, writes its response."""

    header_cache = HeaderCache()
    task: asyncio.Task[None]

    # Initial state of every request; as class attributes they cost nothing per request.
    _event: LazyEvent | None = None
    _pending_head: bytes | None = None  # of a response whose body has not been sent yet
    _pending_response: bytes | None = None  # complete, and not written yet
    _body_delivered = False  # a further `receive` waits for the disconnect
    _disconnect_callback: Callable[[], None] | None = None
    access_log = False
    waiting_for_100_continue = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0
    body: bytes | bytearray  # type: ignore[assignment] # of a known head it is complete

    def __init__(self, connection: "HttpProtocol", scope: Any, *, keep_alive: bool) -> None:
        """Replaces uvicorn's constructor, which takes and stores many more arguments."""
        self.connection = connection
        self.scope = scope
        self.keep_alive = keep_alive

    # What uvicorn's code expects of a cycle, and all requests of a connection share.

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop."""
        return self.connection.loop

    @property
    def transport(self) -> asyncio.Transport:  # type: ignore[override]
        """The connection's transport."""
        return self.connection.transport

    @property
    def flow(self) -> FlowControl:  # type: ignore[override]
        """The connection's flow control."""
        return self.connection.flow

    @property
    def logger(self) -> logging.Logger:  # type: ignore[override]
        """Where uvicorn logs the failure of an application."""
        return self.connection.logger

    @property
    def access_logger(self) -> logging.Logger:  # type: ignore[override]
        """Not used: see AccessLog."""
        return self.connection.access_logger

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        """The headers of every response."""
        return self.connection.server_state.default_headers

    @property
    def message_event(self) -> LazyEvent:  # type: ignore[override] # has every method that uvicorn calls
        """Set when a part of the body has arrived, the response is complete, or the client has gone."""
        if self._event is None:
            self._event = LazyEvent()
        return self._event

    def on_response(self) -> None:
        """Tell the connection that the response is complete."""
        self.connection.on_response_complete()

    async def run_asgi(self, app: App) -> None:
        """Run the application; if it fails or sends no complete response, uvicorn's code logs that and answers."""
        scope: Any = self.scope
        scope[SERVER_EXTENSION] = self
        failed: BaseException | None = None
        try:
            await app(scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - raised again inside uvicorn's code
            failed = error
        await self._fail(failed)
        scope.pop(SERVER_EXTENSION, None)  # breaks the cycle scope -> self -> scope, so that no garbage is left
        self.connection.tasks.discard(self.task)

    async def run_known(self, app: App, head: RequestHead, body: bytes) -> None:
        """Serve a request whose head is known, without an ASGI scope of its own."""
        failed: BaseException | None = None
        try:
            await app.serve(head, body, self)
        except BaseException as error:  # noqa: BLE001 - raised again inside uvicorn's code
            failed = error
        if failed is not None or not (self.response_complete or self._pending_response):
            await self._fail(failed)
        self.connection.tasks.discard(self.task)  # a done callback would cost an iteration of the loop for each request

    async def _fail(self, failed: BaseException | None) -> None:
        """End a request whose application failed or did not respond: uvicorn's code logs that, and answers 500."""
        if failed is not None and self._pending_response is not None:
            self.flush()  # it was sent before the application failed
        if failed is not None or not (self.response_complete or self._pending_response):
            await super().run_asgi(_FinishedApp(failed))

    def send_json(self, status: int, body: bytes) -> bool:
        """Send a complete JSON response and return True; False if it must take the way through `send`."""
        connection = self.connection
        if (
            self.response_started
            or connection.flow.write_paused
            or self.disconnected
            or not self.keep_alive
            or self.scope["method"] == "HEAD"
        ):
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        prefix = self.header_cache.json_prefix(status, connection.server_state.default_headers)
        self._pending_response = b"%b%d\r\n\r\n%b" % (prefix, len(body), body)
        if self.more_body or len(connection.tasks) == 1:  # no other request is in progress
            self.flush()
        else:
            connection.write_batcher.schedule(self, connection.loop)
        return True

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call this once, when the client has disconnected; None removes the callback."""
        self._disconnect_callback = callback
        if callback is None:
            return
        if self.disconnected:
            self.loop.call_soon(self.disconnect)
        else:
            self.flow.resume_reading()  # a paused transport does not notice a disconnect

    def pause_reading(self) -> None:
        """Read nothing more for a quarter of a second, once the response that is ready has been written."""
        self.loop.call_soon(pause_reading, self.transport, self.flow, self.loop)

    def disconnect(self) -> None:
        """Mark the client as gone: end a pending `receive` and call the disconnect callback."""
        self.disconnected = True
        self.message_event.set()
        callback, self._disconnect_callback = self._disconnect_callback, None
        if callback is not None:
            callback()

    def flush(self) -> None:
        """Write the complete response that is ready."""
        response, self._pending_response = self._pending_response, None
        self.response_complete = True
        if self._event is not None:
            self._event.set()
        transport = self.connection.transport
        if self.disconnected or response is None or transport.is_closing():
            return
        transport.write(response)
        self.connection.on_response_complete()
        if not self.keep_alive:  # the server is shutting down
            transport.close()

    async def receive(self) -> Message:
        """The next ASGI message of the request; a body that has arrived completely is returned without waiting."""
        if (
            self.more_body
            or self.waiting_for_100_continue
            or self.disconnected
            or self.response_complete
            or self._body_delivered
        ):
            return await super().receive()
        self._body_delivered = True
        if self._event is not None:
            self._event.clear()
        body, self.body = self.body, b""
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def send(self, message: Message) -> None:
        """Send a part of the response; the head of one with a content length is written together with its body."""
        if self._pending_head is not None:
            self._send_complete_body(message)
        elif self.response_started or self.flow.write_paused or self.disconnected or not self._begin_complete(message):
            await super().send(message)

    def _begin_complete(self, message: Message) -> bool:
        """Hold back the head of a response that states its length and no connection header; False for all others."""
        headers = message.get("headers", ())
        if message["type"] != "http.response.start" or self.scope["method"] == "HEAD" or not self.keep_alive:
            return False
        length = next((value for name, value in headers if name == _CONTENT_LENGTH), None)
        lines = _encode_headers(headers)
        # A line break inside a header, or a header about the connection: uvicorn's code handles those.
        if length is None or lines.count(b"\n") != len(headers) or lines.count(b"\r") != len(headers):
            return False
        if b"\nconnection:" in lines or lines.startswith(b"connection:"):
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = int(length)
        self._pending_head = b"%s%s%s\r\n" % (
            STATUS_LINE[message["status"]],
            self.header_cache.encode(self.default_headers),
            lines,
        )
        return True

    def _send_complete_body(self, message: Message) -> None:
        head, body = self._pending_head or b"", message.get("body", b"")
        self._pending_head = None
        if (
            message["type"] != "http.response.body"
            or message.get("more_body")
            or len(body) != self.expected_content_length
        ):
            self.transport.close()
            raise RuntimeError("the response body does not have the length that its content-length header states")
        self.response_complete = True
        if self.disconnected:
            return
        self.transport.write(head + body)
        self.message_event.set()
        self.on_response()


class _FinishedApp:
    """An application that only raises what the real one raised, so that uvicorn's code logs and answers it."""

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    async def __call__(self, *_: object) -> None:
        if self._error is not None:
            raise self._error


def _encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % pair for pair in headers])


def pause_reading(transport: asyncio.Transport, flow: FlowControl, loop: asyncio.AbstractEventLoop) -> None:
    """Read nothing from a client for BUSY_PAUSE_SECONDS."""
    if not transport.is_closing():
        flow.pause_reading()
        loop.call_later(BUSY_PAUSE_SECONDS, _resume_reading, transport, flow)


def _resume_reading(transport: asyncio.Transport, flow: FlowControl) -> None:
    if not transport.is_closing():
        flow.resume_reading()
