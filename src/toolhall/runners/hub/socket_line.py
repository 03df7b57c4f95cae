"""Calls over a WebSocket that the tool server opened: many at once, told apart by their ids."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from toolhall.dialects.hub.remote import CANCEL, ToolEnd, write_request
from toolhall.model.json import JsonObject
from toolhall.runners.hub.inbox import Inbox
from toolhall.runners.hub.line import CLOSED, MOST_BYTES, Hear, Lost, report_of, response_of

MOST_RUNNING = 1_000
MOST_UNREAD = 16  # times what one call may say: so much of all calls together waits to be read
_OURS = frozenset({"tool_progress", "tool_log", "tool_question", "tool_response", "tool_error", "response"})

# Writes one frame. It raises Lost, and says with it whether anything was written; whatever else it raises says nothing.
SendFrame: TypeAlias = Callable[[bytes], Awaitable[None]]


class _Envelope(msgspec.Struct):
    type: str = ""
    id: Any = None


_envelope: Callable[[bytes], _Envelope] = msgspec.json.Decoder(_Envelope).decode


class _Frames(Inbox):
    """What came for one id."""

    __slots__ = ("line", "size", "unread")  # whose it is, the bytes of what nobody has read, and that itself

    def __init__(self, loop: asyncio.AbstractEventLoop, line: "SocketLine") -> None:
        super().__init__(loop)
        self.line = line
        self.unread: deque[bytes] = deque()
        self.size = 0

    def has_message(self) -> bool:
        return bool(self.unread)

    def take(self) -> bytes | None:
        if not self.unread:
            return None
        body = self.unread.popleft()
        self.size -= len(body)
        return body


class CalledSocket:
    """All calls over one socket, whichever replica they are for: whoever reads it tells what it `heard`."""

    def __init__(self, send: SendFrame, most_bytes: int = MOST_BYTES) -> None:
        self._send = send
        self._most = most_bytes
        self._loop: asyncio.AbstractEventLoop | None = None  # of the first call, and so of all
        self._lines: WeakValueDictionary[str, SocketLine] = WeakValueDictionary()  # whose replica has a lease
        self._calls: dict[str, _Frames] = {}
        self.unread = 0  # bytes that wait to be read, of all calls
        self.there = True  # can be written to
        self._goodbyes: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """How many calls it has, with those that were given up while nothing could be written."""
        return len(self._calls) + len(self._goodbyes)

    def line(self, replica: str) -> "SocketLine":
        """The line to this replica: the one that it has, or a new one where that has ended with its lease."""
        found = self._lines.get(replica)
        if found is None or not found.open:
            self._lines[replica] = found = SocketLine(self)
        return found

    # --- for whoever reads the socket ---

    def heard(self, body: bytes) -> bool:
        """Take a frame; False for one that is neither a report nor a response. What nobody waits for is forgotten."""
        try:
            said = _envelope(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if said.type not in _OURS:
            return False
        frames = self._calls.get(said.id) if isinstance(said.id, str) else None
        if frames is not None and frames.fault is None:
            self._take(frames, body)
        return True

    def closed(self) -> None:
        """It is gone, and all that ran on it is lost."""
        self.there = False
        for task in self._goodbyes:
            task.cancel()
        for frames in self._calls.values():
            frames.fail("the tool server's socket was closed")

    # --- for its lines ---

    def begin(self, call_id: str, line: "SocketLine") -> _Frames:
        """A place for what comes with this id."""
        if call_id in self._calls:
            raise Lost("a call with this id runs on this socket already", delivered=False)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._calls[call_id] = frames = _Frames(self._loop, line)
        return frames

    async def write(self, request: bytes) -> None:
        """One frame; Lost says whether that was written."""
        try:
            await self._send(request)
        except Lost:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the call may have got there
            raise Lost(f"the tool server's socket broke: {type(error).__name__}", delivered=True) from None

    async def next(self, frames: _Frames) -> bytes:
        """The next frame of a call."""
        body = await frames.next()
        self.unread -= len(body)
        return body

    def over(self, call_id: str, frames: _Frames) -> None:
        """Whatever else comes with this id is nobody's."""
        del self._calls[call_id]
        self.unread -= sum(map(len, frames.unread))

    def cancel(self, call_id: str) -> None:
        """Tell the other side, without waiting: whoever cancelled does not wait either."""
        if self.there:
            task = asyncio.get_running_loop().create_task(self._say_cancel(call_id))
            self._goodbyes.add(task)
            task.add_done_callback(self._goodbyes.discard)

    def fail(self, line: "SocketLine") -> None:
        """Lose what runs on this line, and nothing else."""
        for frames in self._calls.values():
            if frames.line is line:
                frames.fail(CLOSED)

    # --- inside ---

    def _take(self, frames: _Frames, body: bytes) -> None:
        frames.size += len(body)
        if frames.size > self._most:
            frames.too_much = True
            frames.fail(f"more than {self._most} bytes about the call wait to be read")
        elif self.unread + len(body) > MOST_UNREAD * self._most:
            frames.fail("the tool server says more than is read")
        else:
            self.unread += len(body)
            frames.unread.append(body)
            frames.wake()

    async def _say_cancel(self, call_id: str) -> None:
        try:
            await self.write(write_request(f"c{call_id}", CANCEL, {"id": call_id}))
        except Lost:
            return  # it is cancelled with its socket


class SocketLine:
    """A line to one replica, over a socket that it may share with others; it lasts no longer than that."""

    def __init__(self, socket: CalledSocket) -> None:
        self._socket = socket
        self._closed = False

    @property
    def open(self) -> bool:
        """Whether it takes calls."""
        return not self._closed and self._socket.there

    async def call(self, request: bytes, id: str, hear: Hear) -> ToolEnd:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this, cancels it there."""
        if self._socket.running >= MOST_RUNNING:  # what the hall itself asks has room: a full line is no sick one
            raise Lost(f"{MOST_RUNNING} calls run on this socket already", delivered=False)
        socket, frames = self._socket, self._begun(id)
        finished = False
        try:
            await socket.write(request)
            while True:
                report = report_of(await socket.next(frames), id)
                if isinstance(report, ToolEnd):
                    finished = True
                    return report
                answer = await frames.heard(hear, report)
                if answer is not None:
                    await self._answered(answer)
        except Lost as lost:
            finished = not lost.delivered
            raise
        finally:
            socket.over(id, frames)
            if not finished:
                socket.cancel(id)

    async def ask(self, request: bytes, id: str) -> JsonObject:  # noqa: A002 - its word
        """Something that the hall itself wants to know: the whole response."""
        socket, frames = self._socket, self._begun(id)
        try:
            await socket.write(request)
            return response_of(await socket.next(frames), id)
        finally:
            socket.over(id, frames)

    def rest(self) -> None:
        """The socket is its owner's."""

    def close(self) -> None:
        """Every call that runs on this line is lost, and cancelled over there; the socket is its owner's."""
        self._closed = True
        self._socket.fail(self)

    def _begun(self, call_id: str) -> _Frames:
        if not self.open:
            raise Lost(CLOSED, delivered=False)
        return self._socket.begin(call_id, self)

    async def _answered(self, answer: bytes) -> None:
        """Send what came of a question: that this did not get there does not undo that the call did."""
        try:
            await self._socket.write(answer)
        except Lost as lost:
            raise Lost(f"an answer did not get there: {lost.why}", delivered=True) from None
