"""Connections to the file: those that write, one in each process, and those that read beside them."""

import os
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sqlalchemy import Connection, NullPool, create_engine, event

from toolhall.stores.base import StoreFailed
from toolhall.stores.macs import Macs
from toolhall.stores.sql.revision import bring_up_to_date, refuse_out_of_date
from toolhall.stores.sql.signing import sign_all
from toolhall.stores.sqlite.faults import refuse_damaged

_BUSY_SECONDS = 5.0
_CAREFUL = ("trusted_schema = OFF", "cell_size_check = ON")  # the file may have been in other hands
_DURABLE = ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "foreign_keys = ON")


def open_to_write(path: Path, macs: Macs, *, alone: bool = True) -> Connection:
    """Make the file if there is none, readable by its owner only, and bring its tables up to date.

    Tables of an older revision are changed only by who is `alone`.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))  # SQLite's own would be 0644
    connection = _connect(path, "rw", _prepare_to_write)
    return _checked(connection, lambda opened: bring_up_to_date(opened, partial(sign_all, macs), alone=alone))


def open_to_read(path: Path) -> Connection:
    """Look at what another process may be writing; changes nothing."""
    if not path.exists():
        raise StoreFailed("there is none; `toolhall serve` makes it")
    connection = _connect(path, "ro", _prepare_to_read)
    return _checked(connection, refuse_out_of_date)


def _prepare_to_write(connection: sqlite3.Connection) -> None:
    refuse_damaged(connection)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreFailed("this file system cannot hold it; choose a local folder with --data")
    _set(connection, *_DURABLE)


def _prepare_to_read(connection: sqlite3.Connection) -> None:
    _set(connection, "query_only = ON")


def _set(connection: sqlite3.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")


def _connect(path: Path, mode: str, prepare: Callable[[sqlite3.Connection], None]) -> Connection:
    def connect() -> sqlite3.Connection:
        address = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, _BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
        try:
            _set(connection, *_CAREFUL)
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    # Python's own way of beginning leaves out statements that change tables: half a migration could stay.
    event.listen(engine, "begin", _begin_to_write if mode == "rw" else _begin_to_read)
    return engine.connect()


def _begin_to_write(connection: Connection) -> None:
    """Wait for every other writer: what is read from now on is still so when it is changed."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_to_read(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _checked(connection: Connection, check: Callable[[Connection], None]) -> Connection:
    try:
        check(connection)
    except BaseException:
        connection.close()
        raise
    return connection
