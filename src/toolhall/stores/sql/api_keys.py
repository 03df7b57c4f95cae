"""SqlApiKeyStore: table and statements of API keys."""

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
    select,
)

from toolhall.stores.api_keys import ApiKey, sort_keys, with_last_use, with_revocation
from toolhall.stores.common import Stale, check_storable
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, put_signed, read_authentic

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
        return await self._database.run(_select_all, self._macs)

    async def add(self, key: ApiKey) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(key)
        await self._database.run(_add, key, self._macs)

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """Revoke the key and return it; None if there is none."""
        return await self._database.run(_revoke, key_id, at, self._macs)

    async def record_uses(self, times: Mapping[str, float]) -> None:
        """Store when keys were last used."""
        await self._database.run(_record_uses, dict(times), self._macs)


def _select_all(connection: Connection, macs: RowMac) -> tuple[ApiKey, ...]:
    with connection.begin():
        return sort_keys(_select_keys(connection, macs))


def _add(connection: Connection, key: ApiKey, macs: RowMac) -> None:
    with connection.begin():
        if connection.scalar(select(api_keys.c.id).where(api_keys.c.id == key.id)) is not None:
            raise Stale([key.id])
        put_signed(connection, api_keys, _row(key), macs)


def _revoke(connection: Connection, key_id: str, at: float, macs: RowMac) -> ApiKey | None:
    with connection.begin():
        for found in _select_keys(connection, macs):
            if found.id == key_id:
                revoked = with_revocation(found, at)
                put_signed(connection, api_keys, _row(revoked), macs)
                return revoked
    return None


def _record_uses(connection: Connection, times: dict[str, float], macs: RowMac) -> None:
    with connection.begin():
        for found in _select_keys(connection, macs):
            if found.id in times:
                put_signed(connection, api_keys, _row(with_last_use(found, times[found.id])), macs)


def _select_keys(connection: Connection, macs: RowMac) -> list[ApiKey]:
    rows = read_authentic(connection, api_keys, macs)
    for row in rows:
        row["shared"] = bool(row["shared"])
        row["scopes"] = msgspec.json.decode(row["scopes"])
    return msgspec.convert(rows, list[ApiKey])


def _row(key: ApiKey) -> dict[str, Any]:
    scopes = msgspec.json.encode(key.scopes).decode()
    return msgspec.structs.asdict(key) | {"shared": int(key.shared), "scopes": scopes}
