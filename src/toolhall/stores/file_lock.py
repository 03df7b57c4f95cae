"""FileLock: an advisory lock file that one process holds exclusively, or several share.

There are two in a data folder. `toolhall.lock` is shared by all processes that serve from the folder, and held
exclusively by a process that must have the folder alone. `tools.lock` is held by the one process that may change
registered tools. The operating system releases a lock however its process ends.
"""

import os
import sys
import time
from pathlib import Path
from typing import Literal, TypeAlias
from weakref import WeakSet

from toolhall.stores.common import InUse

# Processes that share a folder: the workers of one supervisor (first, sibling), or any that serve from it (peer).
WorkerRole: TypeAlias = Literal["first", "sibling", "peer"]
if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 30  # a locked byte cannot be read, so it lies behind the text

    def _take(file: int, *, shared: bool) -> None:  # noqa: ARG001 - Windows has no shared lock of this kind
        os.lseek(file, _FAR, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        os.lseek(file, 0, os.SEEK_SET)

    def _share(file: int) -> None:
        """Do nothing: on Windows the lock stays exclusive."""

else:
    import fcntl

    def _take(file: int, *, shared: bool) -> None:
        # Not lockf: its locks are per process, and are lost when any descriptor of the file is closed.
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def _share(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_SH)  # blocks only while another process takes it during the conversion


LOCK_NAME = "toolhall.lock"
TOOLS_LOCK_NAME = "tools.lock"
_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_CLOSED = -1
_OPENING = b" opening"  # follows the id of a process that releases or shares the lock soon
_OPENING_WAIT_SECONDS = 15.0
_UNKNOWN_HOLDER_SECONDS = 2.0
_POLL_SECONDS = 0.02
_HOLDER_BYTES = 48


class FileLock:
    """A lock that is held once constructed; raises InUse with the id of the holder.

    A `first` or `peer` that takes a free lock holds it exclusively until `downgrade`; a `peer` joins processes that
    share it. `pid` is the process that an operator would stop: of workers the supervisor, because it replaces a worker
    that ends. While a `short_lived` process holds the lock, others wait instead of being refused.
    """

    def __init__(
        self, path: Path, role: WorkerRole | None = None, *, pid: int | None = None, short_lived: bool = False
    ) -> None:
        self._pid = pid or os.getpid()
        self._file = os.open(path, _OPEN_FLAGS, 0o600)
        try:
            self.exclusive = self._acquire(path.parent, role)
        except BaseException:
            os.close(self._file)
            raise
        if self.exclusive or role == "sibling" or not _is_alive(_read_holder(self._file)[0]):
            self._write_holder(_OPENING if short_lived or (self.exclusive and role is not None) else b"")
        _held_locks.add(self)

    def downgrade(self) -> None:
        """Make the lock shared, so that other processes can join."""
        if self.exclusive and self._file != _CLOSED:
            _share(self._file)
            self._write_holder(b"")  # only now, so that a process that is refused meanwhile waits and joins
            self.exclusive = False

    def release(self) -> None:
        """Release the lock; the file stays, because removing it would race with a process that opens it."""
        _held_locks.discard(self)
        file, self._file = self._file, _CLOSED
        if file != _CLOSED:
            os.close(file)

    def _acquire(self, folder: Path, role: WorkerRole | None) -> bool:
        """Take the lock and return True if exclusively; waits for a process that holds it for a short time only."""
        begun = time.monotonic()
        while True:
            for shared in {"sibling": (True,), "peer": (False, True)}.get(role or "", (False,)):
                try:
                    _take(self._file, shared=shared)
                except OSError:
                    continue
                return not shared
            pid, short_lived = _read_holder(self._file)
            alive = _is_alive(pid)
            # A process that has just taken the lock has not written its id yet; the file may hold the id of a dead one.
            if time.monotonic() - begun > (
                _OPENING_WAIT_SECONDS if short_lived else 0.0 if alive else _UNKNOWN_HOLDER_SECONDS
            ):
                pid = pid if alive else None
                raise InUse(_in_use_message(folder, pid), pid)
            time.sleep(_POLL_SECONDS)

    def _write_holder(self, suffix: bytes) -> None:
        """Write this process's id in one write, so that no reader sees half of it; blanks overwrite an older text."""
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, (b"%d%b" % (self._pid, suffix)).ljust(_HOLDER_BYTES - 1) + b"\n")


_held_locks: WeakSet[FileLock] = WeakSet()


def _release_after_fork() -> None:
    """Release locks in a forked child, which would otherwise hold its parent's locks after the parent's death."""
    for lock in tuple(_held_locks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_after_fork)


def _read_holder(file: int) -> tuple[int | None, bool]:
    """Return the process id in the lock file, and whether that process holds the lock for a short time only."""
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, _HOLDER_BYTES).strip()
    pid = text.removesuffix(_OPENING)
    return int(pid) if pid.isdigit() else None, text.endswith(_OPENING)


def _is_alive(pid: int | None) -> bool:
    """True if a process with this id runs; always True on Windows, where os.kill would end it."""
    if pid is None:
        return False
    if sys.platform != "win32":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # a process of another user
    return True


def _in_use_message(folder: Path, pid: int | None) -> str:
    holder = {None: "another process", os.getpid(): f"this process ({pid})"}.get(pid, f"process {pid}")
    return f"{folder} is in use by {holder}; stop that one, ask it by --url, or choose another folder with --data"
