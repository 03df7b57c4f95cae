"""Approvals in SQL: each method is one transaction, and a yes is used up by one statement, its new code with it."""

import logging
import time
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, insert, or_, select, update

from toolhall.stores.approvals.base import (
    COOL_DOWN_SECONDS,
    KEPT_SECONDS,
    MOST_KEPT,
    Approval,
    Clock,
    Decision,
    Wanted,
    as_of,
    asked,
    binding,
    decided,
    is_same,
    refuse_crowd,
)
from toolhall.stores.approvals.onward import Onward
from toolhall.stores.macs import Macs
from toolhall.stores.sql.approval_tables import approvals
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.rows import rows_of

_log = logging.getLogger("toolhall.store")
_TABLE = "approvals"
_COLUMNS = approvals.c
_WRITTEN = (_COLUMNS.created, _COLUMNS.decided_at)


class SqlApprovals:
    """The store of approvals; a row that somebody else wrote is not there."""

    def __init__(self, database: Database, macs: Macs, clock: Clock = time.time) -> None:
        self._database = database
        self._rows = Approvals(macs, clock)

    async def find(self, approval_id: str) -> Approval | None:
        """As it stands now: what is too old is `expired`."""
        return await self._database.run(self._rows.find, approval_id)

    async def pending(self) -> tuple[Approval, ...]:
        """Everything that waits for an answer, the oldest first."""
        return await self._database.run(self._rows.pending)

    async def before(self, approval: Approval) -> Approval | None:
        """The last one that was approved of the same caller and tool, whatever its version."""
        return await self._database.run(self._rows.before, approval)

    async def claim(self, wanted: Wanted, new_id: str) -> Approval:
        """Use up the yes to this exact call (`consumed`), or ask for one (`pending`); raises NotNow."""
        return await self._database.run(self._rows.claim, wanted, new_id)

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Answer what is pending; None if it no longer is."""
        return await self._database.run(self._rows.decide, approval_id, decision)


class Approvals:
    """The statements; an asynchronous engine runs the same by `run_sync`."""

    def __init__(self, macs: Macs, clock: Clock) -> None:
        self._macs = macs
        self._clock = Onward(clock)
        self._caught_up = False
        self._used: dict[str, float] = {}  # what was used up here, until it is too old anyway

    def find(self, connection: Connection, approval_id: str) -> Approval | None:
        """As it stands now."""
        with connection.begin():
            now = self._now(connection)
            found = self._read(connection, _COLUMNS.id == approval_id)
        return as_of(found[0], now) if found else None

    def pending(self, connection: Connection) -> tuple[Approval, ...]:
        """Everything that waits for an answer, the oldest first."""
        with connection.begin():
            found = self._read(connection, *_open("pending", self._now(connection)))
        return tuple(sorted(found, key=lambda each: (each.created, each.id)))

    def before(self, connection: Connection, approval: Approval) -> Approval | None:
        """The last one that was approved of the same caller and tool."""
        said_yes = _COLUMNS.state.in_(("approved", "consumed"))
        with connection.begin():
            now = self._now(connection)
            found = self._read(
                connection,
                _COLUMNS.caller == approval.caller,
                said_yes,
                # Every version of the tool: what comes from `@` up to the next letter.
                _COLUMNS.tool >= f"{approval.tool_key}@",
                _COLUMNS.tool < f"{approval.tool_key}A",
                _COLUMNS.id != approval.id,
            )
        last = max(found, key=lambda each: (each.decided_at or 0.0, each.id), default=None)
        return None if last is None else as_of(last, now)

    def claim(self, connection: Connection, wanted: Wanted, new_id: str) -> Approval:
        """Use up a yes, or ask for one."""
        if wanted.how == "step_up":  # not used up, so reading is mostly enough
            with connection.begin():
                verified = self._read(connection, *_same(wanted), *_open("approved", self._now(connection)))
            if verified:
                return verified[0]
        found = self._claimed(connection, wanted, new_id)
        if found.state == "consumed":  # which is on disk by now
            self._used[found.id] = found.expires
        return found

    def _claimed(self, connection: Connection, wanted: Wanted, new_id: str) -> Approval:
        with connection.begin():
            _wait_for_others(connection)
            now = self._now(connection)
            usable = self._usable(connection, wanted, now)
            if usable is not None:
                return usable
            waiting = self._read(connection, *_open("pending", now))
            same = [each for each in waiting if is_same(wanted, each)]
            if same:
                return same[0]
            recent = _COLUMNS.decided_at > now - COOL_DOWN_SECONDS
            denied = self._read(connection, _COLUMNS.caller == wanted.caller, _COLUMNS.state == "denied", recent)
            refuse_crowd(wanted, waiting, denied, now)
            _forget(connection, now)
            new = asked(wanted, new_id, now)
            connection.execute(insert(approvals).values(**self._row(new)))
            return new

    def decide(self, connection: Connection, approval_id: str, decision: Decision) -> Approval | None:
        """Answer what is pending."""
        with connection.begin():
            _wait_for_others(connection)
            now = self._now(connection)
            found = self._read(connection, _COLUMNS.id == approval_id, *_open("pending", now))
            if not found:
                return None
            done = decided(found[0], decision, now)
            return done if self._changed(connection, found[0], done, now) else None

    def _usable(self, connection: Connection, wanted: Wanted, now: float) -> Approval | None:
        """The yes to this call; unless it is a step-up, nobody can use it any more."""
        for found in self._read(connection, *_same(wanted), *_open("approved", now)):
            if found.how == "step_up":
                return found
            used = msgspec.structs.replace(found, state="consumed")
            if self._changed(connection, found, used, now):
                return used
        return None

    def _changed(self, connection: Connection, old: Approval, new: Approval, now: float) -> bool:
        """One statement: of several that change the same row at the same moment, one does."""
        still = (_COLUMNS.id == old.id, *_open(old.state, now))
        return connection.execute(update(approvals).where(*still).values(**self._row(new))).rowcount > 0

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> list[Approval]:
        """The rows that are as we wrote them last; of the others, nobody said yes."""
        rows = rows_of(connection, select(approvals).where(*where))
        return [msgspec.convert(row, Approval) for row in rows if self._is_ours(row)]

    def _is_ours(self, row: dict[str, Any]) -> bool:
        put_back = row["id"] in self._used and row["state"] != "consumed"  # a copy from before is genuine, but old
        ours = self._macs.hold(_TABLE, row) and not put_back
        if not ours:
            _log.error("the approval %s was changed outside Toolhall; it counts for nothing", row["id"])
        return ours

    def _now(self, connection: Connection) -> float:
        """Never before what was written, by whichever process; what was used up is forgotten when it is too old."""
        if not self._caught_up:
            newest = [column == select(func.max(column)).scalar_subquery() for column in _WRITTEN]
            for each in self._read(connection, or_(*newest)):
                self._clock.saw(each.created, each.decided_at)
            self._caught_up = True
        now = self._clock()
        self._used = {name: expires for name, expires in self._used.items() if expires > now}
        return now

    def _row(self, approval: Approval) -> dict[str, Any]:
        return self._macs.signed(_TABLE, msgspec.structs.asdict(approval))


def _open(state: str, now: float) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _COLUMNS.state == state, _COLUMNS.expires > now


def _same(wanted: Wanted) -> list[ColumnElement[bool]]:
    """As `is_same` has it."""
    return [_COLUMNS[name] == getattr(wanted, name) for name in binding(wanted)]


def _wait_for_others(connection: Connection) -> None:
    """A statement that could change something waits for every other writer; what is read after it stays so."""
    connection.execute(delete(approvals).where(_COLUMNS.expires < 0))


def _forget(connection: Connection, now: float) -> None:
    """What ended long ago goes, and of too many those that ended first."""
    connection.execute(delete(approvals).where(_COLUMNS.expires <= now - KEPT_SECONDS))
    count = connection.execute(select(func.count()).select_from(approvals)).scalar_one()
    surplus = count + 1 - MOST_KEPT
    if surplus > 0:
        first = select(_COLUMNS.id).order_by(_COLUMNS.expires, _COLUMNS.id).limit(surplus)
        connection.execute(delete(approvals).where(_COLUMNS.id.in_(first), _COLUMNS.expires <= now))
