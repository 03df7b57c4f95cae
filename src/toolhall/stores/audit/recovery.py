"""Where a segment really ends, after a crash or a power loss."""

from collections.abc import Container, Iterator
from typing import NamedTuple

from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.lines import Chain, Mark, read_line
from toolhall.stores.audit.signing import PublicKey

PIECE = 1024 * 1024
_CHECKPOINT = b'"checkpoint":{'  # no record can hold it: quotes in a text are escaped


class End(NamedTuple):
    """The end of a segment: of which log it is, how far its chain goes, how many bytes that is, what is not signed."""

    log: str
    chain: Chain
    at: int
    unsigned: int


def end_of(disk: Disk, file: int, key: PublicKey) -> End | None:
    """The end of what fits together; None if not even the first line does, so that the segment never began.

    Everything was on the disk before a checkpoint was written, so what does not fit before the last checkpoint was
    no crash: it is left alone, for whoever verifies. Behind it, nothing that does not fit was ever promised.
    """
    first = read_line(disk.read(file, 0, PIECE).partition(b"\n")[0])
    if first is None or first.head is None:
        return None
    last = next(_checkpoints(disk, file, key), None)
    at, chain = (last.at, last.chain) if last else (0, Chain(first.number, first.head.before.encode()))
    begun = chain.number
    at = _follow(disk, file, at, chain)
    return None if at == 0 else End(first.head.log, chain, at, chain.number - begun)


def unseen(disk: Disk, file: int, key: PublicKey, seen: Container[int]) -> list[Mark]:
    """The checkpoints behind the last that the witness saw: a crash can come between log and witness.

    A witness that saw none of them was emptied, unless the segment has only one: that is not made good in secret.
    """
    found: list[Mark] = []
    for checkpoint in _checkpoints(disk, file, key):
        if checkpoint.mark.number in seen:
            return found[::-1]
        found.append(checkpoint.mark)
    return found[:1]


class _Checkpoint(NamedTuple):
    """What this hall signed, the place behind it, and the chain there."""

    mark: Mark
    at: int
    chain: Chain


def _checkpoints(disk: Disk, file: int, key: PublicKey) -> Iterator[_Checkpoint]:
    """Every checkpoint that this hall signed, the newest first."""
    behind, begun = disk.size(file), b""  # what is behind this place has been looked through; a line began there
    while behind > 0:
        start = max(0, behind - PIECE)
        piece = disk.read(file, start, behind - start) + begun
        cut = piece.find(b"\n") + 1 if start else 0  # the line that begins before this piece comes with the next
        begun, place = piece[:cut], len(piece)
        while (found := piece.rfind(_CHECKPOINT, cut, place)) >= 0:
            place = piece.rfind(b"\n", cut, found) + 1 or cut
            end = piece.find(b"\n", found)
            checkpoint = None if end < 0 else _signed(piece[place:end], start + end + 1, key)
            if checkpoint is not None:
                yield checkpoint
        behind = start


def _signed(line: bytes, at: int, key: PublicKey) -> _Checkpoint | None:
    said = read_line(line)
    mark = None if said is None else said.checkpoint
    if said is None or mark is None or mark.number != said.number or not key.signed("checkpoint", mark):
        return None
    chain = Chain(mark.number, mark.before.encode())
    return _Checkpoint(mark, at, chain) if chain.fits(line) else None


def _follow(disk: Disk, file: int, at: int, chain: Chain) -> int:
    """Go on from a place as long as whole lines fit; where they no longer do."""
    begun = b""
    place = at
    while piece := disk.read(file, place, PIECE):
        place += len(piece)
        *whole, begun = (begun + piece).split(b"\n")
        for line in whole:
            if not chain.fits(line):
                return at
            at += len(line) + 1
        if len(begun) > PIECE:  # no line is that long
            return at
    return at
