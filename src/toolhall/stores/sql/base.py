"""Foundation of the SQL stores: METADATA, column types, the SqlDatabase protocol, signed rows and schema revisions.

A row whose MAC does not verify was changed by another program: it is logged and left out. `migrations/` creates the
tables, a test holds them and the definitions in this package together, and migrate upgrades an older database.
"""

import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Connection,
    Double,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    Table,
    Text,
    column,
    delete,
    insert,
    inspect,
    select,
    table,
)

from toolhall.stores.common import StoreFailed
from toolhall.stores.crypto import MAC_COLUMN, RowMac

# SQLite's strict tables know these two by other names.
SERIAL = BigInteger().with_variant(Integer(), "sqlite")
TIMESTAMP: Double[float] = Double().with_variant(REAL(), "sqlite")
METADATA = MetaData()
# What must not lose a row: a code over all rows of `name` that were there after its last change.
seals = Table(
    "seals",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)
_P = ParamSpec("_P")
_T = TypeVar("_T")


class SqlDatabase(Protocol):
    """Shared by all stores of one database."""

    def run(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Awaitable[_T]:
        """Do this work with the connection; it is one transaction, begun and ended there."""
        ...

    def submit(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """The same for a thread that has no loop; raises StoreFailed once it is closed."""
        ...


def fetch_rows(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Each row by the names of its columns."""
    found = connection.execute(query)
    names = [str(name) for name in tuple(found.keys())]
    return [dict(zip(names, row, strict=True)) for row in found]


_log = logging.getLogger("toolhall.stores")


def read_authentic(connection: Connection, table: Table, macs: RowMac) -> list[dict[str, Any]]:
    """The rows that one of our own wrote, without their codes; all others are logged and left out."""
    return read_partitioned(connection, table, macs)[0]


def read_partitioned(
    connection: Connection, table: Table, macs: RowMac
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows that one of our own wrote, and those that another program changed, which are logged."""
    ours: list[dict[str, Any]] = []
    altered: list[dict[str, Any]] = []
    for row in fetch_rows(connection, select(table)):
        plain = {name: value for name, value in row.items() if name != MAC_COLUMN}
        if macs.verify(table.name, row):
            ours.append(plain)
        else:
            altered.append(plain)
            _log.error(
                "%s %r is left out: another program changed it in the file; restore a backup, or remove it and make it"
                " anew",
                table.name,
                row["id"],
            )
    return ours, altered


def put_signed(connection: Connection, table: Table, row: dict[str, Any], macs: RowMac) -> None:
    """Write this row with its code, in place of the one of its id."""
    connection.execute(delete(table).where(table.c.id == row["id"]))
    connection.execute(insert(table), macs.with_mac(table.name, row))


def table_mac(name: str, rows: list[dict[str, Any]], macs: RowMac) -> bytes:
    """A code over all of these rows together, which shows that one is missing or older than it should be."""
    return macs.compute(seals.name, {"name": str(name), "rows": sorted(macs.compute(name, row) for row in rows)})


REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")  # every file in migrations/versions, oldest first
_VERSION_TABLE = "alembic_version"


def migrate(connection: Connection, sign: Callable[[Connection, str | None], None], *, exclusive: bool = True) -> None:
    """Migrate, whole or not at all; raises StoreFailed for what a newer Toolhall wrote.

    `sign` takes over what an older revision kept without codes, in the same transaction and never again. Who is not
    `alone` makes tables that are not there yet, and changes none that another process is using.
    """
    before = _checked_revision(connection)
    if before not in (None, REVISIONS[-1]) and not exclusive:
        raise StoreFailed("it was written by an older Toolhall that is still using it; stop that one, then start again")
    if before != REVISIONS[-1]:
        from toolhall.stores.migrations import upgrade  # lazy: Alembic, needed once per revision

        with connection.begin():
            if _stored_revision(connection) == REVISIONS[-1]:
                return  # another process was faster
            upgrade(connection)
            sign(connection, before)


def check_revision(connection: Connection) -> None:
    """Raise StoreFailed unless the tables are those of this Toolhall."""
    if _checked_revision(connection) != REVISIONS[-1]:
        raise StoreFailed("it was written by an older Toolhall; start `toolhall serve` on it once, which updates it")


def _checked_revision(connection: Connection) -> str | None:
    """The revision, None for an empty database."""
    with connection.begin():
        found = _stored_revision(connection)
    if found is not None and found not in REVISIONS:
        raise StoreFailed(
            f"it was written by a newer Toolhall (its tables have revision {found}, this one knows {REVISIONS[-1]}); "
            "use that one, or a backup from before"
        )
    return found


def _stored_revision(connection: Connection) -> str | None:
    marked = inspect(connection).has_table(_VERSION_TABLE)
    return connection.scalar(select(column("version_num")).select_from(table(_VERSION_TABLE))) if marked else None
