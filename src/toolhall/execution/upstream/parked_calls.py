"""`ParkedCalls`: calls whose upstream waits for an answer that their client brings with a later request.

Theory of operation
-------------------
A legacy upstream asks inside its call and waits there. A modern client answers with a new request. To run the call
again from the top, as a tool of our own is, would repeat its effects at the upstream. So the call runs in a task of its
own (`ParkableCall`). When the upstream asks, the request of the client ends with the questions, and the task waits. A
random id goes with the questions: the link of the call remembers it, sealed where the client carries it. The next
request hands its link to the task (`resume`), which reads the answer from it and goes on, until the next question or
the end.

A client decides whether it comes back, so what waits is bounded: four calls of a caller, 256 in all, ten minutes. After
that, or if the next request is refused or comes with another credential, the call is cancelled at the upstream. The
requests of one call are separate calls of the pipeline, each with its own record. The time that the upstream was given
goes on where it stood still: a question does not buy more.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Any

from toolhall.authoring.context import PausableDeadline
from toolhall.concurrency import BackgroundTasks
from toolhall.execution.deadline import Deadline
from toolhall.execution.upstream.call_hooks import CallHooks, complete_answers
from toolhall.execution.upstream.sessions import caller_identity
from toolhall.model.errors import ToolFailed, ToolhallError, Unavailable
from toolhall.model.messages import Answered, Call, InputRequiredSignal, LogEvent, ProgressEvent, Question, memory_of
from toolhall.model.secret import Secret
from toolhall.redaction.redactor import Redactor

PARKED_KEY = "dev.toolhall/parked"  # in the memory of the call
MAX_PARKED = 256
MAX_PARKED_PER_CALLER = 4
PARKED_SECONDS = 600.0
GONE_MESSAGE = (
    "the call that asked for this answer is gone: it ended, waited too long, or ran in another process; whether it"
    " had an effect is not known, so find out before you start it again"
)
_OTHER_CREDENTIAL = "the credential has changed since the call asked: the call was cancelled; start it again"
_TOO_MANY = "{} of your calls wait for an answer already: answer them, or wait until they end after {:g} minutes"


class ParkableCall(CallHooks):
    """A call in a task of its own, which can wait for the next request of its client."""

    task: "asyncio.Task[object]"

    def __init__(self, hooks: CallHooks, parked: "ParkedCalls") -> None:
        super().__init__(hooks.upstream, hooks.call, hooks.deadline, hooks.redactor)
        self.id = secrets.token_urlsafe(16)
        self.first_call = hooks.call.id
        self.credential = hooks.call.caller.credential
        self.secrets: dict[str, Secret] = {}
        self.earlier_tokens: set[Secret] = set()  # of accounts, that were renewed since
        self._parked = parked
        self._asking = asyncio.Lock()  # a person reads one question at a time
        self._question_count = 0
        self._seconds_left: float | None = None
        loop = asyncio.get_running_loop()
        self._asked: asyncio.Future[InputRequiredSignal] = loop.create_future()
        self._resumed: asyncio.Future[None] = loop.create_future()
        self._use_credentials(hooks.call)

    def on_progress(self, event: ProgressEvent) -> None:
        """RequestHooks: tell the caller, while one of its requests waits."""
        if not self._asked.done():
            super().on_progress(event)

    def on_log(self, event: LogEvent) -> None:
        """RequestHooks: tell the caller, while one of its requests waits."""
        if not self._asked.done():
            super().on_log(event)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask the client of this request; if it answers later, wait for its next request and read the answer there."""
        self.reached_caller = True
        async with self._asking:
            self._question_count += 1
            # Replies of all rounds are carried together, so each question has a key of its own.
            keys = {key: f"{type(each).__name__.lower()}_{self._question_count}" for key, each in questions.items()}
            clean = self.clean({keys[key]: each for key, each in questions.items()})
            while True:
                try:
                    with self.deadline.hold():
                        answers = await self.call.link.ask(clean)
                except InputRequiredSignal as signal:
                    await self._wait_for_next_request(signal)
                else:
                    complete_answers(clean, answers)
                    return {key: answers[asked] for key, asked in keys.items()}

    async def until_round_ends(self) -> object:
        """Wait in the client's request: return or raise what the call does, or InputRequiredSignal for its question."""
        try:
            either: set[asyncio.Future[Any]] = {self.task, self._asked}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self.task.done():
                return self._result()
            await memory_of(self.call.link).remember(PARKED_KEY, self.id.encode())
        except asyncio.CancelledError:
            self._parked.end(self)
            await asyncio.wait({self.task})
            raise
        except ToolhallError:
            self._parked.end(self)
            raise
        raise InputRequiredSignal(self._asked.result().questions)

    def _result(self) -> object:
        if self.task.cancelled():
            raise Unavailable(GONE_MESSAGE)
        return self.task.result()

    def resume(self, call: Call, deadline: PausableDeadline) -> None:
        """Go on with the next request of the client."""
        self.deadline = deadline
        if isinstance(deadline, Deadline) and self._seconds_left is not None:
            deadline.shorten(self._seconds_left)
        self.call = call
        self._use_credentials(call)
        loop = asyncio.get_running_loop()
        self._asked = loop.create_future()
        resumed, self._resumed = self._resumed, loop.create_future()
        if not resumed.done():
            resumed.set_result(None)

    def is_continued_by(self, call: Call) -> bool:
        """Whether a request comes with the same credentials."""
        own = {} if call.credentials is None else dict(call.credentials.secrets)
        return call.caller.credential == self.credential and own == self.secrets

    @property
    def earlier_redactor(self) -> Redactor | None:
        """Removes tokens of earlier requests of this call from what follows; None if there are none."""
        return Redactor(tuple(self.earlier_tokens)) if self.earlier_tokens else None

    async def _wait_for_next_request(self, signal: InputRequiredSignal) -> None:
        deadline: PausableDeadline = self.deadline
        self._seconds_left = deadline.remaining if isinstance(deadline, Deadline) else None
        self._parked.add(self)
        if not self._asked.done():  # else the upstream took back the question that the client answers now
            self._asked.set_result(signal)
        await asyncio.shield(self._resumed)

    def _use_credentials(self, call: Call) -> None:
        credentials = call.credentials
        self.secrets = {} if credentials is None else dict(credentials.secrets)
        if credentials is not None:
            self.earlier_tokens |= {each.token for each in credentials.accounts.values()}


class ParkedCalls:
    """The calls that wait for a later request of their clients."""

    def __init__(self) -> None:
        self._waiting: dict[str, ParkableCall] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._per_caller: Counter[tuple[Hashable, ...]] = Counter()
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._waiting)

    def count(self, upstream: str) -> int:
        """How many calls of an upstream wait."""
        return sum(each.upstream == upstream for each in self._waiting.values())

    def check_room(self, call: Call) -> None:
        """Raise ToolFailed if no further call of this caller may wait."""
        waiting = self._per_caller[caller_identity(call)]
        if waiting >= MAX_PARKED_PER_CALLER:
            raise ToolFailed(_TOO_MANY.format(waiting, PARKED_SECONDS / 60), can_retry=True)
        if len(self._waiting) >= MAX_PARKED:
            raise Unavailable("too many calls wait for answers of their clients now; the call did not run")

    async def start(self, parkable: ParkableCall, work: Callable[[ParkableCall], Awaitable[object]]) -> object:
        """Run a call that can wait for a later request; raises InputRequiredSignal when it does."""
        parkable.task = self._tasks.start(_run(parkable, work))
        parkable.task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a later request raises it
        return await parkable.until_round_ends()

    async def resume(self, id: str, call: Call, deadline: PausableDeadline) -> object:  # noqa: A002 - the id of a parked call
        """Let a waiting call go on; raises Unavailable if there is none that this request may continue."""
        parkable = self._waiting.get(id)
        if parkable is None or parkable.caller != caller_identity(call):
            raise Unavailable(GONE_MESSAGE)
        if not parkable.is_continued_by(call):
            self.end(parkable)
            raise Unavailable(_OTHER_CREDENTIAL)
        self._remove(parkable)
        parkable.resume(call, deadline)
        return await parkable.until_round_ends()

    def first_call(self, id: str) -> str | None:  # noqa: A002 - the id of a parked call
        """The id of the call with which a waiting one began."""
        parkable = self._waiting.get(id)
        return None if parkable is None else parkable.first_call

    def add(self, parkable: ParkableCall) -> None:
        """The call waits from now on; raises as `check_room` does."""
        if parkable.id in self._waiting:
            return
        self.check_room(parkable.call)
        self._waiting[parkable.id] = parkable
        self._per_caller[parkable.caller] += 1
        self._timers[parkable.id] = asyncio.get_running_loop().call_later(PARKED_SECONDS, self.end, parkable)

    def abandon(self, memory: Mapping[str, bytes]) -> None:
        """The request that should have continued a call was refused: cancel the call, if its memory names one."""
        id_ = memory.get(PARKED_KEY)
        parkable = None if id_ is None else self._waiting.get(id_.decode(errors="replace"))
        if parkable is not None:
            self.end(parkable)

    def end(self, parkable: ParkableCall) -> None:
        """Cancel a call at its upstream."""
        self._remove(parkable)
        parkable.task.cancel()

    def end_all(self, upstream: str) -> None:
        """Cancel the waiting calls of an upstream that is switched off or removed."""
        for parkable in list(self._waiting.values()):
            if parkable.upstream == upstream:
                self.end(parkable)

    async def close(self) -> None:
        """Cancel everything that waits or runs here."""
        for parkable in list(self._waiting.values()):
            self._remove(parkable)
        await self._tasks.shutdown()

    def _remove(self, parkable: ParkableCall) -> None:
        if self._waiting.pop(parkable.id, None) is None:
            return
        self._timers.pop(parkable.id).cancel()
        self._per_caller[parkable.caller] -= 1
        if not self._per_caller[parkable.caller]:
            del self._per_caller[parkable.caller]


async def _run(parkable: ParkableCall, work: Callable[[ParkableCall], Awaitable[object]]) -> object:
    return await work(parkable)
