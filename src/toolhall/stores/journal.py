"""Records as JSON lines in a file, written in batches by a thread so that no call waits for the disk."""

import asyncio
import os
from collections import deque
from pathlib import Path

from toolhall.model.json import encode
from toolhall.model.record import Record

FLUSH_SECONDS = 0.05
KEPT_IN_MEMORY = 1_000


class MemoryJournal:
    """Keeps the newest records; for tests and for tools served without a data folder."""

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
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._waiting: list[Record] = []
        self._scheduled = False

    def append(self, record: Record) -> None:
        """Written within the next batch."""
        self._waiting.append(record)
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._hand_over)

    def close(self) -> None:
        """Write what is left."""
        self._write(self._take())
        os.close(self._file)

    def _hand_over(self) -> None:
        batch = self._take()
        asyncio.get_running_loop().run_in_executor(None, self._write, batch)

    def _take(self) -> list[Record]:
        self._scheduled = False
        batch, self._waiting = self._waiting, []
        return batch

    def _write(self, batch: list[Record]) -> None:
        os.write(self._file, b"".join(encode(record) + b"\n" for record in batch))
