"""Which store a hall gets: memory without a folder, SQLite with one."""

import importlib
from pathlib import Path
from typing import Any

from toolhall.stores.base import FILE_NAME, InUse, StoreFailed, ToolStore
from toolhall.stores.lock import LOCK_NAME, Lock
from toolhall.stores.memory import MemoryStore
from toolhall.stores.on_demand import OnDemand
from toolhall.stores.readonly import ReadOnly


def choose_store(folder: Path | None, *, share: bool) -> ToolStore:
    """Open it; raises StoreFailed, or InUse unless `share` says that reading is enough where another process writes."""
    if folder is None:
        return MemoryStore()
    there = (folder / FILE_NAME).exists()
    try:
        lock = _locked(folder)
    except InUse:
        if not share:
            raise
        return ReadOnly(_sqlite().open_readonly(folder) if there else MemoryStore())
    if not there:
        return OnDemand(lambda held: _made(folder, held), lock)
    try:
        return _made(folder, lock)
    except BaseException:
        lock.release()
        raise


def _locked(folder: Path) -> Lock:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Lock(folder / LOCK_NAME)
    except OSError as error:
        raise StoreFailed(f"{folder} cannot be used: {error.strerror}; choose another folder with --data") from None


def _made(folder: Path, lock: Lock) -> ToolStore:
    store: ToolStore = _sqlite().open_locked(folder, lock)
    return store


def _sqlite() -> Any:
    """SQLAlchemy takes longer to load than the whole hall, and many halls never need it."""
    return importlib.import_module("toolhall.stores.sqlite.store")
