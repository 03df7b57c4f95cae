"""Records as JSON lines in a file, written in batches by a thread so that no call waits for the disk."""

import asyncio
from collections import deque
from pathlib import Path

import msgspec

from toolhall.model.record import Record
from toolhall.stores.batches import Batches
from toolhall.stores.reading import Take, is_about, read_records

_encode_lines = msgspec.json.Encoder().encode_lines

KEPT_IN_MEMORY = 1_000


class MemoryJournal:
    """Keeps the newest records; for tests and for tools served without a data folder."""

    failing = False

    def __init__(self) -> None:
        self.records: deque[Record] = deque(maxlen=KEPT_IN_MEMORY)

    def append(self, record: Record) -> None:
        """Keep this record."""
        self.records.append(record)

    async def read(self, tool: str, take: Take) -> None:
        """Hand over every record that is kept about a tool id, or about all versions of a `Toolkit.tool`."""
        for record in tuple(self.records):
            if is_about(record, tool):
                take(record)

    def close(self) -> None:
        """Nothing to write."""


class FileJournal(Batches[Record]):
    """Appends to `audit.jsonl`."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "audit records", _encode_lines)
        self._path = path

    async def read(self, tool: str, take: Take) -> None:
        """Hand over every record about a tool id, or about all versions of a `Toolkit.tool`, in a thread."""
        await self.flush()
        await asyncio.to_thread(read_records, self._path, tool, take)
