"""Reads records again from a file of JSON lines: in pieces, whatever its size is, and past what is broken."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from toolhall.model.json import encode
from toolhall.model.record import Record

PIECE = 1024 * 1024
MOST_LINE = 64 * 1024  # a record is much shorter; what is longer is none

Take: TypeAlias = Callable[[Record], None]

_decode = msgspec.json.Decoder(Record).decode


def is_about(record: Record, tool: str) -> bool:
    """Whether a record is about this tool id, or about any version of this `Toolkit.tool`."""
    if record.tool == tool:
        return True
    version = record.tool.removeprefix(f"{tool}@")
    return version != record.tool and "@" not in version  # no version has one, but a name may


def read_records(path: Path, tool: str, take: Take) -> None:
    """Hand over every record about a tool, the oldest first; a line that is no record is passed over."""
    with path.open("rb") as file:
        for line in mentioning(file, words_of(tool)):
            try:
                record = _decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                continue
            if is_about(record, tool):
                take(record)


def words_of(text: str) -> bytes:
    """A text as it stands in a file that we wrote."""
    return encode(text)[1:-1]


def mentioning(file: BinaryIO, words: bytes) -> Iterator[bytes]:
    """Whole lines that hold these words; most are not even cut out, and one that is being written has no end yet."""
    begun = b""
    while piece := file.read(PIECE):
        whole, _, begun = (begun + piece).rpartition(b"\n")
        if words in whole:
            yield from (line for line in whole.split(b"\n") if words in line and len(line) <= MOST_LINE)
        begun = begun[: MOST_LINE + 1]  # enough to see that it is too long
