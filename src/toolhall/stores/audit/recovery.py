"""Opens a log for appending: finds its valid end after a crash, sets torn bytes aside, or begins a new log.

Theory of operation. All lines before a checkpoint were synced before it was written. So find_end looks for the newest
checkpoint with a valid signature and follows the hash chain from there. A fault before that checkpoint is no crash: it
is left alone, as evidence for `verify`. Behind it, the first line that does not fit ends what was acknowledged, because
a commit returns after a sync. The bytes from there on are copied to a `.torn` file, a `torn` line notes that, and the
log continues. A crash between log and witness leaves checkpoints that the witness lacks; unwitnessed returns them.
"""

import logging
import secrets
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from toolhall.stores.audit.disk import Disk, SegmentTail
from toolhall.stores.audit.hash_chain import (
    GENESIS_HASH,
    WITNESS_FILE,
    AuditPublicKey,
    Checkpoint,
    HashChain,
    SegmentHeader,
    TornLine,
    first_number,
    read_line,
    read_witness,
    segment_name,
    segment_names,
    torn_name,
)

CHUNK_BYTES = 1024 * 1024
_CHECKPOINT_MEMBER = b'"checkpoint":{'  # no record contains it: quotes in a text are escaped
_log = logging.getLogger("toolhall.audit")


class SegmentEnd(NamedTuple):
    """The valid end of a segment: its log's id, its chain, the offset, and the number of unsigned lines."""

    log: str
    chain: HashChain
    at: int
    unsigned: int


def find_end(disk: Disk, file: int, key: AuditPublicKey) -> SegmentEnd | None:
    """Find the end of the valid lines; None if the header is invalid, because the segment was never begun.

    The search begins at the last checkpoint. Faults before it are ignored here and found by `verify`.
    """
    first = read_line(disk.read(file, 0, CHUNK_BYTES).partition(b"\n")[0])
    if first is None or first.head is None:
        return None
    last = next(_checkpoints(disk, file, key), None)
    at, chain = (last.at, last.chain) if last else (0, HashChain(first.number, first.head.before.encode()))
    signed = chain.number
    at = _follow_chain(disk, file, at, chain)
    return None if at == 0 else SegmentEnd(first.head.log, chain, at, chain.number - signed)


def unwitnessed(disk: Disk, file: int, key: AuditPublicKey, seen: Container[int]) -> list[Checkpoint]:
    """Return the checkpoints behind the last witnessed one: a crash can come between log and witness.

    If the witness has none of them, it was emptied, which is not repaired silently: at most the newest is returned.
    """
    found: list[Checkpoint] = []
    for checkpoint in _checkpoints(disk, file, key):
        if checkpoint.value.number in seen:
            return found[::-1]
        found.append(checkpoint.value)
    return found[:1]


class _LocatedCheckpoint(NamedTuple):
    """A checkpoint with a valid signature, the offset behind it, and the chain there."""

    value: Checkpoint
    at: int
    chain: HashChain


def _checkpoints(disk: Disk, file: int, key: AuditPublicKey) -> Iterator[_LocatedCheckpoint]:
    """Yield checkpoints with a valid signature, newest first."""
    searched_from, partial = disk.size(file), b""  # the file is searched from there on; the end of the line before
    while searched_from > 0:
        start = max(0, searched_from - CHUNK_BYTES)
        chunk = disk.read(file, start, searched_from - start) + partial
        cut = chunk.find(b"\n") + 1 if start else 0  # a line that begins before this chunk is left to the next
        partial, line_start = chunk[:cut], len(chunk)
        while (found := chunk.rfind(_CHECKPOINT_MEMBER, cut, line_start)) >= 0:
            line_start = chunk.rfind(b"\n", cut, found) + 1 or cut
            end = chunk.find(b"\n", found)
            checkpoint = None if end < 0 else _parse_checkpoint(chunk[line_start:end], start + end + 1, key)
            if checkpoint is not None:
                yield checkpoint
        searched_from = start


def _parse_checkpoint(line: bytes, at: int, key: AuditPublicKey) -> _LocatedCheckpoint | None:
    decoded = read_line(line)
    checkpoint = None if decoded is None else decoded.checkpoint
    if decoded is None or checkpoint is None or checkpoint.number != decoded.number:
        return None
    if not key.verify("checkpoint", checkpoint):
        return None
    chain = HashChain(checkpoint.number, checkpoint.before.encode())
    return _LocatedCheckpoint(checkpoint, at, chain) if chain.accept(line) else None


def _follow_chain(disk: Disk, file: int, at: int, chain: HashChain) -> int:
    """Follow the chain from an offset over whole lines; return the offset of the first that does not fit."""
    partial = b""
    read_to = at
    while chunk := disk.read(file, read_to, CHUNK_BYTES):
        read_to += len(chunk)
        *lines, partial = (partial + chunk).split(b"\n")
        for line in lines:
            if not chain.accept(line):
                return at
            at += len(line) + 1
        if len(partial) > CHUNK_BYTES:  # no line is that long
            return at
    return at


class OpenedLog(msgspec.Struct, kw_only=True):
    """A log that can be appended to: its last segment and the end of its chain."""

    folder: Path
    log: str
    segment_started: float  # when its last segment began
    chain: HashChain
    file: int
    at: int
    unsigned: int
    torn: list[TornLine] = []
    unwitnessed: list[Checkpoint] = []  # checkpoints that the witness lacks after a crash


def open_log(folder: Path, key: AuditPublicKey, disk: Disk, now: float) -> OpenedLog:
    """Open the log in this folder, whose lock the caller holds; create it if there is none."""
    torn: list[TornLine] = []
    for name in reversed(segment_names(disk.names(folder))):
        opened = _recover_segment(folder, name, key, disk, now)
        if isinstance(opened, OpenedLog):
            opened.torn += torn
            seen = _witnessed(opened)
            _log_rollback(opened, max(seen, default=-1))
            opened.unwitnessed = unwitnessed(disk, opened.file, key, seen)
            return opened
        torn += opened
    opened = _create_log(folder, disk, now)
    opened.torn = torn
    return opened


def read_header(disk: Disk, path: Path) -> tuple[int, SegmentHeader] | None:
    """Return the number and content of a segment's first line; None if it is no SegmentHeader."""
    file = disk.open(path)
    try:
        line = read_line(disk.read(file, 0, CHUNK_BYTES).partition(b"\n")[0])
    finally:
        disk.close(file)
    return None if line is None or line.head is None else (line.number, line.head)


def _create_log(folder: Path, disk: Disk, now: float) -> OpenedLog:
    """Create a log with a new random id."""
    log, chain = secrets.token_hex(16), HashChain()
    tail = SegmentTail(disk, disk.open(folder / segment_name(0)), 0)
    try:
        tail.add(chain.encode_line("head", SegmentHeader(log, now, GENESIS_HASH.decode())))
        tail.sync()
        disk.sync_folder(folder)
    except OSError:
        disk.close(tail.file)
        raise
    return OpenedLog(folder=folder, log=log, segment_started=now, chain=chain, file=tail.file, at=tail.size, unsigned=1)


def _recover_segment(
    folder: Path, name: str, key: AuditPublicKey, disk: Disk, now: float
) -> OpenedLog | list[TornLine]:
    """Cut a segment behind its valid end; if not even its header is valid, remove it and return what was set aside."""
    file = disk.open(folder / name)
    try:
        end, size = find_end(disk, file, key), disk.size(file)
        at = end.at if end else 0
        torn = [_set_aside(disk, file, folder / torn_name(first_number(name), at), at, now)] if at < size else []
        if torn:
            disk.truncate(file, at)
        disk.sync(file)
    except BaseException:
        disk.close(file)
        raise
    if end is None:
        disk.close(file)
        disk.remove(folder / name)
        disk.sync_folder(folder)
        return torn
    header = read_header(disk, folder / name)
    return OpenedLog(
        folder=folder,
        log=end.log,
        segment_started=header[1].time if header else now,
        chain=end.chain,
        file=file,
        at=end.at,
        unsigned=end.unsigned,
        torn=torn,
    )


def _set_aside(disk: Disk, file: int, path: Path, at: int, now: float) -> TornLine:
    """Copy the bytes behind an offset to a file, because they may be evidence."""
    size = disk.size(file)
    copy = disk.open(path)
    try:
        for start in range(at, size, CHUNK_BYTES):
            disk.write(copy, start - at, disk.read(file, start, min(CHUNK_BYTES, size - start)))
        disk.sync(copy)
    finally:
        disk.close(copy)
    disk.sync_folder(path.parent)
    _log.warning("%d bytes behind the last whole line of the audit were set aside in %s", size - at, path)
    return TornLine(path.name, size - at, now)


def _witnessed(opened: OpenedLog) -> dict[int, Checkpoint]:
    """Return the witnessed checkpoints of this log by number."""
    try:
        return read_witness(opened.folder.parent / WITNESS_FILE).seen.get(opened.log, {})
    except FileNotFoundError:
        return {}


def _log_rollback(opened: OpenedLog, newest: int) -> None:
    """Log that the log ends before a witnessed checkpoint; it is continued, but never verifies again."""
    if newest >= opened.chain.number:
        _log.error(
            "ROLLBACK: the audit in %s ends with number %d, but checkpoint %d was signed: an older copy was restored,"
            " or its end was cut off; see 'toolhall audit verify'",
            opened.folder,
            opened.chain.number - 1,
            newest,
        )
