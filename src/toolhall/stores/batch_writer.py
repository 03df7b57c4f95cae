"""BatchWriter appends lines to a file in batches from a thread; FileRecordings adds a size limit for recorded calls."""

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


class BatchWriter(Generic[T]):
    """Takes records one by one and writes them together; the file is readable by its owner only."""

    def __init__(self, path: Path, description: str, encode: Callable[[list[T]], bytes]) -> None:
        self._description = description
        self._encode = encode
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        _terminate_last_line(self._file)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolhall-journal")
        self._pending: list[T] = []
        self._scheduled = False
        self.failing = False  # whether the last batch could not be written

    def append(self, record: T) -> None:
        """Written within the next batch."""
        self._pending.append(record)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._submit_pending)

    async def flush(self) -> None:
        """Wait until everything taken so far has been written, or could not be."""
        self._submit_pending()
        await asyncio.get_running_loop().run_in_executor(self._thread, _barrier)

    def size(self) -> int:
        """How many bytes the file has now, whoever wrote them."""
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Write what is left."""
        self._submit_pending()
        self._thread.shutdown()
        os.close(self._file)

    def _submit_pending(self) -> None:
        self._scheduled = False
        batch, self._pending = self._pending, []
        if batch:
            self._thread.submit(self._write, batch)

    def _write(self, batch: list[T]) -> None:
        lines = self._encode(batch)
        try:
            if self.failing:
                _terminate_last_line(self._file)  # the batch that failed may have left half a line
            while lines:
                lines = lines[os.write(self._file, lines) :]
            self.failing = False
        except OSError:
            self.failing = True
            _log.exception("%d %s could not be written", len(batch), self._description)


def _barrier() -> None:
    """Comes after every batch before it."""


def _terminate_last_line(file: int) -> None:
    """What a crash cut off stays alone on its line, and spoils none that follows."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")


_recordings_log = logging.getLogger("toolhall.recordings")
MAX_RECORDING_BYTES = 64 * 1024 * 1024


class FileRecordings(BatchWriter[bytes]):
    """Appends to `recordings.jsonl` until that is full; what comes after is dropped."""

    def __init__(self, path: Path, max_bytes: int = MAX_RECORDING_BYTES) -> None:
        super().__init__(path, "recorded calls", b"".join)
        self._path = path
        self._max_bytes = max_bytes
        self._remaining = max_bytes - self.size()
        self.full = False

    def append(self, record: bytes) -> None:
        """Written within the next batch; what waits for the disk counts too, so memory is bounded with the file."""
        self._remaining -= len(record)
        if self._remaining < 0:
            self._stop_recording()
        elif not self.full:
            super().append(record)

    def _write(self, batch: list[bytes]) -> None:
        """Other processes may write to the same file."""
        if self.size() + sum(map(len, batch)) > self._max_bytes:
            self._stop_recording()
        else:
            super()._write(batch)

    def _stop_recording(self) -> None:
        if not self.full:
            self.full = True
            limit = self._max_bytes // (1024 * 1024)
            _recordings_log.warning(
                "%s has reached %d MiB, so calls are no longer recorded; move it and start again", self._path, limit
            )
