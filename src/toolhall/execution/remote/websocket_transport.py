"""`WebSocketTransport`: calls over a WebSocket that the tool server opened (`PeerSocket`), many at once, by call id."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from toolhall.dialects.hub.call_messages import CANCEL, ToolResponseMessage, write_request
from toolhall.execution.remote.replica_transport import (
    MAX_MESSAGE_BYTES,
    TRANSPORT_CLOSED,
    CallLost,
    MessageQueue,
    ReportHandler,
    decode_report,
    decode_response,
)
from toolhall.model.json import JsonObject

MAX_RUNNING_CALLS = 1_000
MAX_UNREAD_FACTOR = 16  # times what one call may say: so much of all calls together waits to be read
_MESSAGE_TYPES = frozenset({"tool_progress", "tool_log", "tool_question", "tool_response", "tool_error", "response"})
# Writes one frame. It raises Lost, and says with it whether anything was written; whatever else it raises says nothing.
SendFrame: TypeAlias = Callable[[bytes], Awaitable[None]]


class _Envelope(msgspec.Struct):
    type: str = ""
    id: Any = None


_decode_envelope: Callable[[bytes], _Envelope] = msgspec.json.Decoder(_Envelope).decode


class _CallQueue(MessageQueue):
    """What came for one id."""

    __slots__ = ("size", "transport", "unread")  # whose it is, the bytes of what nobody has read, and that itself

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: "WebSocketTransport") -> None:
        super().__init__(loop)
        self.transport = transport
        self.unread: deque[bytes] = deque()
        self.size = 0

    def has_message(self) -> bool:
        return bool(self.unread)

    def pop(self) -> bytes | None:
        if not self.unread:
            return None
        body = self.unread.popleft()
        self.size -= len(body)
        return body


class PeerSocket:
    """All calls over one socket, whichever replica they are for: whoever reads it tells what it `heard`."""

    def __init__(self, send: SendFrame, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        self._send = send
        self._max_bytes = max_bytes
        self._loop: asyncio.AbstractEventLoop | None = None  # of the first call, and so of all
        self._transports: WeakValueDictionary[str, WebSocketTransport] = (
            WeakValueDictionary()
        )  # whose replica has a lease
        self._calls: dict[str, _CallQueue] = {}
        self.unread_bytes = 0  # bytes that wait to be read, of all calls
        self.is_open = True  # can be written to
        self._cancel_tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """How many calls it has, with those that were given up while nothing could be written."""
        return len(self._calls) + len(self._cancel_tasks)

    def transport_for(self, replica: str) -> "WebSocketTransport":
        """The line to this replica: the one that it has, or a new one where that has ended with its lease."""
        found = self._transports.get(replica)
        if found is None or not found.is_open:
            self._transports[replica] = found = WebSocketTransport(self)
        return found

    # --- for whoever reads the socket ---

    def handle_frame(self, body: bytes) -> bool:
        """Take a frame; False for one that is neither a report nor a response. What nobody waits for is forgotten."""
        try:
            said = _decode_envelope(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if said.type not in _MESSAGE_TYPES:
            return False
        frames = self._calls.get(said.id) if isinstance(said.id, str) else None
        if frames is not None and frames.failure is None:
            self._enqueue(frames, body)
        return True

    def on_closed(self) -> None:
        """It is gone, and all that ran on it is lost."""
        self.is_open = False
        for task in self._cancel_tasks:
            task.cancel()
        for frames in self._calls.values():
            frames.fail("the tool server's socket was closed")

    # --- for its lines ---

    def open_queue(self, call_id: str, transport: "WebSocketTransport") -> _CallQueue:
        """A place for what comes with this id."""
        if call_id in self._calls:
            raise CallLost("a call with this id runs on this socket already", delivered=False)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._calls[call_id] = frames = _CallQueue(self._loop, transport)
        return frames

    async def write(self, request: bytes) -> None:
        """One frame; Lost says whether that was written."""
        try:
            await self._send(request)
        except CallLost:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the call may have got there
            raise CallLost(f"the tool server's socket broke: {type(error).__name__}", delivered=True) from None

    async def next_message(self, queue: _CallQueue) -> bytes:
        """The next frame of a call."""
        body = await queue.next()
        self.unread_bytes -= len(body)
        return body

    def close_queue(self, call_id: str, queue: _CallQueue) -> None:
        """Whatever else comes with this id is nobody's."""
        del self._calls[call_id]
        self.unread_bytes -= sum(map(len, queue.unread))

    def send_cancel(self, call_id: str) -> None:
        """Tell the other side, without waiting: whoever cancelled does not wait either."""
        if self.is_open:
            task = asyncio.get_running_loop().create_task(self._write_cancel(call_id))
            self._cancel_tasks.add(task)
            task.add_done_callback(self._cancel_tasks.discard)

    def fail_transport(self, transport: "WebSocketTransport") -> None:
        """Lose what runs on this line, and nothing else."""
        for frames in self._calls.values():
            if frames.transport is transport:
                frames.fail(TRANSPORT_CLOSED)

    # --- inside ---

    def _enqueue(self, queue: _CallQueue, body: bytes) -> None:
        queue.size += len(body)
        if queue.size > self._max_bytes:
            queue.is_too_large = True
            queue.fail(f"more than {self._max_bytes} bytes about the call wait to be read")
        elif self.unread_bytes + len(body) > MAX_UNREAD_FACTOR * self._max_bytes:
            queue.fail("the tool server says more than is read")
        else:
            self.unread_bytes += len(body)
            queue.unread.append(body)
            queue.notify()

    async def _write_cancel(self, call_id: str) -> None:
        try:
            await self.write(write_request(f"c{call_id}", CANCEL, {"id": call_id}))
        except CallLost:
            return  # it is cancelled with its socket


class WebSocketTransport:
    """A line to one replica, over a socket that it may share with others; it lasts no longer than that."""

    def __init__(self, socket: PeerSocket) -> None:
        self._socket = socket
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether it takes calls."""
        return not self._closed and self._socket.is_open

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this, cancels it there."""
        if self._socket.running >= MAX_RUNNING_CALLS:  # what the hall itself asks has room: a full line is no sick one
            raise CallLost(f"{MAX_RUNNING_CALLS} calls run on this socket already", delivered=False)
        socket, frames = self._socket, self._open_queue(id)
        finished = False
        try:
            await socket.write(request)
            while True:
                report = decode_report(await socket.next_message(frames), id)
                if isinstance(report, ToolResponseMessage):
                    finished = True
                    return report
                answer = await frames.handle_report(on_report, report)
                if answer is not None:
                    await self._send_answer(answer)
        except CallLost as lost:
            finished = not lost.delivered
            raise
        finally:
            socket.close_queue(id, frames)
            if not finished:
                socket.send_cancel(id)

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its word
        """Something that the hall itself wants to know: the whole response."""
        socket, frames = self._socket, self._open_queue(id)
        try:
            await socket.write(body)
            return decode_response(await socket.next_message(frames), id)
        finally:
            socket.close_queue(id, frames)

    def close_idle(self) -> None:
        """The socket is its owner's."""

    def close(self) -> None:
        """Every call that runs on this line is lost, and cancelled over there; the socket is its owner's."""
        self._closed = True
        self._socket.fail_transport(self)

    def _open_queue(self, call_id: str) -> _CallQueue:
        if not self.is_open:
            raise CallLost(TRANSPORT_CLOSED, delivered=False)
        return self._socket.open_queue(call_id, self)

    async def _send_answer(self, answer: bytes) -> None:
        """Send what came of a question: that this did not get there does not undo that the call did."""
        try:
            await self._socket.write(answer)
        except CallLost as lost:
            raise CallLost(f"an answer did not get there: {lost.reason}", delivered=True) from None
