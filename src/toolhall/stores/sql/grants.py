"""Grants in SQL; none can be taken out of the file or put back unnoticed."""

import hmac
from typing import Any

import msgspec
from sqlalchemy import Connection, delete, select, update

from toolhall.stores.base import Stale, StoreFailed
from toolhall.stores.grants.base import Grant, in_order
from toolhall.stores.macs import Macs
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.signing import put_signed, read_signed, seal_of
from toolhall.stores.sql.tables import grants, seals
from toolhall.stores.storable import refuse_unstorable_row

_FIX = (
    "restore a backup of it together with state.key; without one, move it away to begin without tools, keys and grants"
)


class SqlGrants:
    """The store of grants."""

    def __init__(self, database: Database, macs: Macs) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[Grant, ...]:
        """Every grant, what was made first first; StoreFailed if one was changed, taken out or put back."""
        return await self._database.run(_read_all, self._macs)

    async def add(self, grant: Grant) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        refuse_unstorable_row(grant)
        await self._database.run(_add, grant, self._macs)

    async def remove(self, grant_id: str) -> Grant | None:
        """Forget it, and return what it was; None if there is none."""
        return await self._database.run(_remove, grant_id, self._macs)


def _read_all(connection: Connection, macs: Macs) -> tuple[Grant, ...]:
    with connection.begin():
        return in_order(_grants(connection, macs))


def _add(connection: Connection, grant: Grant, macs: Macs) -> None:
    with connection.begin():
        there = _grants(connection, macs)
        if connection.scalar(select(grants.c.id).where(grants.c.id == grant.id)) is not None:
            raise Stale([grant.id])
        put_signed(connection, grants, _row(grant), macs)
        _seal(connection, [*there, grant], macs)


def _remove(connection: Connection, grant_id: str, macs: Macs) -> Grant | None:
    with connection.begin():
        there = _grants(connection, macs)
        found = next((each for each in there if each.id == grant_id), None)
        # One that is left out because another program made it can be removed, too; it permits nothing.
        connection.execute(delete(grants).where(grants.c.id == grant_id))
        _seal(connection, [each for each in there if each.id != grant_id], macs)
    return found


def _grants(connection: Connection, macs: Macs) -> list[Grant]:
    rows = read_signed(connection, grants, macs)
    for row in rows:
        row["conditions"] = msgspec.json.decode(row["conditions"])
    found = msgspec.convert(rows, list[Grant])
    kept = connection.scalar(select(seals.c.mac).where(seals.c.name == grants.name)) or b""
    if not hmac.compare_digest(kept, _sealed(found, macs)):
        raise StoreFailed(
            f"a grant was changed, taken out or put back by another program, or state.key is another; {_FIX}"
        )
    return found


def _seal(connection: Connection, there: list[Grant], macs: Macs) -> None:
    connection.execute(update(seals).where(seals.c.name == grants.name).values(mac=_sealed(there, macs)))


def _sealed(there: list[Grant], macs: Macs) -> bytes:
    return seal_of(grants.name, [_row(each) for each in there], macs)


def _row(grant: Grant) -> dict[str, Any]:
    return msgspec.structs.asdict(grant) | {"conditions": msgspec.json.encode(grant.conditions).decode()}
