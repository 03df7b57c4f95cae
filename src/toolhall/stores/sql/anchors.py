"""The audit's anchor and the used request states in SQL."""

import logging
from collections.abc import Collection
from concurrent.futures import Future

import msgspec
from sqlalchemy import Connection, delete, func, insert, select

from toolhall.stores.audit.anchors import Acceptance, Anchor, accepted, advanced
from toolhall.stores.audit.lines import Mark
from toolhall.stores.base import StoreFailed
from toolhall.stores.macs import Macs
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.rows import rows_of
from toolhall.stores.sql.signing import ANCHOR, put_signed
from toolhall.stores.sql.tables import audit_anchors, used_states
from toolhall.stores.states import MOST_USED, TooManyStates

_log = logging.getLogger("toolhall.store")


class SqlAnchors:
    """The anchor; all of it is one row, so that nobody can take out a part of it."""

    durable = True

    def __init__(self, database: Database, macs: Macs) -> None:
        self._database = database
        self._macs = macs

    def read(self) -> Anchor:
        """Wait for the anchor; raises StoreFailed."""
        return self._database.submit(_read, self._macs).result()

    def advance(self, public: str, marks: Collection[Mark]) -> None:
        """Keep what is newer, without waiting for it."""
        try:
            self._database.submit(_advance, public, marks, self._macs).add_done_callback(_tell)
        except StoreFailed as failed:
            _log.error("the store was not told of the audit's newest checkpoint: %s", failed)

    def accept(self, public: str, marks: Collection[Mark], acceptance: Acceptance) -> None:
        """Replace the anchor, whatever it was; raises StoreFailed."""
        self._database.submit(_accept, public, marks, acceptance, self._macs).result()


class SqlStates:
    """The states that were used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def use(self, state_id: str, caller: str, expires: float, now: float) -> bool:
        """Use it up; False if it was used before. Raises TooManyStates."""
        return await self._database.run(_use, {"id": state_id, "caller": caller, "expires": expires}, now)

    async def release(self, state_id: str) -> None:
        """Nothing came of it, so it may be used once more."""
        await self._database.run(_release, state_id)


def _tell(done: "Future[None]") -> None:
    failed = done.exception()
    if failed is not None:
        _log.error("the store was not told of the audit's newest checkpoint: %s", failed)


def _read(connection: Connection, macs: Macs) -> Anchor:
    with connection.begin():
        return _found(connection, macs)


def _advance(connection: Connection, public: str, marks: Collection[Mark], macs: Macs) -> None:
    with connection.begin():
        before = _found(connection, macs)
        after = advanced(before, public, marks)
        if after != before:
            _put(connection, after, macs)


def _accept(connection: Connection, public: str, marks: Collection[Mark], acceptance: Acceptance, macs: Macs) -> None:
    with connection.begin():
        _put(connection, accepted(_found(connection, macs), public, marks, acceptance), macs)


def _found(connection: Connection, macs: Macs) -> Anchor:
    for row in rows_of(connection, select(audit_anchors).where(audit_anchors.c.id == ANCHOR)):
        if macs.hold(audit_anchors.name, row):
            marks = msgspec.json.decode(row["marks"], type=list[Mark])
            before = msgspec.json.decode(row["accepted"], type=tuple[Acceptance, ...])
            return Anchor(public=row["public"], marks={mark.log: mark for mark in marks}, accepted=before)
    return Anchor(sound=False)


def _put(connection: Connection, anchor: Anchor, macs: Macs) -> None:
    row = {
        "id": ANCHOR,
        "public": anchor.public,
        "marks": msgspec.json.encode(list(anchor.marks.values())).decode(),
        "accepted": msgspec.json.encode(anchor.accepted).decode(),
    }
    put_signed(connection, audit_anchors, row, macs)


def _use(connection: Connection, row: dict[str, str | float], now: float) -> bool:
    used = used_states.c
    with connection.begin():
        connection.execute(delete(used_states).where(used.expires <= now))  # also waits for every other writer
        if connection.scalar(select(used.id).where(used.id == row["id"])) is not None:
            return False
        of_caller = used.caller == row["caller"]
        count, oldest = connection.execute(select(func.count(), func.min(used.expires)).where(of_caller)).one()
        if count >= MOST_USED:
            raise TooManyStates(oldest - now)
        connection.execute(insert(used_states), row)
        return True


def _release(connection: Connection, state_id: str) -> None:
    with connection.begin():
        connection.execute(delete(used_states).where(used_states.c.id == state_id))
