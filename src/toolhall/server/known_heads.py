"""KnownHeads: the request heads of one connection, recognized by their bytes, so that they need no parser again.

Theory of operation. A client that keeps its connection sends nearly the same head with every request: only the digits
of Content-Length differ. The first such request goes through httptools. If it is plain, its bytes before and after
these digits are kept, together with the validated RequestHead. A later request that begins at a message boundary with
the same bytes, and has other digits at most, means the same to the parser, so the parser need not see it.

A head is plain if the parser saw all of it at once, together with the whole body and nothing else, and it is a POST of
HTTP/1.1 with exactly one Content-Length and no Transfer-Encoding, Connection, Expect or Upgrade. A request is
recognized only if its body is complete and nothing follows it; whatever else arrives goes through the parser, whose
state is that of a message boundary as long as it sees either all or nothing of a message.

A connection keeps MAX_HEADS heads of at most MAX_HEAD_BYTES each, and forgets them when it ends: they hold credentials.
What a head says of the caller is not kept; see RequestHead.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from toolhall.auth.authenticator import Scope
from toolhall.http.request import RequestHead

MAX_HEADS = 4
MAX_HEAD_BYTES = 4 * 1024
_HEAD_END = b"\r\n\r\n"
_MAX_DIGITS = 9  # of a length; more would also be slow to read as a number
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: ?([1-9][0-9]{0,8})(?=\r\n)", re.IGNORECASE)
_NOT_PLAIN = frozenset({b"transfer-encoding", b"connection", b"expect", b"upgrade", b"te", b"trailer"})


class HeadTemplate(NamedTuple):
    """The bytes of a head before and after the digits of Content-Length."""

    before: bytes
    after: bytes  # ends with the empty line

    @classmethod
    def of(cls, data: bytes, scope: Scope, body: bytes | bytearray) -> "HeadTemplate | None":
        """The template of a request that the parser has read from exactly this data; None if it is not plain."""
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if not len(_HEAD_END) <= end <= MAX_HEAD_BYTES or scope["method"] != "POST" or scope["http_version"] != "1.1":
            return None
        found = list(_CONTENT_LENGTH.finditer(data, 0, end))
        if len(found) != 1 or int(found[0][1]) != len(data) - end or data[end:] != body:
            return None
        names = [name for name, _ in scope["headers"]]
        if names.count(b"content-length") != 1 or not _NOT_PLAIN.isdisjoint(names):
            return None
        return cls(data[: found[0].start(1)], data[found[0].end(1) : end])

    def body_start(self, data: bytes) -> int:
        """Where the body begins if the data is one whole request with this head; else 0."""
        before, after = self
        if not data.startswith(before):
            return 0
        start = len(before)
        end = data.find(_HEAD_END, start) + len(_HEAD_END)
        digits_end = end - len(after)
        digits = data[start:digits_end]
        if data[digits_end:end] != after or not digits.isdigit() or digits[0] == _ZERO or len(digits) > _MAX_DIGITS:
            return 0
        return end if int(digits) == len(data) - end else 0


_ZERO = ord("0")


class KnownHead(NamedTuple):
    """A template, and the head that it stands for."""

    template: HeadTemplate
    head: RequestHead


def with_head(known: Sequence[KnownHead], new: KnownHead) -> list[KnownHead]:
    """The heads of a connection with a new one in front; the last one makes room."""
    return [new, *known[: MAX_HEADS - 1]]
