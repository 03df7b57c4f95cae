"""TaskRows: makes and changes the rows of tasks, sealed by the vault; each change is one conditional statement."""

import base64
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.content import Result
from toolhall.model.errors import BadArguments, Limited, Problem, ToolhallError, Unavailable
from toolhall.model.messages import CompletedCall, Question, TaskState, TaskView
from toolhall.model.names import ToolId
from toolhall.model.tool import MAX_KEEP_SECONDS, Task, Tool
from toolhall.pipeline.tasks.records import (
    TaskCall,
    TaskMemory,
    TaskOutcome,
    decode_call,
    decode_memory,
    decode_outcome,
    encode_record,
)
from toolhall.stores.common import StoreFailed
from toolhall.stores.tasks import MemoryTaskStore, StoredTask, TaskStore, TooManyTasks
from toolhall.stores.vault.envelope import DecryptionFailed
from toolhall.stores.vault.store import tenant_of
from toolhall.stores.vault.vault import Vault

DEFAULT_KEEP_SECONDS = 3_600.0
RESULT_SECONDS = 300.0  # for which an outcome is kept at least, however late the task ended
ID_BYTES = 16
_log = logging.getLogger("toolhall.tasks")
_RETRY_AFTER = 60.0
_BAD_CURSOR = "unknown cursor: send the nextCursor of the page before, or none"


class TaskTerms(NamedTuple):
    """How the client of a request wants its task."""

    at_once: bool = False  # before the tool runs, whatever the tool says
    keep: float | None = None  # seconds
    id: str | None = None  # of the task; random unless given


class Unreadable(Unavailable):
    """A task does not open any more: its key is gone, or another program changed it."""

    message = "this task cannot be read any more"


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a row; what is not set stays."""

    state: TaskState | None = None
    memory: TaskMemory | None = None
    status: str | None = None
    outcome: TaskOutcome | None = None
    set_down: bool = False  # no process runs it any more
    uncounted: bool = False  # the attempt that ends here does not count
    expires_at: float | None = None


class TaskRows:
    """The rows of one store; what another process changed meanwhile is read again before the next try."""

    def __init__(self, clock: Callable[[], float], holder: str | None = None) -> None:
        self.store: TaskStore = MemoryTaskStore(clock)
        self.vault: Vault | None = None  # None: the store ends with this process, and its rows are not sealed
        self.holder = holder or secrets.token_hex(8)
        self.clock = clock
        self.make_id_key: Callable[[], bytes] = lambda: secrets.token_bytes(32)
        self._told = False  # that the tasks end with this process

    @cached_property
    def id_key(self) -> bytes:
        """The key of ids that are computed; of the hall's folder, if it has one."""
        return self.make_id_key()

    async def add(self, call: TaskCall, memory: TaskMemory, task: Task, terms: TaskTerms) -> StoredTask:
        """Store a new task that this process runs; raises Limited or Unavailable."""
        if self.vault is None and not self._told:
            self._told = True
            _log.info("long calls are kept in memory and end with this process; set `data` to keep them in a folder")
        now = self.clock()
        seconds = min(terms.keep or task.keep or DEFAULT_KEEP_SECONDS, MAX_KEEP_SECONDS)
        row = StoredTask(
            id=terms.id or secrets.token_hex(ID_BYTES),
            owner=owner_of(call.caller),
            user_id=call.caller.user,
            tool=call.tool,
            dialect=call.dialect,
            sealed_call=b"",
            attempt=1,
            holder=self.holder,
            epoch=1,
            created_at=now,
            updated_at=now,
            expires_at=now + seconds,
            poll_ms=int(task.poll * 1000),
        )
        try:
            sealed_call = await self._seal(row, "call", encode_record(call))
            sealed_memory = None if memory == TaskMemory() else await self._seal(row, "memory", encode_record(memory))
            row = msgspec.structs.replace(row, sealed_call=sealed_call, sealed_memory=sealed_memory)
            if terms.id is not None:  # an expired task of this id may not be swept yet
                await self.store.sweep(now)
            return await self.store.add(row)
        except TooManyTasks as many:
            raise Limited(_RETRY_AFTER, detail=f"{many}; tasks that ended do not count") from None
        except StoreFailed as failed:
            raise Unavailable("a long call cannot be stored now, so it did not run", detail=str(failed)) from None

    async def change(
        self,
        row: StoredTask,
        edit: Callable[[StoredTask, TaskMemory], TaskChange | None],
        epoch: int | None = None,
    ) -> StoredTask | None:
        """Change the row, and return it as it is then; None if it is gone, has ended, or is no longer of this epoch.

        `edit` gets the newest row, perhaps more than once, and returns None to leave it as it is.
        """
        while not row.has_ended and epoch in (None, row.epoch):
            wanted = edit(row, await self.memory(row))
            if wanted is None:
                return row
            saved = await self.store.swap(row, await self._changed(row, wanted))
            if saved is not None:
                return saved
            found = await self.store.find(row.id)
            if found is None:
                break
            row = found
        return None

    async def claim(self, row: StoredTask) -> StoredTask | None:
        """Make this process the one that runs it; None if another one is."""
        return await self.store.claim(row, self.holder)

    async def memory(self, row: StoredTask) -> TaskMemory:
        """The memory of a task; raises Unreadable if it does not open."""
        if row.sealed_memory is None:
            return TaskMemory()
        found: TaskMemory = decode_memory(await self._open(row, "memory", row.sealed_memory))
        return found

    async def call(self, row: StoredTask) -> TaskCall:
        """The call of a task; raises Unreadable if it does not open."""
        found: TaskCall = decode_call(await self._open(row, "call", row.sealed_call))
        return found

    async def view(self, row: StoredTask, find_tool: Callable[[str], Tool | None]) -> TaskView:
        """The task as its caller sees it; one that does not open has failed."""
        try:
            return await self._readable_view(row, find_tool)
        except Unreadable as unreadable:
            _log.warning("%s", unreadable.detail)
            return _view(row, state="failed", status=unreadable.message, outcome=unreadable)

    async def end_unreadable(self, row: StoredTask) -> StoredTask | None:
        """End a task that does not open as failed; None if it was changed meanwhile."""
        now = self.clock()
        lost = msgspec.structs.replace(
            row,
            state="failed",
            sealed_memory=None,
            sealed_status=None,
            updated_at=max(now, row.updated_at),
            expires_at=max(row.expires_at, now + RESULT_SECONDS),
        )
        return await self.store.swap(row, lost)

    async def _readable_view(self, row: StoredTask, find_tool: Callable[[str], Tool | None]) -> TaskView:
        if row.state == "failed" and row.sealed_result is None:
            raise Unreadable(detail=f"task {row.id} was given up, because it did not open")
        memory = TaskMemory() if row.has_ended else await self.memory(row)
        status = None if row.sealed_status is None else (await self._open(row, "status", row.sealed_status)).decode()
        outcome: CompletedCall | ToolhallError | None = None
        if row.sealed_result is not None:
            stored: TaskOutcome = decode_outcome(await self._open(row, "outcome", row.sealed_result))
            found = stored.error_or_result()
            if isinstance(found, Result):
                outcome = CompletedCall(find_tool(row.tool) or _unknown_tool(row.tool), found)
            else:
                outcome = found
        questions = memory.questions if row.state == "input_required" else {}
        return _view(row, state=row.state, status=status, questions=questions, outcome=outcome)

    async def _changed(self, row: StoredTask, wanted: TaskChange) -> StoredTask:
        """The row that replaces this one."""
        memory, status, outcome = row.sealed_memory, row.sealed_status, row.sealed_result
        if wanted.memory is not None:
            memory = await self._seal(row, "memory", encode_record(wanted.memory))
        if wanted.status is not None:
            status = await self._seal(row, "status", wanted.status.encode())
        if wanted.outcome is not None:
            outcome = await self._seal(row, "outcome", encode_record(wanted.outcome))
        return msgspec.structs.replace(
            row,
            state=wanted.state or row.state,
            sealed_memory=memory,
            sealed_status=status,
            sealed_result=outcome,
            holder=None if wanted.set_down else row.holder,
            attempt=row.attempt - wanted.uncounted,
            updated_at=max(self.clock(), row.updated_at),
            expires_at=max(row.expires_at, wanted.expires_at or 0.0),
        )

    async def _seal(self, row: StoredTask, part: str, plain: bytes) -> bytes:
        if self.vault is None:
            return plain  # it never leaves the memory of this process
        return (await self.vault.sealer(tenant_of(row.user_id))).seal(plain, *_context(row, part))

    async def _open(self, row: StoredTask, part: str, sealed: bytes) -> bytes:
        if self.vault is None:
            return sealed
        try:
            return await self.vault.opener(tenant_of(row.user_id)).open_with_refresh(sealed, *_context(row, part))
        except DecryptionFailed as why:
            raise Unreadable(detail=f"the {part} of task {row.id} does not open: {why}") from None


def owner_of(caller: Caller) -> str:
    """Who may see a caller's tasks: the same caller, for the same user; if not authenticated, from the same address."""
    return caller.rate_limit_key if caller.acting_for is None else f"{caller.rate_limit_key}\n{caller.acting_for}"


def _view(
    row: StoredTask,
    *,
    state: TaskState,
    status: str | None,
    questions: Mapping[str, Question] = MappingProxyType({}),
    outcome: CompletedCall | ToolhallError | None,
) -> TaskView:
    return TaskView(
        id=row.id,
        tool=row.tool,
        state=state,
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
        poll=row.poll_ms / 1000,
        status=status,
        questions=questions,
        outcome=outcome,
    )


def _context(row: StoredTask, part: str) -> tuple[str, ...]:
    return ("task", part, row.id, row.owner)


def _unknown_tool(tool_id: str) -> Tool:
    """A tool that is gone, of which only the id is known: its results are shown as if it had stated no output."""
    key, _, version = tool_id.partition("@")
    toolkit, _, name = key.rpartition(".")
    return Tool(id=ToolId(toolkit, name, version), name=name, input={"type": "object"})


def failed_change(error: ToolhallError, now: float) -> TaskChange:
    """Return the change that ends a task by an error."""
    return TaskChange(
        state="failed", outcome=TaskOutcome.of(error), status=error.message, expires_at=now + RESULT_SECONDS
    )


def task_cursor(task_id: str) -> str:
    """Return the cursor of the page that begins after a task."""
    return base64.urlsafe_b64encode(bytes.fromhex(task_id)).decode()


def read_task_cursor(cursor: str | None) -> str:
    """Return the id after which a page begins; raises BadArguments for a cursor that no page had."""
    if not cursor:
        return ""
    try:
        task_id = base64.b64decode(cursor, b"-_", validate=True).hex()
    except ValueError:
        task_id = ""
    if len(task_id) != 2 * ID_BYTES:
        raise BadArguments([Problem("/cursor", _BAD_CURSOR)])
    return task_id
