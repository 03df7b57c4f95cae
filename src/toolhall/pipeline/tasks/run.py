"""TaskRun: one run of a long call in this process, from its start or its claim until it has ended or is set down.

It is the client link and the memory of the running tool. Before the task is made, events and questions go to the
client of the request; from then on, into the task's row.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial

import msgspec

from toolhall.authoring.context import PausableDeadline
from toolhall.execution.client_link import client_features
from toolhall.execution.long_calls import LongCallLink
from toolhall.model.errors import (
    Broken,
    Limited,
    OutcomeUnknown,
    ToolFailed,
    ToolhallError,
    Unsupported,
)
from toolhall.model.messages import (
    NULL_LINK,
    Answer,
    Answered,
    Call,
    CallConsent,
    CallEvent,
    CallTool,
    ClientLink,
    CompletedCall,
    InputRequired,
    InputRequiredSignal,
    ProgressEvent,
    Question,
    memory_of,
    required_feature,
)
from toolhall.model.tool import MAX_KEEP_SECONDS, Task, Tool, may_run_again
from toolhall.pipeline.tasks.records import MAX_BYTES, TaskCall, TaskMemory, TaskOutcome, encode_record
from toolhall.pipeline.tasks.rows import RESULT_SECONDS, TaskChange, TaskRows, TaskTerms
from toolhall.stores.common import StoreFailed
from toolhall.stores.tasks import StoredTask

SET_DOWN_SECONDS = 60.0  # for which a coroutine waits for a person
STATUS_SECONDS = 1.0  # between two writes of a tool's progress
MAX_STATUS = 1_000
_WRITE_ATTEMPTS = 5
_WRITE_PAUSE = 1.0
_MAX_PAUSE = 60.0
_log = logging.getLogger("toolhall.tasks")


class RunHost(ABC):
    """What a run needs of the engine."""

    rows: TaskRows
    stopping = False

    @abstractmethod
    def answer_call(self, request: CallTool, run: "TaskRun") -> Awaitable[Answer]:
        """Run a call through the pipeline, with this run as its client link."""

    @abstractmethod
    def changed(self, row: StoredTask) -> None:
        """A row was changed: tell everybody who waits for it."""

    @abstractmethod
    def is_deferrable(self, tool: Tool) -> bool:
        """Whether a quick call of this tool may be answered in line, without a row."""


class TaskRun(LongCallLink):
    """One run; `made` is done once the task is stored."""

    def __init__(self, host: RunHost, client: ClientLink = NULL_LINK, terms: TaskTerms | None = None) -> None:
        self._host = host
        self._client = client
        self._terms = terms or TaskTerms()
        self._features: tuple[str, ...] = client_features(client)
        self.made: asyncio.Future[StoredTask] = asyncio.get_running_loop().create_future()
        self.row: StoredTask | None = None
        self.tool: Tool | None = None
        self._epoch = 0
        self._call: Call | None = None
        self._deadline: PausableDeadline | None = None
        self._holds = ExitStack()  # of the deadline, while the task has none
        self._early = TaskMemory()  # of the time before the task is made
        self._making: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None  # of `Task.in_line`
        self._changed = asyncio.Event()
        self._status: str | None = None  # not written yet
        self._status_task: asyncio.Task[None] | None = None
        self._work: asyncio.Task[Answer | None] | None = None
        self._deferred = False

    # --- driven by the engine -----------------------------------------------------------------------------------------

    def start(self, request: CallTool) -> "asyncio.Task[Answer | None]":
        """Run a new call; the task returns the answer if no task is made of it, else None."""
        self._work = asyncio.get_running_loop().create_task(self._run(request))
        return self._work

    def resume(self, row: StoredTask, call: TaskCall, consent: CallConsent | None) -> "asyncio.Task[Answer | None]":
        """Run a stored task that this process has claimed."""
        self.row, self._epoch = row, row.epoch
        self._features = call.features
        self.made.set_result(row)
        return self.start(call.request(consent))

    def observe(self, row: StoredTask) -> None:
        """The row was changed, by this process or another one."""
        if self.row is None or row.serial <= self.row.serial:
            return
        self.row = row
        self._changed.set()
        if row.has_ended or row.epoch != self._epoch:
            self.stop()

    def stop(self) -> None:
        """Cancel the run, and once more a second later if the tool goes on; what becomes of the row is known."""
        if self._work is not None and not self._work.done():
            self._work.cancel()
            asyncio.get_running_loop().call_later(1.0, self._stop_again)

    def _stop_again(self) -> None:
        if self._work is not None and not self._work.done():
            self._work.cancel()

    @property
    def is_making(self) -> bool:
        """Whether the row is stored, or is being stored right now: its request may go."""
        return self.row is not None or self._making is not None

    @property
    def waits_for_person(self) -> bool:
        """Whether it waits for answers, so that it can be set down."""
        return self.row is not None and self.row.state == "input_required"

    async def _run(self, request: CallTool) -> Answer | None:
        try:
            answer = await self._answer(request)
            if self.row is None and self._deferred and not _is_plain(answer):
                await self.make()
        except asyncio.CancelledError:
            if self._making is not None:
                await asyncio.wait({self._making})
            if self.row is None:
                raise
            await self._write(self._interrupted)
            return None
        except ToolhallError as error:  # the row of a quick failure could not be stored
            answer = error
        finally:
            self._close()
        if self.row is None:
            return answer
        await self._write(lambda _, memory: self._ending(answer, memory))
        return None

    async def _answer(self, request: CallTool) -> Answer:
        """Run it through the pipeline; a run of a stored task waits while it is limited."""
        while True:
            answer = await self._host.answer_call(request, self)
            if self.row is None or not isinstance(answer, Limited) or answer.reached_tool:
                return answer
            await asyncio.sleep(min(answer.retry_after, _MAX_PAUSE))

    def _close(self) -> None:
        self._holds.close()
        if self._timer is not None:
            self._timer.cancel()
        if self._status_task is not None:
            self._status_task.cancel()

    # --- called while the tool runs -----------------------------------------------------------------------------------

    async def begin(self, tool: Tool, call: Call, deadline: PausableDeadline) -> None:
        """Store the task before the tool runs, unless it is stored, or is made later."""
        self.tool, self._call, self._deadline = tool, call, deadline
        task = tool.task or Task()
        if self.row is not None:
            self._hold_deadline()
        elif self._terms.at_once:
            await self.make()
        elif task.after_questions:
            pass
        elif task.in_line and not task.required and self._host.is_deferrable(tool):
            self._deferred = True
            self._timer = asyncio.get_running_loop().call_later(task.in_line, self._make_late)
        else:
            await self.make()

    async def make(self) -> None:
        """Store the task, if it is not stored; this finishes even if the request is cancelled meanwhile."""
        if self._making is None and self.row is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
        if self._making is not None:
            await asyncio.shield(self._making)

    def _make_late(self) -> None:
        """The tool takes longer than may be waited for; without a row it is answered in line."""
        if self.row is None and self._making is None:
            self._making = asyncio.get_running_loop().create_task(self._make())
            self._making.add_done_callback(_log_failure)

    async def _make(self) -> None:
        tool, call = self.tool, self._call
        if tool is None or call is None:
            raise Broken(detail="a task was to be made before its tool was about to run")
        stored_call = TaskCall.of(call, str(tool.id), self._features)
        memory = msgspec.structs.replace(self._early, consent=call.consent)
        self.row = row = await self._host.rows.add(stored_call, memory, tool.task or Task(), self._terms)
        self._epoch = row.epoch
        self._client = NULL_LINK  # its request is about to be answered
        self._hold_deadline()
        self.made.set_result(row)
        self._host.changed(row)

    def _hold_deadline(self) -> None:
        """A task may take as long as it is kept, unless its author states a timeout."""
        if self.tool is not None and self.tool.timeout is None and self._deadline is not None:
            self._holds.enter_context(self._deadline.hold())

    def emit(self, event: CallEvent) -> None:
        """ClientLink: progress becomes the status of the task, written once a second at most."""
        if self.row is None:
            self._client.emit(event)
        elif isinstance(event, ProgressEvent):
            self._status = _status_text(event)
            if self._status_task is None or self._status_task.done():
                self._status_task = asyncio.get_running_loop().create_task(self._write_status())

    async def _write_status(self) -> None:
        while self._status is not None:
            status, self._status = self._status, None
            try:
                change = TaskChange(status=status)
                await self._change(partial(_return, change))
            except (StoreFailed, ToolhallError) as failed:
                _log.warning("the progress of a task could not be stored: %s", failed)
            await asyncio.sleep(STATUS_SECONDS)

    def can(self, feature: str) -> bool:
        """ClientLink: whether the client declared this feature, when it made the call."""
        return feature in self._features

    @property
    def features(self) -> tuple[str, ...]:
        """The features that the client declared."""
        return self._features

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """ClientLink: open the questions and wait; after SET_DOWN_SECONDS the run ends until they are answered."""
        if self.row is None and not self._deferred:
            answers = await self._client.ask(questions)
            self._early = self._early.with_answers(answers)
            return answers
        for question in questions.values():
            if not self.can(feature := required_feature(question)):
                raise Unsupported(feature)
        await self.make()
        row = await self._change(lambda row, memory: self._asking(questions, row, memory))
        give_up = asyncio.get_running_loop().time() + SET_DOWN_SECONDS
        while True:
            self._changed.clear()
            memory = await self._host.rows.memory(self.row or row)
            missing = {key: question for key, question in questions.items() if key not in memory.answered}
            if not missing:
                return memory.answers(questions)
            try:
                async with asyncio.timeout_at(give_up):
                    await self._changed.wait()
            except TimeoutError:
                raise InputRequiredSignal(missing) from None

    def _asking(self, questions: Mapping[str, Question], row: StoredTask, memory: TaskMemory) -> TaskChange | None:
        after = memory.with_questions(questions)
        if after == memory and (row.state == "input_required" or not memory.asked):
            return None
        _check_size(after)
        task = (self.tool.task if self.tool else None) or Task()
        # A person may take days, unless the author says how long the task is kept.
        expires = row.created_at + MAX_KEEP_SECONDS if task.keep is None and self._terms.keep is None else None
        state = "input_required" if after.asked else row.state
        return TaskChange(state=state, memory=after, expires_at=expires)

    async def detach(self, retry_ms: int) -> None:
        """ClientLink: from here on the call is a task, if its tool makes it one here."""
        if self.row is None and self.tool is not None and self.tool.task is not None:
            await self.make()
        elif self.row is None:
            await self._client.detach(retry_ms)

    @property
    def memory(self) -> "TaskRun":
        """The memory of the call."""
        return self

    @property
    def task_id(self) -> str | None:
        """CallMemory: the id of the task."""
        return None if self.row is None else self.row.id

    async def recall(self, key: str) -> bytes | None:
        """CallMemory: a result of `ctx.once`."""
        if self.row is None:
            return self._early.results.get(key) or await memory_of(self._client).recall(key)
        return (await self._host.rows.memory(self.row)).results.get(key)

    async def remember(self, key: str, value: bytes) -> None:
        """CallMemory: store a result of `ctx.once`."""
        if self.row is None:
            self._early = self._early.with_result(key, value)
            await memory_of(self._client).remember(key, value)
            return

        def add(_: StoredTask, memory: TaskMemory) -> TaskChange:
            after = memory.with_result(key, value)
            _check_size(after)
            return TaskChange(memory=after)

        await self._change(add)

    # --- changes of the row -------------------------------------------------------------------------------------------

    async def _change(self, edit: Callable[[StoredTask, TaskMemory], TaskChange | None]) -> StoredTask:
        """Change the row, which only the run of its epoch may; raises CancelledError if that is another one now."""
        if self.row is None:
            raise Broken(detail="a task was to be changed before it was made")
        changed = await self._host.rows.change(self.row, edit, self._epoch)
        if changed is None:
            raise asyncio.CancelledError("the task has ended, or another process runs it")
        self._host.changed(changed)
        return changed

    async def _write(self, edit: Callable[[StoredTask, TaskMemory], TaskChange | None]) -> None:
        """Change the row for the last time in this run; a store that fails is asked again a few times."""
        for attempt in range(_WRITE_ATTEMPTS):
            try:
                await self._change(edit)
            except asyncio.CancelledError:
                return  # it was cancelled, or another process has taken it over
            except (StoreFailed, ToolhallError) as failed:
                _log.error("the end of task %s could not be stored: %s", self.task_id, failed)
                if attempt + 1 < _WRITE_ATTEMPTS:
                    await asyncio.sleep(_WRITE_PAUSE)
            else:
                return

    def _ending(self, answer: Answer, memory: TaskMemory) -> TaskChange:
        if isinstance(answer, InputRequired):
            return TaskChange(
                set_down=True, uncounted=True, memory=msgspec.structs.replace(memory, consent=answer.consent)
            )
        if not isinstance(answer, CompletedCall | ToolhallError):
            answer = Broken()
        outcome = TaskOutcome.of(answer)
        if len(encode_record(outcome)) > MAX_BYTES:
            answer = ToolFailed(f"the result of a long call may have {MAX_BYTES} bytes at most")
            outcome = TaskOutcome.of(answer)
        succeeded = isinstance(answer, CompletedCall) and not answer.result.is_error
        status = answer.message[:MAX_STATUS] if isinstance(answer, ToolhallError) else self._status
        return TaskChange(
            state="completed" if succeeded else "failed",
            outcome=outcome,
            status=status,
            expires_at=self._host.rows.clock() + RESULT_SECONDS,
        )

    def _interrupted(self, row: StoredTask, memory: TaskMemory) -> TaskChange:
        """The run was cancelled: by a stop of the hall, which others or a later start make up for if they may."""
        if row.state == "input_required" or (self.tool is not None and may_run_again(self.tool)):
            return TaskChange(set_down=True, uncounted=True)
        return self._ending(OutcomeUnknown(), memory)


def _return(change: TaskChange, _row: StoredTask, _memory: TaskMemory) -> TaskChange:
    return change


def _is_plain(answer: Answer) -> bool:
    """Whether a quick answer may be given in line: a result, never a question or an error of the tool."""
    if isinstance(answer, CompletedCall):
        return not answer.result.is_error
    return isinstance(answer, ToolhallError) and not answer.reached_tool


def _status_text(event: ProgressEvent) -> str:
    done = f"{event.done:g}" if event.total is None else f"{event.done:g} of {event.total:g}"
    return (event.message or done)[:MAX_STATUS]


def _check_size(memory: TaskMemory) -> None:
    if len(encode_record(memory)) > MAX_BYTES:
        raise ToolFailed(f"questions, answers and results of ctx.once may have {MAX_BYTES} bytes together in one task")


def _log_failure(done: "asyncio.Task[None]") -> None:
    if not done.cancelled() and (failed := done.exception()) is not None:
        _log.warning("a call that takes long could not become a task: %s", failed)
