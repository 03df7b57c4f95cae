"""HttpProtocol, uvicorn's HTTP/1.1 protocol with timeouts and limits, and RequestCycle, its request/response cycle.

Theory of operation. Both classes subclass uvicorn's and rely on its attributes by name; tests over real sockets fail when
these change. No timer is armed per request: the server calls `check_timeouts` of every connection about once a second, and
TimeoutTracker remembers since when the connection has waited for the same thing. A response that is complete when the
application sends it is written in one piece (`send_complete`); responses that are ready in the same turn of the event loop
are written one right after the other by WriteBatcher. When every request slot is taken, the connection itself writes the
503 without starting a task and without reading the body.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from toolhall.http.request import SERVER_EXTENSION
from toolhall.server.context import (
    HEADERS_TOO_LARGE_RESPONSE,
    REQUEST_TIMEOUT_RESPONSE,
    TOO_MANY_CONNECTIONS_RESPONSE,
    ServerConfig,
    TimeoutTracker,
)

_log = logging.getLogger("toolhall.http")


class PendingWrite(Protocol):
    """A reply that is ready."""

    def flush(self) -> None:
        """Go out now."""
        ...


class WriteBatcher:
    """Shared by all connections of a loop."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending: list[PendingWrite] = []

    def schedule(self, write: PendingWrite, loop: asyncio.AbstractEventLoop) -> None:
        """Send it once everything has run that is to run in this turn."""
        if not self._pending:
            loop.call_soon(self._flush)
        self._pending.append(write)

    def _flush(self) -> None:
        ready, self._pending = self._pending, []
        for reply in ready:
            try:
                reply.flush()
            except Exception:  # noqa: BLE001 - the other replies are not to wait for ever
                _log.exception("a reply could not be sent")


_batchers: WeakKeyDictionary[asyncio.AbstractEventLoop, WriteBatcher] = WeakKeyDictionary()


def write_batcher_for(loop: asyncio.AbstractEventLoop) -> WriteBatcher:
    """The one of this loop."""
    found = _batchers.get(loop)
    if found is None:
        found = _batchers[loop] = WriteBatcher()
    return found


Message: TypeAlias = Any  # uvicorn's ASGI types are not ours
App: TypeAlias = Any
_CONTENT_LENGTH = b"content-length"
BUSY_PAUSE_SECONDS = (
    0.25  # for a connection that was turned away: it was told to come back later, and some do not listen
)


class LazyEvent:
    """An event that costs next to nothing until somebody waits for it."""

    __slots__ = ("_is_set", "_waiter")

    def __init__(self) -> None:
        self._is_set = False
        self._waiter: asyncio.Event | None = None

    def set(self) -> None:
        """Whoever waits goes on."""
        self._is_set = True
        if self._waiter is not None:
            self._waiter.set()

    def clear(self) -> None:
        """From now on there is something to wait for."""
        self._is_set = False
        if self._waiter is not None:
            self._waiter.clear()

    async def wait(self) -> None:
        """Go on once it is set."""
        if not self._is_set:
            if self._waiter is None:
                self._waiter = asyncio.Event()
            await self._waiter.wait()


class HeaderCache:
    """The lines that every reply of this server begins with, put together once for as long as they are the same."""

    __slots__ = ("_encoded", "_headers")

    def __init__(self) -> None:
        self._headers: object = None
        self._encoded = b""

    def encode(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """These headers as lines."""
        if headers is not self._headers:
            self._headers, self._encoded = headers, _encode_headers(headers)
        return self._encoded


class RequestCycle(RequestResponseCycle):
    """Relies on uvicorn's own parts by name; what is not the usual case is left to it."""

    header_cache = HeaderCache()
    _pending_head: bytes | None = None  # of a reply whose body is about to follow
    _pending_response: bytes | None = None  # a whole reply that has not gone out yet
    _body_delivered = False  # whether the body was handed over: whoever asks again waits for the client to go
    _disconnect_callback: Callable[[], None] | None = None  # whom to tell that the client is gone
    tasks: set[asyncio.Task[None]]  # those of the server, which waits for them when it stops
    task: asyncio.Task[None]

    # How every request begins; said once for all of them.
    access_log = False
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding: bool | None = None
    expected_content_length = 0

    def __init__(self, connection: HttpToolsProtocol, write_batcher: WriteBatcher, *, keep_alive: bool) -> None:
        """In place of uvicorn's, which is told each thing by its name."""
        self.scope = connection.scope
        self.loop = connection.loop
        self.write_batcher = write_batcher
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.access_logger = connection.access_logger
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.waiting_for_100_continue = connection.expect_100_continue
        self.keep_alive = keep_alive
        self.message_event = LazyEvent()  # type: ignore[assignment] # all that is asked of an event
        self.body = bytearray()

    async def run_asgi(self, app: App) -> None:
        """Let the application answer; what does not end as usual is left to uvicorn."""
        failed: BaseException | None = None
        scope: dict[str, Any] = self.scope  # type: ignore[assignment] # with a word more than ASGI has
        scope[SERVER_EXTENSION] = self  # for who knows us
        try:
            await app(self.scope, self.receive, self.send)
        except BaseException as error:  # noqa: BLE001 - uvicorn's to judge
            failed = error
        if failed is not None and self._pending_response is not None:
            self.flush()  # what was said before it failed was said
        if failed is not None or not (self.response_complete or self._pending_response):
            await super().run_asgi(_FinishedApp(failed))
        if self.response_complete:
            self.on_response = _ignore
        scope.pop(
            SERVER_EXTENSION, None
        )  # which leads back here: nothing of a request is left to the garbage collector
        self.tasks.discard(self.task)  # a callback would cost a turn of the loop for each request

    def send_complete(self, status: int, header_lines: bytes, body: bytes) -> bool:
        """Send a whole reply, if nothing about it is unusual; `lines` are its headers, in our own words."""
        unusual = self.response_started or self.flow.write_paused or self.disconnected or not self.keep_alive
        if unusual or self.scope["method"] == "HEAD":
            return False
        self.response_started = True
        self.waiting_for_100_continue = False
        opening = self.header_cache.encode(self.default_headers)
        self._pending_response = b"%s%s%s\r\n%s" % (STATUS_LINE[status], opening, header_lines, body)
        if self.more_body or len(self.tasks) == 1:  # nobody else has anything to send
            self.flush()
        else:
            self.write_batcher.schedule(self, self.loop)
        return True

    def on_disconnect(self, callback: Callable[[], None] | None) -> None:
        """Call this once the client is gone; None: no longer."""
        self._disconnect_callback = callback
        if callback is None:
            return
        if self.disconnected:
            self.loop.call_soon(self.disconnect)
        else:
            self.flow.resume_reading()  # else nobody would see it go

    def pause_reading(self) -> None:
        """Read nothing more for a moment, once the reply that is ready has gone out."""
        self.loop.call_soon(self._pause_reading_now)

    def _pause_reading_now(self) -> None:
        if not self.transport.is_closing():
            self.flow.pause_reading()
            self.loop.call_later(BUSY_PAUSE_SECONDS, self._resume_reading)

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()

    def disconnect(self) -> None:
        """The client is gone."""
        self.disconnected = True
        self.message_event.set()
        gone, self._disconnect_callback = self._disconnect_callback, None
        if gone is not None:
            gone()

    def flush(self) -> None:
        """Send the whole reply that is ready."""
        reply, self._pending_response = self._pending_response, None
        on_response, self.on_response = self.on_response, _ignore
        self.response_complete = True
        self.message_event.set()
        if self.disconnected or self.transport.is_closing() or reply is None:
            return
        self.transport.write(reply)
        on_response()
        if not self.keep_alive:  # the server has begun to stop
            self.transport.close()

    async def receive(self) -> Message:
        """The body; at once, where it has come whole."""
        if (
            self.more_body
            or self.waiting_for_100_continue
            or self.disconnected
            or self.response_complete
            or self._body_delivered
        ):
            return await super().receive()
        self._body_delivered = True
        self.message_event.clear()
        body, self.body = self.body, bytearray()
        return {"type": "http.request", "body": bytes(body), "more_body": False}

    async def send(self, message: Message) -> None:
        """A part of the reply; the head of one that is there whole waits for its body, and both go out together."""
        if self._pending_head is not None:
            self._send_complete_body(message)
        elif self.response_started or self.flow.write_paused or self.disconnected or not self._begin_complete(message):
            await super().send(message)

    def _begin_complete(self, message: Message) -> bool:
        """Whether a reply states its length and nothing unusual, so that all of it can be written at once."""
        headers = message.get("headers", ())
        if message["type"] != "http.response.start" or self.scope["method"] == "HEAD" or not self.keep_alive:
            return False
        length = next((value for name, value in headers if name == _CONTENT_LENGTH), None)
        lines = _encode_headers(headers)
        # One line for each header, and none of them about the connection: anything else is uvicorn's to judge.
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
            raise RuntimeError("a reply is other than its head says")
        self.response_complete = True
        if self.disconnected:
            return
        self.transport.write(head + body)
        self.message_event.set()
        self.on_response()


class _FinishedApp:
    """What became of an application, for uvicorn to say something about."""

    def __init__(self, failed: BaseException | None) -> None:
        self._failed = failed

    async def __call__(self, *_: object) -> None:
        if self._failed is not None:
            raise self._failed


def _ignore() -> None:
    """The reply is out, and nobody needs to hear of it again."""


def _encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    return b"".join([b"%s: %s\r\n" % pair for pair in headers])


MAX_HEADER_BYTES = 64 * 1024
MAX_PIPELINED_REQUESTS = 512  # more than fit into what is read at once, unless they are tiny
_READ_CHUNK = 16 * 1024  # what is read at once is looked at in pieces, so that no bound is passed by much


def _set_path(scope: App, url: bytes) -> None:
    """The path as it is compared, the path as it came, and the query."""
    if b"%" in url or b"?" in url or b"#" in url or not url.startswith(b"/"):
        parts = httptools.parse_url(url)
        raw, scope["query_string"] = parts.path, parts.query or b""
    else:
        raw, scope["query_string"] = url, b""
    path = raw.decode("ascii")
    scope["path"] = unquote(path) if "%" in path else path
    scope["raw_path"] = raw


class HttpProtocol(HttpToolsProtocol):
    """Relies on uvicorn's own parts by name; tests over real sockets say when they change."""

    app: App
    cycle: Any  # uvicorn's types do not say that there is none at first

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._context = config.context
        self._limiter = config.context.limiter
        self._caller_slots = config.context.limiter.callers
        self._write_batcher = write_batcher_for(self.loop)
        self._acquired = False
        self._timeout = TimeoutTracker()
        self._active_cycle: RequestResponseCycle | None = None
        self._header_scope: object = None
        self._header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Take part, if there is room for one more."""
        super().connection_made(transport)
        self._acquired = self._context.connections.acquire(self.client[0] if self.client else None)
        if not self._acquired:
            transport.write(TOO_MANY_CONNECTIONS_RESPONSE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Every request of this connection hears that its client is gone; uvicorn tells only the last."""
        if self._acquired:
            self._context.connections.release(self.client[0] if self.client else None)
        waiting = [cycle for cycle, _ in self.pipeline]
        for cycle in (self._active_cycle, *waiting):
            if cycle is not None and not cycle.response_complete:
                cast("RequestCycle", cycle).disconnect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, within bounds."""
        if len(data) > _READ_CHUNK:
            self.data_received(data[:_READ_CHUNK])
            if not self.transport.is_closing() and self in self.connections:
                self.data_received(data[_READ_CHUNK:])
            return
        super().data_received(data)
        answering = self._active_cycle
        if answering is None or answering.scope is not self.scope:  # most requests come whole, and one by one
            self._enforce_limits(len(data))

    def on_headers_complete(self) -> None:
        """A request has begun: answer it, or let it wait for its turn."""
        parser: Any = self.parser
        scope, app = self.scope, self.app
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade() and self._should_upgrade():
            return
        _set_path(scope, self.url)
        before = self.cycle
        self.cycle = cycle = RequestCycle(
            self, self._write_batcher, keep_alive=version != "1.0" and parser.should_keep_alive()
        )
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def handle_websocket_upgrade(self) -> None:
        """A connection whose earlier request is still being answered cannot become something else."""
        if self._active_cycle is not None and not self._active_cycle.response_complete:
            self.transport.abort()
        else:
            super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """Go on with the next request; that none comes is noticed by `look`, which needs no timer."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cast("RequestCycle", cycle), app)

    def check_timeouts(self, now: float) -> None:
        """End the connection if it has kept us waiting for too long."""
        wait, unread = self._timeout_state(), self.transport.get_write_buffer_size()
        if self._timeout.start(wait, self.scope, now, unread) or not wait:
            return
        limits = self._context.timeouts
        if wait == "write_stall":
            if self._timeout.is_stalled(limits.write_stall, unread, now):
                self.transport.abort()  # to close would be to wait until it reads the rest
        elif self._timeout.has_exceeded(getattr(limits, wait), now):
            if self._can_respond():
                self.transport.write(REQUEST_TIMEOUT_RESPONSE)
            self.transport.close()

    def _timeout_state(self) -> str:
        """The name of a deadline; empty while the client waits for us."""
        if self.flow.write_paused or self.transport.is_closing():
            return "write_stall"
        if self.flow.read_paused:
            return ""
        if not self._has_request:
            return "first_byte"
        if self._latest_cycle is None or self._reading_headers:
            return "headers"
        if self._latest_cycle.response_complete:
            return "keep_alive"
        return "body" if self._latest_cycle.more_body else ""

    def _can_respond(self) -> bool:
        """Whether an answer can be written in between: a request has begun, and no other answer has."""
        latest = self._latest_cycle
        if latest is None or self._reading_headers:
            return self._has_request and (latest is None or latest.response_complete)
        return not latest.response_started

    @property
    def _has_request(self) -> bool:
        return cast("object", self.scope) is not None

    @property
    def _latest_cycle(self) -> RequestResponseCycle | None:
        """The last request whose head is complete."""
        return cast("RequestResponseCycle | None", self.cycle)

    @property
    def _reading_headers(self) -> bool:
        """Whether a request has begun whose head is not complete."""
        return self._has_request and (self._latest_cycle is None or self._latest_cycle.scope is not self.scope)

    def _enforce_limits(self, size: int) -> None:
        """Requests wait for their turn, or headers came in several pieces: neither may go on for ever."""
        if len(self.pipeline) > MAX_PIPELINED_REQUESTS:
            self.transport.abort()
        if not self._reading_headers:
            return
        if self._header_scope is not self.scope:
            self._header_scope, self._header_bytes = self.scope, 0
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
            if self._can_respond():
                self.transport.write(HEADERS_TOO_LARGE_RESPONSE)
            self.transport.close()

    def _start_asgi_task(self, cycle: RequestCycle, app: App) -> None:  # type: ignore[override] # all are ours
        if self._caller_slots.in_use >= self._caller_slots.limit and self._is_rejected(cycle.scope):
            self._reject(cycle)
            return
        self._active_cycle = cycle
        cycle.tasks = self.tasks
        cycle.task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(cycle.task)

    def _is_rejected(self, scope: App) -> bool:
        return bool(scope["method"] != "HEAD" and self._limiter.rejects(scope["path"]))

    def _reject(self, cycle: RequestResponseCycle) -> None:
        """Answer without a task, and without reading the body: when everything is taken, saying so must be cheap."""
        if self.flow.write_paused:  # it only sends, and does not read what it is told
            self.transport.abort()
            return
        self.transport.write(self._context.busy_responses.for_path(cycle.scope["path"], keep_alive=cycle.keep_alive))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self.flow.pause_reading()
            self.loop.call_later(BUSY_PAUSE_SECONDS, self._resume_reading)

    def _resume_reading(self) -> None:
        if not self.transport.is_closing():
            self.flow.resume_reading()
