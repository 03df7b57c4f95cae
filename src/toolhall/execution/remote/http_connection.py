"""`HttpConnection`: one HTTP/1.1 client connection, one request at a time, its response read message by message."""

import asyncio
import select
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from toolhall.execution.remote.replica_transport import MessageQueue

MAX_HEAD_BYTES = 64 * 1024
_MAX_FRAMING_RATIO = 8  # times what is in a reply: one byte in a chunk of its own takes six
LINGER_SECONDS = 2.0  # for the last chunk of a reply whose last message is here
_NDJSON = b"application/x-ndjson"


class ConnectionOwner(Protocol):
    """Who keeps connections, all in one loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """That one."""
        ...

    def on_connected(self, connection: "HttpConnection") -> None:
        """It is there."""
        ...

    def on_idle(self, connection: "HttpConnection") -> None:
        """It can take the next request."""
        ...

    def on_closed(self, connection: "HttpConnection") -> None:
        """It has ended."""
        ...


class ResponseBody(MessageQueue):
    """What came for one request so far; one JSON text, or with `lines` one on each line."""

    __slots__ = ("_chunks", "_line_buffer", "_max_bytes", "_scanned", "is_complete", "is_ndjson", "size")

    def __init__(self, loop: asyncio.AbstractEventLoop, max_bytes: int) -> None:
        super().__init__(loop)
        self.is_ndjson = False
        self.is_complete = False
        self._max_bytes = max_bytes
        self.size = 0  # of all that came
        self._chunks: list[bytes] | None = []  # of one text, as they came; None: it was taken
        self._line_buffer = bytearray()  # of lines, what nobody took yet
        self._scanned = 0  # so much of it holds no end of a line

    def feed(self, piece: bytes) -> None:
        """More of the body."""
        self.size += len(piece)
        if self.is_ndjson:
            self._line_buffer += piece
        elif self._chunks is not None:
            self._chunks.append(piece)
        # A long call may tell more in all; what it tells is read as it comes.
        if (len(self._line_buffer) if self.is_ndjson else self.size) > self._max_bytes:
            self.failure, self.is_too_large = f"more than {self._max_bytes} bytes of the answer wait to be read", True

    def finish(self) -> None:
        """That was all."""
        self.is_complete = True
        if self.is_ndjson and self._line_buffer:
            self._line_buffer += b"\n"  # the last line may end with the reply

    def has_message(self) -> bool:
        """Whether one is here."""
        return b"\n" in self._line_buffer if self.is_ndjson else self.is_complete and self._chunks is not None

    def pop(self) -> bytes | None:
        """The next message, if it is here whole."""
        if self.is_ndjson:
            found = self._pop_line()
        elif self.is_complete and self.failure is None and self._chunks is not None:
            pieces, self._chunks = self._chunks, None
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        else:
            found = None
        if found is None and self.is_complete and self.failure is None:
            self.failure = "the answer ended without a tool_response"
        return found

    def _pop_line(self) -> bytes | None:
        """The next line that holds anything."""
        while (end := self._line_buffer.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._line_buffer[:end])
            del self._line_buffer[: end + 1]
            self._scanned = 0
            if line and not line.isspace():
                return line
        self._scanned = len(self._line_buffer)
        return None


class HttpConnection(asyncio.Protocol):
    """Reads one reply at a time; whatever comes unasked ends it."""

    def __init__(self, owner: ConnectionOwner, max_bytes: int) -> None:
        self._owner = owner
        self._max_bytes = max_bytes
        self._loop = owner.loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._response: ResponseBody | None = None
        self._is_closed = False  # by either side, or about to be
        self._keep_alive = True
        self._received_bytes = 0  # bytes for this reply, heads and chunk sizes included
        self._in_body = False
        self._linger_timer: asyncio.TimerHandle | None = None
        self.idle_since = 0.0  # when it was last used
        self.serves_call = False  # for its owner, who lets calls have so many only

    # --- for whoever makes a call ---

    @property
    def is_open(self) -> bool:
        """Whether nobody has ended it, as far as the loop knows."""
        return not self._is_closed and not self._transport.is_closing()

    @property
    def is_usable(self) -> bool:
        """Whether another request may be written: what the other side says unasked, its goodbye included, ends it.

        The loop may be late, so the kernel is asked: who closed a connection shall not be taken for one who got a call.
        """
        if self._is_closed or self._transport.is_closing():
            return False
        if self._poll(0):
            self.abort()
            return False
        return True

    def send(self, request: bytes) -> ResponseBody:
        """Write a request; what comes back is its reply."""
        self._response = reply = ResponseBody(self._loop, self._max_bytes)
        self._received_bytes = 0
        self._in_body = False
        self._transport.write(request)
        return reply

    def release(self, *, finished: bool) -> None:
        """Nobody reads on. It is kept if its reply is whole; or if only the end of that is missing, and comes soon."""
        reply = self._response
        if reply is None or self._is_closed:
            return
        if reply.is_complete:
            self._become_idle()
        elif finished and reply.failure is None:
            self._linger_timer = self._loop.call_later(LINGER_SECONDS, self.abort)
        else:
            self.abort()

    def abort(self, reason: str = "the line was closed") -> None:
        """Let go at once: to close would be to wait until the other side has read everything."""
        if self._is_closed:
            return
        self._is_closed = True
        if not self._loop.is_closed():  # else nobody waits any more, and its socket is closed when it is collected
            self._transport.abort()
            self._fail_pending(reason)

    # --- for the loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = cast("asyncio.Transport", transport)
        poll = select.poll()
        poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._poll: Callable[[int], list[tuple[int, int]]] = poll.poll
        self._owner.on_connected(self)

    def data_received(self, data: bytes) -> None:
        """Read on, within bounds."""
        reply = self._response
        if reply is None or reply.is_complete:
            self.abort()
            return
        self._received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._reject_invalid(reply)
            return
        if self._received_bytes > MAX_HEAD_BYTES + _MAX_FRAMING_RATIO * (reply.size if self._in_body else 0):
            reply.failure = reply.failure or "the answer has more around it than in it"
        if reply.failure is not None:
            self.abort(reply.failure)
        elif self._linger_timer is not None:
            self._finish_linger(reply)
        else:
            reply.notify()

    def eof_received(self) -> None:
        """The other side says no more; what it owes is lost."""
        self.abort("the tool server closed the connection before its answer was whole")

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        del exc  # what it says is no news to anybody
        self._is_closed = True
        self._fail_pending("the connection to the tool server broke before its answer was whole")
        self._owner.on_closed(self)

    # --- for the parser ---

    def on_message_begin(self) -> None:
        """A second reply to one request is nobody's."""
        if self._response is None or self._response.is_complete:
            raise ValueError("nobody asked for this")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Only the kind of the reply matters; what stands behind the body says nothing about it."""
        if len(name) == 12 and name.lower() == b"content-type" and self._response is not None and not self._in_body:
            self._response.is_ndjson = value[: len(_NDJSON)].lower() == _NDJSON

    def on_headers_complete(self) -> None:
        """The hall goes nowhere else, and speaks nothing else."""
        status = self._parser.get_status_code()
        if status == 101 or 300 <= status < 400:
            self._fail_response(f"the tool server answered {status}; neither upgrades nor redirects are followed")
        self._in_body = status >= 200

    def on_body(self, piece: bytes) -> None:
        """More of it."""
        if self._response is not None and self._response.failure is None:
            self._response.feed(piece)

    def on_message_complete(self) -> None:
        """The reply is whole, unless it was only the promise of one (1xx)."""
        if self._in_body and self._response is not None:
            self._keep_alive = self._parser.should_keep_alive()
            self._response.finish()

    # --- inside ---

    def _fail_response(self, reason: str) -> None:
        if self._response is not None and self._response.failure is None:
            self._response.failure = reason

    def _reject_invalid(self, response: ResponseBody) -> None:
        """What comes is no HTTP, or more than was asked for. A reply that was whole before that stays one."""
        if not response.is_complete:
            self._fail_response("what the tool server answers is no HTTP")
        self.abort()
        response.notify()

    def _fail_pending(self, reason: str) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        reply = self._response
        if reply is not None and (reply.failure is not None or not reply.is_complete):
            reply.fail(reason)

    def _finish_linger(self, response: ResponseBody) -> None:
        """Nobody waits for more than the end of this reply."""
        if response.is_complete and self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
            self._become_idle()

    def _become_idle(self) -> None:
        self._response = None
        if self._keep_alive and not self._is_closed:
            self.idle_since = self._loop.time()
            self._owner.on_idle(self)
        else:
            self.abort()
