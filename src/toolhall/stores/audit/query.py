"""Reads and searches audit records of all processes: `search_page` with its cursor, and the JSON form of a record.

Files are read in chunks, from either end, and a line that is broken or still being written is skipped.
"""

import base64
import heapq
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from toolhall.model.call_records import AuditRecord
from toolhall.model.json import JsonObject, encode
from toolhall.stores.audit.filters import AuditQuery, InvalidQuery, is_about_tool, json_fragment
from toolhall.stores.audit.hash_chain import (
    AUDIT_FOLDER,
    LEGACY_FILE,
    MAX_LINE_BYTES,
    first_number,
    logs_of,
    read_line,
    segments_of,
)

CHUNK_BYTES = 1024 * 1024
MAX_CURSOR_CHARS = 16 * 1024
Positions: TypeAlias = Mapping[str, int]  # by log, the number of the first line that is not looked at any more
_END = sys.maxsize
_NUMBER = re.compile(rb'\{"sha256":"[^"]*","number":(\d{1,18}),')
RecordCallback: TypeAlias = Callable[[AuditRecord], None]
_decode_record = msgspec.json.Decoder(AuditRecord).decode
_CLOCK_SLACK_SECONDS = 300.0  # records are ordered by the end of their calls, and clocks are adjusted


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


class RecordPage(msgspec.Struct, frozen=True):
    """Records, newest first, and where the next page begins; None if these are all."""

    records: list[FoundRecord]
    next: Positions | None = None


def search(data: Path, query: AuditQuery, limit: int, before: Positions | None = None) -> RecordPage:
    """Return the newest matching records, newest first; with `before`, the page that follows on an earlier one.

    Every log has a position of its own, so that records which are written meanwhile move nothing.
    """
    logs = {log.name: log for log in logs_of(data / AUDIT_FOLDER)}
    bounds = dict.fromkeys(logs, _END) if before is None else {log: at for log, at in before.items() if log in logs}
    found = {log: _newest_first(logs[log], query, bound) for log, bound in bounds.items()}
    heads = [(-first.record.time, log, first) for log, records in found.items() if (first := next(records, None))]
    heapq.heapify(heads)
    page: list[FoundRecord] = []
    while heads and len(page) < limit:
        _, log, newest = heads[0]
        page.append(newest)
        following = next(found[log], None)
        if following is None:
            heapq.heappop(heads)
        else:
            heapq.heapreplace(heads, (-following.record.time, log, following))
    left = {log: head.number + 1 for _, log, head in heads}
    return RecordPage(page, left or None)


def scan(data: Path, query: AuditQuery, before: Positions) -> Iterator[FoundRecord]:
    """Yield the matching records before these positions, newest first within each log; in constant memory."""
    for log in logs_of(data / AUDIT_FOLDER):
        yield from _newest_first(log, query, before.get(log.name, 0))


def write_cursor(positions: Positions) -> str:
    """Return the text of a place in the records."""
    return base64.urlsafe_b64encode(encode(positions)).decode().rstrip("=")


def parse_cursor(text: str | None) -> Positions | None:
    """Return the place that a cursor names; raises InvalidQuery."""
    if text is None:
        return None
    try:
        if len(text) > MAX_CURSOR_CHARS:
            raise ValueError(text)
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=dict[str, int])
    except (ValueError, msgspec.MsgspecError):
        raise InvalidQuery("cursor is the nextCursor of an earlier answer") from None


def iter_oldest_first(data: Path, step: Callable[[int], None]) -> Iterator[FoundRecord]:
    """Yield every record by time; `step` receives the number of bytes read."""
    return heapq.merge(
        *(_oldest_first(log, step) for log in logs_of(data / AUDIT_FOLDER)), key=lambda each: each.record.time
    )


def total_bytes(data: Path) -> int:
    """Return the size of all segments."""
    return sum(segment.stat().st_size for log in logs_of(data / AUDIT_FOLDER) for segment in segments_of(log))


def _newest_first(log: Path, query: AuditQuery, bound: int) -> Iterator[FoundRecord]:
    """Yield the matching records of a log whose numbers are below the bound."""
    fragments = query.fragments()
    oldest = None if query.since is None else query.since - _CLOCK_SLACK_SECONDS
    for segment in reversed(segments_of(log)):
        if first_number(segment.name) >= bound:
            continue
        with suppress(FileNotFoundError):
            end = None if bound == _END else offset_of(segment, bound)
            for raw in iter_lines_backwards(segment, end):
                if not all(any(fragment in raw for fragment in group) for group in fragments):
                    continue
                line = read_line(raw)
                if line is None or line.record is None or line.number >= bound:
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


def offset_of(segment: Path, number: int) -> int:
    """Return where the line of this number begins, or the end of the file; found by halving."""
    with segment.open("rb") as file:
        low, high = 0, file.seek(0, 2)
        while low < high:
            middle = (low + high) // 2
            found = _NUMBER.match(_line_from(file, middle))
            if found is not None and int(found[1]) < number:
                low = middle + 1
            else:
                high = middle
        _skip_started_line(file, low)
        return file.tell()


def _line_from(file: BinaryIO, position: int) -> bytes:
    """Return the first line that begins at this position or behind it."""
    _skip_started_line(file, position)
    return file.readline(MAX_LINE_BYTES)


def _skip_started_line(file: BinaryIO, position: int) -> None:
    file.seek(max(0, position - 1))
    if position:
        file.readline()  # the end of a line that began before, or only its newline


def iter_lines_backwards(path: Path, end: int | None = None) -> Iterator[bytes]:
    """Yield the complete lines before the offset `end`, last first; an unfinished last line is skipped."""
    with path.open("rb") as file:
        position = file.seek(0, 2) if end is None else end
        partial = b""
        while position > 0:
            start = max(0, position - CHUNK_BYTES)
            file.seek(start)
            lines = (file.read(position - start) + partial).split(b"\n")
            yield from reversed(lines[1 if start else 0 : -1])
            partial = lines[0][-MAX_LINE_BYTES:] + (b"\n" if len(lines) > 1 else b"")
            position = start


def record_document(found: FoundRecord) -> JsonObject:
    """Return the JSON form of a found record, without absent members."""
    document: JsonObject = {"log": found.log, "number": found.number, "at": _iso_time(found.record.time)}
    for name, value in msgspec.structs.asdict(found.record).items():
        if name != "time" and value is not None:
            document[_camel_case(name)] = value
    return document


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
