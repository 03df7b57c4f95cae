"""SqlApiKeyStore and SqlGrantStore: tables and statements of API keys and grants, with a MAC over all grants.

A grant that another program changed, removed or restored makes reading fail, because a missing `forbid` would permit.
"""

import hmac
from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import (
    Column,
    Connection,
    Integer,
    LargeBinary,
    Table,
    Text,
    delete,
    select,
    update,
)

from toolhall.stores.access import ApiKey, Grant, sort_grants, sort_keys, with_last_use, with_revocation
from toolhall.stores.common import Stale, StoreFailed, check_storable
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, put_signed, read_authentic, seals, table_mac

# `mac` authenticates the other columns; it takes the folder's root key to compute it.
api_keys = Table(
    "api_keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("owner", Text),
    Column("shared", Integer, nullable=False),
    Column("scopes", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("expires_at", TIMESTAMP),
    Column("last_used_at", TIMESTAMP),
    Column("revoked_at", TIMESTAMP),
    Column("by", Text, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)


class SqlApiKeyStore:
    """API keys in SQL."""

    def __init__(self, database: SqlDatabase, macs: RowMac) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[ApiKey, ...]:
        """Return all keys, oldest first."""
        return await self._database.run(_list_keys, self._macs)

    async def add(self, key: ApiKey) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(key)
        await self._database.run(_add_key, key, self._macs)

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """Revoke the key and return it; None if there is none."""
        return await self._database.run(_revoke, key_id, at, self._macs)

    async def record_uses(self, times: Mapping[str, float]) -> None:
        """Store when keys were last used."""
        await self._database.run(_record_uses, dict(times), self._macs)


def _list_keys(connection: Connection, macs: RowMac) -> tuple[ApiKey, ...]:
    with connection.begin():
        return sort_keys(_select_keys(connection, macs))


def _add_key(connection: Connection, key: ApiKey, macs: RowMac) -> None:
    with connection.begin():
        if connection.scalar(select(api_keys.c.id).where(api_keys.c.id == key.id)) is not None:
            raise Stale([key.id])
        put_signed(connection, api_keys, _key_row(key), macs)


def _revoke(connection: Connection, key_id: str, at: float, macs: RowMac) -> ApiKey | None:
    with connection.begin():
        for found in _select_keys(connection, macs):
            if found.id == key_id:
                revoked = with_revocation(found, at)
                put_signed(connection, api_keys, _key_row(revoked), macs)
                return revoked
    return None


def _record_uses(connection: Connection, times: dict[str, float], macs: RowMac) -> None:
    with connection.begin():
        for found in _select_keys(connection, macs):
            if found.id in times:
                put_signed(connection, api_keys, _key_row(with_last_use(found, times[found.id])), macs)


def _select_keys(connection: Connection, macs: RowMac) -> list[ApiKey]:
    rows = read_authentic(connection, api_keys, macs)
    for row in rows:
        row["shared"] = bool(row["shared"])
        row["scopes"] = msgspec.json.decode(row["scopes"])
    return msgspec.convert(rows, list[ApiKey])


def _key_row(key: ApiKey) -> dict[str, Any]:
    scopes = msgspec.json.encode(key.scopes).decode()
    return msgspec.structs.asdict(key) | {"shared": int(key.shared), "scopes": scopes}


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
        return await self._database.run(_list_grants, self._macs)

    async def add(self, grant: Grant) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(grant)
        await self._database.run(_add_grant, grant, self._macs)

    async def remove(self, grant_id: str) -> Grant | None:
        """Remove it and return it; None if there is none."""
        return await self._database.run(_remove, grant_id, self._macs)


def _list_grants(connection: Connection, macs: RowMac) -> tuple[Grant, ...]:
    with connection.begin():
        return sort_grants(_select_grants(connection, macs))


def _add_grant(connection: Connection, grant: Grant, macs: RowMac) -> None:
    with connection.begin():
        current = _select_grants(connection, macs)
        if connection.scalar(select(grants.c.id).where(grants.c.id == grant.id)) is not None:
            raise Stale([grant.id])
        put_signed(connection, grants, _grant_row(grant), macs)
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
    return table_mac(grants.name, [_grant_row(each) for each in current], macs)


def _grant_row(grant: Grant) -> dict[str, Any]:
    return msgspec.structs.asdict(grant) | {"conditions": msgspec.json.encode(grant.conditions).decode()}
