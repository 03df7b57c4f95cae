"""The line from a tool in a tool server to whoever called it: what it tells and asks become messages to the hall."""

import asyncio
import math
from collections.abc import Mapping

from toolhall.dialects.hub.endings import error_of
from toolhall.dialects.hub.remote import Answering, write_log, write_progress, write_question
from toolhall.model.errors import ToolFailed
from toolhall.model.exchange import LOG_LEVELS, Asking, Event, Log, Progress
from toolhall.model.question import Answered, Question
from toolhall.toolserver.outgoing import Outgoing

_MOST_ASKED = 32  # questions of one call that wait for their answer


class CallLink:
    """For one call; how much may be told, and what of it is secret, is for the hall to say."""

    __slots__ = ("_can", "_id", "_number", "_outgoing", "_pending")

    def __init__(self, call_id: str, can: tuple[str, ...], outgoing: Outgoing) -> None:
        self._id = call_id
        self._can = can
        self._outgoing = outgoing
        self._number = 0
        self._pending: dict[int, asyncio.Future[Answering]] = {}

    def emit(self, event: Event) -> None:
        """Tell the hall, in types that it can read whatever an author put in; what JSON cannot say raises."""
        match event:
            case Progress(done, total, message):
                done, total = _number(done), None if total is None else _number(total)
                if math.isfinite(done) and math.isfinite(total or 0):
                    said = None if message is None else str(message)
                    self._outgoing.tell(write_progress(self._id, done, total, said))
            case Log(level, data, logger):
                known = level if level in LOG_LEVELS else "info"
                self._outgoing.tell(write_log(self._id, known, data, logger))

    def can(self, feature: str) -> bool:
        """As the hall said."""
        return feature in self._can

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Let the hall ask."""
        return (await self._put(questions, None)).answers

    async def detach(self, retry_ms: int) -> None:
        """Let the hall hang up."""
        await self._put({}, retry_ms)

    def answered(self, answering: Answering) -> bool:
        """What came of a question; False if nobody asked it, or its answer is there."""
        waiting = self._pending.get(answering.number)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answering)
        return True

    async def _put(self, questions: Mapping[str, Question], retry_ms: int | None) -> Answering:
        if len(self._pending) >= _MOST_ASKED:
            raise ToolFailed(f"the tool asks more than {_MOST_ASKED} questions at once")
        self._number += 1
        number, loop = self._number, asyncio.get_running_loop()
        message = write_question(self._id, number, questions, retry_ms)
        self._pending[number] = loop.create_future()
        self._outgoing.put(message)
        try:
            answering = await self._pending[number]
        finally:
            del self._pending[number]
        if answering.error is not None:
            raise error_of(answering.error)
        if answering.later:
            raise Asking(questions)
        return answering


def _number(value: float) -> float:
    """A number, whatever kind of it an author has; a whole one is written as one."""
    number = float(value)
    return int(number) if number.is_integer() else number
