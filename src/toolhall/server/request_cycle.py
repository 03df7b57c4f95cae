"""RequestCycle: one request on a connection and its response, as ASGI's two callables and as a ServerExchange.

Theory of operation. A response that is complete when the application sends it is written in one piece: `send_json`
takes status and body (the application finds the cycle in the ASGI scope under SERVER_EXTENSION), and `send` holds the
head of a response with a content length back until its body follows. Responses by `send_json` are written by the
connection's WriteBatcher, unless the connection is the only one.

A response is *started* when its head was sent by the application, and *complete* when its last byte was written. An
application that fails before it has started is answered for with 500; later, the connection is closed, so that the
client notices. Both are logged.
"""

import asyncio
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from toolhall.auth.authenticator import AsgiApp, AsgiMessage, Scope
from toolhall.http.request import SERVER_EXTENSION, RequestHead
from toolhall.server.context import HeadApp
from toolhall.server.responses import CONTINUE_RESPONSE, encode_headers

if TYPE_CHECKING:
    from toolhall.server.protocol import HttpProtocol

MAX_UNREAD_BODY = 64 * 1024  # reading pauses while the application has not received this much
_NO_BODY_STATUS = (204, 304)
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BAD_HEADER_VALUE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_INTERNAL_ERROR = b'{"error":{"code":"internal","message":"the server failed to answer; its log says why"}}'

_log = logging.getLogger("toolhall.http")


class RequestCycle(msgspec.Struct, eq=False):
    """Answers one request: runs the application, hands it the body, writes its response."""

    connection: "HttpProtocol"
    scope: Scope
    body: bytes | bytearray
    head: RequestHead | None = None  # of a plain request
    task: asyncio.Task[None] | None = None  # None while its first step runs, and for ever if that was the last
    keep_alive: bool = True
    is_head: bool = False  # the method HEAD
    waiting_for_100_continue: bool = False
    more_body: bool = False  # whether the body is incomplete
    disconnected: bool = False
    watches_disconnect: bool = False  # then reading must not pause: a paused transport does not notice a disconnect
    response_started: bool = False
    response_complete: bool = False
    _body_delivered: bool = False  # a further `receive` waits for the disconnect
    _news: asyncio.Event | None = None  # made when a task waits: most requests never do
    _disconnect_callback: Callable[[], None] | None = None
    _pending_response: bytes | None = None  # complete, and not written yet
    _pending_head: bytes = b""  # of a response whose body has not been sent yet
    _has_no_body: bool = False  # of the response, whatever the application sends
    _chunked: bool = False
    _remaining: int | None = None  # bytes of the response body that its content length still promises

    def start(self) -> None:
        """Start the task of this request."""
        connection, head = self.connection, self.head
        context = connection.context
        if self.disconnected:  # before it was its turn
            self.response_complete = True
            return
        if head is not None and context.head_app is not None:
            task = connection.starter.start(self.run_plain(context.head_app, head))
        else:
            task = connection.starter.start(self.run_asgi(context.app))
        if not task.done():
            self.task = task
            context.tasks.add(task)

    async def run_asgi(self, app: AsgiApp) -> None:
        """Run the application with the scope of this request."""
        scope = self.scope
        scope[SERVER_EXTENSION] = self
        try:
            await app(scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - the server goes on
            await self._fail(error)
        else:
            if not self.response_complete and self._pending_response is None:
                await self._fail(None)
        scope.pop(SERVER_EXTENSION, None)  # breaks the cycle scope -> self -> scope, so that no garbage is left
        if self.task is not None:
            self.connection.context.tasks.discard(self.task)

    async def run_plain(self, app: HeadApp, head: RequestHead) -> None:
        """Serve a request whose head was prepared and whose body is complete, without an ASGI scope of its own."""
        try:
            await app.serve(head, bytes(self.body), self)
        except BaseException as error:  # noqa: BLE001 - the server goes on
            await self._fail(error)
        else:
            if not self.response_complete and self._pending_response is None:
                await self._fail(None)
        if self.task is not None:  # a done callback would cost an iteration of the loop
            self.connection.context.tasks.discard(self.task)

    async def _fail(self, error: BaseException | None) -> None:
        """End a request whose application raised this error, or did not respond."""
        if self._pending_response is not None:
            self.flush()  # it was sent before the application failed
        if error is None:
            if self.disconnected:
                return
            _log.error("the application ended without a complete response to %s", self.scope["path"])
        else:
            _log.error("the application failed at %s", self.scope["path"], exc_info=error)
        if self.response_started or self.disconnected:
            self.connection.transport.close()
            return
        length = b"%d" % len(_INTERNAL_ERROR)
        headers = [(b"content-type", b"application/json"), (b"content-length", length), (b"connection", b"close")]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _INTERNAL_ERROR})

    # The request.

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the server."""
        return self.connection.loop

    def feed_body(self, data: bytes) -> None:
        """Take a part of the body; the rest of one that is answered already is dropped."""
        if self.response_complete:
            return
        self.body += data
        if self._news is not None:
            self._news.set()
        if len(self.body) > MAX_UNREAD_BODY:
            self.connection.pause_reading()

    def end_body(self) -> None:
        """Note that the body is complete."""
        self.more_body = False
        if self._news is not None:
            self._news.set()

    def disconnect(self) -> None:
        """Mark the client as gone: end a pending `receive` and call the disconnect callback."""
        self.disconnected = True
        if self._news is not None:
            self._news.set()
        callback, self._disconnect_callback = self._disconnect_callback, None
        if callback is not None:
            callback()

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call this once, when the client has disconnected; None removes the callback."""
        self._disconnect_callback = callback
        self.watches_disconnect = callback is not None
        if callback is None:
            return
        if self.disconnected:
            self.connection.loop.call_soon(self.disconnect)
        else:
            self.connection.resume_reading()

    def pause_reading(self) -> None:
        """Read nothing more for a quarter of a second, once the response that is ready has been written."""
        self.connection.loop.call_soon(self.connection.pause_while_busy)

    async def receive(self) -> AsgiMessage:
        """The next ASGI message of the request: a part of the body, or in the end the disconnect."""
        connection = self.connection
        if self.waiting_for_100_continue:
            self.waiting_for_100_continue = False
            connection.transport.write(CONTINUE_RESPONSE)
        while not (self.disconnected or self.response_complete or self._has_part):
            if self._news is None:
                self._news = asyncio.Event()
            self._news.clear()
            self.watches_disconnect = True
            connection.resume_reading()
            await self._news.wait()
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        self._body_delivered = not self.more_body
        body, self.body = bytes(self.body), bytearray() if self.more_body else b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    @property
    def _has_part(self) -> bool:
        return bool(self.body) or not (self.more_body or self._body_delivered)

    # The response.

    def send_json(self, status: int, body: bytes) -> bool:
        """Send a complete JSON response and return True; False if it must take the way through `send`."""
        connection = self.connection
        context = connection.context
        if (
            self.response_started
            or connection.write_paused
            or self.disconnected
            or not self.keep_alive
            or self.is_head
            or self.more_body  # the client may wait for the answer before it sends the rest
        ):
            return False
        self.response_started = True
        self._pending_response = b"%b%d\r\n\r\n%b" % (context.heads.json[status], len(body), body)
        if len(context.connections) > 1:
            connection.write_batcher.schedule(self, connection.loop)
        else:  # there is nobody to write to together
            self.flush()
        return True

    @property
    def has_pending_response(self) -> bool:
        """Whether a complete response waits to be written."""
        return self._pending_response is not None

    def flush(self) -> None:
        """Write the complete response that is ready."""
        response, self._pending_response = self._pending_response, None
        self.response_complete = True
        if self._news is not None:
            self._news.set()
        connection = self.connection
        transport = connection.transport
        if response is None or self.disconnected or transport.is_closing():
            return
        transport.write(response)
        if connection.pipeline or connection.read_paused or connection.is_malformed:
            connection.on_response_complete()
        if not self.keep_alive:  # the server is shutting down
            transport.close()

    async def send(self, message: AsgiMessage) -> None:
        """Send a part of the response; waits while the client does not read."""
        connection = self.connection
        if connection.write_paused and not self.disconnected:
            await connection.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if self.response_complete or self._pending_response is not None:
            raise RuntimeError(f"{kind} was sent after the response was complete")
        expected = "http.response.body" if self.response_started else "http.response.start"
        if kind != expected:
            raise RuntimeError(f"{kind} was sent in place of {expected}")
        if self.response_started:
            self._send_body(message)
        else:
            self._send_start(message)

    def _send_start(self, message: AsgiMessage) -> None:
        """Write the head, or hold it back if a body of known length follows."""
        status: int = message["status"]
        headers = [(name.lower(), value) for name, value in message.get("headers", ())]
        headers = [each for each in headers if each[0] != b"transfer-encoding"]  # ASGI leaves that to the server
        length: int | None = None
        for name, value in headers:
            if not _HEADER_NAME.fullmatch(name) or _BAD_HEADER_VALUE.search(value):
                raise RuntimeError(f"the response has an invalid header: {name[:64]!r}")
            if name == b"content-length":
                length = int(value)
            elif name == b"connection" and b"close" in value.lower():
                self.keep_alive = False
        self.response_started = True
        self.waiting_for_100_continue = False
        extra = b""
        self._has_no_body = self.is_head or status in _NO_BODY_STATUS
        if length is None and not self._has_no_body:
            if self.scope["http_version"] == "1.1":
                self._chunked = True
                extra += b"transfer-encoding: chunked\r\n"
            else:
                self.keep_alive = False  # the end of the connection ends the body
        if not self.keep_alive and not any(name == b"connection" for name, _ in headers):
            extra += b"connection: close\r\n"
        head = b"%s%s%s\r\n" % (self.connection.context.heads.start(status), encode_headers(headers), extra)
        if length is None or self._has_no_body:
            self.connection.transport.write(head)
        else:
            self._remaining, self._pending_head = length, head

    def _send_body(self, message: AsgiMessage) -> None:
        body, more = message.get("body", b""), message.get("more_body", False)
        if self._has_no_body:
            body = b""
        elif self._chunked:
            body = (b"%x\r\n%s\r\n" % (len(body), body) if body else b"") + (b"" if more else b"0\r\n\r\n")
        elif self._remaining is not None:
            self._remaining -= len(body)
            if self._remaining < 0 or (self._remaining and not more):
                raise RuntimeError("the response body does not have the length that its content-length header states")
        connection = self.connection
        if self._pending_head or body:
            connection.transport.write(self._pending_head + body)
            self._pending_head = b""
        if more:
            return
        self.response_complete = True
        if self._news is not None:
            self._news.set()
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()
