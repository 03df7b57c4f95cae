"""Reads a whole audit for the management API: LogsReader for a data folder, MemoryReader for records in memory.

Everything here reads files, so nothing of it is for the event loop. Only halls that are managed over HTTP load it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from toolhall.stores.audit.anchors import Anchor, AnchorSync
from toolhall.stores.audit.filters import AuditQuery
from toolhall.stores.audit.follow import Follower, LogsFollower, MemoryFollower
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER
from toolhall.stores.audit.heads import LogHead, last_checkpoint_time, read_heads
from toolhall.stores.audit.journal import AuditJournal, MemoryJournal
from toolhall.stores.audit.query import FoundRecord, Positions, scan, total_bytes
from toolhall.stores.audit.verify import ExternalEvidence, VerificationReport, verify_audit
from toolhall.stores.audit.writer import count_claimed_logs


class RecordReader(Protocol):
    """Reads the records of all processes of a hall."""

    def follow(self, positions: Positions | None = None) -> Follower:
        """Return a follower, from the end or from these positions."""
        ...

    def scan(self, query: AuditQuery, before: Positions) -> Iterator[FoundRecord]:
        """Yield the matching records before these positions, newest first within each log."""
        ...

    def total_bytes(self) -> int:
        """Return how many bytes a verification reads."""
        ...

    def verify(self, step: Callable[[int], None]) -> VerificationReport:
        """Verify all logs; `step` gets the number of bytes read. Raises BadKey, OSError or StoreFailed."""
        ...

    def heads(self) -> list[LogHead]:
        """Return the ends of all logs."""
        ...

    def last_checkpoint_time(self) -> float | None:
        """Return when any log was last signed."""
        ...

    def running_processes(self) -> int:
        """Return how many processes write records now."""
        ...


class LogsReader:
    """Reads the logs of a data folder."""

    def __init__(self, data: Path, anchor_sync: AnchorSync | None) -> None:
        self._data = data
        self._folder = data / AUDIT_FOLDER
        self._anchor_sync = anchor_sync

    def follow(self, positions: Positions | None = None) -> LogsFollower:
        """Return a follower, from the ends of the logs or from these positions."""
        return LogsFollower(self._data, positions)

    def scan(self, query: AuditQuery, before: Positions) -> Iterator[FoundRecord]:
        """Yield the matching records before these positions, newest first within each log."""
        return scan(self._data, query, before)

    def total_bytes(self) -> int:
        """Return the size of all segments."""
        return total_bytes(self._data)

    def verify(self, step: Callable[[int], None]) -> VerificationReport:
        """Verify all logs against their key, their witness and the store."""
        anchor = Anchor() if self._anchor_sync is None else self._anchor_sync.read()
        return verify_audit(self._folder, ExternalEvidence(anchor=anchor), step)

    def heads(self) -> list[LogHead]:
        """Return the ends of all logs."""
        return read_heads(self._folder)

    def last_checkpoint_time(self) -> float | None:
        """Return when any log was last signed."""
        return last_checkpoint_time(self._folder)

    def running_processes(self) -> int:
        """Return how many logs a process holds now; one is this process, which may not have written yet."""
        return max(1, count_claimed_logs(self._folder))


class MemoryReader:
    """Reads the records of a MemoryJournal, which only this process writes; they have no chain."""

    def __init__(self, journal: MemoryJournal) -> None:
        self._journal = journal

    def follow(self, positions: Positions | None = None) -> MemoryFollower:
        """Return a follower, from the end or from this position."""
        return MemoryFollower(self._journal, positions)

    def scan(self, query: AuditQuery, before: Positions) -> Iterator[FoundRecord]:
        """Yield the matching records before this position, newest first."""
        return self._journal.scan(query, before.get("", 0))

    def total_bytes(self) -> int:
        """Return 0: nothing is in files."""
        return 0

    def verify(self, step: Callable[[int], None]) -> VerificationReport:  # noqa: ARG002 - nothing is read
        """Return a report of memory, where nothing can be verified."""
        return VerificationReport(logs=1, records=len(self._journal.records), notes=["records in memory have no chain"])

    def heads(self) -> list[LogHead]:
        """Return the number of records; they have no hashes."""
        return [LogHead("", self._journal.count, None)]

    def last_checkpoint_time(self) -> float | None:
        """Return None: nothing is signed."""
        return None

    def running_processes(self) -> int:
        """Return 1."""
        return 1


def reader_of(journal: object) -> RecordReader:
    """Return the reader of a hall's journal."""
    match journal:
        case AuditJournal():
            return LogsReader(journal.data, journal.anchor_sync)
        case MemoryJournal():
            return MemoryReader(journal)
        case _:
            raise TypeError(f"{type(journal).__name__} is no journal of a hall")
