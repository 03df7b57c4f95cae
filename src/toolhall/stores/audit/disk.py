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

if sys.platform == "linux":
    _write_at = os.pwrite  # one system call, and to a file that is opened for appending it appends
else:

    def _write_at(file: int, data: memoryview, at: int) -> int:
        os.lseek(file, at, os.SEEK_SET)
        return os.write(file, data)


class Disk:
    """File operations on files that only their owner can read; each raises OSError, perhaps after doing a part."""

    def make_folder(self, path: Path) -> None:
        """Create a folder durably."""
        if not path.is_dir():
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.sync_folder(path.parent)

    def names(self, folder: Path) -> list[str]:
        """List the names in a folder."""
        return os.listdir(folder)  # noqa: PTH208 - only names are needed

    def open(self, path: Path, *, shared: bool = False) -> int:
        """Open a file, creating it if needed; durable once its folder is synced. `shared` appends every write."""
        return os.open(path, _OPEN_FLAGS | os.O_APPEND if shared else _OPEN_FLAGS, 0o600)

    def size(self, file: int) -> int:
        """Return the file's size."""
        return os.fstat(file).st_size

    def read(self, file: int, at: int, limit: int) -> bytes:
        """Read bytes from an offset; fewer than `limit` only at the end of the file."""
        os.lseek(file, at, os.SEEK_SET)
        parts = bytearray()
        while len(parts) < limit and (part := os.read(file, limit - len(parts))):
            parts += part
        return bytes(parts)

    def write(self, file: int, at: int, data: bytes | bytearray | memoryview) -> None:
        """Write bytes at an offset; durable once the file is synced."""
        rest = memoryview(data)
        while rest:
            written = _write_at(file, rest, at)
            rest, at = rest[written:], at + written

    def append(self, path: Path, lines: bytes) -> None:
        """Append whole lines durably to a file that other processes append to as well."""
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
        """Cut the file to this size."""
        os.ftruncate(file, size)

    def sync(self, file: int) -> None:
        """Make written bytes durable."""
        _sync_data(file)

    def sync_folder(self, path: Path) -> None:
        """Make creations, renames and removals in the folder durable."""
        if sys.platform == "win32":  # Windows cannot sync a folder
            return
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def remove(self, path: Path) -> None:
        """Remove a file; durable once its folder is synced."""
        path.unlink(missing_ok=True)

    def close(self, file: int) -> None:
        """Close the file."""
        os.close(file)


class SegmentTail:
    """The end of a segment; keeps bytes in memory until they are synced, so that every failed step can be repeated."""

    def __init__(self, disk: Disk, file: int, offset: int) -> None:
        self.file = file
        self.failed = False  # the last write or sync failed
        self._disk = disk
        self._synced = offset  # bytes that are durable
        self._pending = bytearray()  # the bytes behind them
        self._written = 0  # how many of these are written

    @property
    def size(self) -> int:
        """The segment's size, with pending bytes."""
        return self._synced + len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """The number of bytes that are not durable yet."""
        return len(self._pending)

    def add(self, line: bytes) -> None:
        """Append a whole line in memory."""
        self._pending += line

    def flush(self) -> None:
        """Write pending bytes, so that other processes can read them."""
        unwritten = bytes(self._pending[self._written :])
        if not unwritten:
            return
        offset = self._synced + self._written
        try:
            self._disk.write(self.file, offset, unwritten)
        except OSError:
            self.failed = True
            with suppress(OSError):  # remove half a line, which readers would see
                self._disk.truncate(self.file, offset)
            raise
        self._written = len(self._pending)
        self.failed = False

    def sync(self) -> None:
        """Write pending bytes and make them durable."""
        self.flush()
        if not self._pending:
            return
        try:
            self._disk.sync(self.file)
        except OSError:
            self.failed = True
            self._written = 0  # what the disk has of it is unknown, so all of it is written again
            raise
        self._synced += len(self._pending)
        self._pending.clear()
        self._written = 0
        self.failed = False
