"""Foundation of the SQL stores: METADATA, column types, the SqlDatabase protocol, signed rows and schema revisions.

A row whose MAC does not verify was changed by another program: it is logged and left out. `migrations/` creates the
tables, a test compares them with the definitions in this package, and migrate upgrades an older database.
"""

import logging
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
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
# For tables that must not lose a row: a MAC over all rows of the table `name` after its last change.
seals = Table(
    "seals",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("mac", LargeBinary, nullable=False),
    sqlite_strict=True,
)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_log = logging.getLogger("toolhall.stores")
REVISIONS = (
    "0001",
    "0002",
    "0003",
    "0004",
    "0005",
    "0006",
    "0007",
    "0008",
    "0009",
)  # every file in migrations/versions, oldest first
_VERSION_TABLE = "alembic_version"
_MIGRATIONS_FOLDER = Path(__file__).parents[1] / "migrations"
_ALEMBIC_LOCK = threading.Lock()  # Alembic keeps the current migration context in global variables


class SqlDatabase(Protocol):
    """Runs transactions for all stores of one database."""

    def run(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Awaitable[_T]:
        """Run this function with the connection and await its result; it begins and ends one transaction."""
        ...

    def submit(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Run this function with the connection, for threads without an event loop; raises StoreFailed once closed."""
        ...


def fetch_rows(connection: Connection, query: Select[*tuple[Any, ...]]) -> list[dict[str, Any]]:
    """Run the query and return each row as a dict by column names."""
    result = connection.execute(query)
    names = [str(name) for name in tuple(result.keys())]
    return [dict(zip(names, row, strict=True)) for row in result]


def read_authentic(connection: Connection, table: Table, macs: RowMac) -> list[dict[str, Any]]:
    """Return the rows whose MAC is right, without their MACs; all others are logged and left out."""
    return read_partitioned(connection, table, macs)[0]


def read_partitioned(
    connection: Connection, table: Table, macs: RowMac
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows whose MAC is right, and those that another program changed, which are logged."""
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
    """Replace the row with this id, with its MAC."""
    connection.execute(delete(table).where(table.c.id == row["id"]))
    connection.execute(insert(table), macs.with_mac(table.name, row))


def table_mac(name: str, rows: list[dict[str, Any]], macs: RowMac) -> bytes:
    """Return a MAC over all of these rows together, which detects a missing row and an outdated one."""
    return macs.compute(seals.name, {"name": str(name), "rows": sorted(macs.compute(name, row) for row in rows)})


def migrate(connection: Connection, sign: Callable[[Connection, str | None], None], *, exclusive: bool = True) -> None:
    """Upgrade the tables in one transaction; raises StoreFailed for a database of a newer Toolhall.

    `sign` adds the MACs that an older revision lacked, in the same transaction. A process that is not `exclusive`
    creates missing tables but changes none that another process is using.
    """
    before = _checked_revision(connection)
    if before not in (None, REVISIONS[-1]) and not exclusive:
        raise StoreFailed("it was written by an older Toolhall that is still using it; stop that one, then start again")
    if before != REVISIONS[-1]:
        with connection.begin():
            if _stored_revision(connection) == REVISIONS[-1]:
                return  # another process was faster
            _run_migrations(connection)
            sign(connection, before)


def _run_migrations(connection: Connection) -> None:
    """Run Alembic, without configuration file or output, inside the connection's current transaction."""
    from alembic import command  # lazy: Alembic is needed once per revision
    from alembic.config import Config  # lazy: as above

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_MIGRATIONS_FOLDER).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    with _ALEMBIC_LOCK:
        command.upgrade(config, "head")


def check_revision(connection: Connection) -> None:
    """Raise StoreFailed unless the database has this version's revision."""
    if _checked_revision(connection) != REVISIONS[-1]:
        raise StoreFailed("it was written by an older Toolhall; start `toolhall serve` on it once to update it")


def _checked_revision(connection: Connection) -> str | None:
    """Return the revision, None for an empty database; raises StoreFailed for an unknown, newer one."""
    with connection.begin():
        revision = _stored_revision(connection)
    if revision is not None and revision not in REVISIONS:
        raise StoreFailed(
            f"it was written by a newer Toolhall (its tables have revision {revision}, this one knows {REVISIONS[-1]});"
            " use that one, or a backup from before"
        )
    return revision


def _stored_revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(_VERSION_TABLE):
        return None
    return connection.scalar(select(column("version_num")).select_from(table(_VERSION_TABLE)))
