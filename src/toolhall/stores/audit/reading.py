"""Reads the audit again, of all processes together: by time, from either end, past everything that is broken."""

import heapq
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import msgspec

from toolhall.model.record import Record
from toolhall.stores.audit.lines import read_line
from toolhall.stores.audit.segments import BEFORE_CHAINS, FOLDER, logs_of, segments_of
from toolhall.stores.reading import MOST_LINE, PIECE, Take, is_about, mentioning, read_records, words_of

_SLACK_SECONDS = 300.0  # records are in the order in which calls ended, and clocks are set


class Found(msgspec.Struct, frozen=True):
    """A record, and where it stands."""

    log: str
    number: int
    record: Record


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which records are looked for; what is None does not matter."""

    caller: str | None = None
    tool: str | None = None  # an id, or a `Toolkit.tool`
    outcome: str | None = None
    level: int | None = None  # at least
    since: float | None = None
    until: float | None = None  # and not then

    def fits(self, record: Record) -> bool:
        """Whether a record is one of them."""
        return (
            self.caller in (None, record.caller)
            and self.outcome in (None, record.outcome)
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
            and (self.level is None or (record.level is not None and record.level >= self.level))
            and (self.tool is None or is_about(record, self.tool))
        )

    def words(self) -> tuple[bytes, ...]:
        """What stands in every line that fits."""
        return tuple(words_of(text) for text in (self.caller, self.tool, self.outcome) if text is not None)


EVERYTHING = Wanted()


def read_about(data: Path, tool: str, take: Take) -> None:
    """Hand over every record of a call of this tool that has ended, also those from before there were chains."""
    with suppress(FileNotFoundError):
        read_records(data / BEFORE_CHAINS, tool, take)
    for log in logs_of(data / FOLDER):
        for segment in segments_of(log):
            with suppress(FileNotFoundError), segment.open("rb") as file:  # dropped meanwhile
                for raw in mentioning(file, words_of(tool)):
                    line = read_line(raw)
                    if line and line.record and line.record.phase is None and is_about(line.record, tool):
                        take(line.record)


def search(data: Path, wanted: Wanted, limit: int) -> list[Found]:
    """The newest records that fit, the newest first."""
    found = (_newest_first(log, wanted) for log in logs_of(data / FOLDER))
    return list(islice(heapq.merge(*found, key=lambda each: each.record.time, reverse=True), limit))


def oldest_first(data: Path, step: Callable[[int], None]) -> Iterator[Found]:
    """Every record by time; `step` hears how many bytes each took."""
    return heapq.merge(*(_oldest_first(log, step) for log in logs_of(data / FOLDER)), key=lambda each: each.record.time)


def size_of(data: Path) -> int:
    """How many bytes all segments have."""
    return sum(segment.stat().st_size for log in logs_of(data / FOLDER) for segment in segments_of(log))


def _newest_first(log: Path, wanted: Wanted) -> Iterator[Found]:
    words = wanted.words()
    enough = None if wanted.since is None else wanted.since - _SLACK_SECONDS
    for segment in reversed(segments_of(log)):
        with suppress(FileNotFoundError):
            for raw in lines_backwards(segment):
                if not all(word in raw for word in words):
                    continue
                line = read_line(raw)
                if line is None or line.record is None:
                    continue
                if enough is not None and line.record.time < enough:
                    return
                if wanted.fits(line.record):
                    yield Found(log.name, line.number, line.record)
            if enough is not None and _begun(segment) < enough:
                return


def _begun(segment: Path) -> float:
    """When a segment was begun; what is in those before it happened earlier."""
    with segment.open("rb") as file:
        line = read_line(file.readline(MOST_LINE))
    return line.head.time if line and line.head else float("inf")


def _oldest_first(log: Path, step: Callable[[int], None]) -> Iterator[Found]:
    for segment in segments_of(log):
        with suppress(FileNotFoundError), segment.open("rb") as file:
            while raw := file.readline(MOST_LINE):
                step(len(raw))
                line = read_line(raw) if raw.endswith(b"\n") else None
                if line is not None and line.record is not None:
                    yield Found(log.name, line.number, line.record)


def lines_backwards(path: Path) -> Iterator[bytes]:
    """Whole lines, the last first; one that is being written has no end yet."""
    with path.open("rb") as file:
        place = file.seek(0, 2)
        begun = b""
        while place > 0:
            start = max(0, place - PIECE)
            file.seek(start)
            lines = (file.read(place - start) + begun).split(b"\n")
            yield from reversed(lines[1 if start else 0 : -1])
            begun = lines[0][-MOST_LINE:] + (b"\n" if len(lines) > 1 else b"")
            place = start
