"""KnownHeads: the request heads that a connection has seen, by which it recognizes further requests without a parser.

Theory of operation. A client that keeps its connection sends nearly the same head with every request: only the digits
of Content-Length differ. The first such request goes through httptools. If it is plain, its bytes before and after
these digits are kept, together with the validated RequestHead. A later request that begins at a message boundary with
the same bytes, and has other digits at most, means the same to the parser, so the parser need not see it.

A head is plain if the parser saw all of it at once, together with the whole body and nothing else, and it is a POST of
HTTP/1.1 with exactly one Content-Length, no Transfer-Encoding, Expect or Upgrade, and no Connection but keep-alive.

A connection keeps the MAX_HEADS heads that it saw last, of at most MAX_HEAD_BYTES each, and forgets them when it ends:
they hold credentials, which are verified for every request all the same (see RequestHead).
"""

import re
from typing import NamedTuple

from toolhall.auth.authenticator import Scope
from toolhall.http.request import RequestHead
from toolhall.server.context import HeadApp

MAX_HEADS = 16
MAX_UNUSED_HEADS = 64  # learned in a row and never seen again: such a client sends something new each time
MAX_HEAD_BYTES = 4 * 1024
_HEAD_END = b"\r\n\r\n"
_MAX_DIGITS = 9  # of a length; more would also be slow to read as a number
_CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: ?([1-9][0-9]{0,8})(?=\r\n)", re.IGNORECASE)
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"te", b"trailer"})
_ZERO = ord("0")


class HeadTemplate(NamedTuple):
    """The bytes of a head before and after the digits of Content-Length."""

    before: bytes
    after: bytes  # ends with the empty line

    @classmethod
    def of(cls, data: bytes, scope: Scope, body: bytes | bytearray) -> "HeadTemplate | None":
        """The template of a request that the parser has read from exactly this data; None if it is not plain."""
        names = [name for name, value in scope["headers"] if name != b"connection" or value.lower() != b"keep-alive"]
        if names.count(b"content-length") != 1 or b"connection" in names or not _NOT_PLAIN.isdisjoint(names):
            return None
        end = data.find(_HEAD_END) + len(_HEAD_END)
        if not len(_HEAD_END) <= end <= MAX_HEAD_BYTES or scope["method"] != "POST" or scope["http_version"] != "1.1":
            return None
        found = list(_CONTENT_LENGTH.finditer(data, 0, end))
        if len(found) != 1 or int(found[0][1]) != len(data) - end or data[end:] != body:
            return None
        return cls(data[: found[0].start(1)], data[found[0].end(1) : end])

    def find_body(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins and where it ends, if the data begins with a whole head of this template; else None.

        The data may end before the body does, or go on behind it.
        """
        before, after = self
        if not data.startswith(before):
            return None
        start = len(before)
        digits_end = data.find(b"\r", start, start + _MAX_DIGITS + 1)
        if digits_end <= start or not data.startswith(after, digits_end):
            return None
        digits = data[start:digits_end]
        if not digits.isdigit() or digits[0] == _ZERO:
            return None
        end = digits_end + len(after)
        return end, end + int(digits)


class KnownHead:
    """A template, and the head that it stands for."""

    __slots__ = ("_found", "_latest", "head", "template")

    def __init__(self, template: HeadTemplate, head: RequestHead) -> None:
        self.template = template
        self.head = head
        self._latest = template.before + b"0" + template.after  # no request has it: no length is 0
        self._found = (0, 0)

    def find_body(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins and ends, as HeadTemplate says; the digits of the latest request are found faster."""
        if data.startswith(self._latest):
            return self._found
        found = self.template.find_body(data)
        if found is not None:
            self._latest, self._found = data[: found[0]], found
        return found


class KnownHeads:
    """The heads that a connection saw last."""

    __slots__ = ("heads", "unused")

    def __init__(self) -> None:
        self.heads: list[KnownHead] = []  # the one that was seen last is first
        self.unused = 0  # learned since one was recognized

    def learn(self, data: bytes, scope: Scope, body: bytes | bytearray, app: HeadApp) -> RequestHead | None:
        """Keep the head of a request that the parser has read from exactly this data, and return it; None if not plain.

        A head that is known already is returned as it is, so that it is kept only once.
        """
        if self.unused >= MAX_UNUSED_HEADS:
            return None
        template = HeadTemplate.of(data, scope, body)
        if template is None:
            return None
        known = next((each for each in self.heads if each.template == template), None)
        if known is None:
            head = app.prepare(scope)
            if head is None:
                return None
            known = KnownHead(template, head)
            self.unused += 1
        elif len(body) > known.head.max_body:
            return None
        self._move_to_front(known)
        return known.head

    def mark_used(self, known: KnownHead) -> None:
        """Note that a request was recognized by this head."""
        self.unused = 0
        self._move_to_front(known)

    def _move_to_front(self, known: KnownHead) -> None:
        """Put this head first; the one that was not seen for longest makes room."""
        self.heads = [known, *[each for each in self.heads if each is not known][: MAX_HEADS - 1]]


class PartialRequest:
    """A request with a known head, whose body has not arrived completely."""

    __slots__ = ("body_start", "data", "end", "known")

    def __init__(self, known: KnownHead, data: bytes, body_start: int, end: int) -> None:
        self.known = known
        self.data = data
        self.body_start = body_start
        self.end = end  # of the whole request
