"""Recorded calls as JSON lines in a file that stops growing in time."""

import logging
from pathlib import Path

from toolhall.stores.batches import Batches

_log = logging.getLogger("toolhall.recordings")

MOST_BYTES = 64 * 1024 * 1024


class FileRecordings(Batches[bytes]):
    """Appends to `recordings.jsonl` until that is full; what comes after is dropped."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        super().__init__(path, "recorded calls", b"".join)
        self._path = path
        self._most = most_bytes
        self._room = most_bytes - self.size()
        self.full = False

    def append(self, record: bytes) -> None:
        """Written within the next batch; what waits for the disk counts too, so memory is bounded with the file."""
        self._room -= len(record)
        if self._room < 0:
            self._stop()
        elif not self.full:
            super().append(record)

    def _write(self, batch: list[bytes]) -> None:
        """Other processes may write to the same file."""
        if self.size() + sum(map(len, batch)) > self._most:
            self._stop()
        else:
            super()._write(batch)

    def _stop(self) -> None:
        if not self.full:
            self.full = True
            limit = self._most // (1024 * 1024)
            _log.warning(
                "%s has reached %d MiB, so calls are no longer recorded; move it and start again", self._path, limit
            )
