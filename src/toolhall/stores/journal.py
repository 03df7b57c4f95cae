"""Records as JSON lines in a file, written in batches by a thread so that no call waits for the disk."""

import asyncio
import logging
import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from toolhall.model.record import Record

_log = logging.getLogger("toolhall.journal")

_encode_lines = msgspec.json.Encoder().encode_lines

FLUSH_SECONDS = 0.05
KEPT_IN_MEMORY = 1_000


class MemoryJournal:
    """Keeps the newest records; for tests and for tools served without a data folder."""

    failing = False

    def __init__(self) -> None:
        self.records: deque[Record] = deque(maxlen=KEPT_IN_MEMORY)

    def append(self, record: Record) -> None:
        """Keep this record."""
        self.records.append(record)

    def close(self) -> None:
        """Nothing to write."""


class FileJournal:
    """Appends to `audit.jsonl`; the file is readable by its owner only."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        _end_line(self._file)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="toolhall-journal")
        self._waiting: list[Record] = []
        self._scheduled = False
        self.failing = False  # whether the last batch could not be written

    def append(self, record: Record) -> None:
        """Written within the next batch."""
        self._waiting.append(record)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._hand_over)

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

    def _write(self, batch: list[Record]) -> None:
        lines = _encode_lines(batch)
        try:
            while lines:
                lines = lines[os.write(self._file, lines) :]
            self.failing = False
        except OSError:
            self.failing = True
            _log.exception("%d audit records could not be written", len(batch))


def _end_line(file: int) -> None:
    """A record that a crash cut off stays alone on its line, and spoils none that follows."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        os.write(file, b"\n")
