"""Opens a log for appending: finds its valid end after a crash, sets torn bytes aside, or begins a new log.

Everything was on disk before a checkpoint was written. What does not fit before the last checkpoint is therefore no
crash, and is left alone for `verify`; behind it, nothing that does not fit was ever promised.
"""

import logging
import secrets
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from toolhall.stores.audit.disk import Disk, SegmentTail
from toolhall.stores.audit.format import (
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
_CHECKPOINT_MEMBER = b'"checkpoint":{'  # no record can hold it: quotes in a text are escaped


class SegmentEnd(NamedTuple):
    """The end of a segment: of which log it is, how far its chain goes, how many bytes that is, what is not signed."""

    log: str
    chain: HashChain
    at: int
    unsigned: int


def find_end(disk: Disk, file: int, key: AuditPublicKey) -> SegmentEnd | None:
    """The end of what fits together; None if not even the first line does, so that the segment never began.

    Everything was on the disk before a checkpoint was written, so what does not fit before the last checkpoint was
    no crash: it is left alone, for whoever verifies. Behind it, nothing that does not fit was ever promised.
    """
    first = read_line(disk.read(file, 0, CHUNK_BYTES).partition(b"\n")[0])
    if first is None or first.head is None:
        return None
    last = next(_checkpoints(disk, file, key), None)
    at, chain = (last.at, last.chain) if last else (0, HashChain(first.number, first.head.before.encode()))
    begun = chain.number
    at = _follow_chain(disk, file, at, chain)
    return None if at == 0 else SegmentEnd(first.head.log, chain, at, chain.number - begun)


def unwitnessed(disk: Disk, file: int, key: AuditPublicKey, seen: Container[int]) -> list[Checkpoint]:
    """The checkpoints behind the last that the witness saw: a crash can come between log and witness.

    A witness that saw none of them was emptied, unless the segment has only one: that is not made good in secret.
    """
    found: list[Checkpoint] = []
    for checkpoint in _checkpoints(disk, file, key):
        if checkpoint.value.number in seen:
            return found[::-1]
        found.append(checkpoint.value)
    return found[:1]


class _LocatedCheckpoint(NamedTuple):
    """What this hall signed, the place behind it, and the chain there."""

    value: Checkpoint
    at: int
    chain: HashChain


def _checkpoints(disk: Disk, file: int, key: AuditPublicKey) -> Iterator[_LocatedCheckpoint]:
    """Every checkpoint that this hall signed, the newest first."""
    behind, begun = disk.size(file), b""  # what is behind this place has been looked through; a line began there
    while behind > 0:
        start = max(0, behind - CHUNK_BYTES)
        piece = disk.read(file, start, behind - start) + begun
        cut = piece.find(b"\n") + 1 if start else 0  # the line that begins before this piece comes with the next
        begun, place = piece[:cut], len(piece)
        while (found := piece.rfind(_CHECKPOINT_MEMBER, cut, place)) >= 0:
            place = piece.rfind(b"\n", cut, found) + 1 or cut
            end = piece.find(b"\n", found)
            checkpoint = None if end < 0 else _parse_checkpoint(piece[place:end], start + end + 1, key)
            if checkpoint is not None:
                yield checkpoint
        behind = start


def _parse_checkpoint(line: bytes, at: int, key: AuditPublicKey) -> _LocatedCheckpoint | None:
    said = read_line(line)
    mark = None if said is None else said.checkpoint
    if said is None or mark is None or mark.number != said.number or not key.verify("checkpoint", mark):
        return None
    chain = HashChain(mark.number, mark.before.encode())
    return _LocatedCheckpoint(mark, at, chain) if chain.accept(line) else None


def _follow_chain(disk: Disk, file: int, at: int, chain: HashChain) -> int:
    """Go on from a place as long as whole lines fit; where they no longer do."""
    begun = b""
    place = at
    while piece := disk.read(file, place, CHUNK_BYTES):
        place += len(piece)
        *whole, begun = (begun + piece).split(b"\n")
        for line in whole:
            if not chain.accept(line):
                return at
            at += len(line) + 1
        if len(begun) > CHUNK_BYTES:  # no line is that long
            return at
    return at


_log = logging.getLogger("toolhall.audit")


class OpenedLog(msgspec.Struct, kw_only=True):
    """A log that can be gone on with: its last segment, and where its chain has come to."""

    folder: Path
    log: str
    segment_started: float  # when its last segment was begun
    chain: HashChain
    file: int
    at: int
    unsigned: int
    torn: list[TornLine] = []
    unwitnessed: list[Checkpoint] = []  # checkpoints that a crash kept from the witness


def open_log(folder: Path, key: AuditPublicKey, disk: Disk, now: float) -> OpenedLog:
    """The log in a folder of its own, which nobody else writes to."""
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
    """The number and the content of a segment's first line."""
    file = disk.open(path)
    try:
        line = read_line(disk.read(file, 0, CHUNK_BYTES).partition(b"\n")[0])
    finally:
        disk.close(file)
    return None if line is None or line.head is None else (line.number, line.head)


def _create_log(folder: Path, disk: Disk, now: float) -> OpenedLog:
    """A new log, with an id that no other has."""
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
    """A segment, cut behind what fits together; or what was set aside of one that never began, and is gone now."""
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
    begun = read_header(disk, folder / name)
    return OpenedLog(
        folder=folder,
        log=end.log,
        segment_started=begun[1].time if begun else now,
        chain=end.chain,
        file=file,
        at=end.at,
        unsigned=end.unsigned,
        torn=torn,
    )


def _set_aside(disk: Disk, file: int, path: Path, at: int, now: float) -> TornLine:
    """Copy what is behind a place; nothing is thrown away, because it may be evidence."""
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
    """What the witness saw of a log."""
    try:
        return read_witness(opened.folder.parent / WITNESS_FILE).seen.get(opened.log, {})
    except FileNotFoundError:
        return {}


def _log_rollback(opened: OpenedLog, newest: int) -> None:
    """The log goes on, and never verifies again: whoever looks into it needs both."""
    if newest >= opened.chain.number:
        _log.error(
            "ROLLBACK: the audit in %s ends with number %d, but checkpoint %d was signed: an older copy was put back,"
            " or its end was cut off; see 'toolhall audit verify'",
            opened.folder,
            opened.chain.number - 1,
            newest,
        )
