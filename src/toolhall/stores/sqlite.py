"""SQLite as the embedded engine: connections, SqliteDatabase, and open_sqlite, which opens all stores of one file.

SqliteDatabase runs every transaction of a process in one thread with one connection. Engine errors become StoreFailed
with one line that names the fix. Importing this module loads SQLAlchemy, so callers import it lazily.
"""

import asyncio
import hmac
import os
import sqlite3
from collections.abc import Callable, Collection, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
from sqlalchemy import Connection, NullPool, create_engine, event, insert, select, update
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE, InUse, StoreFailed
from toolhall.stores.crypto import KEY_BYTES, ROOT_KEY_FILE, RowMac, load_or_create_key
from toolhall.stores.file_lock import LOCK_NAME, FileLock
from toolhall.stores.sql.access import SqlApiKeyStore, SqlGrantStore, grants
from toolhall.stores.sql.accounts import SqlAccountStore
from toolhall.stores.sql.anchors import ANCHOR_ROW_ID, SqlAnchorStore, SqlUsedStateStore, audit_anchors
from toolhall.stores.sql.approvals import SqlApprovalStore, approvals
from toolhall.stores.sql.base import check_revision, fetch_rows, migrate, put_signed, seals, table_mac
from toolhall.stores.sql.factors import SqlFactorStore
from toolhall.stores.sql.tasks import SqlTaskStore
from toolhall.stores.sql.tools import SqlToolStore, tools
from toolhall.stores.sql.upstreams import SqlUpstreamStore
from toolhall.stores.sql.vault import SqlVaultStore

_DAMAGED = "it is damaged; restore a backup, or move it away to begin without registered tools"
_NO_PERMISSION = "it cannot be opened or written; give this user the right to do so, in its folder too"
_BUSY = "another program is writing to it; close that one, then try again"
_ADVICE = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_LOCKED: _BUSY,
    sqlite3.SQLITE_CANTOPEN: _NO_PERMISSION,
    sqlite3.SQLITE_PERM: _NO_PERMISSION,
    sqlite3.SQLITE_READONLY: _NO_PERMISSION,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_FULL: "the disk is full; make room, then try again",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written; look at its state and its free space, then try again",
}
_BUSY_SECONDS = 5.0
_SAFETY_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON")  # the file may have been changed by others
_DURABILITY_PRAGMAS = ("synchronous = FULL", "fullfsync = ON", "checkpoint_fullfsync = ON", "foreign_keys = ON")
_UNSIGNED_REVISION = "0001"  # the revision without MACs
_FORBID_ONLY_REVISIONS = ("0002", "0003")  # their table MAC covered `forbid` grants only
_UNANCHORED_REVISIONS = (None, "0001", "0002", "0003", "0004", "0005")  # they had no audit anchor
_REASONLESS_REVISION = "0006"  # its approvals had no `reason`
_P = ParamSpec("_P")
_T = TypeVar("_T")


@contextmanager
def translate_errors(path: Path) -> Generator[None]:
    """Translate errors of the file and the engine to StoreFailed with this path and the fix."""
    try:
        yield
    except InUse:
        raise
    except StoreFailed as error:
        raise StoreFailed(f"{path}: {error}") from None
    except DBAPIError as error:  # its own text contains the statement
        raise StoreFailed(f"{path}: {_advice(error.orig)}") from error.orig
    except sqlite3.Error as error:
        raise StoreFailed(f"{path}: {_advice(error)}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, SQLAlchemyError) as error:  # rows that no store has written
        raise StoreFailed(f"{path}: {_DAMAGED}") from error
    except OSError as error:
        raise StoreFailed(f"{path}: {error.strerror}; choose another folder with --data, or put this right") from error


def check_integrity(connection: sqlite3.Connection) -> None:
    """Raise StoreFailed if SQLite's quick_check finds a damaged page."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise StoreFailed(_DAMAGED)


def _advice(error: BaseException | None) -> str:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # Python's own error: invalid text
        return _DAMAGED
    return _ADVICE.get(code & 0xFF, f"SQLite refused: {error}")  # the low byte is the primary code


def open_to_write(path: Path, macs: RowMac, *, exclusive: bool = True) -> Connection:
    """Open the file, creating it readable by its owner only, and migrate its tables.

    Tables of an older revision are changed only by a process that is `exclusive`.
    """
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))  # SQLite's own would be 0644
    connection = _connect(path, "rw", _prepare_to_write)
    return _close_on_error(
        connection, lambda opened: migrate(opened, partial(sign_migrated_rows, macs), exclusive=exclusive)
    )


def open_to_read(path: Path) -> Connection:
    """Open the file read-only; another process may be writing to it."""
    if not path.exists():
        raise StoreFailed("there is no database yet; start `toolhall serve` once to create it")
    connection = _connect(path, "ro", _prepare_to_read)
    return _close_on_error(connection, check_revision)


def _prepare_to_write(connection: sqlite3.Connection) -> None:
    check_integrity(connection)
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreFailed("this file system cannot hold it; choose a local folder with --data")
    _set_pragmas(connection, *_DURABILITY_PRAGMAS)


def _prepare_to_read(connection: sqlite3.Connection) -> None:
    _set_pragmas(connection, "query_only = ON")


def _set_pragmas(connection: sqlite3.Connection, *pragmas: str) -> None:
    for pragma in pragmas:
        connection.execute(f"PRAGMA {pragma}")


def _connect(path: Path, mode: str, prepare: Callable[[sqlite3.Connection], None]) -> Connection:
    def connect() -> sqlite3.Connection:
        address = f"{path.absolute().as_uri()}?mode={mode}"
        connection = sqlite3.connect(address, _BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
        try:
            _set_pragmas(connection, *_SAFETY_PRAGMAS)
            prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    engine = create_engine("sqlite://", creator=connect, poolclass=NullPool, hide_parameters=True)
    # Python's implicit transactions do not cover DDL: a migration could be half done.
    event.listen(engine, "begin", _begin_to_write if mode == "rw" else _begin_to_read)
    return engine.connect()


def _begin_to_write(connection: Connection) -> None:
    """Begin with the write lock, so that rows read in the transaction cannot change before they are written."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def _begin_to_read(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN")


def _close_on_error(connection: Connection, check: Callable[[Connection], None]) -> Connection:
    try:
        check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def sign_migrated_rows(macs: RowMac, connection: Connection, before: str | None) -> None:
    """Sign the rows of an older revision while the columns for MACs are created.

    Tools that were not registered by code are not signed, and so are quarantined: else anyone who can restore a file
    of that revision could activate anything.
    """
    if before in (None, _UNSIGNED_REVISION):
        connection.execute(insert(seals), {"name": grants.name, "mac": table_mac(grants.name, [], macs)})
    if before == _UNSIGNED_REVISION:
        for row in fetch_rows(connection, select(tools).where(tools.c.origin == "code")):
            connection.execute(update(tools).where(tools.c.id == row["id"]).values(mac=macs.compute(tools.name, row)))
    if before in _FORBID_ONLY_REVISIONS:
        _sign_all_grants(macs, connection)
    if before in _UNANCHORED_REVISIONS:
        put_signed(
            connection, audit_anchors, {"id": ANCHOR_ROW_ID, "public": "", "marks": "[]", "accepted": "[]"}, macs
        )
        _sign_approvals(macs, connection, added=("code_sha256", "reason"))
    if before == _REASONLESS_REVISION:
        _sign_approvals(macs, connection, added=("reason",))


def _sign_approvals(macs: RowMac, connection: Connection, added: Collection[str]) -> None:
    """Sign approvals of older revisions, which have not these columns, again if their MAC was right."""
    for row in fetch_rows(connection, select(approvals)):
        old = {name: value for name, value in row.items() if name not in added}
        if macs.verify(approvals.name, old):
            connection.execute(
                update(approvals).where(approvals.c.id == row["id"]).values(mac=macs.compute(approvals.name, row))
            )


def _sign_all_grants(macs: RowMac, connection: Connection) -> None:
    """Extend the table MAC from `forbid` grants to all, if it was right; else it stays wrong."""
    signed = [row for row in fetch_rows(connection, select(grants)) if macs.verify(grants.name, row)]
    stored_mac = connection.scalar(select(seals.c.mac).where(seals.c.name == grants.name)) or b""
    if hmac.compare_digest(
        stored_mac, table_mac(grants.name, [row for row in signed if row["effect"] == "forbid"], macs)
    ):
        new_mac = table_mac(grants.name, signed, macs)
        connection.execute(update(seals).where(seals.c.name == grants.name).values(mac=new_mac))


class SqliteDatabase:
    """One SQLite file with one connection in one thread; holds the lock, if given, until it is closed."""

    def __init__(self, path: Path, open_connection: Callable[[Path], Connection], lock: FileLock | None = None) -> None:
        self._path = path
        self._lock = lock
        self._is_open = True
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolhall-store")
        try:
            self._connection = self._thread.submit(open_connection, path).result()
        except BaseException:
            self._thread.shutdown()
            raise

    async def run(self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Run a transaction in the thread, which cancellation does not interrupt, and await its result."""
        return await asyncio.wrap_future(self.submit(work, *args, **kwargs))

    def submit(
        self, work: Callable[Concatenate[Connection, _P], _T], *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Run a transaction in the thread, for callers without an event loop."""
        if not self._is_open:
            raise StoreFailed(f"{self._path}: it is closed; open it again")

        def run_translated() -> _T:
            with translate_errors(self._path):
                return work(self._connection, *args, **kwargs)

        return self._thread.submit(run_translated)

    async def version(self) -> int:
        """Return a number that differs once another process has changed something; costs a read of shared memory."""
        return await self.run(_data_version)

    def close(self) -> None:
        """Finish pending transactions, close the connection and release the lock."""
        if self._is_open:
            self._is_open = False
            self._thread.submit(self._connection.close)
            self._thread.shutdown()
            if self._lock is not None:
                self._lock.release()


def _data_version(connection: Connection) -> int:
    """Read the version without a transaction, which would wait for writers."""
    (found,) = connection.connection.cursor().execute("PRAGMA data_version").fetchone()
    return int(found)


def open_sqlite(folder: Path) -> Stores:
    """Open the folder's file to read and write, creating it if there is none; raises InUse or StoreFailed.

    It blocks for some milliseconds, and longer if tables must be created; call it in a thread where a loop runs.
    """
    with translate_errors(folder / DATABASE_FILE):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(folder / LOCK_NAME)
    try:
        return open_with_lock(folder, lock)
    except BaseException:
        lock.release()
        raise


def open_with_lock(folder: Path, lock: FileLock, *, shared: bool = False) -> Stores:
    """Open the folder's file with a lock that is held already; closing the stores releases it."""
    path = folder / DATABASE_FILE
    with translate_errors(path):
        macs = RowMac(load_or_create_key(folder / ROOT_KEY_FILE))
        database = SqliteDatabase(path, partial(open_to_write, macs=macs, exclusive=lock.exclusive), lock)
        stores = _sql_stores(database, macs, shared=shared)
        return replace(stores, version=database.version) if shared else stores


def open_readonly(folder: Path) -> Stores:
    """Open the folder's file read-only, whether another process writes to it or not; raises StoreFailed."""
    path = folder / DATABASE_FILE
    with translate_errors(path):
        return _sql_stores(SqliteDatabase(path, open_to_read), RowMac(_root_key_or_random(folder / ROOT_KEY_FILE)))


def _sql_stores(database: SqliteDatabase, macs: RowMac, *, shared: bool = False) -> Stores:
    return Stores(
        tools=SqlToolStore(database, macs),
        keys=SqlApiKeyStore(database, macs),
        grants=SqlGrantStore(database, macs),
        approvals=SqlApprovalStore(database, macs),
        factors=SqlFactorStore(database, macs),
        accounts=SqlAccountStore(database, macs),
        vault=SqlVaultStore(database, macs),
        states=SqlUsedStateStore(database),
        anchors=SqlAnchorStore(database, macs),
        tasks=SqlTaskStore(database, macs, shared=shared),
        upstreams=SqlUpstreamStore(database, macs),
        close=database.close,
    )


def _root_key_or_random(path: Path) -> bytes:
    """Return the root key, or a random one, with which no row verifies: a reader creates no key."""
    return path.read_bytes() if path.exists() else os.urandom(KEY_BYTES)
