"""SqlGrantStore: table and statements of grants, with a MAC over the whole table.

A grant that another program changed, removed or restored makes reading fail, because a missing `forbid` would permit.
"""

import hmac
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    LargeBinary,
    Table,
    Text,
    delete,
    select,
    update,
)

from toolhall.stores.common import Stale, StoreFailed, check_storable
from toolhall.stores.crypto import RowMac
from toolhall.stores.grants import Grant, sort_grants
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, put_signed, read_authentic, seals, table_mac

grants = Table(
    "grants",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("effect", Text, nullable=False),
    Column("callers", Text, nullable=False),
    Column("tools", Text, nullable=False),
    Column("conditions", Text, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("by", Text, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)
_FIX = (
    "restore a backup of it together with state.key; without one, move it away to start without tools, keys and grants"
)


class SqlGrantStore:
    """Grants in SQL; the table's MAC is checked with every read and updated with every change."""

    def __init__(self, database: SqlDatabase, macs: RowMac) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[Grant, ...]:
        """Return all grants, oldest first; raises StoreFailed if another program changed, removed or restored one."""
        return await self._database.run(_select_all, self._macs)

    async def add(self, grant: Grant) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(grant)
        await self._database.run(_add, grant, self._macs)

    async def remove(self, grant_id: str) -> Grant | None:
        """Remove it and return it; None if there is none."""
        return await self._database.run(_remove, grant_id, self._macs)


def _select_all(connection: Connection, macs: RowMac) -> tuple[Grant, ...]:
    with connection.begin():
        return sort_grants(_select_grants(connection, macs))


def _add(connection: Connection, grant: Grant, macs: RowMac) -> None:
    with connection.begin():
        current = _select_grants(connection, macs)
        if connection.scalar(select(grants.c.id).where(grants.c.id == grant.id)) is not None:
            raise Stale([grant.id])
        put_signed(connection, grants, _row(grant), macs)
        _update_table_mac(connection, [*current, grant], macs)


def _remove(connection: Connection, grant_id: str, macs: RowMac) -> Grant | None:
    with connection.begin():
        current = _select_grants(connection, macs)
        found = next((each for each in current if each.id == grant_id), None)
        # A grant that is left out because another program wrote it can be removed too; it permits nothing.
        connection.execute(delete(grants).where(grants.c.id == grant_id))
        _update_table_mac(connection, [each for each in current if each.id != grant_id], macs)
    return found


def _select_grants(connection: Connection, macs: RowMac) -> list[Grant]:
    rows = read_authentic(connection, grants, macs)
    for row in rows:
        row["conditions"] = msgspec.json.decode(row["conditions"])
    found = msgspec.convert(rows, list[Grant])
    stored_mac = connection.scalar(select(seals.c.mac).where(seals.c.name == grants.name)) or b""
    if not hmac.compare_digest(stored_mac, _table_mac(found, macs)):
        raise StoreFailed(
            f"a grant was changed, removed or restored by another program, or state.key was replaced; {_FIX}"
        )
    return found


def _update_table_mac(connection: Connection, current: list[Grant], macs: RowMac) -> None:
    connection.execute(update(seals).where(seals.c.name == grants.name).values(mac=_table_mac(current, macs)))


def _table_mac(current: list[Grant], macs: RowMac) -> bytes:
    return table_mac(grants.name, [_row(each) for each in current], macs)


def _row(grant: Grant) -> dict[str, Any]:
    return msgspec.structs.asdict(grant) | {"conditions": msgspec.json.encode(grant.conditions).decode()}
