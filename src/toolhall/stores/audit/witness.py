"""The witness: every checkpoint once more, in a small file that should be copied to where the hall cannot write."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from toolhall.stores.audit.disk import Disk
from toolhall.stores.audit.lines import Mark
from toolhall.stores.reading import MOST_LINE

WITNESS_FILE = "audit.checkpoints"

_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(Mark).decode


def testify(disk: Disk, folder: Path, marks: Iterable[Mark]) -> None:
    """Add checkpoints whose lines are on the disk already: a witness never knows more than the log."""
    disk.append(folder / WITNESS_FILE, _encode_lines(list(marks)))


class Witness(msgspec.Struct, frozen=True):
    """What a witness saw: of each log the hash before each checkpoint, and how many lines nobody can read."""

    seen: dict[str, dict[int, Mark]]
    unreadable: int = 0


def read_witness(path: Path) -> Witness:
    """Everything in the file; a line that a crash or a power loss spoiled is counted and passed over."""
    seen: dict[str, dict[int, Mark]] = {}
    unreadable = 0
    with path.open("rb") as file:
        while line := file.readline(MOST_LINE):
            mark = read_mark(line)
            if mark is None:
                unreadable += 1
                continue
            seen.setdefault(mark.log, {})[mark.number] = mark
    return Witness(seen, unreadable)


def read_mark(line: bytes) -> Mark | None:
    """The checkpoint in a line of the witness; None if nobody can read it."""
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
