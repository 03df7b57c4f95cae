"""Disk, the file operations that the audit needs, and SegmentTail, the unsynced end of the segment being written.

Tests replace Disk with one that fills up, fails or loses power.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

_OPEN_FLAGS = (
    os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
)
_sync_data = getattr(os, "fdatasync", os.fsync)


class Disk:
    """Files that only their owner can read; each raises OSError, and may have done a part before."""

    def make_folder(self, path: Path) -> None:
        """There from now on, and after a power loss."""
        if not path.is_dir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.sync_folder(path.parent)

    def names(self, folder: Path) -> list[str]:
        """What is in a folder."""
        return os.listdir(folder)  # noqa: PTH208 - names are all it takes

    def open(self, path: Path, *, shared: bool = False) -> int:
        """A file, made when it is not there, and safe once its folder is synced; if shared, writes go to its end."""
        return os.open(path, _OPEN_FLAGS | os.O_APPEND if shared else _OPEN_FLAGS, 0o600)

    def size(self, file: int) -> int:
        """How many bytes it has."""
        return os.fstat(file).st_size

    def read(self, file: int, at: int, limit: int) -> bytes:
        """Bytes from a place on; fewer only at the end."""
        os.lseek(file, at, os.SEEK_SET)
        parts = bytearray()
        while len(parts) < limit and (part := os.read(file, limit - len(parts))):
            parts += part
        return bytes(parts)

    def write(self, file: int, at: int, data: bytes | bytearray | memoryview) -> None:
        """Bytes to a place; they survive a power loss once the file is synced."""
        os.lseek(file, at, os.SEEK_SET)
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]

    def append(self, path: Path, lines: bytes) -> None:
        """Whole lines to the end of a file that others append to as well; there after a power loss once it returns."""
        file = self.open(path, shared=True)
        try:
            size = self.size(file)
            whole = size == 0 or self.read(file, size - 1, 1) == b"\n"
            self.write(file, size, lines if whole else b"\n" + lines)
            self.sync(file)
        finally:
            self.close(file)
        if size == 0:
            self.sync_folder(path.parent)

    def truncate(self, file: int, size: int) -> None:
        """Leave only this many bytes."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """What was written is there after a power loss."""
        _sync_data(file)

    def sync_folder(self, path: Path) -> None:
        """What was made, renamed or removed in it stays so after a power loss."""
        if sys.platform == "win32":  # it has no such thing
            return
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Gone, once its folder is synced."""
        path.unlink(missing_ok=True)

    def close(self, file: int) -> None:
        """Nothing more will be asked of it."""
        os.close(file)


class SegmentTail:
    """Keeps everything in memory until the disk has it for sure, so that whatever fails can be done again."""

    def __init__(self, disk: Disk, file: int, offset: int) -> None:
        self.file = file
        self.failed = False  # the disk did not take what it was given last
        self._disk = disk
        self._synced = offset  # bytes that are there after a power loss
        self._pending = bytearray()  # what comes behind them
        self._written = 0  # how much of that was written

    @property
    def size(self) -> int:
        """How long the segment is, or will be."""
        return self._synced + len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """How many bytes are not safe yet."""
        return len(self._pending)

    def add(self, line: bytes) -> None:
        """A whole line to the end."""
        self._pending += line

    def flush(self) -> None:
        """Write what was added; other processes can read it then."""
        left = bytes(self._pending[self._written :])
        if not left:
            return
        place = self._synced + self._written
        try:
            self._disk.write(self.file, place, left)
        except OSError:
            self.failed = True
            with suppress(OSError):  # half a line must not stand in front of what others write, or where they read
                self._disk.truncate(self.file, place)
            raise
        self._written = len(self._pending)
        self.failed = False

    def sync(self) -> None:
        """Write what was added, and wait until it is there after a power loss."""
        self.flush()
        if not self._pending:
            return
        try:
            self._disk.sync(self.file)
        except OSError:
            self.failed = True
            self._written = 0  # nobody knows what the disk has of it now, so that all of it is written again
            raise
        self._synced += len(self._pending)
        self._pending.clear()
        self._written = 0
        self.failed = False
