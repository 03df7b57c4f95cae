"""Sealed secrets in SQL: each method is one transaction, and a row that somebody else wrote is only in the way."""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
from sqlalchemy import Connection, Table, delete, insert, select

from toolhall.stores.base import Stale
from toolhall.stores.macs import Macs
from toolhall.stores.sql.database import Database
from toolhall.stores.sql.signing import read_parted, read_signed
from toolhall.stores.sql.vault_tables import data_keys, secrets
from toolhall.stores.storable import refuse_unstorable_row
from toolhall.stores.vault.base import Contents, DataKey, SecretRow, contents, tenant_of


class SqlVault:
    """The store of secrets."""

    def __init__(self, database: Database, macs: Macs) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> Contents:
        """Every data key and every secret, what was made first first."""
        return await self._database.run(_read_all, self._macs)

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        """Keep it in place of the one of its name and user, with its data key if that is new; raises Stale."""
        for each in (row, key):
            if each is not None:
                refuse_unstorable_row(each)
        await self._database.run(_put, row, key, self._macs)

    async def remove(self, name: str, user: str | None) -> bool:
        """Forget it, and a data key that seals no other secret with it; False if there is none."""
        return await self._database.run(_remove, name, user)

    async def add_data_key(self, key: DataKey) -> None:
        """Keep a new data key; raises Stale if its id is taken."""
        refuse_unstorable_row(key)
        await self._database.run(_add_data_key, key, self._macs)

    async def replace_data_keys(self, before: Contents, after: Contents) -> None:
        """Put one in place of the other, whole or not at all; raises Stale unless `before` is what is there."""
        for each in (*after.keys, *after.rows):
            refuse_unstorable_row(each)
        await self._database.run(_replace, before, after, self._macs)

    async def shred(self, tenant: str) -> bool:
        """Forget a tenant's data keys and secrets: what they sealed opens never again; False if there are none."""
        return await self._database.run(_shred, tenant)


def _read_all(connection: Connection, macs: Macs) -> Contents:
    with connection.begin():
        return _contents(connection, macs)


def _put(connection: Connection, row: SecretRow, key: DataKey | None, macs: Macs) -> None:
    with connection.begin():
        if key is not None:
            _insert_key(connection, key, macs)
        if not _there(connection, row.dek):
            raise Stale([row.name])
        _delete_secret(connection, row.name, row.user)
        connection.execute(insert(secrets), macs.signed(secrets.name, _secret_row(row)))
        _tidy(connection)


def _remove(connection: Connection, name: str, user: str | None) -> bool:
    with connection.begin():
        found = _delete_secret(connection, name, user)
        _tidy(connection)
    return found


def _add_data_key(connection: Connection, key: DataKey, macs: Macs) -> None:
    with connection.begin():
        _insert_key(connection, key, macs)


def _replace(connection: Connection, before: Contents, after: Contents, macs: Macs) -> None:
    with connection.begin():
        if before != _contents(connection, macs):
            raise Stale(["vault"])
        _delete_read(connection, data_keys, [key.id for key in before.keys])
        _delete_read(connection, secrets, [row.id for row in before.rows])
        for key in after.keys:
            _insert_key(connection, key, macs)
        for row in after.rows:
            connection.execute(insert(secrets), macs.signed(secrets.name, _secret_row(row)))


def _shred(connection: Connection, tenant: str) -> bool:
    with connection.begin():
        keys = connection.execute(delete(data_keys).where(data_keys.c.tenant == tenant)).rowcount
        user = "" if tenant == tenant_of(None) else tenant.removeprefix("user:")
        rows = connection.execute(delete(secrets).where(secrets.c.user == user)).rowcount
    return keys + rows > 0


def _contents(connection: Connection, macs: Macs) -> Contents:
    keys = [msgspec.convert(row, DataKey) for row in read_signed(connection, data_keys, macs)]
    ours, altered = read_parted(connection, secrets, macs)
    return contents(keys, map(_secret, ours), _readable(altered))


def _insert_key(connection: Connection, key: DataKey, macs: Macs) -> None:
    if _there(connection, key.id):
        raise Stale([key.id])
    connection.execute(insert(data_keys), macs.signed(data_keys.name, msgspec.structs.asdict(key)))


def _there(connection: Connection, key_id: str) -> bool:
    return connection.scalar(select(data_keys.c.id).where(data_keys.c.id == key_id)) is not None


def _delete_secret(connection: Connection, name: str, user: str | None) -> bool:
    """Whoever wrote it: one that was changed behind our back can be replaced and removed, too."""
    where = (secrets.c.name == name, secrets.c.user == (user or ""))
    return connection.execute(delete(secrets).where(*where)).rowcount > 0


def _delete_read(connection: Connection, table: Table, ids: list[str]) -> None:
    """One by one: there may be more than a statement takes, and what was left out in reading stays as evidence."""
    for each in ids:
        connection.execute(delete(table).where(table.c.id == each))


def _tidy(connection: Connection) -> None:
    """Forget the keys of secrets that seal none; one for records of others may seal what is not known here."""
    unused = data_keys.c.id.not_in(select(secrets.c.dek))
    connection.execute(delete(data_keys).where(data_keys.c.use == "secrets", unused))


def _readable(altered: list[dict[str, Any]]) -> Iterator[SecretRow]:
    """Those of which one can still say whose they are; the others only leave their line in the log."""
    for row in altered:
        with contextlib.suppress(msgspec.ValidationError):
            yield _secret(row)


def _secret(row: dict[str, Any]) -> SecretRow:
    return msgspec.convert(row | {"user": row["user"] or None}, SecretRow)


def _secret_row(row: SecretRow) -> dict[str, Any]:
    return msgspec.structs.asdict(row) | {"user": row.user or ""}
