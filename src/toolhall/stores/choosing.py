"""Which stores a hall gets: memory without a folder, one SQLite file with one."""

import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from toolhall.stores.audit.anchors import was_stored
from toolhall.stores.audit.segments import FOLDER as AUDIT_FOLDER
from toolhall.stores.base import FILE_NAME, InUse, StoreFailed
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.front import fronted
from toolhall.stores.lock import LOCK_NAME, TOOLS_LOCK_NAME, Family, Lock
from toolhall.stores.on_demand import OnDemand


class _Sharing(NamedTuple):
    """How a process shares a data folder with others that serve from it."""

    family: Family
    beside: bool
    briefly: bool


def choose_stores(
    folder: Path | None,
    *,
    share: bool,
    family: Family | None = None,
    beside: bool = False,
    briefly: bool = False,
) -> Stores:
    """Open them; raises StoreFailed, or InUse unless `share` says that reading is enough where another writes.

    All processes of a `family` write. One of them changes tools; who is `beside` does without where another does that.
    Others wait for who needs the folder, or in a family the tools, only `briefly`.
    """
    if folder is None:
        return in_memory()
    sharing = None if family is None else _Sharing(family, beside, briefly)
    try:
        joining: Family | None = None if sharing is None else "peer"
        lock = _locked(folder / LOCK_NAME, joining, sharing, briefly=briefly and sharing is None)
    except InUse:
        if not share:
            raise
        there = (folder / FILE_NAME).exists()
        return _read_only(_sqlite().open_readonly(folder) if there else in_memory())
    if sharing is not None:
        return _shared(folder, lock, sharing)
    if _may_be_made_later(folder):
        later = OnDemand(lambda held: _made(folder, held), lock)
        return fronted(later.now, later.writer, later.close, readonly=False)
    return _opened(folder, lock)


def _shared(folder: Path, lock: Lock, sharing: _Sharing) -> Stores:
    """The stores of one of several processes; where the file is made or updated, that happens before others join."""
    try:
        tools = _tools_lock(folder, sharing)
    except BaseException:
        lock.release()
        raise
    try:
        stores = _on_demand(folder, lock) if _may_wait(folder, sharing) else _opened(folder, lock, several=True)
    except BaseException:
        if tools is not None:
            tools.release()
        raise
    lock.share()
    if tools is None:
        return replace(stores, guest=True)
    if sharing.family == "first":
        tools.share()

    def close() -> None:
        stores.close()
        tools.release()

    return replace(stores, close=close, yield_tools=tools.release)


def _may_wait(folder: Path, sharing: _Sharing) -> bool:
    """Workers read the same rows from the start, so the first of them makes the file at once."""
    return sharing.family == "peer" and _may_be_made_later(folder)


def _may_be_made_later(folder: Path) -> bool:
    """Not where the audit says that there was a file: an operator who accepts its loss needs a new one to say so in."""
    return not (folder / FILE_NAME).exists() and not was_stored(folder / AUDIT_FOLDER)


def _on_demand(folder: Path, lock: Lock) -> Stores:
    later = OnDemand(lambda held: _made(folder, held, several=True), lock, (folder / FILE_NAME).exists)
    return replace(fronted(later.now, later.writer, later.close, readonly=False), version=later.version)


def _tools_lock(folder: Path, sharing: _Sharing) -> Lock | None:
    """The right to change tools; None where another process has it and this one can do without."""
    family = None if sharing.family == "peer" else sharing.family
    try:
        return _locked(folder / TOOLS_LOCK_NAME, family, sharing, briefly=sharing.briefly)
    except InUse:
        if not sharing.beside:
            raise
        return None


def _read_only(stores: Stores) -> Stores:
    return fronted(lambda: stores, _refuse, stores.close, readonly=True)


async def _refuse() -> NoReturn:
    raise StoreFailed("another process writes to this store; ask that one")


def _locked(path: Path, family: Family | None, sharing: _Sharing | None, *, briefly: bool) -> Lock:
    worker = sharing is not None and sharing.family != "peer"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Lock(path, family, pid=os.getppid() if worker else os.getpid(), briefly=briefly)
    except OSError as error:
        raise StoreFailed(
            f"{path.parent} cannot be used: {error.strerror}; choose another folder with --data"
        ) from None


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
