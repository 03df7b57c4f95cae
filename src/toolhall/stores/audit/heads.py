"""The ends of the logs of an audit, read without verifying them: LogHead, read_heads, last_checkpoint_time."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from toolhall.stores.audit.hash_chain import AuditLine, logs_of, read_line, segments_of
from toolhall.stores.audit.query import iter_lines_backwards

_MAX_LINES = 2_000  # looked at for a checkpoint: there is one behind every 1,000 records


class LogHead(msgspec.Struct, frozen=True):
    """The end of one log: how many lines it ever had, and the hash of the last."""

    log: str
    lines: int
    sha256: str | None


def read_heads(folder: Path) -> list[LogHead]:
    """Return the ends of all logs."""
    found: list[LogHead] = []
    for log in logs_of(folder):
        last = next(_lines_backwards(log), None)
        found.append(LogHead(log.name, 0, None) if last is None else LogHead(log.name, last.number + 1, last.sha256))
    return found


def last_checkpoint_time(folder: Path) -> float | None:
    """Return when any log was last signed; None if that is longer ago than the lines that are looked at."""
    times: list[float] = []
    for log in logs_of(folder):
        for count, line in enumerate(_lines_backwards(log)):
            if line.checkpoint is not None:
                times.append(line.checkpoint.time)
            if line.checkpoint is not None or count >= _MAX_LINES:
                break
    return max(times, default=None)


def _lines_backwards(log: Path) -> Iterator[AuditLine]:
    for segment in reversed(segments_of(log)):
        with suppress(FileNotFoundError):  # dropped meanwhile
            yield from filter(None, map(read_line, iter_lines_backwards(segment)))
