"""`HttpConnection`: one HTTP/1.1 client connection, one request at a time, its response read message by message.

A response with the head of the one before, whole in one piece, is recognized by its bytes (`response_head`); all others
are parsed.
"""

import asyncio
import socket
from typing import TYPE_CHECKING, cast

import httptools

from toolhall.egress.exchange import TRANSPORT_CLOSED
from toolhall.egress.http_response import Framing, HttpResponse
from toolhall.egress.response_head import ResponseHead
from toolhall.egress.urls import display_url

if TYPE_CHECKING:
    from toolhall.egress.connection_pool import ConnectionPool

MAX_HEAD_BYTES = 64 * 1024
_MAX_FRAMING_RATIO = 8  # bytes received per byte of body: a chunk of one byte takes six
LINGER_SECONDS = 2.0  # for the last chunk of a response whose last message has arrived
_FRAMINGS: dict[bytes, Framing] = {b"application/x-ndjson": "lines", b"text/event-stream": "events"}
_LOCATION_BYTES = 300


class HttpConnection(asyncio.Protocol):
    """One keep-alive connection, one request at a time; bytes that no request asked for end it."""

    def __init__(self, pool: "ConnectionPool") -> None:
        self._pool = pool
        self._peer = pool.settings.peer
        self._max_bytes = pool.settings.max_bytes
        self._keeps_headers = pool.settings.keeps_headers
        self._loop = pool.loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._response: HttpResponse | None = None
        self._is_closed = False  # by either side, or about to be
        self._keep_alive = True
        self._received_bytes = 0  # of this response, with headers and chunk sizes
        self._in_body = False
        self._framing: Framing = "whole"
        self._headers: dict[bytes, bytes] = {}  # if they are kept
        self._is_plain = False  # the head may be kept: see `response_head`
        self._is_delimited = False  # the head says where the body ends
        self._linger_timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0  # when it was last used
        self.serves_call = False  # set by the pool, which limits the connections of calls

    # --- for the transport ---

    @property
    def is_open(self) -> bool:
        """Whether neither side has closed it, as far as the loop knows."""
        return not self._is_closed and not self._transport.is_closing()

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a request, so that the server has nothing to say."""
        return self._response is None

    def send(self, request: bytes) -> HttpResponse:
        """Write a request; returns its response, to be read message by message."""
        self._response = response = HttpResponse(self._loop, self._max_bytes)
        self._received_bytes = 0
        self._in_body = False
        self._transport.write(request)
        return response

    def release(self, *, finished: bool) -> None:
        """Stop reading the response, and keep the connection if possible.

        It is kept if the response is complete, or if the call is `finished` and only the end of the response is missing
        (which has LINGER_SECONDS to arrive). Otherwise it is closed.
        """
        response = self._response
        if response is None or self._is_closed:
            return
        if response.is_complete:
            self._become_idle()
        elif finished and response.failure is None:
            self._linger_timer = self._loop.call_later(LINGER_SECONDS, self.abort)
        else:
            self.abort()

    def abort(self, reason: str = TRANSPORT_CLOSED) -> None:
        """Close at once, without waiting until the server has read everything."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._loop.is_closed():  # else nothing waits any more, and the socket is closed when it is collected
            self._transport.abort()
            self._fail_pending(reason)

    # --- asyncio.Protocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established."""
        self._transport = cast("asyncio.Transport", transport)
        connected = transport.get_extra_info("socket")
        self.fd: int = connected.fileno()
        # An answer may take as long as it likes, so a peer that is gone without a word has to be noticed.
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._pool.on_connected(self)

    def data_received(self, data: bytes) -> None:
        """Parse more of the response, within bounds."""
        response = self._response
        if response is None or response.is_complete:
            self.abort()
            return
        is_first = self._received_bytes == 0
        if is_first:
            head = self._pool.known_head
            body = None if head is None else head.body_of(data)
            # It is whole, and there is nothing to parse.
            if head is not None and body is not None and len(body) <= self._max_bytes:
                self._keep_alive = True
                response.deliver(body, head.headers)
                return
        self._received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._reject_invalid(response)
            return
        if self._received_bytes > MAX_HEAD_BYTES + _MAX_FRAMING_RATIO * (response.size if self._in_body else 0):
            response.failure = response.failure or "the answer has more around it than in it"
        if response.failure is not None:
            self.abort(response.failure)
        elif self._linger_timer is not None:
            self._finish_linger(response)
        else:
            if is_first and self._is_plain and response.body is not None:
                self._pool.known_head = ResponseHead.of(data, response.body, response.headers)
            response.notify()

    def eof_received(self) -> None:
        """The server has closed its side: an incomplete response is lost, unless just this is its end."""
        response = self._response
        if response is not None and self._in_body and not (self._is_delimited or response.is_complete):
            self._keep_alive = False
            response.finish()
            response.notify()
        self.abort(f"{self._peer} closed the connection before its answer was whole")

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended, for whatever reason."""
        del exc
        self._is_closed = True
        self._fail_pending(f"the connection to {self._peer} broke before its answer was whole")
        self._pool.on_closed(self)

    # --- httptools callbacks ---

    def on_message_begin(self) -> None:
        """Refuse a second response to one request."""
        if self._response is None or self._response.is_complete:
            raise ValueError("unexpected response: no request is pending")
        self._framing, self._is_plain, self._is_delimited = "whole", True, False
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Read how the body is to be read; trailers behind the body do not count."""
        name = name.lower()
        if self._in_body:
            if name == b"transfer-encoding":
                self._is_plain = False
            return
        if name == b"content-type":
            self._framing = _FRAMINGS.get(value.partition(b";")[0].strip().lower(), "whole")
        elif name == b"content-length":
            self._is_delimited = True
        elif name == b"transfer-encoding":
            self._is_plain, self._is_delimited = False, True
        elif name == b"content-encoding" and value.strip().lower() != b"identity":
            self._fail_response(f"{self._peer} encoded its answer, which was not asked for")
        if self._keeps_headers:
            known = self._headers.get(name)
            self._headers[name] = value if known is None else b"%b, %b" % (known, value)

    def on_headers_complete(self) -> None:
        """Refuse redirects and upgrades."""
        status = self._parser.get_status_code()
        if status == 101 or 300 <= status < 400:
            self._refuse_redirect(status)
        self._in_body = status >= 200
        if self._in_body and self._response is not None:
            self._response.start(status, self._headers, self._framing)
        self._is_plain = self._is_plain and status == 200 and self._parser.get_http_version() == "1.1"

    def on_body(self, piece: bytes) -> None:
        """Take a piece of the body."""
        if self._response is not None and self._response.failure is None:
            self._response.feed(piece)

    def on_message_complete(self) -> None:
        """The response is complete, unless it was an interim one (1xx)."""
        if self._in_body and self._response is not None:
            self._keep_alive = self._parser.should_keep_alive()
            self._is_plain = self._is_plain and self._keep_alive
            self._response.finish()

    # --- private ---

    def _fail_response(self, reason: str) -> None:
        if self._response is not None and self._response.failure is None:
            self._response.failure = reason

    def _refuse_redirect(self, status: int) -> None:
        where = self._headers.get(b"location", b"")[:_LOCATION_BYTES].decode("ascii", "replace")
        to = f" (to {display_url(where)})" if where else ""
        self._fail_response(f"{self._peer} answered {status}{to}; neither upgrades nor redirects are followed")

    def _reject_invalid(self, response: HttpResponse) -> None:
        """Close after invalid HTTP, or bytes behind the response. A response that was complete before stays valid."""
        if not response.is_complete:
            self._fail_response(f"what {self._peer} answers is no HTTP")
        self.abort()
        response.notify()

    def _fail_pending(self, reason: str) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        response = self._response
        if response is not None and (response.failure is not None or not response.is_complete):
            response.fail(reason)

    def _finish_linger(self, response: HttpResponse) -> None:
        """Keep the connection once the end of a lingering response has arrived."""
        if response.is_complete and self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
            self._become_idle()

    def _become_idle(self) -> None:
        self._response = None
        if self._keep_alive and not self._is_closed:
            self.idle_since = self._loop.time()
            self._pool.on_idle(self)
        else:
            self.abort()
