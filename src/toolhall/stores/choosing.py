"""Which stores a hall gets: memory without a folder, one SQLite file with one."""

import importlib
from pathlib import Path
from typing import Any, NoReturn

from toolhall.stores.base import FILE_NAME, InUse, StoreFailed
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.front import fronted
from toolhall.stores.lock import LOCK_NAME, Family, Lock
from toolhall.stores.on_demand import OnDemand


def choose_stores(folder: Path | None, *, share: bool, family: Family | None = None) -> Stores:
    """Open them; raises StoreFailed, or InUse unless `share` says that reading is enough where another writes.

    All processes of a `family` write; the first one makes the file, before there are others.
    """
    if folder is None:
        return in_memory()
    if family is not None:
        return _opened(folder, _locked(folder, family), several=True)
    there = (folder / FILE_NAME).exists()
    try:
        lock = _locked(folder)
    except InUse:
        if not share:
            raise
        return _read_only(_sqlite().open_readonly(folder) if there else in_memory())
    if not there:
        later = OnDemand(lambda held: _made(folder, held), lock)
        return fronted(later.now, later.writer, later.close, readonly=False)
    return _opened(folder, lock)


def _read_only(stores: Stores) -> Stores:
    return fronted(lambda: stores, _refuse, stores.close, readonly=True)


async def _refuse() -> NoReturn:
    raise StoreFailed("another process writes to this store; ask that one")


def _locked(folder: Path, family: Family | None = None) -> Lock:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Lock(folder / LOCK_NAME, family)
    except OSError as error:
        raise StoreFailed(f"{folder} cannot be used: {error.strerror}; choose another folder with --data") from None


def _opened(folder: Path, lock: Lock, *, several: bool = False) -> Stores:
    try:
        return _made(folder, lock, several=several)
    except BaseException:
        lock.release()
        raise


def _made(folder: Path, lock: Lock, *, several: bool = False) -> Stores:
    stores: Stores = _sqlite().open_locked(folder, lock, several=several)
    return stores


def _sqlite() -> Any:
    """SQLAlchemy takes longer to load than the whole hall, and many halls never need it."""
    return importlib.import_module("toolhall.stores.sqlite.opening")
