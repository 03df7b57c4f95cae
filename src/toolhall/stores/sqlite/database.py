"""The file `toolhall.db`: one thread with one connection does all the work of a process."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection

from toolhall.stores.base import StoreFailed
from toolhall.stores.lock import Lock
from toolhall.stores.sqlite.faults import explained

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Database:
    """What every store of one file shares; holds the lock, if it is given one, for as long as it is open."""

    def __init__(self, path: Path, opening: Callable[[Path], Connection], lock: Lock | None = None) -> None:
        self._path = path
        self._lock = lock
        self._open = True
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolhall-store")
        try:
            self._connection = self._thread.submit(opening, path).result()
        except BaseException:
            self._thread.shutdown()
            raise

    async def run(self, work: Callable[Concatenate[Connection, _P], _T], *given: _P.args, **named: _P.kwargs) -> _T:
        """Do it in the thread: a whole transaction there costs the loop one turn, and cannot be cancelled half way."""
        return await asyncio.wrap_future(self.submit(work, *given, **named))

    def submit(
        self, work: Callable[Concatenate[Connection, _P], _T], *given: _P.args, **named: _P.kwargs
    ) -> Future[_T]:
        """The same for a thread that has no loop."""
        if not self._open:
            raise StoreFailed(f"{self._path}: it is closed; open it again")

        def explaining() -> _T:
            with explained(self._path):
                return work(self._connection, *given, **named)

        return self._thread.submit(explaining)

    async def version(self) -> int:
        """Another number once another process has changed something; it costs a look at shared memory."""
        return await self.run(_version)

    def close(self) -> None:
        """Finish what is being written, then let another process have the file; nothing can be asked afterwards."""
        if self._open:
            self._open = False
            self._thread.submit(self._connection.close)
            self._thread.shutdown()
            if self._lock is not None:
                self._lock.release()


def _version(connection: Connection) -> int:
    """Without a transaction, which would wait for whoever writes."""
    (found,) = connection.connection.cursor().execute("PRAGMA data_version").fetchone()
    return int(found)
