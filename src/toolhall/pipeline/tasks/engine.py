"""StoredTasks: what dialects do with long calls, each of which is a row of the store."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar

from toolhall.concurrency import BackgroundTasks
from toolhall.model.caller import Caller
from toolhall.model.errors import (
    BadArguments,
    Denied,
    Malformed,
    NotFound,
    OutcomeUnknown,
    Problem,
    Retired,
    ToolhallError,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from toolhall.model.messages import (
    NULL_LINK,
    TASKS_FEATURE,
    Answer,
    Answered,
    Call,
    CallConsent,
    CallTool,
    ClientLink,
    Filled,
    Form,
    Question,
    TaskView,
)
from toolhall.model.tool import Tool, may_run_again
from toolhall.pipeline.pipeline import Pipeline
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.tasks.figures import TaskFigures
from toolhall.pipeline.tasks.records import TaskCall, TaskMemory
from toolhall.pipeline.tasks.rights import TaskRights
from toolhall.pipeline.tasks.rows import (
    RESULT_SECONDS,
    TaskChange,
    TaskRows,
    TaskTerms,
    Unreadable,
    failed_change,
    owner_of,
    read_task_cursor,
    task_cursor,
)
from toolhall.pipeline.tasks.run import RunHost, TaskRun
from toolhall.registry.registry import Registry
from toolhall.schema.validator import Validator
from toolhall.stores.common import StoreFailed
from toolhall.stores.tasks import EVERY_TASK, RENEW_SECONDS, StoredTask, TaskQuery, TaskStore
from toolhall.stores.vault.vault import Vault

MAX_REPEATS = 3  # times that a task which may run again is run after a crash
SWEEP_SECONDS = 60.0
TICK_SECONDS = 1.0  # between two looks at what other processes did
STOP_SECONDS = 3.0  # for which a stop waits for tasks that must not be run again
PAGE_SIZE = 50
DEFERRABLE_BELOW = 4  # from this level on, the intent is recorded and the task is stored before anything happens
_NOT_FOUND = "there is no such task"
_NOT_STORED = "this tool runs as a long call, and this server cannot store any now: tell its operator"
_REVOKED = "the caller of this task may no longer call its tool"
_NOT_LISTED = "calls are not listed for a key that several callers share: use a key of your own, or the id of a call"
_log = logging.getLogger("toolhall.tasks")
TaskListener: TypeAlias = Callable[[StoredTask | None], None]
T = TypeVar("T")
_DEFAULT_TERMS = TaskTerms()


class StoredTasks(RunHost):
    """The long calls of one hall, over a TaskStore; see the theory of operation in this package's `__init__`.

    What is not the caller's own task, or not any more, is not there.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        registry: Registry,
        *,
        new_call: Callable[[CallTool, Caller, ClientLink], Call],
        policy: LevelPolicy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.rows = TaskRows(clock)
        self.figures = TaskFigures(self.rows)
        self.current_caller: Callable[[Caller], Caller | None] = lambda caller: caller  # None: its key is not valid now
        self._pipeline = pipeline
        self._registry = registry
        self._new_call = new_call
        self._level_of = policy.level_of
        self._rights = TaskRights(self.rows, registry, policy)
        self._runs: dict[str, TaskRun] = {}
        self._callers: dict[TaskRun, Caller] = {}
        self._working = BackgroundTasks()
        self._listeners: dict[str, list[TaskListener]] = {}
        self._ticking: asyncio.Task[None] | None = None
        self._version: Callable[[], Awaitable[int]] | None = None  # None: no other process uses the store
        self._readonly = False
        self.stopping = False

    # --- a start and a stop of the hall -------------------------------------------------------------------------------

    def open(
        self,
        store: TaskStore,
        vault: Vault | None,
        *,
        version: Callable[[], Awaitable[int]] | None = None,
        readonly: bool = False,
    ) -> None:
        """Keep tasks in this store, sealed by the vault; without a vault the store ends with this process.

        `version` is of a store that is shared with other processes, which hold tasks too; it opens what they created.
        """
        self.rows.store, self.rows.vault = store, vault
        self._version, self._readonly = version, readonly

    async def resume(self) -> None:
        """Go on with stored tasks, in the running loop: those that nobody runs, and those whose process is gone."""
        self.stopping = False
        if self._readonly:
            return
        if self._shared:
            self._tick_from_now_on()
        await self._adopt_claimable(at_start=True)

    async def settle(self) -> None:
        """Stop every run before the loop ends: a task that waits, or may run again, is set down for a later start."""
        self.stopping = True
        self.close()
        for run in list(self._runs.values()):
            if run.waits_for_person or (run.tool is not None and may_run_again(run.tool)):
                run.stop()
        await self._working.shutdown(STOP_SECONDS if self._runs else 0.0)

    def close(self) -> None:
        """Stop looking after stored tasks."""
        if self._ticking is not None:
            self._ticking.cancel()
            self._ticking = None

    @property
    def _shared(self) -> bool:
        return self._version is not None

    @property
    def running(self) -> int:
        """The number of tasks that run in this process, or wait in it for a person."""
        return len(self._runs)

    @property
    def is_offered(self) -> bool:
        """Whether clients are told of tasks: some tool has them, and they can be stored."""
        return self._registry.snapshot.has_tasks and self.missing_key is None

    @property
    def missing_key(self) -> str | None:
        """Why no task can be stored, with the fix; None if they can be."""
        return None if self.rows.vault is None else self.rows.vault.missing_key

    def refuse_in_line(self) -> ToolhallError:
        """Return the error for a call in line of a tool that requires a task."""
        missing = self.missing_key
        return Unsupported(TASKS_FEATURE) if missing is None else Unavailable(_NOT_STORED, detail=missing)

    def warn_if_not_stored(self) -> None:
        """Tell the operator at the start if tools have tasks and no task can be stored."""
        if self._registry.snapshot.has_tasks and self.missing_key is not None:
            _log.warning(
                "long calls cannot be stored: tools that offer tasks answer in line, and those that require one are"
                " refused; %s",
                self.missing_key,
            )

    # --- what callers do ----------------------------------------------------------------------------------------------

    async def start(
        self, request: CallTool, caller: Caller, link: ClientLink, terms: TaskTerms = _DEFAULT_TERMS
    ) -> Answer | TaskView:
        """Run a call; returns its answer, or the task that was made of it, which is durable then.

        Where no task can be stored, the call is answered in line.
        """
        if self.missing_key is not None:
            return await self._pipeline.answer(self._new_call(request, caller, link))
        run = TaskRun(self, link, terms)
        self._callers[run] = caller
        work = self._working.add(run.start(request))
        work.add_done_callback(lambda done: self._on_done(run, done))
        try:
            waited_for: set[asyncio.Future[Any]] = {work, run.made}
            await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if not run.is_making:  # the client is gone, and nothing was promised to it
                work.cancel()
                await asyncio.wait({work})
            raise
        if run.made.done():
            return await self._view(run.made.result())
        answer = work.result()
        return Unavailable() if answer is None else answer

    async def find(self, task_id: str, caller: Caller) -> TaskView:
        """Return a task; raises NotFound, or Limited for a caller who looks too often."""
        row = await self._own(task_id, caller)
        self._rights.count_poll(row)
        return await self._view(row)

    async def look(self, task_id: str, caller: Caller) -> TaskView:
        """Return a task to a caller who is about to do something with it, which no poll interval limits."""
        return await self._view(await self._own(task_id, caller))

    async def questions(self, task_id: str, caller: Caller) -> Mapping[str, Question]:
        """Return the open questions of a task to a caller who is about to answer them; raises NotFound."""
        return (await self._view(await self._own(task_id, caller, answers=True))).questions

    @staticmethod
    def can_list(caller: Caller) -> bool:
        """Whether a caller can be told apart from others, who would see its list too."""
        return caller.user is not None

    async def page(self, caller: Caller, cursor: str | None = None) -> tuple[tuple[TaskView, ...], str | None]:
        """Return a page of the caller's tasks, and the cursor of the next one; raises Refused."""
        if not self.can_list(caller):
            raise Unauthenticated() if caller.proof == "none" else Denied(_NOT_LISTED)
        after = read_task_cursor(cursor)
        self._rights.count_lookup(caller)
        rows = await self._stored(self.rows.store.page(owner_of(caller), after, PAGE_SIZE + 1))
        now = self.rows.clock()
        live = [row for row in rows[:PAGE_SIZE] if row.expires_at > now]
        page = [await self._view(row) for row in live if await self._may_see(row, caller)]
        return tuple(page), task_cursor(rows[PAGE_SIZE - 1].id) if len(rows) > PAGE_SIZE else None

    async def answer(self, task_id: str, caller: Caller, answers: Mapping[str, Answered]) -> TaskView:
        """Answer open questions; other keys are ignored. Raises NotFound, or BadArguments for a form's fields."""
        row = await self._own(task_id, caller, answers=True)
        if row.has_ended:
            return await self._view(row)

        def add(_: StoredTask, memory: TaskMemory) -> TaskChange | None:
            questions = memory.questions
            taken = {key: answers[key] for key in questions if key in answers}
            for key, given in taken.items():
                _check_form(key, questions[key], given)
            if not taken:
                return None
            after = memory.with_answers(taken)
            return TaskChange(state="input_required" if after.asked else "working", memory=after)

        return await self._changed_view(row, add)

    async def cancel(self, task_id: str, caller: Caller) -> TaskView:
        """End a task as `cancelled`, unless it has ended; raises NotFound."""
        row = await self._own(task_id, caller)
        return await self._changed_view(row, lambda _, __: self._cancellation())

    async def cancel_any(self, task_id: str) -> TaskView:
        """End anybody's task, for the operator."""
        row = await self.find_any(task_id)
        return await self._changed_view(row, lambda _, __: self._cancellation())

    async def find_any(self, task_id: str) -> StoredTask:
        """Return the row of anybody's task, for the operator; raises NotFound."""
        row = await self._stored(self.rows.store.find(task_id))
        if row is None or row.expires_at <= self.rows.clock():
            raise NotFound(_NOT_FOUND)
        return row

    async def rows_of_all(self, query: TaskQuery = EVERY_TASK, limit: int = PAGE_SIZE) -> tuple[StoredTask, ...]:
        """Return rows of everybody's tasks, the newest first, whose contents stay sealed, for the operator."""
        return await self._stored(self.rows.store.search(query, limit))

    async def open_questions(self, row: StoredTask) -> dict[str, Question]:
        """Return what a task waits for, for the operator; raises Unavailable if it does not open."""
        return (await self._stored(self.rows.memory(row))).questions if row.state == "input_required" else {}

    def watch(self, task_id: str, listener: TaskListener) -> Callable[[], None]:
        """Call the listener with every row that the task gets, with None if it is gone; return what ends this."""
        listeners = self._listeners.setdefault(task_id, [])
        listeners.append(listener)

        def end() -> None:
            listeners.remove(listener)
            if not listeners and self._listeners.get(task_id) is listeners:
                del self._listeners[task_id]

        return end

    async def own(self, task_ids: Iterable[str], caller: Caller, *, counted: bool = False) -> list[StoredTask]:
        """Return the rows of those of these tasks that are the caller's; unknown ones count if the caller names them.

        Raises Limited.
        """
        rows: list[StoredTask] = []
        for task_id in task_ids:
            if counted:
                with suppress(NotFound):
                    rows.append(await self._own(task_id, caller))
            elif (row := await self._visible(task_id, caller)) is not None:
                rows.append(row)
        return rows

    async def may_still_see(self, row: StoredTask, caller: Caller) -> bool:
        """Whether a caller of earlier may see its task: its key and its right to the tool may have been revoked."""
        now = self.current_caller(caller)
        return now is not None and await self._may_see(row, now)

    async def view(self, row: StoredTask) -> TaskView:
        """Return the task of a row, as its caller sees it."""
        return await self._view(row)

    async def wait(self, task_id: str, caller: Caller) -> TaskView:
        """Return a task once it has ended, or asks something; raises NotFound if there is none, or not any more."""
        changed = asyncio.Event()
        seen: list[StoredTask | None] = []

        def note(row: StoredTask | None) -> None:
            seen[:] = [row]
            changed.set()

        end = self.watch(task_id, note)
        try:
            row: StoredTask | None = await self._own(task_id, caller)
            waited = False
            while True:
                if seen:
                    row = seen.pop()
                if row is None or row.expires_at <= self.rows.clock():
                    raise NotFound(_NOT_FOUND)
                if waited and not await self.may_still_see(row, caller):
                    raise NotFound(_NOT_FOUND)
                if row.has_ended or row.state == "input_required":
                    return await self._view(row)
                changed.clear()
                if not seen:
                    await changed.wait()
                waited = True
        finally:
            end()

    # --- RunHost ------------------------------------------------------------------------------------------------------

    def answer_call(self, request: CallTool, run: TaskRun) -> Awaitable[Answer]:
        """Run a call through the pipeline, with this run as its client link."""
        return self._pipeline.answer(self._new_call(request, self._callers[run], run))

    def changed(self, row: StoredTask) -> None:
        """A row was changed: tell its run and everybody who watches it; run it if nobody does."""
        run = self._runs.get(row.id)
        if run is None and row.holder == self.rows.holder and not row.has_ended:
            run = next((each for each in self._callers if each.row is not None and each.row.id == row.id), None)
            if run is not None:
                self._runs[row.id] = run
                self._tick_from_now_on()
        if run is not None:
            run.observe(row)
        for listener in tuple(self._listeners.get(row.id, ())):
            listener(row)
        if row.state == "working" and row.holder is None and not self.stopping:
            self._working.start(self._adopt(row))

    def is_deferrable(self, tool: Tool) -> bool:
        """Whether a quick call of this tool may be answered in line, without a row."""
        return self._level_of(tool) < DEFERRABLE_BELOW

    # --- tasks that nobody runs ---------------------------------------------------------------------------------------

    async def _adopt_claimable(self, *, at_start: bool = False) -> None:
        try:
            rows = await self.rows.store.claimable(self.rows.holder)
        except StoreFailed as failed:
            _log.error("stored tasks cannot be read: %s", failed)
            return
        for row in rows:
            if row.state == "working" or row.holder is not None:
                self._working.start(self._adopt(row))
            elif at_start:
                await self._check_readable(row)

    async def _check_readable(self, row: StoredTask) -> None:
        """End a task that waits for a person if no answer could be added to it."""
        try:
            await self.rows.call(row)
            await self.rows.memory(row)
        except Unreadable as unreadable:
            await self._give_up(row, unreadable)
        except StoreFailed as failed:
            _log.error("task %s cannot be read now: %s", row.id, failed)

    async def _give_up(self, row: StoredTask, why: Unreadable) -> None:
        _log.error("a long call ends as failed: %s", why.detail)
        if (ended := await self.rows.end_unreadable(row)) is not None:
            self.changed(ended)

    async def _adopt(self, row: StoredTask) -> None:
        """Go on with a task that nobody runs: run it, set it down until it is answered, or end it."""
        claimed: StoredTask | None = None
        try:
            was_running = row.state == "working" and row.holder is not None
            if row.expires_at <= self.rows.clock() or (self._shared and not self._knows(row.tool)):
                return  # another process of a shared store may know its tool
            if (claimed := await self.rows.claim(row)) is None:
                return
            if claimed.state == "input_required":
                await self._settle_row(claimed, TaskChange(set_down=True, uncounted=True))
                return
            call = await self.rows.call(claimed)
            refusal = self._refusal(claimed, call, was_running=was_running)
            if refusal is not None:
                if isinstance(refusal, OutcomeUnknown):
                    self._record_unknown(call, refusal)
                await self._settle_row(claimed, failed_change(refusal, self.rows.clock()))
                return
            consent = (await self.rows.memory(claimed)).consent
            self._resume(claimed, call, consent)
        except Unreadable as unreadable:
            await self._give_up(claimed or row, unreadable)
        except (StoreFailed, ToolhallError) as failed:
            _log.error("task %s cannot go on: %s", row.id, getattr(failed, "detail", None) or failed)

    def _resume(self, row: StoredTask, call: TaskCall, consent: CallConsent | None) -> None:
        run = TaskRun(self, NULL_LINK)
        self._callers[run] = self.current_caller(call.caller) or call.caller
        self._runs[row.id] = run
        work = self._working.add(run.resume(row, call, consent))
        work.add_done_callback(lambda done: self._on_done(run, done))
        self._tick_from_now_on()

    def _knows(self, tool: str) -> bool:
        """Whether this process serves the tool, in any version."""
        snapshot = self._registry.snapshot
        return snapshot.find(tool) is not None or snapshot.find(tool.partition("@")[0]) is not None

    def _refusal(self, row: StoredTask, call: TaskCall, *, was_running: bool) -> ToolhallError | None:
        """Why a stored task must not be run; grants and levels are judged by the pipeline."""
        snapshot = self._registry.snapshot
        entry = snapshot.find(call.tool)
        if entry is None:
            key = call.tool.partition("@")[0]
            successor = snapshot.find(key)
            instead = f"; call {successor.id} instead" if successor is not None else ""
            return Retired(
                f"{call.tool}, with which this task was made, is gone{instead}",
                successor=None if successor is None else successor.id,
            )
        if was_running and not (may_run_again(entry.tool) and row.attempt <= 1 + MAX_REPEATS):
            return OutcomeUnknown()
        if self.current_caller(call.caller) is None:
            return Malformed("the credential with which this task was made is no longer valid")
        return None

    async def _settle_row(self, row: StoredTask, change: TaskChange) -> None:
        changed = await self.rows.change(row, lambda _, __: change, row.epoch)
        if changed is not None:
            self.changed(changed)

    def _record_unknown(self, call: TaskCall, error: OutcomeUnknown) -> None:
        self._pipeline.record_unknown(self._new_call(call.request(None), call.caller, NULL_LINK), error)

    # --- time passes --------------------------------------------------------------------------------------------------

    def _tick_from_now_on(self) -> None:
        if self._ticking is None and not self.stopping:
            self._ticking = asyncio.get_running_loop().create_task(self._tick())

    async def _tick(self) -> None:
        """Sweep each minute; in a shared store also renew leases, and look at what other processes did."""
        swept = renewed = 0.0
        while True:
            now = time.monotonic()
            try:
                if now - swept >= SWEEP_SECONDS:
                    swept = now
                    await self.sweep()
                if self._shared:
                    if self._runs and now - renewed >= RENEW_SECONDS:
                        renewed = now
                        await self.rows.store.renew(self.rows.holder)
                    await self._look()
            except StoreFailed as failed:
                _log.error("tasks cannot be looked after now: %s", failed)
            await asyncio.sleep(TICK_SECONDS if self._shared else SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Delete what has expired, and stop what still runs of it."""
        now = self.rows.clock()
        for task_id in await self.rows.store.sweep(now):
            self._rights.forget_polls(task_id)
            if (run := self._runs.get(task_id)) is not None:
                run.stop()
            for listener in tuple(self._listeners.get(task_id, ())):
                listener(None)

    async def _look(self) -> None:
        """See what other processes changed of the tasks that run or are watched here, and take what they left."""
        if self._version is not None:
            await self._version()
        for task_id in {*self._runs, *self._listeners}:
            row = await self.rows.store.find(task_id)
            run = self._runs.get(task_id)
            if row is not None and run is not None:
                run.observe(row)
            for listener in tuple(self._listeners.get(task_id, ())):
                listener(row)
        await self._adopt_claimable()

    # --- helpers ------------------------------------------------------------------------------------------------------

    def _on_done(self, run: TaskRun, done: "asyncio.Task[Answer | None]") -> None:
        self._callers.pop(run, None)
        if run.row is not None and self._runs.get(run.row.id) is run:
            del self._runs[run.row.id]
        if not done.cancelled() and (fault := done.exception()) is not None:
            _log.error("internal error while running a task", exc_info=fault)

    async def _own(self, task_id: str, caller: Caller, *, answers: bool = False) -> StoredTask:
        """The caller's task; NotFound alike for one that it may not see, an expired one and one that never was."""
        self._rights.check_lookups(caller)
        row = await self._owned(task_id, caller)
        if row is not None and await self._may_see(row, caller):
            return row
        if row is not None and answers and row.state == "input_required":
            await self._end_if_revoked(row)
        self._rights.count_lookup(caller)
        raise NotFound(_NOT_FOUND)

    async def _visible(self, task_id: str, caller: Caller) -> StoredTask | None:
        row = await self._owned(task_id, caller)
        return row if row is not None and await self._may_see(row, caller) else None

    async def _may_see(self, row: StoredTask, caller: Caller) -> bool:
        return await self._stored(self._rights.may_see(row, caller))

    async def _end_if_revoked(self, row: StoredTask) -> None:
        """End a task whose caller may not call its tool any more, so that no answer lets it run on."""
        with suppress(Unreadable):
            if not await self.may_still_see(row, (await self._stored(self.rows.call(row))).caller):
                await self._settle_row(row, failed_change(Malformed(_REVOKED), self.rows.clock()))

    async def _owned(self, task_id: str, caller: Caller) -> StoredTask | None:
        """The task of this id, if the caller made it and it has not expired."""
        run = None if self._shared else self._runs.get(task_id)  # nobody else changes what runs here
        row = await self._stored(self.rows.store.find(task_id)) if run is None else run.row
        if row is None and self._version is not None:  # another process may have created the database just now
            await self._stored(self._version())
            row = await self._stored(self.rows.store.find(task_id))
        if row is None or row.owner != owner_of(caller) or row.expires_at <= self.rows.clock():
            return None
        return row

    async def _changed_view(
        self, row: StoredTask, edit: Callable[[StoredTask, TaskMemory], TaskChange | None]
    ) -> TaskView:
        changed = await self._stored(self.rows.change(row, edit))
        if changed is None:  # it has ended meanwhile
            found = await self._stored(self.rows.store.find(row.id))
            if found is None:
                raise NotFound(_NOT_FOUND)
            return await self._view(found)
        self.changed(changed)
        return await self._view(changed)

    def _cancellation(self) -> TaskChange:
        return TaskChange(state="cancelled", expires_at=self.rows.clock() + RESULT_SECONDS)

    async def _view(self, row: StoredTask) -> TaskView:
        return await self._stored(self.rows.view(row, self._find_tool))

    def _find_tool(self, tool_id: str) -> Tool | None:
        entry = self._registry.snapshot.find(tool_id)
        return None if entry is None else entry.tool

    @staticmethod
    async def _stored(work: Awaitable[T]) -> T:
        try:
            return await work
        except StoreFailed as failed:
            raise Unavailable("long calls cannot be read or changed now", detail=str(failed)) from None


def _check_form(key: str, question: Question, given: Answered) -> None:
    """Raise BadArguments if an accepted form does not match its schema: the question stays open."""
    if isinstance(question, Form) and isinstance(given, Filled) and given.action == "accept":
        problems = Validator(question.schema, known_good=True).problems(given.content or {}, 0)
        if problems:
            raise BadArguments([Problem(f"/{key}", str(each)) for each in problems[:8]])
