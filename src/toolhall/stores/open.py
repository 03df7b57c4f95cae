"""Opens the stores of a data folder with open_stores: in memory, SQLite, lazily created, shared or read-only.

Without a folder everything is in memory. With one, a lock decides whether this process writes alone, shares the folder
or only reads it; a database file that does not exist yet is created with the first write.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from toolhall.stores.accounts import AccountReader
from toolhall.stores.api_keys import ApiKeyReader
from toolhall.stores.approvals import ApprovalReader
from toolhall.stores.audit.anchors import Acceptance, Anchor, was_stored
from toolhall.stores.audit.format import AUDIT_FOLDER, Checkpoint
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.common import DATABASE_FILE, InUse, StoreFailed
from toolhall.stores.factors import FactorReader
from toolhall.stores.file_lock import LOCK_NAME, TOOLS_LOCK_NAME, FileLock, WorkerRole
from toolhall.stores.grants import GrantReader
from toolhall.stores.tools import ToolReader
from toolhall.stores.vault.store import VaultReader

# Of each store, what only reads it; everything else is a change.
_READERS: dict[str, type] = {
    "tools": ToolReader,
    "keys": ApiKeyReader,
    "grants": GrantReader,
    "approvals": ApprovalReader,
    "factors": FactorReader,
    "accounts": AccountReader,
    "vault": VaultReader,
    "states": object,  # every method changes it
}


class _StoreProxy:
    """One of the stores: reads what there is now, and asks for a writer with each change."""

    def __init__(self, name: str, current: Callable[[], Stores], writable: Callable[[], Awaitable[Stores]]) -> None:
        self._name = name
        self._current = current
        self._writable = writable

    def __getattr__(self, method: str) -> Callable[..., Awaitable[Any]]:
        reads = hasattr(_READERS[self._name], method)

        async def ask(*given: object, **named: object) -> Any:
            stores = self._current() if reads else await self._writable()
            return await getattr(getattr(stores, self._name), method)(*given, **named)

        return ask


class _AnchorStoreProxy:
    """The anchor where it is now: a checkpoint is no reason to make the file."""

    def __init__(self, current: Callable[[], Stores]) -> None:
        self._current = current

    @property
    def durable(self) -> bool:
        return self._current().anchors.durable

    def read(self) -> Anchor:
        return self._current().anchors.read()

    def advance(self, public: str, checkpoints: Collection[Checkpoint]) -> None:
        self._current().anchors.advance(public, checkpoints)

    def accept(self, public: str, checkpoints: Collection[Checkpoint], acceptance: Acceptance) -> None:
        self._current().anchors.accept(public, checkpoints, acceptance)


def proxy_stores(
    current: Callable[[], Stores],
    writable: Callable[[], Awaitable[Stores]],
    close: Callable[[], None],
    *,
    readonly: bool,
) -> Stores:
    """Stores that read from `now` and write to `writer`, asked each time."""
    fronts: dict[str, Any] = {name: _StoreProxy(name, current, writable) for name in _READERS}
    return Stores(**fronts, anchors=_AnchorStoreProxy(current), readonly=readonly, close=close)


_NO_FILE_VERSION = -1  # no version of a file that is there


class LazyStores:
    """Empty until then; the lock on the folder is held from the start.

    Where several processes share the folder, `is_there` tells whether another one has made the file.
    """

    def __init__(
        self, create: Callable[[FileLock], Stores], lock: FileLock, file_exists: Callable[[], bool] = lambda: False
    ) -> None:
        self._create = create
        self._lock = lock
        self._file_exists = file_exists
        self._creation: asyncio.Task[Stores] | None = None
        self._created: Stores | None = None
        self._empty = in_memory()  # only ever read, except for the audit's anchor
        self._closed = False

    def current(self) -> Stores:
        """What can be read."""
        return self._created or self._empty

    async def writable(self) -> Stores:
        """Make the file once, whoever waits for that, and whether anybody still does."""
        if self._created is not None:
            return self._created
        if self._creation is None:
            self._creation = asyncio.ensure_future(asyncio.to_thread(self._create, self._lock))
            self._creation.add_done_callback(self._on_created)
        return await asyncio.shield(self._creation)

    async def version(self) -> int:
        """Another number once another process has changed something; opens the file that another has made."""
        if self._created is None and not self._file_exists():
            return _NO_FILE_VERSION
        made = await self.writable()
        return _NO_FILE_VERSION if made.version is None else await made.version()

    def close(self) -> None:
        """Finish what is being written, then let another process have the folder."""
        self._closed = True
        if self._created is not None:
            self._created.close()
        elif self._creation is None:
            self._lock.release()

    def _on_created(self, making: "asyncio.Task[Stores]") -> None:
        self._creation = None
        if making.cancelled() or making.exception() is not None:
            if self._closed:
                self._lock.release()
            return  # whoever waits hears of it, and the next change tries again
        self._created = making.result()
        known = self._empty.anchors.read()
        if known.public:  # what was told of the audit while there was no file
            self._created.anchors.advance(known.public, tuple(known.marks.values()))
        if self._closed:
            self._created.close()


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
    """Open them; raises StoreFailed, or InUse unless `share` says that reading is enough where another writes.

    All processes of a `family` write. One of them changes tools; who is `beside` does without where another does that.
    Others wait for who needs the folder, or in a family the tools, only `briefly`.
    """
    if folder is None:
        return in_memory()
    sharing = None if role is None else _SharedAccess(role, tools_optional, short_lived)
    try:
        joining: WorkerRole | None = None if sharing is None else "peer"
        lock = _acquire_lock(folder / LOCK_NAME, joining, sharing, short_lived=short_lived and sharing is None)
    except InUse:
        if not allow_readonly:
            raise
        return _readonly_proxy(_open_sqlite_readonly(folder))
    if sharing is not None:
        return _open_shared(folder, lock, sharing)
    if _is_lazy_creation_safe(folder):
        later = LazyStores(lambda held: _open_sqlite(folder, held), lock)
        return proxy_stores(later.current, later.writable, later.close, readonly=False)
    return _open_or_release(folder, lock)


def _open_shared(folder: Path, lock: FileLock, sharing: _SharedAccess) -> Stores:
    """The stores of one of several processes; where the file is made or updated, that happens before others join."""
    try:
        tools = _acquire_tools_lock(folder, sharing)
    except BaseException:
        lock.release()
        raise
    try:
        stores = (
            _open_lazily(folder, lock)
            if _can_create_lazily(folder, sharing)
            else _open_or_release(folder, lock, shared=True)
        )
    except BaseException:
        if tools is not None:
            tools.release()
        raise
    lock.downgrade()
    if tools is None:
        return replace(stores, tools_readonly=True)
    if sharing.role == "first":
        tools.downgrade()

    def close() -> None:
        stores.close()
        tools.release()

    return replace(stores, close=close, release_tools=tools.release)


def _can_create_lazily(folder: Path, sharing: _SharedAccess) -> bool:
    """Workers read the same rows from the start, so the first of them makes the file at once."""
    return sharing.role == "peer" and _is_lazy_creation_safe(folder)


def _is_lazy_creation_safe(folder: Path) -> bool:
    """Not where the audit says that there was a file: an operator who accepts its loss needs a new one to say so in."""
    return not (folder / DATABASE_FILE).exists() and not was_stored(folder / AUDIT_FOLDER)


def _open_lazily(folder: Path, lock: FileLock) -> Stores:
    later = LazyStores(lambda held: _open_sqlite(folder, held, shared=True), lock, (folder / DATABASE_FILE).exists)
    return replace(proxy_stores(later.current, later.writable, later.close, readonly=False), version=later.version)


def _acquire_tools_lock(folder: Path, sharing: _SharedAccess) -> FileLock | None:
    """The right to change tools; None where another process has it and this one can do without."""
    family = None if sharing.role == "peer" else sharing.role
    try:
        return _acquire_lock(folder / TOOLS_LOCK_NAME, family, sharing, short_lived=sharing.short_lived)
    except InUse:
        if not sharing.tools_optional:
            raise
        return None


def _readonly_proxy(stores: Stores) -> Stores:
    return proxy_stores(lambda: stores, _reject_write, stores.close, readonly=True)


async def _reject_write() -> NoReturn:
    raise StoreFailed("another process writes to this store; ask that one")


def _acquire_lock(path: Path, role: WorkerRole | None, sharing: _SharedAccess | None, *, short_lived: bool) -> FileLock:
    worker = sharing is not None and sharing.role != "peer"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(path, role, pid=os.getppid() if worker else os.getpid(), short_lived=short_lived)
    except OSError as error:
        raise StoreFailed(
            f"{path.parent} cannot be used: {error.strerror}; choose another folder with --data"
        ) from None


def _open_or_release(folder: Path, lock: FileLock, *, shared: bool = False) -> Stores:
    try:
        return _open_sqlite(folder, lock, shared=shared)
    except BaseException:
        lock.release()
        raise


def _open_sqlite_readonly(folder: Path) -> Stores:
    if not (folder / DATABASE_FILE).exists():
        return in_memory()
    from toolhall.stores.sqlite import open_readonly  # lazy: SQLAlchemy

    return open_readonly(folder)


def _open_sqlite(folder: Path, lock: FileLock, *, shared: bool = False) -> Stores:
    from toolhall.stores.sqlite import open_with_lock  # lazy: SQLAlchemy takes longer to load than the whole hall

    return open_with_lock(folder, lock, shared=shared)
