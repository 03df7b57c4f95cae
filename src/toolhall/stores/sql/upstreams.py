"""SqlUpstreamStore: table and statements of remembered upstreams; a row that another program wrote is left out.

Serials come from the counter that registered tools have, so none is ever given twice.
"""

import msgspec
from sqlalchemy import Column, Connection, Integer, LargeBinary, Table, Text, delete, select

from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.base import METADATA, SERIAL, TIMESTAMP, SqlDatabase, put_signed, read_authentic
from toolhall.stores.sql.tools import raise_serial
from toolhall.stores.upstreams import StoredUpstream, check_storable_upstream, check_upstream_serial, sort_upstreams

upstreams = Table(
    "upstreams",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("settings", Text),
    Column("era", Text),
    Column("revision", Text),
    Column("server_name", Text),
    Column("server_version", Text),
    Column("listing_digest", Text),
    Column("off", Integer, nullable=False),
    Column("by", Text, nullable=False),
    Column("added_at", TIMESTAMP, nullable=False),
    Column("changed_at", TIMESTAMP, nullable=False),
    Column("serial", SERIAL, nullable=False),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)


def select_upstreams(connection: Connection, macs: RowMac) -> tuple[StoredUpstream, ...]:
    """Return the authentic rows by name."""
    with connection.begin():
        return _read(connection, macs)


def save_upstream(connection: Connection, upstream: StoredUpstream, macs: RowMac) -> StoredUpstream:
    """Insert a NEW upstream or replace it; raises Stale."""
    check_storable_upstream(upstream)
    with connection.begin():
        serial = raise_serial(connection)
        known = {each.name: each.serial for each in _read(connection, macs)}
        check_upstream_serial(upstream, known.get(upstream.name))
        saved = msgspec.structs.replace(upstream, serial=serial)
        row = msgspec.structs.asdict(saved)
        row["id"] = row.pop("name")
        row["off"] = int(saved.off)
        row["settings"] = None if saved.settings is None else msgspec.json.encode(saved.settings).decode()
        put_signed(connection, upstreams, row, macs)
    return saved


def remove_upstream(connection: Connection, name: str) -> bool:
    """Remove a row, also one that is not authentic."""
    with connection.begin():
        return connection.execute(delete(upstreams).where(upstreams.c.id == name)).rowcount > 0


def find_upstream(connection: Connection, name: str, macs: RowMac) -> StoredUpstream | None:
    """Return the row with this name, if it is authentic."""
    with connection.begin():
        if connection.scalar(select(upstreams.c.id).where(upstreams.c.id == name)) is None:
            return None
        return next((each for each in _read(connection, macs) if each.name == name), None)


def _read(connection: Connection, macs: RowMac) -> tuple[StoredUpstream, ...]:
    rows = read_authentic(connection, upstreams, macs)
    for row in rows:
        row["name"] = row.pop("id")
        row["off"] = bool(row["off"])
        row["settings"] = None if row["settings"] is None else msgspec.json.decode(row["settings"])
    return sort_upstreams(msgspec.convert(rows, list[StoredUpstream]))


class SqlUpstreamStore:
    """Remembered upstreams in SQL."""

    def __init__(self, database: SqlDatabase, macs: RowMac) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[StoredUpstream, ...]:
        """Return all upstreams by name."""
        return await self._database.run(select_upstreams, self._macs)

    async def find(self, name: str) -> StoredUpstream | None:
        """Return the upstream with this name."""
        return await self._database.run(find_upstream, name, self._macs)

    async def save(self, upstream: StoredUpstream) -> StoredUpstream:
        """Insert a NEW upstream or replace it; return it with its serial. Raises Stale, and Unstorable."""
        return await self._database.run(save_upstream, upstream, self._macs)

    async def remove(self, name: str) -> bool:
        """Remove it; False if there is none."""
        return await self._database.run(remove_upstream, name)
