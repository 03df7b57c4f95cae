"""SqlFactorStore: tables and statements of second factors and of failed attempts.

Each method is one transaction, and a one-time code is consumed by one UPDATE, which writes the row's new MAC too.
"""

import logging
import time
from typing import Any

import msgspec
from sqlalchemy import Column, ColumnElement, Connection, LargeBinary, Table, Text, delete, func, insert, select, update

from toolhall.stores.common import Clock, MonotonicClock
from toolhall.stores.crypto import RowMac
from toolhall.stores.factors import ATTEMPT_WINDOW_SECONDS, Factor, retry_delay, unexpired_factors
from toolhall.stores.sql.base import METADATA, SERIAL, TIMESTAMP, SqlDatabase, fetch_rows

factors = Table(
    "factors",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("kind", Text, nullable=False),
    Column("secret", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("expires", TIMESTAMP),
    Column("counter", SERIAL, nullable=False),
    Column("used_at", TIMESTAMP),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)
# Failed attempts, which are limited so that codes cannot be guessed.
factor_attempts = Table(
    "factor_tries",
    METADATA,
    Column("number", SERIAL, primary_key=True),
    Column("person", Text, nullable=False, index=True),
    Column("at", TIMESTAMP, nullable=False),
    sqlite_strict=True,
)
_log = logging.getLogger("toolhall.store")
_TABLE = "factors"
_REMOVED = float("inf")


class SqlFactorStore:
    """Second factors in SQL; a row that another program wrote is ignored."""

    def __init__(self, database: SqlDatabase, macs: RowMac, clock: Clock = time.time) -> None:
        self._database = database
        self._statements = FactorStatements(macs, clock)

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Return the factors of a person, or all factors, oldest first, without expired invitations."""
        return await self._database.run(self._statements.all, person)

    async def find(self, factor_id: str) -> Factor | None:
        """Return the factor with this id; None for an expired invitation."""
        return await self._database.run(self._statements.find, factor_id)

    async def add(self, factor: Factor, invitation_id: str | None = None) -> bool:
        """Insert a factor, consuming the invitation if one is named; False if that is gone, or if the id is taken."""
        return await self._database.run(self._statements.add, factor, invitation_id)

    async def remove(self, factor_id: str) -> bool:
        """Remove it; False if there is none."""
        return await self._database.run(self._statements.remove, factor_id)

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Store the counter of a use; False unless it rises (or stays 0, as with most passkeys)."""
        return await self._database.run(self._statements.advance, factor_id, counter)

    async def record_attempt(self, person: str) -> float:
        """Count an attempt of this person; return 0, or the seconds until the next one is allowed."""
        return await self._database.run(self._statements.record_attempt, person)

    async def reset_attempts(self, person: str) -> None:
        """Forget the person's attempts after a successful one."""
        await self._database.run(self._statements.reset_attempts, person)


class FactorStatements:
    """The transactions, each on a synchronous connection; an asynchronous engine would run them by `run_sync`."""

    def __init__(self, macs: RowMac, clock: Clock) -> None:
        self._macs = macs
        self._clock = MonotonicClock(clock)
        self._clock_synced = False
        self._min_counters: dict[
            str, float
        ] = {}  # the counter of each that was used here; a row with less was put back

    def all(self, connection: Connection, person: str | None) -> tuple[Factor, ...]:
        """Return the authentic factors of a person, or all of them."""
        with connection.begin():
            return self._read(connection, *(() if person is None else (factors.c.person == person,)))

    def find(self, connection: Connection, factor_id: str) -> Factor | None:
        """Return the row with this id, if it is authentic."""
        with connection.begin():
            return next(iter(self._read(connection, factors.c.id == factor_id)), None)

    def add(self, connection: Connection, factor: Factor, invitation_id: str | None) -> bool:
        """Insert a factor, consuming the invitation if one is named."""
        added = self._insert(connection, factor, invitation_id)
        if added:
            self._min_counters[factor.id] = factor.counter
            if invitation_id is not None:
                self._min_counters[invitation_id] = _REMOVED
        return added

    def _insert(self, connection: Connection, factor: Factor, invitation_id: str | None) -> bool:
        with connection.begin():
            connection.execute(delete(factors).where(factors.c.expires <= self._now(connection)))
            if invitation_id is not None:
                invited = connection.execute(delete(factors).where(factors.c.id == invitation_id))
                if not invited.rowcount or self._min_counters.get(invitation_id) == _REMOVED:
                    return False
            if connection.scalar(select(factors.c.id).where(factors.c.id == factor.id)) is not None:
                connection.rollback()  # the invitation stays valid
                return False
            connection.execute(insert(factors).values(**self._row(factor)))
        return True

    def remove(self, connection: Connection, factor_id: str) -> bool:
        """Remove it."""
        with connection.begin():
            removed = connection.execute(delete(factors).where(factors.c.id == factor_id)).rowcount > 0
        if removed:
            self._min_counters[factor_id] = _REMOVED
        return removed

    def advance(self, connection: Connection, factor_id: str, counter: int) -> bool:
        """Store the counter by one conditional UPDATE: of concurrent uses of one code, exactly one succeeds."""
        advanced = self._update_counter(connection, factor_id, counter)
        if advanced:
            self._min_counters[factor_id] = counter
        return advanced

    def _update_counter(self, connection: Connection, factor_id: str, counter: int) -> bool:
        rises = factors.c.counter < counter if counter else factors.c.counter == 0
        still = (factors.c.id == factor_id, rises)
        with connection.begin():
            now = self._now(connection)
            connection.execute(delete(factors).where(factors.c.expires <= now))  # also takes the write lock
            found = self._read(connection, *still)
            if not found:
                return False
            used = msgspec.structs.replace(found[0], counter=counter, used_at=now)
            return connection.execute(update(factors).where(*still).values(**self._row(used))).rowcount > 0

    def record_attempt(self, connection: Connection, person: str) -> float:
        """Count an attempt unless there were too many."""
        with connection.begin():
            now = self._now(connection)
            connection.execute(delete(factor_attempts).where(factor_attempts.c.at <= now - ATTEMPT_WINDOW_SECONDS))
            wait = retry_delay(
                list(connection.scalars(select(factor_attempts.c.at).where(factor_attempts.c.person == person))), now
            )
            if not wait:
                connection.execute(insert(factor_attempts).values(person=person, at=now))
        return wait

    def reset_attempts(self, connection: Connection, person: str) -> None:
        """Forget the person's attempts."""
        with connection.begin():
            connection.execute(delete(factor_attempts).where(factor_attempts.c.person == person))

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> tuple[Factor, ...]:
        return unexpired_factors(self._read_authentic(connection, *where), self._now(connection))

    def _now(self, connection: Connection) -> float:
        """Return the time, never before a stored one."""
        if not self._clock_synced:
            last = factors.c.used_at == select(func.max(factors.c.used_at)).scalar_subquery()
            self._clock.advance_to(*(each.used_at for each in self._read_authentic(connection, last)))
            self._clock_synced = True
        return self._clock()

    def _row(self, factor: Factor) -> dict[str, Any]:
        return self._macs.with_mac(_TABLE, msgspec.structs.asdict(factor))

    def _read_authentic(self, connection: Connection, *where: ColumnElement[bool]) -> list[Factor]:
        rows = fetch_rows(connection, select(factors).where(*where))
        return [msgspec.convert(row, Factor) for row in rows if self._is_authentic(row)]

    def _is_authentic(self, row: dict[str, Any]) -> bool:
        """True if the MAC is right and the counter is not older than this process has seen."""
        restored = row["counter"] < self._min_counters.get(row["id"], 0)  # a restored older copy has a right MAC, too
        ours = self._macs.verify(_TABLE, row) and not restored
        if not ours:
            _log.error("the factor %s was changed outside Toolhall; it counts for nothing", row["id"])
        return ours
