"""`HubLink`: the client link of a tool in a tool server; events and questions become messages to the hall.

`OutgoingQueue` writes the messages of one call in order. If the hall reads slowly, it drops events, but no questions.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from toolhall.dialects.hub.call_messages import (
    CHANGED,
    MAX_CHANGES,
    AnswerMessage,
    write_changed,
    write_log,
    write_progress,
    write_question,
)
from toolhall.dialects.hub.results import read_hub_error
from toolhall.model.errors import ToolFailed
from toolhall.model.messages import (
    LOG_LEVELS,
    Answered,
    CallEvent,
    InputRequiredSignal,
    LogEvent,
    ProgressEvent,
    Question,
    ResourceChanged,
)

_MAX_QUEUED = 64
_MAX_QUEUED_BYTES = 256 * 1024
_MAX_PENDING_QUESTIONS = 32  # questions of one call that wait for their answer


class OutgoingQueue:
    """The messages of one call before its response, written by a task that starts with the first one."""

    __slots__ = ("_bytes", "_queue", "_send", "_writer", "dropped", "has_started")

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self.has_started = False  # a message was queued
        self.dropped = 0

    def offer(self, message: bytes) -> None:
        """Queue a message, or drop it if the queue is full."""
        if len(self._queue) >= _MAX_QUEUED or self._bytes + len(message) > _MAX_QUEUED_BYTES:
            self.dropped += 1
        else:
            self.put(message)

    def put(self, message: bytes) -> None:
        """Queue a message even if the queue is full."""
        self.has_started = True
        self._queue.append(message)
        self._bytes += len(message)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def flush(self) -> None:
        """Wait until all messages are written."""
        if self._writer is not None:
            await self._writer

    async def cancel(self) -> None:
        """Drop all messages, and stop writing."""
        self._queue.clear()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    async def _write(self) -> None:
        try:
            while self._queue:
                message = self._queue.popleft()
                self._bytes -= len(message)
                await self._send(message)
        except Exception:  # noqa: BLE001 - sending the response of the call meets the same error
            self._queue.clear()
            self._bytes = 0


class HubLink:
    """The client link of one call; the hall limits and redacts what is sent over it."""

    __slots__ = ("_changes", "_features", "_id", "_last_number", "_outgoing", "_pending", "_reports")

    def __init__(
        self, call_id: str, can: tuple[str, ...], outgoing: OutgoingQueue, reports: tuple[str, ...] = ()
    ) -> None:
        """`reports` are the types of messages that the hall reads besides those that every hall does."""
        self._id = call_id
        self._features = can
        self._reports = reports
        self._changes = 0
        self._outgoing = outgoing
        self._last_number = 0
        self._pending: dict[int, asyncio.Future[AnswerMessage]] = {}

    def emit(self, event: CallEvent) -> None:
        """Send an event to the hall, converted to the types of the protocol; raises if its data is not JSON."""
        match event:
            case ProgressEvent(done, total, message):
                done, total = _to_number(done), None if total is None else _to_number(total)
                if math.isfinite(done) and math.isfinite(total or 0):
                    text = None if message is None else str(message)
                    self._outgoing.offer(write_progress(self._id, done, total, text))
            case LogEvent(level, data, logger):
                known = level if level in LOG_LEVELS else "info"
                self._outgoing.offer(write_log(self._id, known, data, logger))
            case ResourceChanged(uri):
                if CHANGED in self._reports and self._changes < MAX_CHANGES:
                    self._changes += 1
                    self._outgoing.put(write_changed(self._id, str(uri)))

    def can(self, feature: str) -> bool:
        """Whether the client declared this feature."""
        return feature in self._features

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Have the hall ask these questions; returns the answers."""
        return (await self._request(questions, None)).answers

    async def detach(self, retry_ms: int) -> None:
        """Have the hall close the response stream until the client resumes it."""
        await self._request({}, retry_ms)

    def deliver_answer(self, answer: AnswerMessage) -> bool:
        """Deliver the answer to a question; False if it is not pending, or was answered already."""
        pending = self._pending.get(answer.number)
        if pending is None or pending.done():
            return False
        pending.set_result(answer)
        return True

    async def _request(self, questions: Mapping[str, Question], retry_ms: int | None) -> AnswerMessage:
        if len(self._pending) >= _MAX_PENDING_QUESTIONS:
            raise ToolFailed(f"the tool asks more than {_MAX_PENDING_QUESTIONS} questions at once")
        self._last_number += 1
        number, loop = self._last_number, asyncio.get_running_loop()
        message = write_question(self._id, number, questions, retry_ms)
        self._pending[number] = loop.create_future()
        self._outgoing.put(message)
        try:
            answer = await self._pending[number]
        finally:
            del self._pending[number]
        if answer.error is not None:
            raise read_hub_error(answer.error)
        if answer.later:
            raise InputRequiredSignal(questions)
        return answer


def _to_number(value: float) -> float:
    """A JSON number for any numeric type of an author; whole ones are written as integers."""
    number = float(value)
    return int(number) if number.is_integer() else number
