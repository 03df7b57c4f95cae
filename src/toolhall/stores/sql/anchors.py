"""SqlAnchorStore and SqlUsedStateStore: tables and statements of the audit's anchor and of consumed request states."""

import logging
from collections.abc import Collection
from concurrent.futures import Future

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    LargeBinary,
    Table,
    Text,
    delete,
    func,
    insert,
    select,
)

from toolhall.stores.approvals import MAX_USED_STATES, TooManyStates
from toolhall.stores.audit.anchors import Acceptance, Anchor, with_acceptance, with_checkpoints
from toolhall.stores.audit.hash_chain import Checkpoint
from toolhall.stores.common import StoreFailed
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, fetch_rows, put_signed

# The audit's anchor: one row, created with the table, so that a missing row means that it was removed.
audit_anchors = Table(
    "audit_anchors",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("public", Text, nullable=False),
    Column("marks", Text, nullable=False),
    Column("accepted", Text, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)
used_states = Table(
    "used_states",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("caller", Text, nullable=False, index=True),
    Column("expires", TIMESTAMP, nullable=False, index=True),
    sqlite_strict=True,
)
ANCHOR_ROW_ID = "audit"  # of the only row
_log = logging.getLogger("toolhall.store")


class SqlAnchorStore:
    """The anchor in SQL: one row, so that no part of it can be removed."""

    durable = True

    def __init__(self, database: SqlDatabase, macs: RowMac) -> None:
        self._database = database
        self._macs = macs

    def read(self) -> Anchor:
        """Return the anchor; blocks, and raises StoreFailed."""
        return self._database.submit(_read_anchor, self._macs).result()

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        """Store newer checkpoints without blocking; a failure is logged."""
        try:
            self._database.submit(_advance_anchor, public, checkpoints, self._macs).add_done_callback(_log_failure)
        except StoreFailed as failed:
            _log.error("the audit's newest checkpoint could not be stored: %s", failed)

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        """Replace the anchor; blocks until that is durable, and raises StoreFailed."""
        self._database.submit(_accept_anchor, public, checkpoints, acceptance, self._macs).result()


class SqlUsedStateStore:
    """Consumed request states in SQL."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def consume(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        """Consume the state; False if it was consumed before. Raises TooManyStates."""
        return await self._database.run(_consume, {"id": state_id, "caller": caller, "expires": expires}, now)

    async def release(self, state_id: str) -> None:
        """Make the state usable again, because its request had no effect."""
        await self._database.run(_release_state, state_id)

    async def unexpired(self, prefix: str, now: float) -> dict[str, float]:
        """Return the consumed states whose ids begin with this prefix, and when each expires."""
        return await self._database.run(_select_unexpired, prefix, now)


def _log_failure(done: "Future[None]") -> None:
    failed = done.exception()
    if failed is not None:
        _log.error("the audit's newest checkpoint could not be stored: %s", failed)


def _read_anchor(connection: Connection, macs: RowMac) -> Anchor:
    with connection.begin():
        return _select_anchor(connection, macs)


def _advance_anchor(connection: Connection, public: str, checkpoints: Collection[Checkpoint], macs: RowMac) -> None:
    with connection.begin():
        before = _select_anchor(connection, macs)
        after = with_checkpoints(before, public, checkpoints)
        if after != before:
            _put_anchor(connection, after, macs)


def _accept_anchor(
    connection: Connection, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance, macs: RowMac
) -> None:
    with connection.begin():
        _put_anchor(
            connection, with_acceptance(_select_anchor(connection, macs), public, checkpoints, acceptance), macs
        )


def _select_anchor(connection: Connection, macs: RowMac) -> Anchor:
    for row in fetch_rows(connection, select(audit_anchors).where(audit_anchors.c.id == ANCHOR_ROW_ID)):
        if macs.verify(audit_anchors.name, row):
            marks = msgspec.json.decode(row["marks"], type=list[Checkpoint])
            before = msgspec.json.decode(row["accepted"], type=tuple[Acceptance, ...])
            return Anchor(public=row["public"], marks={mark.log: mark for mark in marks}, accepted=before)
    return Anchor(sound=False)


def _put_anchor(connection: Connection, anchor: Anchor, macs: RowMac) -> None:
    row = {
        "id": ANCHOR_ROW_ID,
        "public": anchor.public,
        "marks": msgspec.json.encode(list(anchor.marks.values())).decode(),
        "accepted": msgspec.json.encode(anchor.accepted).decode(),
    }
    put_signed(connection, audit_anchors, row, macs)


def _consume(connection: Connection, row: dict[str, str | float], now: float) -> bool:
    used = used_states.c
    with connection.begin():
        connection.execute(delete(used_states).where(used.expires <= now))  # also takes the write lock
        if connection.scalar(select(used.id).where(used.id == row["id"])) is not None:
            return False
        of_caller = used.caller == row["caller"]
        count, oldest = connection.execute(select(func.count(), func.min(used.expires)).where(of_caller)).one()
        if count >= MAX_USED_STATES:
            raise TooManyStates(oldest - now)
        connection.execute(insert(used_states), row)
        return True


def _release_state(connection: Connection, state_id: str) -> None:
    with connection.begin():
        connection.execute(delete(used_states).where(used_states.c.id == state_id))


def _select_unexpired(connection: Connection, prefix: str, now: float) -> dict[str, float]:
    used = used_states.c
    query = select(used.id, used.expires).where(used.id >= prefix, used.id < f"{prefix}\U0010ffff", used.expires > now)
    with connection.begin():
        return {row.id: row.expires for row in connection.execute(query)}
