"""API keys in SQL."""

from collections.abc import Mapping
from typing import Any

import msgspec
from sqlalchemy import Connection, select

from toolhall.stores.base import Stale
from toolhall.stores.keys.base import ApiKey, in_order, revoked_at, used_at
from toolhall.stores.macs import Macs
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.signing import put_signed, read_signed
from toolhall.stores.sql.tables import api_keys
from toolhall.stores.storable import refuse_unstorable_row


class SqlKeys:
    """The store of API keys."""

    def __init__(self, database: Database, macs: Macs) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, what was made first first."""
        return await self._database.run(_read_all, self._macs)

    async def add(self, key: ApiKey) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        refuse_unstorable_row(key)
        await self._database.run(_add, key, self._macs)

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """From now on it is good for nothing; None if there is none."""
        return await self._database.run(_revoke, key_id, at, self._macs)

    async def used(self, moments: Mapping[str, float]) -> None:
        """When some were last used."""
        await self._database.run(_used, dict(moments), self._macs)


def _read_all(connection: Connection, macs: Macs) -> tuple[ApiKey, ...]:
    with connection.begin():
        return in_order(_keys(connection, macs))


def _add(connection: Connection, key: ApiKey, macs: Macs) -> None:
    with connection.begin():
        if connection.scalar(select(api_keys.c.id).where(api_keys.c.id == key.id)) is not None:
            raise Stale([key.id])
        put_signed(connection, api_keys, _row(key), macs)


def _revoke(connection: Connection, key_id: str, at: float, macs: Macs) -> ApiKey | None:
    with connection.begin():
        for found in _keys(connection, macs):
            if found.id == key_id:
                revoked = revoked_at(found, at)
                put_signed(connection, api_keys, _row(revoked), macs)
                return revoked
    return None


def _used(connection: Connection, moments: dict[str, float], macs: Macs) -> None:
    with connection.begin():
        for found in _keys(connection, macs):
            if found.id in moments:
                put_signed(connection, api_keys, _row(used_at(found, moments[found.id])), macs)


def _keys(connection: Connection, macs: Macs) -> list[ApiKey]:
    rows = read_signed(connection, api_keys, macs)
    for row in rows:
        row["shared"] = bool(row["shared"])
        row["scopes"] = msgspec.json.decode(row["scopes"])
    return msgspec.convert(rows, list[ApiKey])


def _row(key: ApiKey) -> dict[str, Any]:
    scopes = msgspec.json.encode(key.scopes).decode()
    return msgspec.structs.asdict(key) | {"shared": int(key.shared), "scopes": scopes}
