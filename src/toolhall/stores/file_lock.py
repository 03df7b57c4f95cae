"""FileLock: an advisory lock file that one process holds exclusively, or several share.

There are two in a data folder. `toolhall.lock` is shared by all processes that serve from the folder, and held
exclusively by whoever must have it alone. `tools.lock` belongs to the one process that may change registered tools.
The operating system frees a lock however its process ends.
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
        """The lock stays exclusive."""

else:
    import fcntl

    def _take(file: int, *, shared: bool) -> None:
        # Not lockf: its lock does not tell two stores of one process apart, and is lost when either closes the file.
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)

    def _share(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_SH)  # waits only for who takes it in the moment that the conversion needs


LOCK_NAME = "toolhall.lock"
TOOLS_LOCK_NAME = "tools.lock"
_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_CLOSED = -1
_OPENING = b" opening"  # written behind the id of a process that lets go as soon as it has opened the folder
_OPENING_WAIT_SECONDS = 15.0
_UNKNOWN_HOLDER_SECONDS = 2.0
_POLL_SECONDS = 0.02
_HOLDER_BYTES = 48


class FileLock:
    """Held from the moment it is made; raises InUse with the other process's id.

    A `first` or `peer` that got the lock alone has it exclusively until `share`. A `peer` joins those who share it.
    `pid` is the process to stop: of workers the supervisor, because a worker that ends is replaced. With `briefly`,
    others wait for this process instead of being refused.
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
        """Let others join: whatever had to be done alone is done."""
        if self.exclusive and self._file != _CLOSED:
            _share(self._file)
            self._write_holder(b"")  # only now: who is refused in between would not know that it can join
            self.exclusive = False

    def release(self) -> None:
        """Let another process have it; the file stays, because removing it would race with who opens it."""
        _held_locks.discard(self)
        file, self._file = self._file, _CLOSED
        if file != _CLOSED:
            os.close(file)

    def _acquire(self, folder: Path, role: WorkerRole | None) -> bool:
        """Whether it was taken exclusively; waits for a process that is only opening the folder."""
        begun = time.monotonic()
        while True:
            for shared in {"sibling": (True,), "peer": (False, True)}.get(role or "", (False,)):
                try:
                    _take(self._file, shared=shared)
                except OSError:
                    continue
                return not shared
            pid, brief = _read_holder(self._file)
            alive = _is_alive(pid)
            # Whoever has just taken it has not said so yet, and what is written there is of one that is gone.
            if time.monotonic() - begun > (
                _OPENING_WAIT_SECONDS if brief else 0.0 if alive else _UNKNOWN_HOLDER_SECONDS
            ):
                pid = pid if alive else None
                raise InUse(_in_use_message(folder, pid), pid)
            time.sleep(_POLL_SECONDS)

    def _write_holder(self, suffix: bytes) -> None:
        """In one write, so that nobody reads half of it; blanks cover what was there before."""
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, (b"%d%b" % (self._pid, suffix)).ljust(_HOLDER_BYTES - 1) + b"\n")


_held_locks: WeakSet[FileLock] = WeakSet()


def _release_after_fork() -> None:
    """A forked child shares its parent's lock, and would keep it after the parent's death."""
    for lock in tuple(_held_locks):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_after_fork)


def _read_holder(file: int) -> tuple[int | None, bool]:
    """The id that the holder wrote, and whether it will let go soon."""
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, _HOLDER_BYTES).strip()
    pid = text.removesuffix(_OPENING)
    return int(pid) if pid.isdigit() else None, text.endswith(_OPENING)


def _is_alive(pid: int | None) -> bool:
    """Whether a process of this id runs; on Windows, where asking would end it, every id is taken for one."""
    if pid is None:
        return False
    if sys.platform != "win32":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True  # somebody else's
    return True


def _in_use_message(folder: Path, pid: int | None) -> str:
    who = {None: "another process", os.getpid(): f"this process ({pid})"}.get(pid, f"process {pid}")
    return f"{folder} is in use by {who}; stop that one, ask it by --url, or choose another folder with --data"
