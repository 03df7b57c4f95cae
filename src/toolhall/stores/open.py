"""open_stores: opens the stores of a data folder, in memory or in SQLite, exclusively, shared or read-only.

Theory of operation. Without a folder all stores are in memory. With one, FileLock decides what this process may do:

- Exclusive (no role). `toolhall.lock` is held exclusively. If another process holds it, opening raises InUse, or with
  `allow_readonly` returns stores that read the other process's file and refuse every write.
- Shared (a role). All processes hold `toolhall.lock` shared, and all of them write. One of them holds `tools.lock` too
  and is the only one that changes registered tools; the others raise InUse, or with `tools_optional` go on with
  `tools_readonly`. The process that comes first holds `toolhall.lock` exclusively until it has created or migrated the
  file, and then downgrades it.

A database that does not exist yet is created with the first write (LazyStores), so that a hall that stores nothing
neither leaves a file behind nor imports SQLAlchemy. Until then reads see empty in-memory stores. Creation runs once, in
a thread: concurrent writers await the same task, cancelling one of them does not stop it, and after a failure the next
write tries again. There are two exceptions, in which the file is created at once: workers of one supervisor, which
must read the same rows from the start, and a folder whose audit says that a database existed (see
_is_lazy_creation_safe).
"""

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

from toolhall.stores.audit.anchors import was_stored
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER
from toolhall.stores.bundle import Stores, delegating_stores, in_memory
from toolhall.stores.common import DATABASE_FILE, InUse, StoreFailed
from toolhall.stores.file_lock import LOCK_NAME, TOOLS_LOCK_NAME, FileLock, WorkerRole

_NO_FILE_VERSION = -1  # what LazyStores.version returns while there is no file; SQLite counts from 1


class _SharedAccess(NamedTuple):
    """How a process shares a data folder with others that serve from it."""

    role: WorkerRole
    tools_optional: bool
    short_lived: bool


def open_stores(
    folder: Path | None,
    *,
    allow_readonly: bool,
    role: WorkerRole | None = None,
    tools_optional: bool = False,
    short_lived: bool = False,
) -> Stores:
    """Open the stores of this folder; raises StoreFailed, or InUse if another process holds what this one needs.

    `allow_readonly` accepts read-only stores instead of InUse where another process holds the folder exclusively.
    With a `role` the folder is shared, and every process writes; `tools_optional` accepts that another one of them is
    the one that changes tools. While a `short_lived` process holds the folder, or in a shared folder the tools, others
    wait for it instead of being refused.
    """
    if folder is None:
        return in_memory()
    sharing = None if role is None else _SharedAccess(role, tools_optional, short_lived)
    try:
        lock_role: WorkerRole | None = None if sharing is None else "peer"
        lock = _acquire_lock(folder / LOCK_NAME, lock_role, sharing, short_lived=short_lived and sharing is None)
    except InUse:
        if not allow_readonly:
            raise
        return delegating_stores(_ReadonlyStores(_open_sqlite_readonly(folder)), readonly=True)
    if sharing is not None:
        return _open_shared(folder, lock, sharing)
    if _is_lazy_creation_safe(folder):
        return delegating_stores(LazyStores(lambda held: _open_sqlite(folder, held), lock))
    return _open_or_release(folder, lock)


class LazyStores:
    """Creates the database with the first write; until then reads see empty stores.

    It holds the folder's lock from the start and hands it to the created stores. Where several processes share the
    folder, `file_exists` tells whether another one has created the file meanwhile.
    """

    def __init__(
        self, create: Callable[[FileLock], Stores], lock: FileLock, file_exists: Callable[[], bool] = lambda: False
    ) -> None:
        self._create = create
        self._lock = lock
        self._file_exists = file_exists
        self._creation: asyncio.Task[Stores] | None = None
        self._created: Stores | None = None
        self._empty = in_memory()  # nothing is written to it, except the audit's anchor
        self._closed = False

    def current(self) -> Stores:
        """Return the created stores, or empty ones."""
        return self._created or self._empty

    async def writable(self) -> Stores:
        """Return the created stores, creating them once however many callers wait; cancellation does not stop that."""
        if self._created is not None:
            return self._created
        if self._creation is None:
            self._creation = asyncio.ensure_future(asyncio.to_thread(self._create, self._lock))
            self._creation.add_done_callback(self._on_created)
        return await asyncio.shield(self._creation)

    async def version(self) -> int:
        """Return a number that differs once another process has changed something.

        It opens the file that another process has created.
        """
        if self._created is None and not self._file_exists():
            return _NO_FILE_VERSION
        created = await self.writable()
        return _NO_FILE_VERSION if created.version is None else await created.version()

    def close(self) -> None:
        """Finish pending writes and release the lock, also if the stores are being created right now."""
        self._closed = True
        if self._created is not None:
            self._created.close()
        elif self._creation is None:
            self._lock.release()

    def _on_created(self, creation: "asyncio.Task[Stores]") -> None:
        self._creation = None
        if creation.cancelled() or creation.exception() is not None:
            if self._closed:
                self._lock.release()
            return  # the waiting writers get the exception, and the next write tries again
        self._created = creation.result()
        anchor = self._empty.anchors.read()
        if anchor.public:  # checkpoints that the audit reported while there was no file
            self._created.anchors.advance(anchor.public, tuple(anchor.marks.values()))
        if self._closed:
            self._created.close()


class _ReadonlyStores:
    """Reads the file of another process and refuses every write."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def current(self) -> Stores:
        return self._stores

    async def writable(self) -> NoReturn:
        raise StoreFailed("another process writes to this store; send the change to that process (--url)")

    def close(self) -> None:
        self._stores.close()


def _open_shared(folder: Path, lock: FileLock, sharing: _SharedAccess) -> Stores:
    """Open the stores of one of several processes; the file is created or migrated before others can join."""
    try:
        tools_lock = _acquire_tools_lock(folder, sharing)
    except BaseException:
        lock.release()
        raise
    try:
        # Workers of one supervisor read the same rows from the start, so the first of them creates the file at once.
        if sharing.role == "peer" and _is_lazy_creation_safe(folder):
            stores = _open_shared_lazily(folder, lock)
        else:
            stores = _open_or_release(folder, lock, shared=True)
    except BaseException:
        if tools_lock is not None:
            tools_lock.release()
        raise
    lock.downgrade()
    if tools_lock is None:
        return replace(stores, tools_readonly=True)
    if sharing.role == "first":
        tools_lock.downgrade()

    def close() -> None:
        stores.close()
        tools_lock.release()

    return replace(stores, close=close, release_tools=tools_lock.release)


def _open_shared_lazily(folder: Path, lock: FileLock) -> Stores:
    lazy = LazyStores(lambda held: _open_sqlite(folder, held, shared=True), lock, (folder / DATABASE_FILE).exists)
    return replace(delegating_stores(lazy), version=lazy.version)


def _is_lazy_creation_safe(folder: Path) -> bool:
    """True if there is no database and the audit does not say that there was one.

    If it says so, the database is lost. An operator who accepts that needs a new one at once, to record it in.
    """
    return not (folder / DATABASE_FILE).exists() and not was_stored(folder / AUDIT_FOLDER)


def _acquire_lock(path: Path, role: WorkerRole | None, sharing: _SharedAccess | None, *, short_lived: bool) -> FileLock:
    worker = sharing is not None and sharing.role != "peer"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(path, role, pid=os.getppid() if worker else os.getpid(), short_lived=short_lived)
    except OSError as error:
        raise StoreFailed(
            f"{path.parent} cannot be used: {error.strerror}; choose another folder with --data"
        ) from None


def _acquire_tools_lock(folder: Path, sharing: _SharedAccess) -> FileLock | None:
    """Take the right to change tools; None if another process has it and this one can do without it."""
    role = None if sharing.role == "peer" else sharing.role
    try:
        return _acquire_lock(folder / TOOLS_LOCK_NAME, role, sharing, short_lived=sharing.short_lived)
    except InUse:
        if not sharing.tools_optional:
            raise
        return None


def _open_or_release(folder: Path, lock: FileLock, *, shared: bool = False) -> Stores:
    try:
        return _open_sqlite(folder, lock, shared=shared)
    except BaseException:
        lock.release()
        raise


def _open_sqlite(folder: Path, lock: FileLock, *, shared: bool = False) -> Stores:
    from toolhall.stores.sqlite import open_with_lock  # lazy: SQLAlchemy takes as long to import as all of Toolhall

    return open_with_lock(folder, lock, shared=shared)


def _open_sqlite_readonly(folder: Path) -> Stores:
    if not (folder / DATABASE_FILE).exists():
        return in_memory()
    from toolhall.stores.sqlite import open_readonly  # lazy: SQLAlchemy takes as long to import as all of Toolhall

    return open_readonly(folder)
