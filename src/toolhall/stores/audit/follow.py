"""Followers: read the records that were added to the audit since the last look, of all processes.

A follower holds a position in every log, so that what it returns does not depend on how often it looks. It does nothing
by itself: without a reader there is no work. Its positions can be written down and resumed from in another process.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from toolhall.model.call_records import AuditRecord
from toolhall.stores.audit.hash_chain import (
    AUDIT_FOLDER,
    MAX_LINE_BYTES,
    first_number,
    logs_of,
    read_line,
    segments_of,
)
from toolhall.stores.audit.query import FoundRecord, Positions, iter_lines_backwards, offset_of

CHUNK_BYTES = 1024 * 1024  # read of a log at a time


class Follower(Protocol):
    """Reads what was added to the audit."""

    @property
    def positions(self) -> Positions:
        """By log, the number of the next line; for logs that are not named, everything is new."""
        ...

    def read(self) -> list[FoundRecord]:
        """Return the records that are new, by time; an empty list once there are none. Not for the event loop."""
        ...


class LogsFollower:
    """Follows the logs of a data folder; from their ends, or from positions of an earlier follower."""

    def __init__(self, data: Path, positions: Positions | None = None) -> None:
        self._folder = data / AUDIT_FOLDER
        if positions is None:
            positions = {log.name: _next_number(log) for log in logs_of(self._folder)}
        self._numbers = dict(positions)
        self._offsets: dict[str, tuple[str, int]] = {}  # by log: the segment, and where to read on in it

    @property
    def positions(self) -> Positions:
        """By log, the number of the next line; for logs that are not named, everything is new."""
        return dict(self._numbers)

    def read(self) -> list[FoundRecord]:
        """Return the records that are new, by time; at most a chunk of each log."""
        found = [each for log in logs_of(self._folder) for each in self._read_log(log)]
        return sorted(found, key=lambda each: each.record.time)

    def _read_log(self, log: Path) -> Iterator[FoundRecord]:
        number = self._numbers.get(log.name, 0)
        segments = segments_of(log)
        started = [segment for segment in segments if first_number(segment.name) <= number]
        left = segments[max(0, len(started) - 1) :]
        for segment in left:
            read = False
            with suppress(FileNotFoundError):  # dropped meanwhile
                for found in self._read_segment(log.name, segment):
                    read = True
                    yield found
            if read:
                return

    def _read_segment(self, log: str, segment: Path) -> Iterator[FoundRecord]:
        number = self._numbers.get(log, 0)
        known, offset = self._offsets.get(log, ("", 0))
        if known != segment.name:
            offset = offset_of(segment, number)
        with segment.open("rb") as file:
            file.seek(offset)
            complete = file.read(CHUNK_BYTES).rpartition(b"\n")
        self._offsets[log] = segment.name, offset + len(complete[0]) + len(complete[1])
        for raw in complete[0].split(b"\n"):
            line = read_line(raw) if len(raw) <= MAX_LINE_BYTES else None
            if line is None or line.number < number:
                continue
            self._numbers[log] = line.number + 1
            if line.record is not None:
                yield FoundRecord(log, line.number, line.record)


def _next_number(log: Path) -> int:
    """Return the number after the last line of a log."""
    for segment in reversed(segments_of(log)):
        with suppress(FileNotFoundError):
            for raw in iter_lines_backwards(segment):
                line = read_line(raw)
                if line is not None:
                    return line.number + 1
    return 0


class MemoryFollower:
    """Follows the records of a MemoryJournal; `count` is the number of all that ever came."""

    def __init__(self, journal: "CountedRecords", positions: Positions | None = None) -> None:
        self._journal = journal
        self._number = journal.count if positions is None else positions.get("", 0)

    @property
    def positions(self) -> Positions:
        """The number of the next record."""
        return {"": self._number}

    def read(self) -> list[FoundRecord]:
        """Return the records that are new; those that were dropped meanwhile are left out."""
        records, end = list(self._journal.records), self._journal.count
        start = end - len(records)
        found = [FoundRecord("", number, each) for number, each in enumerate(records, start) if number >= self._number]
        self._number = end
        return found


class CountedRecords(Protocol):
    """The newest records, and the number of all that ever came."""

    count: int

    @property
    def records(self) -> Sequence[AuditRecord]:
        """The newest records, oldest first."""
        ...
