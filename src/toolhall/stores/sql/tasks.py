"""SqlTaskStore: table and statements of tasks.

Each change of a task is one conditional UPDATE, in a transaction of its own. The row's MAC covers everything but the
lease, which one statement renews for all tasks of a process.
"""

import logging
import time
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    tuple_,
    update,
)

from toolhall.model.messages import ENDED_STATES
from toolhall.stores.common import Clock, MonotonicClock
from toolhall.stores.crypto import MAC_COLUMN, RowMac
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, fetch_rows
from toolhall.stores.tasks import (
    LEASE_SECONDS,
    MAX_LISTED,
    StoredTask,
    TaskCounts,
    TaskQuery,
    check_room,
    with_changes,
    with_holder,
)

tasks = Table(
    "tasks",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("owner", Text, nullable=False),
    Column("user_id", Text),
    Column("tool", Text, nullable=False),
    Column("dialect", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("sealed_call", LargeBinary, nullable=False),
    Column("sealed_memory", LargeBinary),
    Column("sealed_status", LargeBinary),
    Column("sealed_result", LargeBinary),
    Column("attempt", Integer, nullable=False),
    Column("holder", Text),
    Column("epoch", Integer, nullable=False),
    Column("serial", Integer, nullable=False),
    Column("lease_until", TIMESTAMP, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("updated_at", TIMESTAMP, nullable=False),
    Column("expires_at", TIMESTAMP, nullable=False),
    Column("poll_ms", Integer, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Index("ix_tasks_owner_state", "owner", "state"),
    Index("ix_tasks_state_holder", "state", "holder"),
    Index("ix_tasks_expires_at", "expires_at"),
    sqlite_strict=True,
)
_TABLE = "tasks"
_LEASE = "lease_until"
_COLUMNS = tasks.c
_IS_OPEN = _COLUMNS.state.not_in(sorted(ENDED_STATES))
_counted = select(func.count()).select_from(tasks)
# One statement, whose parts each use an index.
_COUNTED = select(
    _counted.where(_COLUMNS.owner == bindparam("of"), _IS_OPEN).scalar_subquery(),
    _counted.where(_IS_OPEN).scalar_subquery(),
    _counted.scalar_subquery(),
)
_log = logging.getLogger("toolhall.store")


class SqlTaskStore:
    """Tasks in SQL; a row that another program wrote is ignored."""

    def __init__(self, database: SqlDatabase, macs: RowMac, clock: Clock = time.time, *, shared: bool = False) -> None:
        """`shared`: other processes hold tasks too, so that only their leases say when one is free.

        `clock` is the database's: for SQLite, whose processes are all on this machine, the machine's.
        """
        self._database = database
        self._statements = _TaskStatements(macs, clock, shared=shared)

    async def find(self, task_id: str) -> StoredTask | None:
        """Return the task; None if there is none."""
        return await self._database.run(self._statements.find, task_id)

    async def page(self, owner: str | None = None, after: str = "", limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks of one owner, or of all, in the order of their ids."""
        return await self._database.run(self._statements.page, owner, after, limit)

    async def search(self, query: TaskQuery, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks that the query admits, newest first."""
        return await self._database.run(self._statements.search, query, limit)

    async def counts(self, now: float) -> TaskCounts:
        """Return the numbers of open tasks that have not expired."""
        return await self._database.run(self._statements.counts, now)

    async def claimable(self, holder: str, limit: int = MAX_LISTED) -> tuple[StoredTask, ...]:
        """Return tasks that have not ended and that this process could claim, oldest first."""
        return await self._database.run(self._statements.claimable, holder, limit)

    async def add(self, task: StoredTask) -> StoredTask:
        """Store a new task, durably; raises TooManyTasks."""
        return await self._database.run(self._statements.add, task)

    async def swap(self, before: StoredTask, after: StoredTask) -> StoredTask | None:
        """Replace the row if it is still `before`; None if it is not, or has ended."""
        return await self._database.run(self._statements.swap, before, after)

    async def claim(self, before: StoredTask, holder: str) -> StoredTask | None:
        """Make this process the holder if nobody else is; None if that fails."""
        return await self._database.run(self._statements.claim, before, holder)

    async def renew(self, holder: str) -> dict[str, int]:
        """Extend the leases of this process; returns the serials of the tasks that it holds, by id."""
        return await self._database.run(self._statements.renew, holder)

    async def sweep(self, now: float) -> tuple[str, ...]:
        """Delete tasks that have expired, and return their ids."""
        return await self._database.run(self._statements.sweep, now)


class _TaskStatements:
    """The transactions, each on a synchronous connection."""

    def __init__(self, macs: RowMac, clock: Clock, *, shared: bool) -> None:
        self._macs = macs
        self._clock = MonotonicClock(clock)
        self._shared = shared

    def find(self, connection: Connection, task_id: str) -> StoredTask | None:
        with connection.begin():
            found = self._read(connection, _COLUMNS.id == task_id)
        return found[0] if found else None

    def page(self, connection: Connection, owner: str | None, after: str, limit: int) -> tuple[StoredTask, ...]:
        of_owner = () if owner is None else (_COLUMNS.owner == owner,)
        with connection.begin():
            return self._read(connection, *of_owner, _COLUMNS.id > after, order=(_COLUMNS.id,), limit=limit)

    def search(self, connection: Connection, query: TaskQuery, limit: int) -> tuple[StoredTask, ...]:
        order = (_COLUMNS.created_at.desc(), _COLUMNS.id.desc())
        # Only the rows that are returned are read with what is sealed in them.
        found = select(_COLUMNS.id).where(*_conditions(query)).order_by(*order).limit(limit)
        with connection.begin():
            return self._read(connection, _COLUMNS.id.in_(found), order=order, limit=limit)

    def counts(self, connection: Connection, now: float) -> TaskCounts:
        state, created = _COLUMNS.state, _COLUMNS.created_at
        by_state = select(state, func.count(), func.min(created)).where(_IS_OPEN, _COLUMNS.expires_at > now)
        with connection.begin():
            found = connection.execute(by_state.group_by(state)).all()
        return TaskCounts({row[0]: row[1] for row in found}, min((row[2] for row in found), default=None))

    def claimable(self, connection: Connection, holder: str, limit: int) -> tuple[StoredTask, ...]:
        order = (_COLUMNS.created_at, _COLUMNS.id)
        with connection.begin():
            return self._read(connection, _IS_OPEN, self._is_free(holder, self._clock()), order=order, limit=limit)

    def add(self, connection: Connection, task: StoredTask) -> StoredTask:
        stored = msgspec.structs.replace(
            task, lease_until=self._clock() + LEASE_SECONDS if task.holder is not None else 0.0
        )
        with connection.begin():
            check_room(*connection.execute(_COUNTED, {"of": task.owner}).one())
            connection.execute(insert(tasks).values(**self._row(stored)))
        return stored

    def swap(self, connection: Connection, before: StoredTask, after: StoredTask) -> StoredTask | None:
        return self._replace(connection, before, with_changes(before, after, self._clock()))

    def claim(self, connection: Connection, before: StoredTask, holder: str) -> StoredTask | None:
        now = self._clock()
        return self._replace(connection, before, with_holder(before, holder, now), self._is_free(holder, now))

    def renew(self, connection: Connection, holder: str) -> dict[str, int]:
        held = (_COLUMNS.holder == holder, _IS_OPEN)
        with connection.begin():
            connection.execute(update(tasks).where(*held).values(lease_until=self._clock() + LEASE_SECONDS))
            return {row.id: row.serial for row in connection.execute(select(_COLUMNS.id, _COLUMNS.serial).where(*held))}

    def sweep(self, connection: Connection, now: float) -> tuple[str, ...]:
        with connection.begin():
            gone = connection.execute(delete(tasks).where(_COLUMNS.expires_at <= now).returning(_COLUMNS.id))
            return tuple(sorted(gone.scalars()))

    def _replace(
        self, connection: Connection, before: StoredTask, after: StoredTask, *more: ColumnElement[bool]
    ) -> StoredTask | None:
        still = (
            _COLUMNS.id == before.id,
            _COLUMNS.state == before.state,
            _COLUMNS.epoch == before.epoch,
            _COLUMNS.serial == before.serial,
            _IS_OPEN,
        )
        with connection.begin():
            changed = connection.execute(update(tasks).where(*still, *more).values(**self._row(after))).rowcount
        return after if changed else None

    def _is_free(self, holder: str, now: float) -> ColumnElement[bool]:
        theirs = _COLUMNS.lease_until <= now if self._shared else _COLUMNS.holder != holder
        return or_(_COLUMNS.holder.is_(None), theirs)

    def _read(
        self,
        connection: Connection,
        *where: ColumnElement[bool],
        order: tuple[ColumnElement[Any], ...] = (),
        limit: int = MAX_LISTED,
    ) -> tuple[StoredTask, ...]:
        rows = fetch_rows(connection, select(tasks).where(*where).order_by(*order).limit(limit))
        return tuple(self._task(row) for row in rows if self._is_authentic(row))

    def _is_authentic(self, row: dict[str, Any]) -> bool:
        ours = self._macs.verify(_TABLE, {name: value for name, value in row.items() if name != _LEASE})
        if not ours:
            _log.error("the task %s was changed outside Toolhall; it counts for nothing", row["id"])
        return ours

    def _task(self, row: dict[str, Any]) -> StoredTask:
        return msgspec.convert({name: value for name, value in row.items() if name != MAC_COLUMN}, StoredTask)

    def _row(self, task: StoredTask) -> dict[str, Any]:
        row = msgspec.structs.asdict(task)
        lease = row.pop(_LEASE)
        return {**self._macs.with_mac(_TABLE, row), _LEASE: lease}


def _conditions(query: TaskQuery) -> list[ColumnElement[bool]]:
    """What `TaskQuery.admits` says, as SQL."""
    found: list[ColumnElement[bool]] = [_COLUMNS.expires_at > query.unexpired_at]
    if query.states is not None:
        found.append(_COLUMNS.state.in_(sorted(query.states)))
    if query.tool is not None:
        versions = _COLUMNS.tool.startswith(f"{query.tool}@", autoescape=True)
        found.append(or_(_COLUMNS.tool == query.tool, versions))
    if query.caller is not None:
        acting = _COLUMNS.owner.startswith(f"{query.caller}\n", autoescape=True)
        found.append(or_(_COLUMNS.owner == query.caller, acting))
    if query.before is not None:
        found.append(tuple_(_COLUMNS.created_at, _COLUMNS.id) < query.before)
    return found
