"""HttpProtocol, uvicorn's HTTP/1.1 protocol with timeouts and limits, and RequestCycle, its request/response cycle.

Theory of operation. One HttpProtocol object serves one connection, one RequestCycle one request on it. Both subclass
uvicorn's classes and rely on their attributes by name; tests over real sockets fail when these change. What is not the
usual case (HEAD, HTTP/1.0, chunked responses, an application that fails) is left to uvicorn's own code.

*Timeouts.* No timer is armed per request. HttpServer calls `check_timeouts` of every connection about once a second.
`_timeout_state` names the field of ConnectionTimeouts that applies now: `first_byte` until the first request begins,
`headers` until its head is complete, `body` until its body is, `keep_alive` between requests, `write_stall` while the
client does not read; it is empty while the client waits for the application. TimeoutTracker remembers since when the
state and the request have been the same. A late request is answered 408 if no response has begun; then the
connection is closed. A stalled one is aborted, because closing would wait until the client reads.

*Limits.* A connection over the limit gets 503 and is closed. Received data is parsed in pieces of 16 KiB, so that the
limits on header bytes (431) and on pipelined requests (abort) are exceeded by one piece at most. When every request
slot is taken, the connection itself writes the 503, without starting a task and without reading the body, and reads
nothing more for a quarter of a second.

*Writing.* A response that is complete when the application sends it is written in one piece: `send_json` takes
status and body (the application finds the cycle in the ASGI scope under SERVER_EXTENSION), and `send`
holds the head of a response back until its body follows. Responses that become ready in the same iteration of the
event loop are written by WriteBatcher right after one another, after the tasks of that iteration have run; a response
is written at once when no other request is in progress.

*Back-pressure.* Reading pauses while a pipelined request waits, and resumes when its predecessor is answered. While
the transport's write buffer is full (`flow.write_paused`), `send` waits in uvicorn's code, and rejected requests abort
the connection instead of adding to the buffer.

*Disconnects.* `on_disconnect` registers one callback per request. It is called when the connection is lost; reading is
resumed meanwhile, because a paused transport does not notice that the client has gone.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeAlias, cast
from urllib.parse import unquote
from weakref import WeakKeyDictionary

import httptools
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from toolhall.http.request import SERVER_EXTENSION, RequestHead
from toolhall.server.context import (
    HEADERS_TOO_LARGE_RESPONSE,
    REQUEST_TIMEOUT_RESPONSE,
    TOO_MANY_CONNECTIONS_RESPONSE,
    ServerConfig,
    TimeoutTracker,
)
from toolhall.server.known_heads import HeadTemplate, KnownHead, with_head

MAX_HEADER_BYTES = 64 * 1024
MAX_PIPELINED_REQUESTS = 512  # more than fit into one read, unless they are tiny
BUSY_PAUSE_SECONDS = 0.25  # without reading after a 503: the client was told to retry later, and some retry at once
_READ_CHUNK = 16 * 1024
_CONTENT_LENGTH = b"content-length"
_JSON_HEADERS = b"content-type: application/json\r\ncontent-length: "

Message: TypeAlias = Any  # an ASGI message; uvicorn's types differ from ours
App: TypeAlias = Any

_log = logging.getLogger("toolhall.http")


class HttpProtocol(HttpToolsProtocol):
    """Serves one HTTP/1.1 connection: parses requests within limits, starts a RequestCycle for each, ends slow ones."""

    app: App
    cycle: Any  # the latest request; None before the first, which uvicorn's types do not say

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
        self.write_batcher = write_batcher_for(self.loop)
        self._acquired = False
        self._timeout = TimeoutTracker()
        self._active_cycle: RequestResponseCycle | None = None
        self._header_scope: object = None
        self._header_bytes = 0
        self._prepare_head: Callable[[Any], RequestHead | None] | None = getattr(self.app, "prepare", None)
        self._known_heads: list[KnownHead] = []

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Count the connection; one over the limit gets 503 and is closed."""
        super().connection_made(transport)
        self._acquired = self._context.connections.acquire(self.client[0] if self.client else None)
        if not self._acquired:
            transport.write(TOO_MANY_CONNECTIONS_RESPONSE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every unanswered request of this connection that its client has gone; uvicorn tells only the last."""
        if self._acquired:
            self._context.connections.release(self.client[0] if self.client else None)
        pipelined = [cycle for cycle, _ in self.pipeline]
        for cycle in (self._active_cycle, *pipelined):
            if cycle is not None and not cycle.response_complete:
                cast("RequestCycle", cycle).disconnect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Recognize a request by its head, or parse what was received; see `server.known_heads`."""
        for known in self._known_heads:
            body_start = known.template.body_start(data)
            if body_start:
                if len(data) - body_start <= known.head.max_body and self._is_ready_for_head():
                    self._start_known(known.head, data[body_start:])
                    return
                break
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Parse in pieces, and enforce the limits on headers and pipelined requests."""
        if len(data) > _READ_CHUNK:
            self._parse(data[:_READ_CHUNK])
            if not self.transport.is_closing() and self in self.connections:
                self._parse(data[_READ_CHUNK:])
            return
        previous, is_between_requests = self.cycle, self._is_between_requests()
        super().data_received(data)
        active = self._active_cycle
        if is_between_requests and active is not previous and active is self.cycle:
            self._remember_head(data)
        if (
            active is None or active.scope is not self.scope
        ):  # False for nearly every request: one at a time, in one read
            self._enforce_limits(len(data))

    def _is_between_requests(self) -> bool:
        """Whether the parser is at a message boundary: it has seen the whole of every request that has begun."""
        cycle = self._latest_cycle
        return not self._has_request if cycle is None else cycle.scope is self.scope and not cycle.more_body

    def _is_ready_for_head(self) -> bool:
        """Whether a recognized request can start now: every request before it is answered, and a slot is free."""
        cycle, slots = self.cycle, self._caller_slots  # there is a cycle: that of the request whose head was kept
        return (
            cycle.response_complete
            and cycle.scope is self.scope
            and not cycle.more_body
            and not self.pipeline
            and not self.flow.write_paused
            and slots.in_use < slots.limit
            and not self.transport.is_closing()
        )

    def _start_known(self, head: RequestHead, body: bytes) -> None:
        """Start a request whose head is known and whose body is complete."""
        self.scope = head.scope  # type: ignore[assignment] # as uvicorn's parser callbacks made it
        self.cycle = self._active_cycle = cycle = RequestCycle(self, head.scope, keep_alive=True)
        cycle.body = body
        cycle.more_body = False
        cycle.task = self.loop.create_task(cycle.run_known(self.app, head, body))
        self.tasks.add(cycle.task)

    def _remember_head(self, data: bytes) -> None:
        """Keep the head of the request that this data has just begun and ended, if it is plain."""
        cycle = self._active_cycle
        if cycle is None or cycle.more_body or self._prepare_head is None:
            return
        scope: dict[str, Any] = {**self.scope}
        template = HeadTemplate.of(data, scope, cycle.body)
        head = None if template is None else self._prepare_head(scope)
        if template is not None and head is not None:
            self._known_heads = with_head(self._known_heads, KnownHead(template, head))

    def on_headers_complete(self) -> None:
        """Start the request, or queue it behind those of this connection that are not answered yet."""
        parser: Any = self.parser
        scope, app = self.scope, self.app
        version = parser.get_http_version()
        scope["method"] = parser.get_method().decode("ascii")
        if version != "1.1":
            scope["http_version"] = version
        if parser.should_upgrade() and self._should_upgrade():
            return
        _set_path(scope, self.url)
        previous = self.cycle
        self.cycle = cycle = RequestCycle(self, scope, keep_alive=version != "1.0" and parser.should_keep_alive())
        cycle.body = bytearray()
        cycle.waiting_for_100_continue = self.expect_100_continue
        if previous is None or previous.response_complete:
            self._start_asgi_task(cycle, app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def handle_websocket_upgrade(self) -> None:
        """Upgrade to a WebSocket; abort a connection on which an earlier request is still being answered."""
        if self._active_cycle is not None and not self._active_cycle.response_complete:
            self.transport.abort()
        else:
            super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """Start the next pipelined request; unlike uvicorn's, this arms no keep-alive timer (see `check_timeouts`)."""
        self.server_state.total_requests += 1
        if self.flow.read_paused and not self.transport.is_closing():
            self.flow.resume_reading()
        if self.pipeline and not self.transport.is_closing():
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cast("RequestCycle", cycle), app)

    def check_timeouts(self, now: float) -> None:
        """End the connection if its client has exceeded a timeout; the server calls this about once a second."""
        state, unread = self._timeout_state(), self.transport.get_write_buffer_size()
        if self._timeout.start(state, self._timed_request(), now, unread) or not state:
            return
        timeouts = self._context.timeouts
        if state == "write_stall":
            if self._timeout.is_stalled(timeouts.write_stall, unread, now):
                self.transport.abort()  # close() would wait until the client has read the rest
        elif self._timeout.has_exceeded(getattr(timeouts, state), now):
            if self._can_respond():
                self.transport.write(REQUEST_TIMEOUT_RESPONSE)
            self.transport.close()

    def _timeout_state(self) -> str:
        """The field of ConnectionTimeouts that applies now; empty while the client waits for the server."""
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

    def _timed_request(self) -> object:
        """What tells one request from the next; requests with a known head share their scope."""
        return self.scope if self._reading_headers else self._latest_cycle

    def _can_respond(self) -> bool:
        """Whether an error response can be written now: a request has begun, and no response to it has."""
        latest = self._latest_cycle
        if latest is None or self._reading_headers:
            return self._has_request and (latest is None or latest.response_complete)
        return not latest.response_started

    @property
    def _has_request(self) -> bool:
        return cast("object", self.scope) is not None

    @property
    def _latest_cycle(self) -> RequestResponseCycle | None:
        """The latest request whose head is complete."""
        return cast("RequestResponseCycle | None", self.cycle)

    @property
    def _reading_headers(self) -> bool:
        """Whether a request has begun whose head is incomplete."""
        return self._has_request and (self._latest_cycle is None or self._latest_cycle.scope is not self.scope)

    def _enforce_limits(self, size: int) -> None:
        """Abort a connection with too many pipelined requests; answer 431 to headers that are too large."""
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

    def _start_asgi_task(self, cycle: "RequestCycle", app: App) -> None:  # type: ignore[override] # every cycle is ours
        if self._caller_slots.in_use >= self._caller_slots.limit and self._is_rejected(cycle.scope):
            self._reject(cycle)
            return
        self._active_cycle = cycle
        cycle.task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(cycle.task)

    def _is_rejected(self, scope: App) -> bool:
        return bool(scope["method"] != "HEAD" and self._limiter.rejects(scope["path"]))

    def _reject(self, cycle: RequestResponseCycle) -> None:
        """Answer 503 without a task and without reading the body: rejecting must be cheap when every slot is taken."""
        if self.flow.write_paused:  # the client sends and does not read its responses
            self.transport.abort()
            return
        self.transport.write(self._context.busy_responses.for_path(cycle.scope["path"], keep_alive=cycle.keep_alive))
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            _pause_reading(self.transport, self.flow, self.loop)


def _set_path(scope: App, url: bytes) -> None:
    """Set `path` (decoded), `raw_path` and `query_string`; a plain path, the usual case, needs no URL parser."""
    if b"%" in url or b"?" in url or b"#" in url or not url.startswith(b"/"):
        parts = httptools.parse_url(url)
        raw, scope["query_string"] = parts.path, parts.query or b""
    else:
        raw, scope["query_string"] = url, b""
    path = raw.decode("ascii")
    scope["path"] = unquote(path) if "%" in path else path
    scope["raw_path"] = raw


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

    def __init__(self, connection: HttpProtocol, scope: Any, *, keep_alive: bool) -> None:
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
        self.loop.call_soon(_pause_reading, self.transport, self.flow, self.loop)

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


def _pause_reading(transport: asyncio.Transport, flow: FlowControl, loop: asyncio.AbstractEventLoop) -> None:
    if not transport.is_closing():
        flow.pause_reading()
        loop.call_later(BUSY_PAUSE_SECONDS, _resume_reading, transport, flow)


def _resume_reading(transport: asyncio.Transport, flow: FlowControl) -> None:
    if not transport.is_closing():
        flow.resume_reading()
