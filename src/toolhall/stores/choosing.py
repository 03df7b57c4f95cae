"""Which stores a hall gets: memory without a folder, one SQLite file with one."""

import importlib
from pathlib import Path
from typing import Any, NoReturn

from toolhall.stores.base import FILE_NAME, InUse, StoreFailed
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.front import fronted
from toolhall.stores.lock import LOCK_NAME, Lock
from toolhall.stores.on_demand import OnDemand


def choose_stores(folder: Path | None, *, share: bool) -> Stores:
    """Open them; raises StoreFailed, or InUse unless `share` says that reading is enough where another writes."""
    if folder is None:
        return in_memory()
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
    try:
        return _made(folder, lock)
    except BaseException:
        lock.release()
        raise


def _read_only(stores: Stores) -> Stores:
    return fronted(lambda: stores, _refuse, stores.close, readonly=True)


async def _refuse() -> NoReturn:
    raise StoreFailed("another process writes to this store; ask that one")


def _locked(folder: Path) -> Lock:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Lock(folder / LOCK_NAME)
    except OSError as error:
        raise StoreFailed(f"{folder} cannot be used: {error.strerror}; choose another folder with --data") from None


def _made(folder: Path, lock: Lock) -> Stores:
    stores: Stores = _sqlite().open_locked(folder, lock)
    return stores


def _sqlite() -> Any:
    """SQLAlchemy takes longer to load than the whole hall, and many halls never need it."""
    return importlib.import_module("toolhall.stores.sqlite.opening")
