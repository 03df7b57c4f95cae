"""`WebSocketTransport`: calls over a WebSocket that the tool server opened (`PeerSocket`), many at once, by call id."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import msgspec

from toolhall.dialects.hub.call_messages import (
    CANCEL,
    CHANGED,
    ToolResponseMessage,
    ToolServerMessage,
    read_tool_server_message,
    write_request,
)
from toolhall.egress.exchange import TRANSPORT_CLOSED, ExchangeLost, MessageQueue
from toolhall.execution.remote.replica_transport import (
    MAX_MESSAGE_BYTES,
    ReportHandler,
    check_report,
    check_response,
    decode_message,
    handle_report,
)
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject

MAX_RUNNING_CALLS = 1_000
MAX_UNREAD_FACTOR = 16  # times the limit of one call: the limit of unread bytes of all calls of a socket
_SMALL_FRAME_BYTES = (
    4 * 1024
)  # decoded at once if its call waits; a frame that is queued stays encoded, to take less room
_MESSAGE_TYPES = frozenset(
    {"tool_progress", "tool_log", CHANGED, "tool_question", "tool_response", "tool_error", "response"}
)
# Writes one frame. Raises ExchangeLost, which says whether it was written; after any other exception that is not known.
SendFrame: TypeAlias = Callable[[bytes], Awaitable[None]]


class _Envelope(msgspec.Struct):
    type: str = ""
    id: Any = None


_decode_envelope: Callable[[bytes], _Envelope] = msgspec.json.Decoder(_Envelope).decode


class _CallQueue(MessageQueue[ToolServerMessage]):
    """The unread frames of one call."""

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: "WebSocketTransport") -> None:
        super().__init__(loop)
        self.transport = transport
        self.unread: deque[bytes] = deque()
        self.size = 0  # bytes of unread frames

    def has_message(self) -> bool:
        return bool(self.unread)

    def pop(self) -> bytes | None:
        if not self.unread:
            return None
        body = self.unread.popleft()
        self.size -= len(body)
        return body

    def hand_over(self, message: ToolServerMessage) -> bool:
        """Give a message to the call, if it waits for one."""
        if self._waiter is None or self._waiter.done():
            return False
        self._waiter.set_result(message)
        return True


class PeerSocket:
    """All calls over one WebSocket, of every replica that shares it; its reader passes on frames (`handle_frame`)."""

    def __init__(
        self, send: SendFrame, max_bytes: int = MAX_MESSAGE_BYTES, send_now: Callable[[bytes], bool] | None = None
    ) -> None:
        """`send_now` writes a frame without waiting, or returns False."""
        self._send = send
        self._send_now = send_now
        self._max_bytes = max_bytes
        self._max_small_bytes = min(_SMALL_FRAME_BYTES, max_bytes)
        self._loop: asyncio.AbstractEventLoop | None = None  # of the first call, and so of all
        # By replica; a transport lives as long as the lease of its replica.
        self._transports: WeakValueDictionary[str, WebSocketTransport] = WeakValueDictionary()
        self._calls: dict[str, _CallQueue] = {}
        self.unread_bytes = 0  # of all calls
        self.is_open = True
        self._cancel_tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        """How many calls run on it, with cancelled ones whose cancel message is not written yet."""
        return len(self._calls) + len(self._cancel_tasks)

    def transport_for(self, replica: str) -> "WebSocketTransport":
        """The transport to this replica: the one that it has, or a new one if that was closed with its lease."""
        transport = self._transports.get(replica)
        if transport is None or not transport.is_open:
            self._transports[replica] = transport = WebSocketTransport(self)
        return transport

    # --- for the reader of the socket ---

    def handle_frame(self, body: bytes) -> bool:
        """Pass a frame to its call; False if it is neither a report nor a response. Drops frames of unknown calls."""
        if len(body) <= self._max_small_bytes:
            try:
                message = read_tool_server_message(body)
            except Malformed:
                return self._queue_frame(body)
            queue = self._calls.get(message.id) if isinstance(message.id, str) else None
            if queue is None or queue.hand_over(message):
                return True
        return self._queue_frame(body)

    def _queue_frame(self, body: bytes) -> bool:
        try:
            envelope = _decode_envelope(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return False
        if envelope.type not in _MESSAGE_TYPES:
            return False
        queue = self._calls.get(envelope.id) if isinstance(envelope.id, str) else None
        if queue is not None and queue.failure is None:
            self._enqueue(queue, body)
        return True

    def on_closed(self) -> None:
        """The socket has closed: every call on it is lost."""
        self.is_open = False
        for task in self._cancel_tasks:
            task.cancel()
        for queue in self._calls.values():
            queue.fail("the tool server's socket was closed")

    # --- for its transports ---

    def open_queue(self, call_id: str, transport: "WebSocketTransport") -> _CallQueue:
        """Receive frames with this id from now on."""
        if call_id in self._calls:
            raise ExchangeLost("a call with this id runs on this socket already", delivered=False)
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._calls[call_id] = queue = _CallQueue(self._loop, transport)
        return queue

    async def write(self, request: bytes) -> None:
        """Write one frame; raises ExchangeLost, which says whether it may have been delivered."""
        if self._send_now is not None and self._send_now(request):
            return
        try:
            await self._send(request)
        except ExchangeLost:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the call may have been delivered
            raise ExchangeLost(f"the tool server's socket broke: {type(error).__name__}", delivered=True) from None

    def pop_message(self, queue: _CallQueue) -> ToolServerMessage | None:
        """The next unread message of a call; raises ExchangeLost if it cannot be read."""
        body = queue.pop()
        if body is None:
            return None
        self.unread_bytes -= len(body)
        return decode_message(body)

    def close_queue(self, call_id: str, queue: _CallQueue) -> None:
        """Drop further frames with this id."""
        del self._calls[call_id]
        self.unread_bytes -= sum(map(len, queue.unread))

    def send_cancel(self, call_id: str) -> None:
        """Tell the tool server that a call was cancelled, from a task: the canceller does not wait for that."""
        if self.is_open:
            task = asyncio.get_running_loop().create_task(self._write_cancel(call_id))
            self._cancel_tasks.add(task)
            task.add_done_callback(self._cancel_tasks.discard)

    def fail_transport(self, transport: "WebSocketTransport") -> None:
        """Fail the calls of this transport, and no others."""
        for queue in self._calls.values():
            if queue.transport is transport:
                queue.fail(TRANSPORT_CLOSED)

    # --- private ---

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
        except ExchangeLost:
            return  # the end of the socket cancels the call


class WebSocketTransport:
    """Calls one replica over a socket that it may share with others; lasts no longer than the socket."""

    def __init__(self, socket: PeerSocket) -> None:
        self._socket = socket
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether it accepts calls."""
        return not self._closed and self._socket.is_open

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its name in the protocol
        """Run a call at the replica; cancelling this cancels it there."""
        if self._socket.running >= MAX_RUNNING_CALLS:  # `request` has no such limit: a full socket is healthy
            raise ExchangeLost(f"{MAX_RUNNING_CALLS} calls run on this socket already", delivered=False)
        socket, queue = self._socket, self._open_queue(id)
        finished = False
        try:
            await socket.write(request)
            while True:
                message = socket.pop_message(queue) or await queue.wait()
                if message is None:
                    continue
                report = check_report(message, id)
                if isinstance(report, ToolResponseMessage):
                    finished = True
                    return report
                answer = await handle_report(queue, on_report, report)
                if answer is not None:
                    await self._send_answer(answer)
        except ExchangeLost as lost:
            finished = not lost.delivered
            raise
        finally:
            socket.close_queue(id, queue)
            if not finished:
                socket.send_cancel(id)

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its name in the protocol
        """Send a request of the hall itself; returns the whole response."""
        socket, queue = self._socket, self._open_queue(id)
        try:
            await socket.write(body)
            while (message := socket.pop_message(queue) or await queue.wait()) is None:
                pass
            return check_response(message, id)
        finally:
            socket.close_queue(id, queue)

    def close_idle(self) -> None:
        """Do nothing: the socket belongs to its reader."""

    def close(self) -> None:
        """Fail every call of this transport, and cancel it at the replica; the socket stays open."""
        self._closed = True
        self._socket.fail_transport(self)

    def _open_queue(self, call_id: str) -> _CallQueue:
        if not self.is_open:
            raise ExchangeLost(TRANSPORT_CLOSED, delivered=False)
        return self._socket.open_queue(call_id, self)

    async def _send_answer(self, answer: bytes) -> None:
        """Send the answer to a question; if that fails, the call itself still counts as delivered."""
        try:
            await self._socket.write(answer)
        except ExchangeLost as lost:
            raise ExchangeLost(f"an answer did not get there: {lost.reason}", delivered=True) from None
