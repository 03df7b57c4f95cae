"""HttpProtocol: one HTTP/1.1 connection, with known heads, pipelining, timeouts and limits.

Theory of operation. One HttpProtocol object serves one connection, one RequestCycle one request on it. RequestParser
calls `on_request` for each, which puts a RequestCycle into `pipeline`. Once what was received is parsed, the first of
them is started; the next one starts when that is answered. WriteBatcher starts the requests of all connections that
were read in one iteration of the event loop one after the other, and then writes their answers. Each runs in a task of
its own, whose first step is taken at once (`eager_tasks`): that answers most requests.

*Plain requests.* A complete plain POST, as `server.known_heads` describes it, is served by `HttpApp.serve` without
ASGI, and its head is kept. A request that begins at a message boundary with a known head is served without the parser
too, provided that all requests before it are answered and a slot is free. Clients that write head and body apart are
recognized by the head; the connection waits for a body of at most MAX_AWAITED_BODY within the `headers` timeout.
Whatever does not end where the body ends goes through the parser from its first byte, so that the parser sees either
all or nothing of a message.

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

*Back-pressure.* Reading pauses while a pipelined request waits or much of a body is unread. While the transport's write
buffer is full (`write_paused`), `RequestCycle.send` waits, and rejected requests abort the connection instead of adding
to the buffer.

*Disconnects.* `on_disconnect` registers one callback per request. It is called when the connection is lost; reading is
resumed meanwhile, because a paused transport does not notice that the client has gone. A client that closes only its
sending side looks the same as one that has gone: it gets what is answered by then, and what still runs is cancelled.
"""

import asyncio
import logging
from collections import deque

from toolhall.auth.authenticator import Scope
from toolhall.eager_tasks import EagerStarter
from toolhall.server.connection import Connection
from toolhall.server.context import ServerContext
from toolhall.server.known_heads import KnownHead, KnownHeads, PartialRequest
from toolhall.server.request_cycle import RequestCycle
from toolhall.server.request_parser import MalformedRequest, RequestParser
from toolhall.server.responses import (
    HEADERS_TOO_LARGE_RESPONSE,
    MALFORMED_RESPONSE,
    REQUEST_TIMEOUT_RESPONSE,
    TOO_MANY_CONNECTIONS_RESPONSE,
)
from toolhall.server.websocket_protocol import WebSocketProtocol
from toolhall.server.write_batcher import write_batcher_for

MAX_HEADER_BYTES = 64 * 1024
MAX_PIPELINED_REQUESTS = 512  # more than fit into one read, unless they are tiny
MAX_PIPELINED_BYTES = 1024 * 1024  # of bodies, where there is more than one
MAX_AWAITED_BODY = 16 * 1024  # of a request with a known head whose body comes later; others go through the parser
BUSY_PAUSE_SECONDS = 0.25  # without reading after a 503: the client was told to retry later, and some retry at once
_READ_CHUNK = 16 * 1024

_log = logging.getLogger("toolhall.http")


class HttpProtocol(Connection):
    """Serves one HTTP/1.1 connection: parses requests within limits, starts a RequestCycle for each, ends slow ones."""

    cycle: RequestCycle | None = None  # the latest request whose head is complete
    parser: RequestParser
    is_malformed: bool  # what was received last is no HTTP request, and nothing more is read
    _active: RequestCycle | None = None  # the request that was started last
    partial: PartialRequest | None  # a request with a known head whose body has not arrived completely
    _header_bytes = 0
    _counted_headers: object = None  # the headers that `_header_bytes` counts

    def __init__(self, context: ServerContext, loop: asyncio.AbstractEventLoop | None = None) -> None:
        super().__init__(context, loop or asyncio.get_running_loop())
        self.partial, self.is_malformed = None, False
        self.write_batcher = write_batcher_for(self.loop)
        self.pipeline: deque[RequestCycle] = deque()  # requests that have not been started
        self._slots = context.limiter.callers
        self._known = KnownHeads()
        self.starter = EagerStarter(self.loop, "toolhall request")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # never another kind
        """Count the connection; one over the limit gets 503 and is closed."""
        super().connection_made(transport)
        self.parser = RequestParser(self, self.client, self.server)
        if not transport.is_closing() and not self.acquire():
            transport.write(TOO_MANY_CONNECTIONS_RESPONSE)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every unanswered request that the client has gone, and forget the connection."""
        super().connection_lost(exc)
        for cycle in (self._active, *self.pipeline):
            if cycle is not None and not cycle.response_complete:
                cycle.disconnect()
        self.pipeline.clear()
        self.partial = None
        self.parser.close()

    def eof_received(self) -> None:
        """Write what is answered; the transport then closes the connection."""
        self._flush_answer()

    def data_received(self, data: bytes) -> None:
        """Recognize a request by its head, or parse what was received; see *Plain requests*."""
        if self.partial is not None:
            self._add_to_partial(self.partial, data)
            return
        for known in self._known.heads:
            found = known.find_body(data)
            if found is not None:
                start, end = found
                if end == len(data):
                    if end - start <= known.head.max_body and self._is_ready():
                        self._start_known(known, data[start:])
                        return
                elif len(data) < end <= start + MAX_AWAITED_BODY and self._is_ready():
                    self.partial = PartialRequest(known, data, start, end)
                    return
                break
        self._parse(data)

    def _add_to_partial(self, partial: PartialRequest, data: bytes) -> None:
        """Serve a request with a known head once its body is there; if more follows, leave all of it to the parser."""
        partial.data += data
        if len(partial.data) < partial.end:
            return
        self.partial = None
        size = partial.end - partial.body_start
        if len(partial.data) == partial.end and size <= partial.known.head.max_body and self._is_ready():
            self._start_known(partial.known, partial.data[partial.body_start :])
        else:
            self._parse(partial.data)

    def _is_ready(self) -> bool:
        """Whether a recognized request can start now: every request before it is answered, and a slot is free."""
        active, slots = self._active, self._slots
        return (
            self.parser.is_at_boundary
            and not self.is_malformed
            and (active is None or active.response_complete)
            and not self.pipeline
            and not self.write_paused
            and slots.in_use < slots.limit
            and not self.transport.is_closing()
        )

    def _start_known(self, known: KnownHead, body: bytes) -> None:
        heads = self._known
        if heads.unused or known is not heads.heads[0]:
            heads.mark_used(known)
        self.cycle = self._active = cycle = RequestCycle(self, known.head.scope, body, known.head)
        if len(self.context.connections) > 1:  # as in `_start`
            self.write_batcher.start(cycle, self.loop)
        else:
            cycle.start()

    # What is parsed.

    def _parse(self, data: bytes) -> None:
        """Parse in pieces within the limits, then start the first request if nothing is in progress."""
        if self.is_malformed:
            return
        parser, was_at_boundary = self.parser, self.parser.is_at_boundary and not self.pipeline
        for start in range(0, len(data), _READ_CHUNK):
            piece = data[start : start + _READ_CHUNK]
            try:
                parser.feed(piece)
            except MalformedRequest:
                self._reject_malformed()
                return
            if parser.wants_websocket:
                self._upgrade()
                return
            if parser.is_reading_headers or self.pipeline:
                self._enforce_limits(len(piece))
            if self.transport.is_closing():
                return
        if self.pipeline:
            is_whole = was_at_boundary and parser.is_at_boundary and not parser.is_rewritten
            if is_whole and len(self.pipeline) == 1:
                self._learn_head(data, self.pipeline[0])
            self._start_next()

    def _learn_head(self, data: bytes, cycle: RequestCycle) -> None:
        """Keep the head of the request that this data began and ended, if it is plain."""
        app = self.context.head_app
        if app is not None:
            cycle.head = self._known.learn(data, cycle.scope, cycle.body, app)

    def on_request(self, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> RequestCycle:
        """Called by the parser at the end of a head: put the request into the pipeline."""
        self.cycle = cycle = RequestCycle(self, scope, bytearray())
        cycle.more_body = True
        cycle.is_head = scope["method"] == "HEAD"
        cycle.keep_alive = keep_alive
        cycle.waiting_for_100_continue = expects_continue
        self.pipeline.append(cycle)
        return cycle

    def _enforce_limits(self, size: int) -> None:
        """Abort a connection with too many pipelined requests; answer 431 to headers that are too large."""
        if self._is_pipeline_full():
            self._start_next()
            if self._is_pipeline_full():
                self.transport.abort()
                return
        if not self.parser.is_reading_headers:
            return
        if self._counted_headers is not self.parser.headers:
            self._counted_headers, self._header_bytes = self.parser.headers, 0
        self._header_bytes += size
        if self._header_bytes > MAX_HEADER_BYTES:
            self._close_with(HEADERS_TOO_LARGE_RESPONSE)

    def _is_pipeline_full(self) -> bool:
        waiting = len(self.pipeline)
        return waiting > MAX_PIPELINED_REQUESTS or (
            waiting > 1 and sum([len(cycle.body) for cycle in self.pipeline]) > MAX_PIPELINED_BYTES
        )

    def _reject_malformed(self) -> None:
        """Read nothing more; answer the requests before the malformed bytes, then answer 400, and close."""
        _log.info("a connection sent what is no valid HTTP request, and is closed")
        self.is_malformed = True
        if self.pipeline and self.pipeline[-1].more_body:
            self.pipeline.pop()  # the malformed one
        self._start_next()
        self._close_if_malformed()

    def _close_if_malformed(self) -> None:
        """Answer 400 and close, once every request before the malformed bytes is answered."""
        self._flush_answer()
        active = self._active
        if active is not None and not active.response_complete:
            if not active.more_body:
                return  # `on_response_complete` comes back here
            if active.response_started:  # its own body is malformed; a second response would be taken for a part of it
                self.transport.close()
                return
        elif self.pipeline:
            return
        if not self.transport.is_closing():
            self.transport.write(MALFORMED_RESPONSE)
            self.transport.close()

    def _upgrade(self) -> None:
        """Pass the connection on to a WebSocketProtocol; abort one on which an earlier request is not answered."""
        self._flush_answer()
        if self.pipeline or (self._active is not None and not self._active.response_complete):
            self.transport.abort()
            return
        method, url, headers = self.parser.method, self.parser.url, self.parser.headers
        behind = self.parser.behind_upgrade
        self.parser.close()
        self.context.connections.discard(self)
        websocket = WebSocketProtocol(self.context, self.loop)
        websocket.connection_made(self.transport)
        websocket.is_counted, self.is_counted = self.is_counted, False
        self.transport.set_protocol(websocket)
        websocket.open(method, url, headers)
        if behind and not websocket.close_sent:
            websocket.data_received(behind)

    # Requests and their responses.

    def _start_next(self) -> None:
        """Start the first request of the pipeline, unless one is in progress."""
        while self.pipeline and (self._active is None or self._active.response_complete):
            if self.transport.is_closing():
                return
            cycle = self.pipeline.popleft()
            if not self._try_reject(cycle):
                self._start(cycle)
                break
        if self.pipeline and self._active is not None and not self._active.watches_disconnect:
            self.pause_reading()
        elif self.is_malformed and not self.pipeline:
            self._close_if_malformed()

    def _start(self, cycle: RequestCycle) -> None:
        """Run a request after those that arrived with it were read; at once if this is the only connection."""
        self._active = cycle
        if len(self.context.connections) > 1:
            self.write_batcher.start(cycle, self.loop)
        else:
            cycle.start()

    def _try_reject(self, cycle: RequestCycle) -> bool:
        """Answer 503 if every slot is taken, without a task and without reading the body: that must be cheap then."""
        context, slots, path = self.context, self._slots, cycle.scope["path"]
        if slots.in_use < slots.limit or cycle.is_head or not context.limiter.rejects(path):
            return False
        self._active = cycle
        cycle.response_started = cycle.response_complete = True
        if self.write_paused:  # the client sends and does not read its responses
            self.transport.abort()
            return True
        self.transport.write(context.busy_responses.for_path(path, keep_alive=cycle.keep_alive))
        if not cycle.keep_alive:
            self.transport.close()
        elif not self.pipeline:
            self.pause_while_busy()
        return True

    def on_response_complete(self) -> None:
        """Called by a RequestCycle whose response was written: go on with the next request.

        That one is started in a callback of its own, because this may be the task of the previous one.
        """
        if self.pipeline:
            self.loop.call_soon(self._start_next)
        elif self.is_malformed:
            self._close_if_malformed()
        elif self.read_paused:
            self.resume_reading()

    def _flush_answer(self) -> None:
        """Write a response that is ready and waits for the WriteBatcher."""
        if self._active is not None and self._active.has_pending_response:
            self._active.flush()

    def pause_while_busy(self) -> None:
        """Read nothing from the client for BUSY_PAUSE_SECONDS."""
        if not self.transport.is_closing():
            self.pause_reading()
            self.loop.call_later(BUSY_PAUSE_SECONDS, self.resume_reading)

    def shutdown(self) -> None:
        """Close the connection now if nothing is being answered or a request is incomplete; else after the answer."""
        cycle = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            self.transport.close()
        else:
            cycle.keep_alive = False

    # Timeouts.

    def check_timeouts(self, now: float) -> None:
        """End the connection if its client has exceeded a timeout; the server calls this about once a second."""
        state, unread = self._timeout_state(), self.transport.get_write_buffer_size()
        if self.timeout.start(state, self._timed_request(), now, unread) or not state:
            return
        timeouts = self.context.timeouts
        if state == "write_stall":
            if self.timeout.is_stalled(timeouts.write_stall, unread, now):
                self.transport.abort()  # close() would wait until the client has read the rest
        elif self.timeout.has_exceeded(getattr(timeouts, state), now):
            self._close_with(REQUEST_TIMEOUT_RESPONSE)

    def _timeout_state(self) -> str:
        """The field of ConnectionTimeouts that applies now; empty while the client waits for the server."""
        cycle = self.cycle
        if self.write_paused or self.transport.is_closing():
            return "write_stall"
        if self.read_paused:
            return ""
        if not self.parser.has_begun:
            return "first_byte"
        if cycle is None or self.parser.is_reading_headers or self.partial is not None:
            return "headers"
        if cycle.response_complete:
            return "keep_alive"
        return "body" if cycle.more_body else ""

    def _timed_request(self) -> object:
        """What tells one request from the next."""
        return self.partial or (self.parser.headers if self.parser.is_reading_headers else self.cycle)

    def _close_with(self, response: bytes) -> None:
        """Close the connection; with this response if a request has begun and no response to it has."""
        cycle = self.cycle
        if self.partial is not None or self.parser.is_reading_headers:
            can_respond = cycle is None or cycle.response_complete
        else:
            can_respond = cycle is not None and not cycle.response_started
        if can_respond and not self.transport.is_closing():
            self.transport.write(response)
        self.transport.close()
