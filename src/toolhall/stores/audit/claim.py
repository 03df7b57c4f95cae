"""Which log a process writes to: the first that no other process holds."""

from itertools import count
from pathlib import Path

from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.segments import LOCK_FILE, logs_of
from toolhall.stores.base import InUse
from toolhall.stores.lock import Lock


def claim(disk: Disk, folder: Path) -> tuple[Path, Lock]:
    """A log of this process alone, with the lock on it.

    Two processes cannot go on with one chain. A hall that runs alone goes on with its own log whenever it is started;
    several take one each, so that there are as many as ever ran at the same time.
    """
    for number in count(1):
        log = folder / str(number)
        lock = _locked(disk, log)
        if lock is not None:
            return log, lock
    raise AssertionError  # count never ends


def idle(disk: Disk, folder: Path) -> list[tuple[Path, Lock]]:
    """The logs that nobody writes to now, each with a lock on it."""
    locked = [(log, _locked(disk, log)) for log in logs_of(folder)]
    return [(log, lock) for log, lock in locked if lock is not None]


def _locked(disk: Disk, log: Path) -> Lock | None:
    disk.make_folder(log)
    try:
        return Lock(log / LOCK_FILE)
    except InUse:
        return None
