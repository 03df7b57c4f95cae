"""`EventStreamParser`: an incremental parser of server-sent events (text/event-stream), within bounds.

Theory of operation. A piece without a line end is only appended, so that a long line in many pieces costs its length
once. Otherwise everything up to the last line end is split into lines at LF, CRLF and CR; a CR at the end of a piece
ends its line at once, and an LF that follows is skipped. An event counts with its bytes and EVENT_COST, so that many
empty ones cannot take more memory than one large one may.
"""

from collections import deque

import msgspec

EVENT_COST = 256  # bytes that an event takes besides its data
MAX_ID_BYTES = 1_024
MAX_RETRY_DIGITS = 9
MAX_NAME_BYTES = 256
_BOM = b"\xef\xbb\xbf"


class ServerSentEvent(msgspec.Struct, gc=False):
    """One event: its data, and its name (empty: message)."""

    data: bytes
    name: bytes = b""


class EventStreamParser:
    """The events of one stream that were not taken yet; `last_id` and `retry_ms` are what the stream said last."""

    def __init__(self, max_bytes: int) -> None:
        self.events: deque[ServerSentEvent] = deque()
        self.unread = 0  # bytes of the events, and of the one that is being received
        self.last_id: bytes | None = None
        self.retry_ms: int | None = None
        self._max_bytes = max_bytes
        self._line = bytearray(b"")  # the beginning of the next line
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = b""
        self._id: bytes | None = None
        self._skips_lf = False
        self._is_start = True

    def feed(self, piece: bytes) -> bool:
        """Take more of the stream; False if more is unread than allowed."""
        if self._skips_lf and piece:
            self._skips_lf = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        if piece.find(b"\n") < 0 and piece.find(b"\r") < 0:
            self._line += piece
        else:
            if self._line:
                piece = bytes(self._line) + piece
                self._line.clear()
            self._take_lines(piece)
        return self.unread + self._data_bytes + len(self._line) <= self._max_bytes

    def pop(self) -> ServerSentEvent | None:
        """The next event, if a whole one has arrived."""
        if not self.events:
            return None
        event = self.events.popleft()
        self.unread -= len(event.data) + EVENT_COST
        return event

    def _take_lines(self, text: bytes) -> None:
        if self._is_start:
            self._is_start = False
            text = text.removeprefix(_BOM)
        lines = text.splitlines()  # of bytes: at LF, CRLF and CR only
        if text.endswith(b"\r"):
            self._skips_lf = True
        elif not text.endswith(b"\n"):
            self._line += lines.pop()
        for line in lines:
            if not line:
                self._dispatch()
            elif line.startswith(b"data:"):
                self._add_data(line[6:] if line.startswith(b"data: ") else line[5:])
            else:
                self._take_field(line)

    def _take_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"event":
            self._name = value[:MAX_NAME_BYTES]
        elif field == b"id":
            if b"\0" not in value and len(value) <= MAX_ID_BYTES:
                self._id = value
        elif field == b"retry":
            if value.isdigit() and len(value) <= MAX_RETRY_DIGITS:
                self.retry_ms = int(value)
        elif field == b"data":
            self._add_data(value)

    def _add_data(self, value: bytes) -> None:
        self._data.append(value)
        self._data_bytes += len(value) + EVENT_COST

    def _dispatch(self) -> None:
        """A blank line ends an event; one without data only sets the id."""
        if self._id is not None:
            self.last_id = self._id or None  # an empty one says that there is nothing to come back to
            self._id = None
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            self._data.clear()
            self._data_bytes = 0
            if data:
                self.events.append(ServerSentEvent(data, self._name))
                self.unread += len(data) + EVENT_COST
        self._name = b""
