"""SqlVaultStore: tables and statements of encrypted secrets and their data keys.

Each method is one transaction. A row that another program wrote is never used, but can be replaced and removed.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Column, Connection, Index, LargeBinary, Table, Text, delete, insert, select

from toolhall.stores.common import Stale, check_storable
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, TIMESTAMP, SqlDatabase, read_authentic, read_partitioned
from toolhall.stores.vault.store import DataKey, SecretRow, VaultContents, sorted_contents, tenant_of

data_keys = Table(
    "data_keys",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("use", Text, nullable=False),
    Column("kek", Text, nullable=False),
    Column("wrapped", LargeBinary, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)
# `user` is empty for the hall's own secrets: a unique index allows any number of NULLs.
secrets = Table(
    "secrets",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("dek", Text, nullable=False),
    Column("hint", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("created_at", TIMESTAMP, nullable=False),
    Column("changed_at", TIMESTAMP, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    Index("ix_secrets_user_name", "user", "name", unique=True),
    sqlite_strict=True,
)


class SqlVaultStore:
    """Secrets and data keys in SQL."""

    def __init__(self, database: SqlDatabase, macs: RowMac) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> VaultContents:
        """Return all data keys and secrets, oldest first."""
        return await self._database.run(_select_all, self._macs)

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        """Replace the secret of this name and user, inserting its data key if that is new; raises Stale."""
        for each in (row, key):
            if each is not None:
                check_storable(each)
        await self._database.run(_put, row, key, self._macs)

    async def remove(self, name: str, user: str | None) -> bool:
        """Remove the secret, and its data key if that encrypts no other; False if there is none."""
        return await self._database.run(_remove, name, user)

    async def add_data_key(self, key: DataKey) -> None:
        """Insert a data key; raises Stale if its id is taken."""
        check_storable(key)
        await self._database.run(_add_data_key, key, self._macs)

    async def replace_data_keys(self, before: VaultContents, after: VaultContents) -> None:
        """Replace `before` by `after` in one transaction; raises Stale unless `before` is what is stored."""
        for each in (*after.keys, *after.rows):
            check_storable(each)
        await self._database.run(_replace, before, after, self._macs)

    async def shred(self, tenant: str) -> bool:
        """Remove a tenant's data keys and secrets, which makes all they encrypted unreadable; False if none exist."""
        return await self._database.run(_shred, tenant)


def _select_all(connection: Connection, macs: RowMac) -> VaultContents:
    with connection.begin():
        return _select_contents(connection, macs)


def _put(connection: Connection, row: SecretRow, key: DataKey | None, macs: RowMac) -> None:
    with connection.begin():
        if key is not None:
            _insert_key(connection, key, macs)
        if not _has_key(connection, row.dek):
            raise Stale([row.name])
        _delete_secret(connection, row.name, row.user)
        connection.execute(insert(secrets), macs.with_mac(secrets.name, _secret_row(row)))
        _delete_unused_keys(connection)


def _remove(connection: Connection, name: str, user: str | None) -> bool:
    with connection.begin():
        found = _delete_secret(connection, name, user)
        _delete_unused_keys(connection)
    return found


def _add_data_key(connection: Connection, key: DataKey, macs: RowMac) -> None:
    with connection.begin():
        _insert_key(connection, key, macs)


def _replace(connection: Connection, before: VaultContents, after: VaultContents, macs: RowMac) -> None:
    with connection.begin():
        if before != _select_contents(connection, macs):
            raise Stale(["vault"])
        _delete_rows(connection, data_keys, [key.id for key in before.keys])
        _delete_rows(connection, secrets, [row.id for row in before.rows])
        for key in after.keys:
            _insert_key(connection, key, macs)
        for row in after.rows:
            connection.execute(insert(secrets), macs.with_mac(secrets.name, _secret_row(row)))


def _shred(connection: Connection, tenant: str) -> bool:
    with connection.begin():
        keys = connection.execute(delete(data_keys).where(data_keys.c.tenant == tenant)).rowcount
        user = "" if tenant == tenant_of(None) else tenant.removeprefix("user:")
        rows = connection.execute(delete(secrets).where(secrets.c.user == user)).rowcount
    return keys + rows > 0


def _select_contents(connection: Connection, macs: RowMac) -> VaultContents:
    keys = [msgspec.convert(row, DataKey) for row in read_authentic(connection, data_keys, macs)]
    ours, altered = read_partitioned(connection, secrets, macs)
    return sorted_contents(keys, map(_secret_of_row, ours), _decodable(altered))


def _insert_key(connection: Connection, key: DataKey, macs: RowMac) -> None:
    if _has_key(connection, key.id):
        raise Stale([key.id])
    connection.execute(insert(data_keys), macs.with_mac(data_keys.name, msgspec.structs.asdict(key)))


def _has_key(connection: Connection, key_id: str) -> bool:
    return connection.scalar(select(data_keys.c.id).where(data_keys.c.id == key_id)) is not None


def _delete_secret(connection: Connection, name: str, user: str | None) -> bool:
    """Delete the row whatever its MAC: one that another program changed can be replaced and removed too."""
    where = (secrets.c.name == name, secrets.c.user == (user or ""))
    return connection.execute(delete(secrets).where(*where)).rowcount > 0


def _delete_rows(connection: Connection, table: Table, ids: list[str]) -> None:
    """Delete by id, one by one: one statement may not take all, and rows that reading left out stay as evidence."""
    for each in ids:
        connection.execute(delete(table).where(table.c.id == each))


def _delete_unused_keys(connection: Connection) -> None:
    """Delete data keys of secrets that encrypt none; the rows that keys for records encrypt are unknown here."""
    unused = data_keys.c.id.not_in(select(secrets.c.dek))
    connection.execute(delete(data_keys).where(data_keys.c.use == "secrets", unused))


def _decodable(altered: list[dict[str, Any]]) -> Iterator[SecretRow]:
    """Yield the changed rows that still decode; the others are only in the log."""
    for row in altered:
        with contextlib.suppress(msgspec.ValidationError):
            yield _secret_of_row(row)


def _secret_of_row(row: dict[str, Any]) -> SecretRow:
    return msgspec.convert(row | {"user": row["user"] or None}, SecretRow)


def _secret_row(row: SecretRow) -> dict[str, Any]:
    return msgspec.structs.asdict(row) | {"user": row.user or ""}
