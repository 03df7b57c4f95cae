"""Opens a log to go on with it, or begins one; what a crash left half done is set aside first."""

import logging
import secrets
from pathlib import Path

import msgspec

from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.lines import START, Chain, Head, Mark, Torn, read_line
from toolhall.stores.audit.recovery import PIECE, end_of, unseen
from toolhall.stores.audit.segments import first_number, segment_name, segment_names, torn_name
from toolhall.stores.audit.signing import PublicKey
from toolhall.stores.audit.tail import Tail
from toolhall.stores.audit.witness import WITNESS_FILE, read_witness

_log = logging.getLogger("toolhall.audit")


class Opened(msgspec.Struct, kw_only=True):
    """A log that can be gone on with: its last segment, and where its chain has come to."""

    folder: Path
    log: str
    begun: float  # when its last segment was begun
    chain: Chain
    file: int
    at: int
    unsigned: int
    torn: list[Torn] = []
    unseen: list[Mark] = []  # checkpoints that a crash kept from the witness


def open_log(folder: Path, key: PublicKey, disk: Disk, now: float) -> Opened:
    """The log in a folder of its own, which nobody else writes to."""
    torn: list[Torn] = []
    for name in reversed(segment_names(disk.names(folder))):
        opened = _recovered(folder, name, key, disk, now)
        if isinstance(opened, Opened):
            opened.torn += torn
            seen = _seen(opened)
            _notice_rollback(opened, max(seen, default=-1))
            opened.unseen = unseen(disk, opened.file, key, seen)
            return opened
        torn += opened
    opened = _founded(folder, disk, now)
    opened.torn = torn
    return opened


def first_of(disk: Disk, path: Path) -> tuple[int, Head] | None:
    """The number and the content of a segment's first line."""
    file = disk.open(path)
    try:
        line = read_line(disk.read(file, 0, PIECE).partition(b"\n")[0])
    finally:
        disk.close(file)
    return None if line is None or line.head is None else (line.number, line.head)


def _founded(folder: Path, disk: Disk, now: float) -> Opened:
    """A new log, with an id that no other has."""
    log, chain = secrets.token_hex(16), Chain()
    tail = Tail(disk, disk.open(folder / segment_name(0)), 0)
    try:
        tail.add(chain.link("head", Head(log, now, START.decode())))
        tail.sync()
        disk.sync_folder(folder)
    except OSError:
        disk.close(tail.file)
        raise
    return Opened(folder=folder, log=log, begun=now, chain=chain, file=tail.file, at=tail.size, unsigned=1)


def _recovered(folder: Path, name: str, key: PublicKey, disk: Disk, now: float) -> Opened | list[Torn]:
    """A segment, cut behind what fits together; or what was set aside of one that never began, and is gone now."""
    file = disk.open(folder / name)
    try:
        end, size = end_of(disk, file, key), disk.size(file)
        at = end.at if end else 0
        torn = [_set_aside(disk, file, folder / torn_name(first_number(name), at), at, now)] if at < size else []
        if torn:
            disk.cut(file, at)
        disk.sync(file)
    except BaseException:
        disk.close(file)
        raise
    if end is None:
        disk.close(file)
        disk.remove(folder / name)
        disk.sync_folder(folder)
        return torn
    begun = first_of(disk, folder / name)
    return Opened(
        folder=folder,
        log=end.log,
        begun=begun[1].time if begun else now,
        chain=end.chain,
        file=file,
        at=end.at,
        unsigned=end.unsigned,
        torn=torn,
    )


def _set_aside(disk: Disk, file: int, path: Path, at: int, now: float) -> Torn:
    """Copy what is behind a place; nothing is thrown away, because it may be evidence."""
    size = disk.size(file)
    copy = disk.open(path)
    try:
        for start in range(at, size, PIECE):
            disk.write(copy, start - at, disk.read(file, start, min(PIECE, size - start)))
        disk.sync(copy)
    finally:
        disk.close(copy)
    disk.sync_folder(path.parent)
    _log.warning("%d bytes behind the last whole line of the audit were set aside in %s", size - at, path)
    return Torn(path.name, size - at, now)


def _seen(opened: Opened) -> dict[int, Mark]:
    """What the witness saw of a log."""
    try:
        return read_witness(opened.folder.parent / WITNESS_FILE).seen.get(opened.log, {})
    except FileNotFoundError:
        return {}


def _notice_rollback(opened: Opened, newest: int) -> None:
    """The log goes on, and never verifies again: whoever looks into it needs both."""
    if newest >= opened.chain.number:
        _log.error(
            "ROLLBACK: the audit in %s ends with number %d, but checkpoint %d was signed: an older copy was put back,"
            " or its end was cut off; see 'toolhall audit verify'",
            opened.folder,
            opened.chain.number - 1,
            newest,
        )
