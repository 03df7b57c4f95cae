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
_recordings_log = logging.getLogger("toolhall.recordings")
MAX_RECORDING_BYTES = 64 * 1024 * 1024


class BatchWriter(Generic[T]):
    """Appends records to a file in batches from a thread; the file is readable by its owner only."""

    def __init__(self, path: Path, description: str, encode: Callable[[list[T]], bytes]) -> None:
        self._description = description
        self._encode = encode
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        _terminate_last_line(self._file)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="toolhall-journal")
        self._pending: list[T] = []
        self._scheduled = False
        self.failing = False  # True while the last batch could not be written

    def append(self, record: T) -> None:
        """Queue the record for the next batch."""
        self._pending.append(record)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._submit_pending)

    async def flush(self) -> None:
        """Wait until every record queued so far is written, or writing it failed."""
        self._submit_pending()
        await asyncio.get_running_loop().run_in_executor(self._thread, _barrier)

    def size(self) -> int:
        """Return the file's size, including what other processes wrote."""
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
                _terminate_last_line(self._file)  # the failed batch may have left half a line
            while lines:
                lines = lines[os.write(self._file, lines) :]
            self.failing = False
        except OSError:
            self.failing = True
            _log.exception("%d %s could not be written", len(batch), self._description)


def _barrier() -> None:
    """Return once all batches before it are written."""


def _terminate_last_line(file: int) -> None:
    """End a line that a crash cut off, so that the next record begins on its own line."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")


class FileRecordings(BatchWriter[bytes]):
    """Appends recorded calls to `recordings.jsonl` until the size limit; later ones are dropped."""

    def __init__(self, path: Path, max_bytes: int = MAX_RECORDING_BYTES) -> None:
        super().__init__(path, "recorded calls", b"".join)
        self._path = path
        self._max_bytes = max_bytes
        self._remaining = max_bytes - self.size()
        self.full = False

    def append(self, record: bytes) -> None:
        """Queue the record; queued bytes count towards the limit, so memory is bounded too."""
        self._remaining -= len(record)
        if self._remaining < 0:
            self._stop_recording()
        elif not self.full:
            super().append(record)

    def _write(self, batch: list[bytes]) -> None:
        """Write unless the file, to which other processes may append, would exceed the limit."""
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
