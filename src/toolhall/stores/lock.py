"""A lock file that one process holds, or several together; the system frees it however they end.

There are two in a data folder. `toolhall.lock` is shared by all processes that serve from the folder, and held
exclusively by whoever must have it alone. `tools.lock` belongs to the one of them that may change the registered tools.
"""

import os
import sys
import time
from pathlib import Path
from typing import Literal, TypeAlias
from weakref import WeakSet

from toolhall.stores.base import InUse

# Processes that share a folder: the workers of one supervisor (first, sibling), or any that serve from it (peer).
Family: TypeAlias = Literal["first", "sibling", "peer"]

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
_WAYS = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
_NONE = -1
_BRIEFLY = b" opening"  # written behind the id of a process that lets go as soon as it has opened the folder
_BRIEF_SECONDS = 15.0
_UNSAID_SECONDS = 2.0
_AGAIN_SECONDS = 0.02
_TEXT_BYTES = 48


class Lock:
    """Held from the moment it is made; raises InUse with the other process's id.

    A `first` or `peer` that got the lock alone has it exclusively until `share`. A `peer` joins those who share it.
    `pid` is the process to stop: of workers the supervisor, because a worker that ends is replaced. With `briefly`,
    others wait for this process instead of being refused.
    """

    def __init__(
        self, path: Path, family: Family | None = None, *, pid: int | None = None, briefly: bool = False
    ) -> None:
        self._pid = pid or os.getpid()
        self._file = os.open(path, _WAYS, 0o600)
        try:
            self.alone = self._taken(path.parent, family)
        except BaseException:
            os.close(self._file)
            raise
        if self.alone or family == "sibling" or not _is_alive(_read_holder(self._file)[0]):
            self._say(_BRIEFLY if briefly or (self.alone and family is not None) else b"")
        _held.add(self)

    def share(self) -> None:
        """Let others join: whatever had to be done alone is done."""
        if self.alone and self._file != _NONE:
            _share(self._file)
            self._say(b"")  # only now: who is refused in between would not know that it can join
            self.alone = False

    def release(self) -> None:
        """Let another process have it; the file stays, because removing it would race with who opens it."""
        _held.discard(self)
        file, self._file = self._file, _NONE
        if file != _NONE:
            os.close(file)

    def _taken(self, folder: Path, family: Family | None) -> bool:
        """Whether it was taken exclusively; waits for a process that is only opening the folder."""
        begun = time.monotonic()
        while True:
            for shared in {"sibling": (True,), "peer": (False, True)}.get(family or "", (False,)):
                try:
                    _take(self._file, shared=shared)
                except OSError:
                    continue
                return not shared
            pid, brief = _read_holder(self._file)
            alive = _is_alive(pid)
            # Whoever has just taken it has not said so yet, and what is written there is of one that is gone.
            if time.monotonic() - begun > (_BRIEF_SECONDS if brief else 0.0 if alive else _UNSAID_SECONDS):
                pid = pid if alive else None
                raise InUse(_refusal(folder, pid), pid)
            time.sleep(_AGAIN_SECONDS)

    def _say(self, more: bytes) -> None:
        """In one write, so that nobody reads half of it; blanks cover what was there before."""
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, (b"%d%b" % (self._pid, more)).ljust(_TEXT_BYTES - 1) + b"\n")


_held: WeakSet[Lock] = WeakSet()


def _let_go() -> None:
    """A forked child shares its parent's lock, and would keep it after the parent's death."""
    for lock in tuple(_held):
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


def _read_holder(file: int) -> tuple[int | None, bool]:
    """The id that the holder wrote, and whether it will let go soon."""
    os.lseek(file, 0, os.SEEK_SET)
    text = os.read(file, _TEXT_BYTES).strip()
    pid = text.removesuffix(_BRIEFLY)
    return int(pid) if pid.isdigit() else None, text.endswith(_BRIEFLY)


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


def _refusal(folder: Path, pid: int | None) -> str:
    who = {None: "another process", os.getpid(): f"this process ({pid})"}.get(pid, f"process {pid}")
    return f"{folder} is in use by {who}; stop that one, ask it by --url, or choose another folder with --data"
