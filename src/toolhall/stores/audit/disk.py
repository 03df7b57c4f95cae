"""The few things that the audit asks of a disk, so that a test's disk can fill up, fail or lose power."""

import os
import sys
from pathlib import Path

_WAYS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
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
        return os.open(path, _WAYS | os.O_APPEND if shared else _WAYS, 0o600)

    def size(self, file: int) -> int:
        """How many bytes it has."""
        return os.fstat(file).st_size

    def read(self, file: int, at: int, most: int) -> bytes:
        """Bytes from a place on; fewer only at the end."""
        os.lseek(file, at, os.SEEK_SET)
        parts = bytearray()
        while len(parts) < most and (part := os.read(file, most - len(parts))):
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

    def cut(self, file: int, size: int) -> None:
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
