"""One HTTP/1.1 connection to a tool server: one request at a time, and its reply message by message."""

import asyncio
import select
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from toolhall.runners.hub.inbox import Inbox

MOST_HEAD_BYTES = 64 * 1024
_MOST_AROUND = 8  # times what is in a reply: one byte in a chunk of its own takes six
LINGER_SECONDS = 2.0  # for the last chunk of a reply whose last message is here
_LINES = b"application/x-ndjson"


class Owner(Protocol):
    """Who keeps connections, all in one loop."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """That one."""
        ...

    def made(self, connection: "Connection") -> None:
        """It is there."""
        ...

    def free(self, connection: "Connection") -> None:
        """It can take the next request."""
        ...

    def gone(self, connection: "Connection") -> None:
        """It has ended."""
        ...


class Reply(Inbox):
    """What came for one request so far; one JSON text, or with `lines` one on each line."""

    __slots__ = ("_most", "_pieces", "_rest", "_scanned", "lines", "size", "whole")

    def __init__(self, loop: asyncio.AbstractEventLoop, most_bytes: int) -> None:
        super().__init__(loop)
        self.lines = False
        self.whole = False
        self._most = most_bytes
        self.size = 0  # of all that came
        self._pieces: list[bytes] | None = []  # of one text, as they came; None: it was taken
        self._rest = bytearray()  # of lines, what nobody took yet
        self._scanned = 0  # so much of it holds no end of a line

    def add(self, piece: bytes) -> None:
        """More of the body."""
        self.size += len(piece)
        if self.lines:
            self._rest += piece
        elif self._pieces is not None:
            self._pieces.append(piece)
        # A long call may tell more in all; what it tells is read as it comes.
        if (len(self._rest) if self.lines else self.size) > self._most:
            self.fault, self.too_much = f"more than {self._most} bytes of the answer wait to be read", True

    def complete(self) -> None:
        """That was all."""
        self.whole = True
        if self.lines and self._rest:
            self._rest += b"\n"  # the last line may end with the reply

    def has_message(self) -> bool:
        """Whether one is here."""
        return b"\n" in self._rest if self.lines else self.whole and self._pieces is not None

    def take(self) -> bytes | None:
        """The next message, if it is here whole."""
        if self.lines:
            found = self._line()
        elif self.whole and self.fault is None and self._pieces is not None:
            pieces, self._pieces = self._pieces, None
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        else:
            found = None
        if found is None and self.whole and self.fault is None:
            self.fault = "the answer ended without a tool_response"
        return found

    def _line(self) -> bytes | None:
        """The next line that holds anything."""
        while (end := self._rest.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            self._scanned = 0
            if line and not line.isspace():
                return line
        self._scanned = len(self._rest)
        return None


class Connection(asyncio.Protocol):
    """Reads one reply at a time; whatever comes unasked ends it."""

    def __init__(self, owner: Owner, most_bytes: int) -> None:
        self._owner = owner
        self._most = most_bytes
        self._loop = owner.loop
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._reply: Reply | None = None
        self._ended = False  # by either side, or about to be
        self._keep = True
        self._came = 0  # bytes for this reply, heads and chunk sizes included
        self._in_body = False
        self._linger: asyncio.TimerHandle | None = None
        self.since = 0.0  # when it was last used
        self.has_call = False  # for its owner, who lets calls have so many only

    # --- for whoever makes a call ---

    @property
    def open(self) -> bool:
        """Whether nobody has ended it, as far as the loop knows."""
        return not self._ended and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        """Whether another request may be written: what the other side says unasked, its goodbye included, ends it.

        The loop may be late, so the kernel is asked: who closed a connection shall not be taken for one who got a call.
        """
        if self._ended or self._transport.is_closing():
            return False
        if self._poll(0):
            self.end()
            return False
        return True

    def send(self, request: bytes) -> Reply:
        """Write a request; what comes back is its reply."""
        self._reply = reply = Reply(self._loop, self._most)
        self._came = 0
        self._in_body = False
        self._transport.write(request)
        return reply

    def leave(self, *, finished: bool) -> None:
        """Nobody reads on. It is kept if its reply is whole; or if only the end of that is missing, and comes soon."""
        reply = self._reply
        if reply is None or self._ended:
            return
        if reply.whole:
            self._next_please()
        elif finished and reply.fault is None:
            self._linger = self._loop.call_later(LINGER_SECONDS, self.end)
        else:
            self.end()

    def end(self, why: str = "the line was closed") -> None:
        """Let go at once: to close would be to wait until the other side has read everything."""
        if self._ended:
            return
        self._ended = True
        if not self._loop.is_closed():  # else nobody waits any more, and its socket is closed when it is collected
            self._transport.abort()
            self._lose(why)

    # --- for the loop ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        self._transport = cast("asyncio.Transport", transport)
        poll = select.poll()
        poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._poll: Callable[[int], list[tuple[int, int]]] = poll.poll
        self._owner.made(self)

    def data_received(self, data: bytes) -> None:
        """Read on, within bounds."""
        reply = self._reply
        if reply is None or reply.whole:
            self.end()
            return
        self._came += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._spoil(reply)
            return
        if self._came > MOST_HEAD_BYTES + _MOST_AROUND * (reply.size if self._in_body else 0):
            reply.fault = reply.fault or "the answer has more around it than in it"
        if reply.fault is not None:
            self.end(reply.fault)
        elif self._linger is not None:
            self._lingered(reply)
        else:
            reply.wake()

    def eof_received(self) -> None:
        """The other side says no more; what it owes is lost."""
        self.end("the tool server closed the connection before its answer was whole")

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended."""
        del exc  # what it says is no news to anybody
        self._ended = True
        self._lose("the connection to the tool server broke before its answer was whole")
        self._owner.gone(self)

    # --- for the parser ---

    def on_message_begin(self) -> None:
        """A second reply to one request is nobody's."""
        if self._reply is None or self._reply.whole:
            raise ValueError("nobody asked for this")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Only the kind of the reply matters; what stands behind the body says nothing about it."""
        if len(name) == 12 and name.lower() == b"content-type" and self._reply is not None and not self._in_body:
            self._reply.lines = value[: len(_LINES)].lower() == _LINES

    def on_headers_complete(self) -> None:
        """The hall goes nowhere else, and speaks nothing else."""
        status = self._parser.get_status_code()
        if status == 101 or 300 <= status < 400:
            self._fault(f"the tool server answered {status}; neither upgrades nor redirects are followed")
        self._in_body = status >= 200

    def on_body(self, piece: bytes) -> None:
        """More of it."""
        if self._reply is not None and self._reply.fault is None:
            self._reply.add(piece)

    def on_message_complete(self) -> None:
        """The reply is whole, unless it was only the promise of one (1xx)."""
        if self._in_body and self._reply is not None:
            self._keep = self._parser.should_keep_alive()
            self._reply.complete()

    # --- inside ---

    def _fault(self, why: str) -> None:
        if self._reply is not None and self._reply.fault is None:
            self._reply.fault = why

    def _spoil(self, reply: Reply) -> None:
        """What comes is no HTTP, or more than was asked for. A reply that was whole before that stays one."""
        if not reply.whole:
            self._fault("what the tool server answers is no HTTP")
        self.end()
        reply.wake()

    def _lose(self, why: str) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        reply = self._reply
        if reply is not None and (reply.fault is not None or not reply.whole):
            reply.fail(why)

    def _lingered(self, reply: Reply) -> None:
        """Nobody waits for more than the end of this reply."""
        if reply.whole and self._linger is not None:
            self._linger.cancel()
            self._linger = None
            self._next_please()

    def _next_please(self) -> None:
        self._reply = None
        if self._keep and not self._ended:
            self.since = self._loop.time()
            self._owner.free(self)
        else:
            self.end()
