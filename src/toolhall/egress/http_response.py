"""`HttpResponse`: status, headers, and the body of one response, read message by message."""

import asyncio
from collections.abc import Mapping
from typing import Literal, TypeAlias

from toolhall.egress.event_stream import EventStreamParser
from toolhall.egress.exchange import MessageQueue

Framing: TypeAlias = Literal["whole", "lines", "events"]
HeaderFields: TypeAlias = Mapping[bytes, bytes]  # names in lower case
_NO_HEADERS: HeaderFields = {}
_ENDED = "the answer ended without its last message"


class HttpResponse(MessageQueue[object]):
    """A response whose body is one text, or one message on each line (NDJSON), or one in each server-sent event.

    `status` is 0 until the head has arrived. `headers` are kept if the pool's settings say so.
    """

    # As class attributes, the initial values cost nothing per response.
    status = 0
    headers: HeaderFields = _NO_HEADERS
    framing: Framing = "whole"
    is_complete = False
    size = 0  # bytes received
    body: bytes | None = None  # of one text, once it is complete; None also after it was popped
    events: EventStreamParser | None = None
    event_name = b""  # of the event that was popped last
    _scanned = 0  # bytes of the line buffer that are known to hold no line end

    def __init__(self, loop: asyncio.AbstractEventLoop, max_bytes: int) -> None:
        super().__init__(loop)
        self._max_bytes = max_bytes

    def start(self, status: int, headers: HeaderFields, framing: Framing) -> None:
        """The head has arrived, and the body comes in pieces."""
        self.status, self.headers, self.framing = status, headers, framing
        if framing == "events":
            self.events = EventStreamParser(self._max_bytes)
        else:
            self._buffer = bytearray()  # of lines that were not popped yet, or of one text

    def deliver(self, body: bytes, headers: HeaderFields) -> None:
        """Take a whole response with status 200 and one text as its body at once, and wake the reader."""
        self.status, self.headers, self.body, self.is_complete = 200, headers, body, True
        self.notify()

    def feed(self, piece: bytes) -> None:
        """Take more of the body; fails the response if more is unread than allowed."""
        self.size += len(piece)
        if self.events is not None:
            fits = self.events.feed(piece)
        else:
            self._buffer += piece
            fits = len(self._buffer) <= self._max_bytes  # a long call may report more in all
        if not fits:
            self.failure, self.is_too_large = f"more than {self._max_bytes} bytes of the answer wait to be read", True

    def finish(self) -> None:
        """The body is complete."""
        self.is_complete = True
        if self.framing == "whole":
            self.body = bytes(self._buffer)
        elif self.framing == "lines" and self._buffer:
            self._buffer += b"\n"  # the last line may lack its line end

    def has_message(self) -> bool:
        """Whether a whole message has arrived."""
        if self.events is not None:
            return bool(self.events.events)
        return self.body is not None if self.framing == "whole" else b"\n" in self._buffer

    def pop(self) -> bytes | None:
        """The next message, if a whole one has arrived."""
        message = None
        if self.events is not None:
            event = self.events.pop()
            if event is not None:
                message, self.event_name = event.data, event.name
        elif self.framing == "lines":
            message = self._pop_line()
        elif self.failure is None:
            message, self.body = self.body, None
        if message is None and self.is_complete and self.failure is None:
            self.failure = _ENDED
        return message

    def _pop_line(self) -> bytes | None:
        """The next line that is not blank."""
        while (end := self._buffer.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._scanned = 0
            if line and not line.isspace():
                return line
        self._scanned = len(self._buffer)
        return None
