"""A lock file that one process holds, or one family; the system frees it however they end."""

import os
import sys
from pathlib import Path
from typing import Literal, TypeAlias
from weakref import WeakSet

from toolhall.stores.base import InUse

Family: TypeAlias = Literal["first", "sibling"]  # of several processes that one supervisor started

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a locked byte cannot be read, so it lies behind the text

    def _take(file: int, family: Family | None) -> None:  # noqa: ARG001 - here no processes share a socket
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

else:
    import fcntl

    def _take(file: int, family: Family | None) -> None:
        # Not lockf: its lock does not tell two stores of one process apart, and is lost when either closes the file.
        if family != "sibling":
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if family is not None:  # nobody else gets it as long as one of the family lives
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


LOCK_NAME = "toolhall.lock"
_WAYS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_NONE = -1


class Lock:
    """Held from the moment it is made; raises InUse with the other process's id."""

    def __init__(self, path: Path, family: Family | None = None) -> None:
        self._file = os.open(path, _WAYS, 0o600)
        try:
            _take(self._file, family)
        except OSError:
            pid = _read_pid(self._file)
            os.close(self._file)
            raise InUse(_refusal(path.parent, pid), pid) from None
        # Of a family the supervisor is to be stopped: a worker that ends is replaced.
        pid = os.getpid() if family is None else os.getppid()
        os.ftruncate(self._file, 0)
        os.write(self._file, b"%d\n" % pid)
        _held.add(self)

    def release(self) -> None:
        """Let another process have it; the file stays, because removing it would race with who opens it."""
        _held.discard(self)
        file, self._file = self._file, _NONE
        if file != _NONE:
            os.close(file)


_held: WeakSet[Lock] = WeakSet()


def _let_go() -> None:
    """A forked child shares its parent's lock, and would keep it after the parent's death."""
    for lock in tuple(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _read_pid(file: int) -> int | None:
    text = os.read(file, 20).strip()
    return int(text) if text.isdigit() else None


def _refusal(folder: Path, pid: int | None) -> str:
    who = {None: "another process", os.getpid(): f"this process ({pid})"}.get(pid, f"process {pid}")
    return f"{folder} is in use by {who}; stop that one, ask it by --url, or choose another folder with --data"
