"""The store in `toolhall.db`: one thread with one connection does all its work, and one process may write."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from toolhall.stores.base import FILE_NAME, Event, Kept, StoreFailed
from toolhall.stores.lock import LOCK_NAME, Lock
from toolhall.stores.sql import statements
from toolhall.stores.sqlite.connection import open_to_read, open_to_write
from toolhall.stores.sqlite.faults import explained

_P = ParamSpec("_P")
_T = TypeVar("_T")


class SqliteReader:
    """Reads, also while another process writes."""

    def __init__(self, path: Path, opening: Callable[[Path], Connection]) -> None:
        self._path = path
        self._open = True
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolhall-store")
        try:
            self._connection = self._thread.submit(opening, path).result()
        except BaseException:
            self._thread.shutdown()
            raise

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        return await self._run(statements.read_all)

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        return await self._run(statements.read_history, tool, limit)

    def close(self) -> None:
        """Finish what is being written; nothing can be asked afterwards."""
        if self._open:
            self._open = False
            self._thread.submit(self._connection.close)
            self._thread.shutdown()

    async def _run(self, work: Callable[Concatenate[Connection, _P], _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """Do it in the thread: a whole transaction there costs the loop one turn, and cannot be cancelled half way."""
        if not self._open:
            raise StoreFailed(f"{self._path}: it is closed; open it again")
        with explained(self._path):
            return await asyncio.get_running_loop().run_in_executor(
                self._thread, lambda: work(self._connection, *given, **named)
            )


class SqliteStore(SqliteReader):
    """Reads and writes; holds the lock for as long as it is open."""

    def __init__(self, path: Path, lock: Lock) -> None:
        super().__init__(path, open_to_write)
        self._lock = lock

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        return await self._run(statements.save, tuple(kept), tuple(events))

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        """Remove all or none; raises Stale."""
        await self._run(statements.remove, tuple(kept), tuple(events))

    def close(self) -> None:
        """Finish what is being written, then let another process have the file."""
        if self._open:
            super().close()
            self._lock.release()


def open_store(folder: Path) -> SqliteStore:
    """Open the folder's store to read and write, making it if there is none; raises InUse, or StoreFailed.

    It takes some milliseconds, and more when the tables have to be made; where a loop runs, call it in a thread.
    """
    with explained(folder / FILE_NAME):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = Lock(folder / LOCK_NAME)
    try:
        return open_locked(folder, lock)
    except BaseException:
        lock.release()
        raise


def open_locked(folder: Path, lock: Lock) -> SqliteStore:
    """As `open_store`, by who holds the lock already; it is let go with the store."""
    path = folder / FILE_NAME
    with explained(path):
        return SqliteStore(path, lock)


def open_readonly(folder: Path) -> SqliteReader:
    """Open the folder's store to read, whether a process writes to it or not; raises StoreFailed."""
    path = folder / FILE_NAME
    with explained(path):
        return SqliteReader(path, open_to_read)
