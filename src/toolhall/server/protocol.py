"""HttpProtocol: uvicorn's HTTP/1.1 protocol with known heads, timeouts and limits.

Theory of operation. One HttpProtocol object serves one connection, one RequestCycle one request on it. Both subclass
uvicorn's classes and rely on their attributes by name; tests over real sockets fail when these change. What is not the
usual case (HEAD, HTTP/1.0, chunked responses, an application that fails) is left to uvicorn's own code.

*Known heads.* A client that keeps its connection sends nearly the same head with every request: only the digits
of Content-Length differ. The first such request goes through httptools. If it is plain, its bytes before and after
these digits are kept, together with the validated RequestHead. A later request that begins at a message boundary with
the same bytes, and has other digits at most, means the same to the parser, so the parser need not see it.

A head is plain if the parser saw all of it at once, together with the whole body and nothing else, and it is a POST of
HTTP/1.1 with exactly one Content-Length, no Transfer-Encoding, Expect or Upgrade, and no Connection but keep-alive. A
request is recognized only if its body is complete and nothing follows it; whatever else arrives goes through the
parser, whose state is that of a message boundary as long as it sees either all or nothing of a message.

A connection keeps the MAX_HEADS heads that it saw last, of at most MAX_HEAD_BYTES each, and forgets them when it ends:
they hold credentials, which are verified for every request all the same (see RequestHead). A client that writes head
and body apart, as some libraries do, is served by the parser.

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

*Writing.* See `server.request_cycle`.

*Back-pressure.* Reading pauses while a pipelined request waits, and resumes when its predecessor is answered. While
the transport's write buffer is full (`flow.write_paused`), `send` waits in uvicorn's code, and rejected requests abort
the connection instead of adding to the buffer.

*Disconnects.* `on_disconnect` registers one callback per request. It is called when the connection is lost; reading is
resumed meanwhile, because a paused transport does not notice that the client has gone.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from toolhall.auth.authenticator import Scope
from toolhall.http.request import RequestHead
from toolhall.server.context import (
    HEADERS_TOO_LARGE_RESPONSE,
    REQUEST_TIMEOUT_RESPONSE,
    TOO_MANY_CONNECTIONS_RESPONSE,
    ServerConfig,
    TimeoutTracker,
)
from toolhall.server.request_cycle import App, RequestCycle, pause_reading, write_batcher_for

MAX_HEADER_BYTES = 64 * 1024
MAX_PIPELINED_REQUESTS = 512  # more than fit into one read, unless they are tiny
_READ_CHUNK = 16 * 1024
MAX_HEADS = 16
MAX_UNUSED_HEADS = 64  # learned in a row and never seen again: such a client sends something new each time
MAX_HEAD_BYTES = 4 * 1024
_HEAD_END = b"\r\n\r\n"
_MAX_DIGITS = 9  # of a length; more would also be slow to read as a number
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: ?([1-9][0-9]{0,8})(?=\r\n)", re.IGNORECASE)
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer"})
_ZERO = ord("0")


class HeadTemplate(NamedTuple):
    """The bytes of a head before and after the digits of Content-Length."""

    before: bytes
    after: bytes  # ends with the empty line

    @classmethod
    def of(cls, data: bytes, scope: Scope, body: bytes | bytearray) -> "HeadTemplate | None":
        """The template of a request that the parser has read from exactly this data; None if it is not plain."""
        names = [name for name, value in scope["headers"] if name != b"connection" or value.lower() != b"keep-alive"]
        if names.count(b"content-length") != 1 or b"connection" in names or not _NOT_PLAIN.isdisjoint(names):
            return None
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if not len(_HEAD_END) <= end <= MAX_HEAD_BYTES or scope["method"] != "POST" or scope["http_version"] != "1.1":
            return None
        found = list(_CONTENT_LENGTH.finditer(data, 0, end))
        if len(found) != 1 or int(found[0][1]) != len(data) - end or data[end:] != body:
            return None
        return cls(data[: found[0].start(1)], data[found[0].end(1) : end])

    def body_start(self, data: bytes) -> int:
        """Where the body begins if the data is one whole request with this head; else 0."""
        before, after = self
        if not data.startswith(before):
            return 0
        start = len(before)
        end = data.find(_HEAD_END, start) + len(_HEAD_END)
        digits_end = end - len(after)
        digits = data[start:digits_end]
        if data[digits_end:end] != after or not digits.isdigit() or digits[0] == _ZERO or len(digits) > _MAX_DIGITS:
            return 0
        return end if int(digits) == len(data) - end else 0


class KnownHead(NamedTuple):
    """A template, and the head that it stands for."""

    template: HeadTemplate
    head: RequestHead


def with_head(known: Sequence[KnownHead], new: KnownHead) -> list[KnownHead]:
    """The heads of a connection with this one in front; the one that was not seen for longest makes room."""
    return [new, *[each for each in known if each is not new][: MAX_HEADS - 1]]


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
        self._known_heads: list[KnownHead] = []  # the one that was seen last is first
        self._unused_heads = 0  # learned since one was recognized

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
        """Recognize a request by its head, or parse what was received; see *Known heads*."""
        for known in self._known_heads:
            body_start = known.template.body_start(data)
            if body_start:
                if len(data) - body_start <= known.head.max_body and self._is_ready_for_head():
                    self._unused_heads = 0
                    if known is not self._known_heads[0]:
                        self._known_heads = with_head(self._known_heads, known)
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
        if self._prepare_head is None or self._unused_heads >= MAX_UNUSED_HEADS:
            return
        if cycle is None or cycle.more_body or cycle.scope is not self.scope:
            return  # incomplete, or the next request has begun
        scope: dict[str, Any] = {**self.scope}
        template = HeadTemplate.of(data, scope, cycle.body)
        head = None if template is None else self._prepare_head(scope)
        if template is not None and head is not None:
            self._known_heads = with_head(self._known_heads, KnownHead(template, head))
            self._unused_heads += 1

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
        while self.pipeline and not self.transport.is_closing():
            cycle, app = self.pipeline.pop()
            if not self._try_reject(cast("RequestCycle", cycle)):
                self._run_cycle(cast("RequestCycle", cycle), app)
                return

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
        if not self._try_reject(cycle):
            self._run_cycle(cycle, app)

    def _run_cycle(self, cycle: "RequestCycle", app: App) -> None:
        self._active_cycle = cycle
        cycle.task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(cycle.task)

    def _try_reject(self, cycle: "RequestCycle") -> bool:
        """Answer 503 if every slot is taken, without a task and without reading the body: that must be cheap then."""
        slots, scope = self._caller_slots, cycle.scope
        if slots.in_use < slots.limit or scope["method"] == "HEAD" or not self._limiter.rejects(scope["path"]):
            return False
        if self.flow.write_paused:  # the client sends and does not read its responses
            self.transport.abort()
            return True
        self.transport.write(self._context.busy_responses.for_path(scope["path"], keep_alive=cycle.keep_alive))
        self.server_state.total_requests += 1
        cycle.response_started = cycle.response_complete = True
        if not cycle.keep_alive:
            self.transport.close()
        elif not self.pipeline:
            pause_reading(self.transport, self.flow, self.loop)
        return True


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
