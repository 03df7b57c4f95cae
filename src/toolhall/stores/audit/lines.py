"""The lines of the audit: what each can hold, and how one is bound to the line before it.

A line is `{"sha256":"...","number":17,"record":{...}}`. The hash is that of the hash before, followed by everything in
the line behind its own: so no line can be changed, removed, added or moved without breaking all that follow.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final, Literal, TypeAlias

import msgspec

from toolhall.model.json import encode
from toolhall.model.record import Record
from toolhall.stores.reading import MOST_LINE

START: Final = b"0" * 64  # the hash before the first line of a log
Kind: TypeAlias = Literal["record", "head", "checkpoint", "torn", "dropped", "lost"]

_OPEN = b'{"sha256":"'
_SHUT = b'",'
_HASH = slice(len(_OPEN), len(_OPEN) + len(START))
_BODY = _HASH.stop + len(_SHUT)


class Head(msgspec.Struct, frozen=True):
    """The first line of a file: of which log it is, when it was begun, and the hash of the line before."""

    log: str
    time: float
    before: str


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A signature under a place of a log: `before` is the hash before the line with this number.

    `stored` says that the hall's database knew of this audit by then, so that one is missing where there is none.
    """

    log: str
    number: int
    before: str
    time: float
    signature: str = ""
    stored: bool = False


class Torn(msgspec.Struct, frozen=True):
    """What a crash had left behind the last whole line; it was set aside in this file."""

    file: str
    bytes: int
    time: float


class Lost(msgspec.Struct, frozen=True):
    """How many records came while the disk could take none."""

    records: int
    time: float


class Line(msgspec.Struct, frozen=True):
    """One line; it holds exactly one of these, beside its number and its hash."""

    sha256: str
    number: int
    record: Record | None = None
    head: Head | None = None
    checkpoint: Mark | None = None
    torn: Torn | None = None
    dropped: Mark | None = None
    lost: Lost | None = None


_decode = msgspec.json.Decoder(Line).decode


class Chain:
    """Where a log has come to: the number that its next line gets, and the hash of its last one."""

    __slots__ = ("last", "number")

    def __init__(self, number: int = 0, last: bytes = START) -> None:
        self.number = number
        self.last = last

    def link(self, kind: Kind, value: msgspec.Struct) -> bytes:
        """The next line, with its end."""
        body = b'"number":%d,"%b":%b}' % (self.number, kind.encode(), encode(value))
        self.last = sha256(self.last + body).hexdigest().encode()
        self.number += 1
        return b"".join((_OPEN, self.last, _SHUT, body, b"\n"))

    def links(self, records: Iterable[Record]) -> bytes:
        """The same for many records; what most of the time goes into."""
        number, last = self.number, self.last
        parts: list[bytes] = []
        for record in records:
            body = b'"number":%d,"record":' % number + encode(record) + b"}"
            last = sha256(last + body).hexdigest().encode()
            parts += (_OPEN, last, _SHUT, body, b"\n")
            number += 1
        self.number, self.last = number, last
        return b"".join(parts)

    def fits(self, line: bytes) -> bool:
        """Whether this is the next line, without its end; then the chain goes on behind it."""
        own = line[_HASH]
        body = line[_BODY:]
        if sha256(self.last + body).hexdigest().encode() != own or line[: _HASH.start] != _OPEN:
            return False
        if line[_HASH.stop : _BODY] != _SHUT or not body.startswith(b'"number":%d,' % self.number):
            return False
        self.last = own
        self.number += 1
        return True

    def fits_but_for_number(self, line: bytes) -> bool:
        """Whether this would be the next line, had nobody changed its number."""
        _, _, rest = line[_BODY:].partition(b",")
        body = b'"number":%d,%b' % (self.number, rest)
        return sha256(self.last + body).hexdigest().encode() == line[_HASH]


def read_line(line: bytes) -> Line | None:
    """What a line says, with or without its end; None if it is no line of an audit."""
    if len(line) > MOST_LINE:
        return None
    try:
        return _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
