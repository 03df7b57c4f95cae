"""A file that lines are appended to in batches, by a thread, so that no call waits for the disk."""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Generic, TypeVar

_log = logging.getLogger("toolhall.journal")

FLUSH_SECONDS = 0.05

T = TypeVar("T")


class Batches(Generic[T]):
    """Takes records one by one and writes them together; the file is readable by its owner only."""

    def __init__(self, path: Path, what: str, written: Callable[[list[T]], bytes]) -> None:
        self._what = what
        self._written = written
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        _end_line(self._file)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="toolhall-journal")
        self._waiting: list[T] = []
        self._scheduled = False
        self.failing = False  # whether the last batch could not be written

    def append(self, record: T) -> None:
        """Written within the next batch."""
        self._waiting.append(record)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._hand_over)

    async def flush(self) -> None:
        """Wait until everything taken so far has been written, or could not be."""
        self._hand_over()
        await asyncio.get_running_loop().run_in_executor(self._writer, _nothing)

    def size(self) -> int:
        """How many bytes the file has now, whoever wrote them."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Write what is left."""
        self._hand_over()
        self._writer.shutdown()
        os.close(self._file)

    def _hand_over(self) -> None:
        self._scheduled = False
        batch, self._waiting = self._waiting, []
        if batch:
            self._writer.submit(self._write, batch)

    def _write(self, batch: list[T]) -> None:
        lines = self._written(batch)
        try:
            if self.failing:
                _end_line(self._file)  # the batch that failed may have left half a line
            while lines:
                lines = lines[os.write(self._file, lines) :]
            self.failing = False
        except OSError:
            self.failing = True
            _log.exception("%d %s could not be written", len(batch), self._what)


def _nothing() -> None:
    """Comes after every batch before it."""


def _end_line(file: int) -> None:
    """What a crash cut off stays alone on its line, and spoils none that follows."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
