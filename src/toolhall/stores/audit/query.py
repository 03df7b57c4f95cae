"""Reads and searches audit records of all processes: AuditQuery, search, and the JSON form of a found record.

Files are read in chunks, from either end, and a line that is broken or still being written is skipped.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.model.json import JsonObject, encode
from toolhall.stores.audit.hash_chain import AUDIT_FOLDER, LEGACY_FILE, MAX_LINE_BYTES, logs_of, read_line, segments_of

CHUNK_BYTES = 1024 * 1024
RecordCallback: TypeAlias = Callable[[AuditRecord], None]
_decode_record = msgspec.json.Decoder(AuditRecord).decode
_CLOCK_SLACK_SECONDS = 300.0  # records are ordered by the end of their calls, and clocks are adjusted
FILTER_NAMES = ("caller", "tool", "outcome", "level", "since", "until")


def is_about_tool(record: AuditRecord, tool: str) -> bool:
    """True if a record is about this tool id, or about any version of this `Toolkit.tool`."""
    if record.tool == tool:
        return True
    version = record.tool.removeprefix(f"{tool}@")
    return version != record.tool and "@" not in version  # a version has no `@`, but a name may


def read_records(path: Path, tool: str, callback: RecordCallback) -> None:
    """Pass every record of a tool to the callback, oldest first; lines that are no records are skipped."""
    with path.open("rb") as file:
        for line in lines_containing(file, json_fragment(tool)):
            try:
                record = _decode_record(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if is_about_tool(record, tool):
                callback(record)


def json_fragment(text: str) -> bytes:
    """Return the text as it is encoded in a line, without quotes."""
    return encode(text)[1:-1]


def lines_containing(file: BinaryIO, fragment: bytes) -> Iterator[bytes]:
    """Yield complete lines that contain the fragment; chunks without it are not split into lines."""
    partial = b""
    while chunk := file.read(CHUNK_BYTES):
        lines, _, partial = (partial + chunk).rpartition(b"\n")
        if fragment in lines:
            yield from (line for line in lines.split(b"\n") if fragment in line and len(line) <= MAX_LINE_BYTES)
        partial = partial[: MAX_LINE_BYTES + 1]  # enough to see that it is too long


class FoundRecord(msgspec.Struct, frozen=True):
    """A record with its log and number."""

    log: str
    number: int
    record: AuditRecord


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Filters of a search; None matches everything."""

    caller: str | None = None
    tool: str | None = None  # an id, or a `Toolkit.tool`
    outcome: str | None = None
    level: int | None = None  # minimum
    since: float | None = None
    until: float | None = None  # exclusive

    def matches(self, record: AuditRecord) -> bool:
        """True if the record passes all filters."""
        return (
            self.caller in (None, record.caller)
            and self.outcome in (None, record.outcome)
            and (self.since is None or record.time >= self.since)
            and (self.until is None or record.time < self.until)
            and (self.level is None or (record.level is not None and record.level >= self.level))
            and (self.tool is None or is_about_tool(record, self.tool))
        )

    def fragments(self) -> tuple[bytes, ...]:
        """Return byte strings that every matching line contains."""
        return tuple(json_fragment(text) for text in (self.caller, self.tool, self.outcome) if text is not None)


MATCH_ALL = AuditQuery()


def read_tool_records(data: Path, tool: str, callback: RecordCallback) -> None:
    """Pass every record of an ended call of this tool to the callback, including records from before the hash chain."""
    with suppress(FileNotFoundError):
        read_records(data / LEGACY_FILE, tool, callback)
    for log in logs_of(data / AUDIT_FOLDER):
        for segment in segments_of(log):
            with suppress(FileNotFoundError), segment.open("rb") as file:  # dropped meanwhile
                for raw in lines_containing(file, json_fragment(tool)):
                    line = read_line(raw)
                    if line and line.record and line.record.phase is None and is_about_tool(line.record, tool):
                        callback(line.record)


def search(data: Path, query: AuditQuery, limit: int) -> list[FoundRecord]:
    """Return the newest matching records, newest first."""
    found = (_newest_first(log, query) for log in logs_of(data / AUDIT_FOLDER))
    return list(islice(heapq.merge(*found, key=lambda each: each.record.time, reverse=True), limit))


def iter_oldest_first(data: Path, step: Callable[[int], None]) -> Iterator[FoundRecord]:
    """Yield every record by time; `step` receives the number of bytes read."""
    return heapq.merge(
        *(_oldest_first(log, step) for log in logs_of(data / AUDIT_FOLDER)), key=lambda each: each.record.time
    )


def total_bytes(data: Path) -> int:
    """Return the size of all segments."""
    return sum(segment.stat().st_size for log in logs_of(data / AUDIT_FOLDER) for segment in segments_of(log))


def _newest_first(log: Path, query: AuditQuery) -> Iterator[FoundRecord]:
    fragments = query.fragments()
    oldest = None if query.since is None else query.since - _CLOCK_SLACK_SECONDS
    for segment in reversed(segments_of(log)):
        with suppress(FileNotFoundError):
            for raw in iter_lines_backwards(segment):
                if not all(fragment in raw for fragment in fragments):
                    continue
                line = read_line(raw)
                if line is None or line.record is None:
                    continue
                if oldest is not None and line.record.time < oldest:
                    return
                if query.matches(line.record):
                    yield FoundRecord(log.name, line.number, line.record)
            if oldest is not None and _segment_started(segment) < oldest:
                return


def _segment_started(segment: Path) -> float:
    """Return when a segment began; records in earlier segments are older."""
    with segment.open("rb") as file:
        line = read_line(file.readline(MAX_LINE_BYTES))
    return line.head.time if line and line.head else float("inf")


def _oldest_first(log: Path, step: Callable[[int], None]) -> Iterator[FoundRecord]:
    for segment in segments_of(log):
        with suppress(FileNotFoundError), segment.open("rb") as file:
            while raw := file.readline(MAX_LINE_BYTES):
                step(len(raw))
                line = read_line(raw) if raw.endswith(b"\n") else None
                if line is not None and line.record is not None:
                    yield FoundRecord(log.name, line.number, line.record)


def iter_lines_backwards(path: Path) -> Iterator[bytes]:
    """Yield complete lines, last first; an unfinished last line is skipped."""
    with path.open("rb") as file:
        position = file.seek(0, 2)
        partial = b""
        while position > 0:
            start = max(0, position - CHUNK_BYTES)
            file.seek(start)
            lines = (file.read(position - start) + partial).split(b"\n")
            yield from reversed(lines[1 if start else 0 : -1])
            partial = lines[0][-MAX_LINE_BYTES:] + (b"\n" if len(lines) > 1 else b"")
            position = start


class InvalidQuery(ValueError):
    """A filter is malformed; the message names the expected form."""


def parse_query(filters: Mapping[str, str | None]) -> AuditQuery:
    """Parse filters given as text; raises InvalidQuery."""
    level = filters.get("level")
    if level is not None and not (level.isascii() and level.isdigit() and len(level) <= 2 and int(level) <= 10):
        raise InvalidQuery("level is a number from 0 to 10")
    return AuditQuery(
        caller=filters.get("caller"),
        tool=filters.get("tool"),
        outcome=filters.get("outcome"),
        level=None if level is None else int(level),
        since=_seconds("since", filters.get("since")),
        until=_seconds("until", filters.get("until")),
    )


def record_document(found: FoundRecord) -> JsonObject:
    """Return the JSON form of a found record, without absent members."""
    document: JsonObject = {"log": found.log, "number": found.number, "at": _iso_time(found.record.time)}
    for name, value in msgspec.structs.asdict(found.record).items():
        if name != "time" and value is not None:
            document[_camel_case(name)] = value
    return document


def _seconds(name: str, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.upper())
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        raise InvalidQuery(f"{name} is a day or a time, such as 2027-01-31 or 2027-01-31T08:30:00Z") from None


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
