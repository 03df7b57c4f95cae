"""Which revision of the tables a database has, and bringing an older one up to date."""

import importlib
from collections.abc import Callable

from sqlalchemy import Connection, column, inspect, select, table

from toolhall.stores.base import StoreFailed

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")  # every file in migrations/versions, oldest first
_MARK = "alembic_version"


def bring_up_to_date(
    connection: Connection, sign: Callable[[Connection, str | None], None], *, alone: bool = True
) -> None:
    """Migrate, whole or not at all; raises StoreFailed for what a newer Toolhall wrote.

    `sign` takes over what an older revision kept without codes, in the same transaction and never again. Who is not
    `alone` makes tables that are not there yet, and changes none that another process is using.
    """
    before = _revision(connection)
    if before not in (None, REVISIONS[-1]) and not alone:
        raise StoreFailed("it was written by an older Toolhall that is still using it; stop that one, then start again")
    if before != REVISIONS[-1]:
        # Alembic takes longer to load than all the rest, and is needed once in the life of a revision.
        upgrade: Callable[[Connection], None] = importlib.import_module("toolhall.stores.migrations.upgrade").upgrade
        with connection.begin():
            if _marked(connection) == REVISIONS[-1]:
                return  # another process was faster
            upgrade(connection)
            sign(connection, before)


def refuse_out_of_date(connection: Connection) -> None:
    """Raise StoreFailed unless the tables are those of this Toolhall."""
    if _revision(connection) != REVISIONS[-1]:
        raise StoreFailed("it was written by an older Toolhall; start `toolhall serve` on it once, which updates it")


def _revision(connection: Connection) -> str | None:
    """The revision, None for an empty database."""
    with connection.begin():
        found = _marked(connection)
    if found is not None and found not in REVISIONS:
        raise StoreFailed(
            f"it was written by a newer Toolhall (its tables have revision {found}, this one knows {REVISIONS[-1]}); "
            "use that one, or a backup from before"
        )
    return found


def _marked(connection: Connection) -> str | None:
    marked = inspect(connection).has_table(_MARK)
    return connection.scalar(select(column("version_num")).select_from(table(_MARK))) if marked else None
