"""`HubLink`: the client link of a tool in a tool server; events and questions become messages to the hall.

`OutgoingQueue` writes the messages of one call in order. To a hall that reads slowly events are dropped, questions are
not.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Mapping

from toolhall.dialects.hub.call_messages import AnswerMessage, write_log, write_progress, write_question
from toolhall.dialects.hub.results import read_hub_error
from toolhall.model.errors import ToolFailed
from toolhall.model.messages import LOG_LEVELS, CallEvent, InputRequiredSignal, LogEvent, ProgressEvent
from toolhall.model.questions import Answered, Question

_MAX_QUEUED = 64
_MAX_QUEUED_BYTES = 256 * 1024


class OutgoingQueue:
    """The messages of one call before its end; a task writes them, from the first one on."""

    __slots__ = ("_bytes", "_queue", "_send", "_writer", "dropped", "has_started")

    def __init__(self, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._send = send
        self._queue: deque[bytes] = deque()
        self._bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self.has_started = False  # something was said
        self.dropped = 0

    def offer(self, message: bytes) -> None:
        """Say it, unless too much waits already."""
        if len(self._queue) >= _MAX_QUEUED or self._bytes + len(message) > _MAX_QUEUED_BYTES:
            self.dropped += 1
        else:
            self.put(message)

    def put(self, message: bytes) -> None:
        """Say it in any case."""
        self.has_started = True
        self._queue.append(message)
        self._bytes += len(message)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write())

    async def flush(self) -> None:
        """Wait until everything is written."""
        if self._writer is not None:
            await self._writer

    async def cancel(self) -> None:
        """Nobody reads any more."""
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
        except Exception:  # noqa: BLE001 - whoever sends the end of the call hears of it, too
            self._queue.clear()
            self._bytes = 0


_MAX_PENDING_QUESTIONS = 32  # questions of one call that wait for their answer


class HubLink:
    """For one call; how much may be told, and what of it is secret, is for the hall to say."""

    __slots__ = ("_features", "_id", "_last_number", "_outgoing", "_pending")

    def __init__(self, call_id: str, can: tuple[str, ...], outgoing: OutgoingQueue) -> None:
        self._id = call_id
        self._features = can
        self._outgoing = outgoing
        self._last_number = 0
        self._pending: dict[int, asyncio.Future[AnswerMessage]] = {}

    def emit(self, event: CallEvent) -> None:
        """Tell the hall, in types that it can read whatever an author put in; what JSON cannot say raises."""
        match event:
            case ProgressEvent(done, total, message):
                done, total = _to_number(done), None if total is None else _to_number(total)
                if math.isfinite(done) and math.isfinite(total or 0):
                    said = None if message is None else str(message)
                    self._outgoing.offer(write_progress(self._id, done, total, said))
            case LogEvent(level, data, logger):
                known = level if level in LOG_LEVELS else "info"
                self._outgoing.offer(write_log(self._id, known, data, logger))

    def can(self, feature: str) -> bool:
        """As the hall said."""
        return feature in self._features

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Let the hall ask."""
        return (await self._request(questions, None)).answers

    async def detach(self, retry_ms: int) -> None:
        """Let the hall hang up."""
        await self._request({}, retry_ms)

    def deliver_answer(self, answering: AnswerMessage) -> bool:
        """What came of a question; False if nobody asked it, or its answer is there."""
        waiting = self._pending.get(answering.number)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answering)
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
            answering = await self._pending[number]
        finally:
            del self._pending[number]
        if answering.error is not None:
            raise read_hub_error(answering.error)
        if answering.later:
            raise InputRequiredSignal(questions)
        return answering


def _to_number(value: float) -> float:
    """A number, whatever kind of it an author has; a whole one is written as one."""
    number = float(value)
    return int(number) if number.is_integer() else number
