"""SqlApprovalStore: table and statements of approvals.

Each method is one transaction, and an approval is consumed by one UPDATE, which writes the row's new MAC too.
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
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from toolhall.stores.approvals import (
    COOL_DOWN_SECONDS,
    MAX_STORED,
    RETENTION_SECONDS,
    Approval,
    ApprovalRequest,
    Decision,
    binding_fields,
    check_limits,
    is_approved,
    is_same_request,
    new_approval,
    newest_decided,
    with_decision,
    with_expiry,
)
from toolhall.stores.common import Clock, MonotonicClock
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, fetch_rows

approvals = Table(
    "approvals",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("how", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("acting_for", Text),
    Column("tool", Text, nullable=False),
    Column("definition_sha256", Text, nullable=False),
    Column("arguments_sha256", Text, nullable=False),
    Column("shown", LargeBinary, nullable=False),
    Column("level", Integer, nullable=False),
    Column("effect", Text),
    Column("dialect", Text, nullable=False),
    Column("created", TIMESTAMP, nullable=False),
    Column("expires", TIMESTAMP, nullable=False),
    Column("state", Text, nullable=False),
    Column("approver", Text),
    Column("method", Text),
    Column("decided_at", TIMESTAMP),
    Column("mac", LargeBinary, nullable=False),
    Column("code_sha256", Text, nullable=False, server_default=""),
    Column("reason", Text),
    Index("ix_approvals_caller_state", "caller", "state"),
    Index("ix_approvals_state_expires", "state", "expires"),
    Index("ix_approvals_expires", "expires"),
    sqlite_strict=True,
)
_log = logging.getLogger("toolhall.store")
_TABLE = "approvals"
_COLUMNS = approvals.c
_WRITE_TIMES = (_COLUMNS.created, _COLUMNS.decided_at)


class SqlApprovalStore:
    """Approvals in SQL; a row that another program wrote is ignored."""

    def __init__(self, database: SqlDatabase, macs: RowMac, clock: Clock = time.time) -> None:
        self._database = database
        self._statements = ApprovalStatements(macs, clock)

    async def find(self, approval_id: str) -> Approval | None:
        """Return the approval with its current state; None if there is none."""
        return await self._database.run(self._statements.find, approval_id)

    async def pending(self) -> tuple[Approval, ...]:
        """Return pending approvals, oldest first."""
        return await self._database.run(self._statements.pending)

    async def last_approved(self, approval: Approval) -> Approval | None:
        """Return the last approved one of the same caller and tool, in any version."""
        return await self._database.run(self._statements.last_approved, approval)

    async def decided(self, since: float) -> tuple[Approval, ...]:
        """Return the newest approvals that people have decided since then, newest first."""
        return await self._database.run(self._statements.decided, since)

    async def preview(self, request: ApprovalRequest) -> bool:
        """Return whether `claim` would let this call run; False if it would wait for a person. Raises CoolingDown."""
        return await self._database.run(self._statements.preview, request)

    async def claim(self, request: ApprovalRequest, new_id: str) -> Approval:
        """Consume the approval of this exact call (`consumed`), or request one (`pending`); raises CoolingDown."""
        return await self._database.run(self._statements.claim, request, new_id)

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Decide a pending approval and return it; None if it is not pending."""
        return await self._database.run(self._statements.decide, approval_id, decision)


class ApprovalStatements:
    """The transactions, each on a synchronous connection; an asynchronous engine would run them by `run_sync`."""

    def __init__(self, macs: RowMac, clock: Clock) -> None:
        self._macs = macs
        self._clock = MonotonicClock(clock)
        self._clock_synced = False
        self._consumed: dict[str, float] = {}  # approvals consumed by this process, until they expire

    def find(self, connection: Connection, approval_id: str) -> Approval | None:
        """Return the approval with its current state."""
        with connection.begin():
            now = self._now(connection)
            found = self._read(connection, _COLUMNS.id == approval_id)
        return with_expiry(found[0], now) if found else None

    def pending(self, connection: Connection) -> tuple[Approval, ...]:
        """Return pending approvals, oldest first."""
        with connection.begin():
            found = self._read(connection, *_in_state("pending", self._now(connection)))
        return tuple(sorted(found, key=lambda each: (each.created, each.id)))

    def last_approved(self, connection: Connection, approval: Approval) -> Approval | None:
        """Return the last approved one of the same caller and tool."""
        granted = _COLUMNS.state.in_(("approved", "consumed"))
        with connection.begin():
            now = self._now(connection)
            found = self._read(
                connection,
                _COLUMNS.caller == approval.caller,
                granted,
                # Every version of the tool: what comes from `@` up to the next letter.
                _COLUMNS.tool >= f"{approval.tool_key}@",
                _COLUMNS.tool < f"{approval.tool_key}A",
                _COLUMNS.id != approval.id,
            )
        last = max(found, key=lambda each: (each.decided_at or 0.0, each.id), default=None)
        return None if last is None else with_expiry(last, now)

    def decided(self, connection: Connection, since: float) -> tuple[Approval, ...]:
        """Return the newest approvals that people have decided since then."""
        with connection.begin():
            now = self._now(connection)
            found = self._read(connection, _COLUMNS.decided_at >= since)
        return newest_decided((with_expiry(each, now) for each in found), since)

    def preview(self, connection: Connection, request: ApprovalRequest) -> bool:
        """Return whether `claim` would find an approval; raises CoolingDown if it would."""
        with connection.begin():
            now = self._now(connection)
            approved = self._read(connection, *_same_request(request), *_in_state("approved", now))
            waiting = self._read(connection, *_in_state("pending", now))
            return is_approved(request, approved, waiting, self._denied(connection, request, now), now)

    def claim(self, connection: Connection, request: ApprovalRequest, new_id: str) -> Approval:
        """Consume an approval, or insert a pending one."""
        if request.how == "step_up":  # not consumed, so reading is usually enough
            with connection.begin():
                verified = self._read(
                    connection, *_same_request(request), *_in_state("approved", self._now(connection))
                )
            if verified:
                return verified[0]
        found = self._consume_or_create(connection, request, new_id)
        if found.state == "consumed":  # the transaction is committed
            self._consumed[found.id] = found.expires
        return found

    def _consume_or_create(self, connection: Connection, request: ApprovalRequest, new_id: str) -> Approval:
        with connection.begin():
            _lock_for_write(connection)
            now = self._now(connection)
            usable = self._consume(connection, request, now)
            if usable is not None:
                return usable
            waiting = self._read(connection, *_in_state("pending", now))
            same = [each for each in waiting if is_same_request(request, each)]
            if same:
                return same[0]
            check_limits(request, waiting, self._denied(connection, request, now), now)
            _prune(connection, now)
            new = new_approval(request, new_id, now)
            connection.execute(insert(approvals).values(**self._row(new)))
            return new

    def _denied(self, connection: Connection, request: ApprovalRequest, now: float) -> list[Approval]:
        """Return what people have denied this caller a moment ago."""
        recent = _COLUMNS.decided_at > now - COOL_DOWN_SECONDS
        return self._read(connection, _COLUMNS.caller == request.caller, _COLUMNS.state == "denied", recent)

    def decide(self, connection: Connection, approval_id: str, decision: Decision) -> Approval | None:
        """Decide a pending approval."""
        with connection.begin():
            _lock_for_write(connection)
            now = self._now(connection)
            found = self._read(connection, _COLUMNS.id == approval_id, *_in_state("pending", now))
            if not found:
                return None
            done = with_decision(found[0], decision, now)
            return done if self._update(connection, found[0], done, now) else None

    def _consume(self, connection: Connection, request: ApprovalRequest, now: float) -> Approval | None:
        """Return the approval of this call, consumed unless it is a step-up."""
        for found in self._read(connection, *_same_request(request), *_in_state("approved", now)):
            if found.how == "step_up":
                return found
            used = msgspec.structs.replace(found, state="consumed")
            if self._update(connection, found, used, now):
                return used
        return None

    def _update(self, connection: Connection, old: Approval, new: Approval, now: float) -> bool:
        """Update by one conditional statement, so that of concurrent updates exactly one succeeds."""
        still = (_COLUMNS.id == old.id, *_in_state(old.state, now))
        return connection.execute(update(approvals).where(*still).values(**self._row(new))).rowcount > 0

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> list[Approval]:
        """Return the approvals of authentic rows; the others are ignored."""
        rows = fetch_rows(connection, select(approvals).where(*where))
        return [msgspec.convert(row, Approval) for row in rows if self._is_authentic(row)]

    def _is_authentic(self, row: dict[str, Any]) -> bool:
        restored = (
            row["id"] in self._consumed and row["state"] != "consumed"
        )  # a restored older copy has a right MAC, too
        ours = self._macs.verify(_TABLE, row) and not restored
        if not ours:
            _log.error("the approval %s was changed outside Toolhall; it counts for nothing", row["id"])
        return ours

    def _now(self, connection: Connection) -> float:
        """Return the time, never before a stored one; forget consumed approvals that have expired."""
        if not self._clock_synced:
            newest = [column == select(func.max(column)).scalar_subquery() for column in _WRITE_TIMES]
            for each in self._read(connection, or_(*newest)):
                self._clock.advance_to(each.created, each.decided_at)
            self._clock_synced = True
        now = self._clock()
        self._consumed = {name: expires for name, expires in self._consumed.items() if expires > now}
        return now

    def _row(self, approval: Approval) -> dict[str, Any]:
        return self._macs.with_mac(_TABLE, msgspec.structs.asdict(approval))


def _in_state(state: str, now: float) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return _COLUMNS.state == state, _COLUMNS.expires > now


def _same_request(request: ApprovalRequest) -> list[ColumnElement[bool]]:
    """Match rows that is_same_request accepts."""
    return [_COLUMNS[name] == getattr(request, name) for name in binding_fields(request)]


def _lock_for_write(connection: Connection) -> None:
    """Take the write lock by a statement that matches no row; rows read after it cannot change meanwhile."""
    connection.execute(delete(approvals).where(_COLUMNS.expires < 0))


def _prune(connection: Connection, now: float) -> None:
    """Delete rows past their retention, and above the limit those that expired first."""
    connection.execute(delete(approvals).where(_COLUMNS.expires <= now - RETENTION_SECONDS))
    count = connection.execute(select(func.count()).select_from(approvals)).scalar_one()
    surplus = count + 1 - MAX_STORED
    if surplus > 0:
        first = select(_COLUMNS.id).order_by(_COLUMNS.expires, _COLUMNS.id).limit(surplus)
        connection.execute(delete(approvals).where(_COLUMNS.id.in_(first), _COLUMNS.expires <= now))
