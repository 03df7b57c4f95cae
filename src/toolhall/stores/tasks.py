"""Stored tasks, the calls that outlive their requests: StoredTask, TaskStore and its in-memory implementation.

Theory of operation
-------------------
A task is one row. What a caller sent or gets is encrypted before it comes here: its call, its memory (questions,
answers and results of `ctx.once`), its last words about progress, and its outcome. The rest of the row says who owns
it, how far it is, and which process runs it.

**One change, one statement.** `swap` and `claim` replace a row only while it is still the one that was read: state,
epoch and serial are part of the condition. Of two writers one succeeds, and the other reads again. So answers that are
added are there at once for every reader, and a state that is final stays so.

**Only the holder runs it.** `claim` makes a process the holder and raises the epoch. What a holder writes names its
epoch, so a process that was paused for longer than its lease writes nothing any more. Leases last LEASE_SECONDS by the
store's clock and are renewed all at once. A store that one process has to itself needs no leases: whatever another
process held is free.
"""

import time
from collections import Counter
from typing import Literal, Protocol

import msgspec

from toolhall.model.messages import ENDED_STATES, TaskState
from toolhall.stores.common import Clock, MonotonicClock

LEASE_SECONDS = 30.0
RENEW_SECONDS = 10.0
MAX_OPEN_PER_OWNER = 100
MAX_OPEN = 10_000
MAX_STORED = 100_000  # with those that have ended and are kept
MAX_LISTED = 1_000


class StoredTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task; the sealed parts are unreadable without the vault."""

    id: str
    owner: str
    user_id: str | None = None  # whose data key seals it; None: the hall's
    tool: str  # with the version that it was made with
    dialect: str
    state: TaskState = "working"
    sealed_call: bytes
    sealed_memory: bytes | None = None
    sealed_status: bytes | None = None
    sealed_result: bytes | None = None
    attempt: int = 0  # how often a process began to run it
    holder: str | None = None  # the process that runs it, or waits for a person's answer
    epoch: int = 0  # raised with each claim
    serial: int = 0  # raised with each change
    lease_until: float = 0.0  # by the store's clock
    created_at: float
    updated_at: float
    expires_at: float
    poll_ms: int

    @property
    def has_ended(self) -> bool:
        """Whether its state is final."""
        return self.state in ENDED_STATES


class TaskQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which tasks a search wants; what is None admits all."""

    states: frozenset[TaskState] | None = None
    tool: str | None = None  # an id, or `Toolkit.tool` for all versions
    caller: str | None = None  # whoever it acts for
    unexpired_at: float = 0.0
    before: tuple[float, str] | None = None  # creation and id: only older tasks

    def admits(self, task: StoredTask) -> bool:
        """Whether it is one of them."""
        return (
            (self.states is None or task.state in self.states)
            and (self.tool is None or task.tool == self.tool or task.tool.startswith(f"{self.tool}@"))
            and (self.caller is None or task.owner == self.caller or task.owner.startswith(f"{self.caller}\n"))
            and task.expires_at > self.unexpired_at
            and (self.before is None or (task.created_at, task.id) < self.before)
        )


EVERY_TASK = TaskQuery()


class TaskCounts(msgspec.Struct, frozen=True):
    """The open tasks: how many there are in each state, and when the oldest was made."""

    open: dict[str, int] = {}
    oldest: float | None = None


class TooManyTasks(Exception):
    """No further task is stored: the caller, or the hall, has too many open ones."""

    def __init__(self, of: Literal["owner", "hall"], limit: int) -> None:
        self.of = of
        self.limit = limit
        super().__init__(f"{of}: {limit} tasks are open")


class TaskReader(Protocol):
    """The read-only half of the store."""

    async def find(self, task_id: str) -> StoredTask | None:
        """Return the task; None if there is none, or another program changed its row."""
        ...

    async def page(self, owner: str | None = None, after: str = "", limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks of one owner, or of all, in the order of their ids, those after this id."""
        ...

    async def search(self, query: TaskQuery, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks that the query admits, newest first."""
        ...

    async def counts(self, now: float) -> TaskCounts:
        """Return the numbers of open tasks that have not expired."""
        ...

    async def claimable(self, holder: str, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks that have not ended and that this process could claim, oldest first."""
        ...


class TaskStore(TaskReader, Protocol):
    """Every change is one conditional statement; of concurrent ones, one succeeds."""

    async def add(self, task: StoredTask) -> StoredTask:
        """Store a new task, durably; raises TooManyTasks."""
        ...

    async def swap(self, before: StoredTask, after: StoredTask) -> StoredTask | None:
        """Replace the row if it is still `before`, and return it as stored; None if it is not, or has ended."""
        ...

    async def claim(self, before: StoredTask, holder: str) -> StoredTask | None:
        """Make this process the holder if nobody else is, with the next epoch and attempt; None if that fails."""
        ...

    async def renew(self, holder: str) -> dict[str, int]:
        """Extend the leases of this process; returns the serials of the tasks that it holds, by id."""
        ...

    async def sweep(self, now: float) -> tuple[str, ...]:
        """Delete tasks that have expired, and return their ids."""
        ...


def with_changes(before: StoredTask, after: StoredTask, now: float) -> StoredTask:
    """Return the row that replaces `before`: identity and serial are the store's, and so is the lease of a holder."""
    return msgspec.structs.replace(
        after,
        id=before.id,
        owner=before.owner,
        epoch=before.epoch,
        serial=before.serial + 1,
        lease_until=now + LEASE_SECONDS if after.holder is not None else 0.0,
    )


def with_holder(before: StoredTask, holder: str, now: float) -> StoredTask:
    """Return the row with a new holder."""
    return msgspec.structs.replace(
        before,
        holder=holder,
        epoch=before.epoch + 1,
        serial=before.serial + 1,
        attempt=before.attempt + 1,
        lease_until=now + LEASE_SECONDS,
    )


class MemoryTaskStore:
    """In-memory implementation; no method awaits anything, so each one is atomic."""

    def __init__(self, clock: Clock = time.time, *, shared: bool = False) -> None:
        """`shared`: other processes hold tasks too, so that only their leases say when one is free."""
        self._clock = MonotonicClock(clock)
        self._shared = shared
        self._tasks: dict[str, StoredTask] = {}

    async def find(self, task_id: str) -> StoredTask | None:
        """Return the task; None if there is none."""
        return self._tasks.get(task_id)

    async def page(self, owner: str | None = None, after: str = "", limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks of one owner, or of all, in the order of their ids."""
        found = [each for each in self._tasks.values() if owner in (None, each.owner) and each.id > after]
        return tuple(sorted(found, key=lambda each: each.id)[:limit])

    async def search(self, query: TaskQuery, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks that the query admits, newest first."""
        found = filter(query.admits, self._tasks.values())
        return tuple(sorted(found, key=lambda each: (each.created_at, each.id), reverse=True)[:limit])

    async def counts(self, now: float) -> TaskCounts:
        """Return the numbers of open tasks that have not expired."""
        found = [each for each in self._tasks.values() if not each.has_ended and each.expires_at > now]
        by_state = Counter[str](each.state for each in found)
        return TaskCounts(dict(by_state), min((each.created_at for each in found), default=None))

    async def claimable(self, holder: str, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks that have not ended and that this process could claim, oldest first."""
        now = self._clock()
        found = [each for each in self._tasks.values() if not each.has_ended and self._is_free(each, holder, now)]
        return tuple(sorted(found, key=lambda each: (each.created_at, each.id))[:limit])

    async def add(self, task: StoredTask) -> StoredTask:
        """Store a new task; raises TooManyTasks."""
        open_tasks = [each.owner for each in self._tasks.values() if not each.has_ended]
        check_room(open_tasks.count(task.owner), len(open_tasks), len(self._tasks))
        lease = self._clock() + LEASE_SECONDS if task.holder is not None else 0.0
        self._tasks[task.id] = stored = msgspec.structs.replace(task, lease_until=lease)
        return stored

    async def swap(self, before: StoredTask, after: StoredTask) -> StoredTask | None:
        """Replace the row if it is still `before`; None if it is not, or has ended."""
        if before.has_ended or not self._is_still(before):
            return None
        self._tasks[before.id] = stored = with_changes(before, after, self._clock())
        return stored

    async def claim(self, before: StoredTask, holder: str) -> StoredTask | None:
        """Make this process the holder if nobody else is; None if that fails."""
        now = self._clock()
        found = self._tasks.get(before.id)
        if before.has_ended or found is None or not (self._is_still(before) and self._is_free(found, holder, now)):
            return None
        self._tasks[before.id] = stored = with_holder(before, holder, now)
        return stored

    async def renew(self, holder: str) -> dict[str, int]:
        """Extend the leases of this process; returns the serials of the tasks that it holds, by id."""
        until = self._clock() + LEASE_SECONDS
        for each in self._held(holder):
            self._tasks[each.id] = msgspec.structs.replace(each, lease_until=until)
        return {each.id: each.serial for each in self._held(holder)}

    async def sweep(self, now: float) -> tuple[str, ...]:
        """Delete tasks that have expired, and return their ids."""
        expired = sorted(each.id for each in self._tasks.values() if each.expires_at <= now)
        for each in expired:
            del self._tasks[each]
        return tuple(expired)

    def _held(self, holder: str) -> list[StoredTask]:
        return [each for each in self._tasks.values() if each.holder == holder and not each.has_ended]

    def _is_still(self, before: StoredTask) -> bool:
        found = self._tasks.get(before.id)
        seen = (before.state, before.epoch, before.serial)
        return found is not None and (found.state, found.epoch, found.serial) == seen

    def _is_free(self, task: StoredTask, holder: str, now: float) -> bool:
        if task.holder is None:
            return True
        return task.lease_until <= now if self._shared else task.holder != holder


def check_room(own: int, open_tasks: int, stored: int) -> None:
    """Raise TooManyTasks if a further task is one too many."""
    if own >= MAX_OPEN_PER_OWNER:
        raise TooManyTasks("owner", MAX_OPEN_PER_OWNER)
    if open_tasks >= MAX_OPEN or stored >= MAX_STORED:
        raise TooManyTasks("hall", MAX_OPEN)
