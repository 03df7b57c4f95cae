"""Factors in SQL: each method is one transaction, and a code is used up by one statement, its row's code with it."""

import logging
import time
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from toolhall.stores.approvals.base import Clock
from toolhall.stores.approvals.onward import Onward
from toolhall.stores.factors.base import TRY_SECONDS, Factor, in_order, wait_after
from toolhall.stores.macs import Macs
from toolhall.stores.sql.approval_tables import factors, tries
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.rows import rows_of

_log = logging.getLogger("toolhall.store")
_TABLE = "factors"
_GONE = float("inf")


class SqlFactors:
    """The store of factors; a row that somebody else wrote is not there."""

    def __init__(self, database: Database, macs: Macs, clock: Clock = time.time) -> None:
        self._database = database
        self._rows = Factors(macs, clock)

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Every factor of a person, or of everybody, the oldest first; an invitation that is too old is not there."""
        return await self._database.run(self._rows.all, person)

    async def find(self, factor_id: str) -> Factor | None:
        """The one with this id; an invitation that is too old is not there."""
        return await self._database.run(self._rows.find, factor_id)

    async def add(self, factor: Factor, instead_of: str | None = None) -> bool:
        """Add it, in place of an invitation if one is named; False if that is gone, or if it is there already."""
        return await self._database.run(self._rows.add, factor, instead_of)

    async def remove(self, factor_id: str) -> bool:
        """Forget it; False if there is none."""
        return await self._database.run(self._rows.remove, factor_id)

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Note that it was used; False unless the counter rises (or is 0 always, as it is for most passkeys)."""
        return await self._database.run(self._rows.advance, factor_id, counter)

    async def attempt(self, person: str) -> float:
        """Count a try of this person; 0, or in how many seconds the next one is allowed."""
        return await self._database.run(self._rows.attempt, person)

    async def forgive(self, person: str) -> None:
        """Forget the tries of this person, because one was right."""
        await self._database.run(self._rows.forgive, person)


class Factors:
    """The statements; an asynchronous engine runs the same by `run_sync`."""

    def __init__(self, macs: Macs, clock: Clock) -> None:
        self._macs = macs
        self._clock = Onward(clock)
        self._caught_up = False
        self._least: dict[str, float] = {}  # the counter of each that was used here; a row with less was put back

    def all(self, connection: Connection, person: str | None) -> tuple[Factor, ...]:
        """Every factor of a person, or of everybody, as far as it is as we wrote it."""
        with connection.begin():
            return self._read(connection, *(() if person is None else (factors.c.person == person,)))

    def find(self, connection: Connection, factor_id: str) -> Factor | None:
        """The one with this id, if it is as we wrote it."""
        with connection.begin():
            return next(iter(self._read(connection, factors.c.id == factor_id)), None)

    def add(self, connection: Connection, factor: Factor, instead_of: str | None) -> bool:
        """Add it, in place of an invitation if one is named."""
        added = self._added(connection, factor, instead_of)
        if added:
            self._least[factor.id] = factor.counter
            if instead_of is not None:
                self._least[instead_of] = _GONE
        return added

    def _added(self, connection: Connection, factor: Factor, instead_of: str | None) -> bool:
        with connection.begin():
            connection.execute(delete(factors).where(factors.c.expires <= self._now(connection)))
            if instead_of is not None:
                invited = connection.execute(delete(factors).where(factors.c.id == instead_of))
                if not invited.rowcount or self._least.get(instead_of) == _GONE:
                    return False
            if connection.scalar(select(factors.c.id).where(factors.c.id == factor.id)) is not None:
                connection.rollback()  # the invitation stays what it was
                return False
            connection.execute(insert(factors).values(**self._row(factor)))
        return True

    def remove(self, connection: Connection, factor_id: str) -> bool:
        """Forget it."""
        with connection.begin():
            removed = connection.execute(delete(factors).where(factors.c.id == factor_id)).rowcount > 0
        if removed:
            self._least[factor_id] = _GONE
        return removed

    def advance(self, connection: Connection, factor_id: str, counter: int) -> bool:
        """One statement: of several that bring the same code, one is right."""
        advanced = self._advanced(connection, factor_id, counter)
        if advanced:
            self._least[factor_id] = counter
        return advanced

    def _advanced(self, connection: Connection, factor_id: str, counter: int) -> bool:
        rises = factors.c.counter < counter if counter else factors.c.counter == 0
        still = (factors.c.id == factor_id, rises)
        with connection.begin():
            now = self._now(connection)
            connection.execute(delete(factors).where(factors.c.expires <= now))  # waits for every other writer
            found = self._read(connection, *still)
            if not found:
                return False
            used = msgspec.structs.replace(found[0], counter=counter, used_at=now)
            return connection.execute(update(factors).where(*still).values(**self._row(used))).rowcount > 0

    def attempt(self, connection: Connection, person: str) -> float:
        """Count a try, unless there were too many."""
        with connection.begin():
            now = self._now(connection)
            connection.execute(delete(tries).where(tries.c.at <= now - TRY_SECONDS))
            wait = wait_after(list(connection.scalars(select(tries.c.at).where(tries.c.person == person))), now)
            if not wait:
                connection.execute(insert(tries).values(person=person, at=now))
        return wait

    def forgive(self, connection: Connection, person: str) -> None:
        """Forget the tries of this person."""
        with connection.begin():
            connection.execute(delete(tries).where(tries.c.person == person))

    def _read(self, connection: Connection, *where: ColumnElement[bool]) -> tuple[Factor, ...]:
        return in_order(self._genuine(connection, *where), self._now(connection))

    def _now(self, connection: Connection) -> float:
        """Never before what was written, by whichever process."""
        if not self._caught_up:
            last = factors.c.used_at == select(func.max(factors.c.used_at)).scalar_subquery()
            self._clock.saw(*(each.used_at for each in self._genuine(connection, last)))
            self._caught_up = True
        return self._clock()

    def _row(self, factor: Factor) -> dict[str, Any]:
        return self._macs.signed(_TABLE, msgspec.structs.asdict(factor))

    def _genuine(self, connection: Connection, *where: ColumnElement[bool]) -> list[Factor]:
        rows = rows_of(connection, select(factors).where(*where))
        return [msgspec.convert(row, Factor) for row in rows if self._is_ours(row)]

    def _is_ours(self, row: dict[str, Any]) -> bool:
        """Whether it is as we wrote it last; if not, it proves nobody."""
        put_back = row["counter"] < self._least.get(row["id"], 0)  # a copy from before is genuine, but old
        ours = self._macs.hold(_TABLE, row) and not put_back
        if not ours:
            _log.error("the factor %s was changed outside Toolhall; it counts for nothing", row["id"])
        return ours
