"""`ResponseHead`: the head of a server's response, recognized by its bytes when it comes again.

Theory of operation
-------------------
A server sends the same head with nearly every response; only the digits of Content-Length differ, and the Date
once a second. A response whose bytes are those of a known head, but for these digits, means what the parser said of the
first one, so it need not be parsed again. With a new Date it is parsed, and its head becomes the known one.

Only plain heads are kept: status 200 of HTTP/1.1 on a connection that stays open, one Content-Length without leading
zeros, no Transfer-Encoding, one JSON text as the body. And only if the parser was given the whole response in one piece
and nothing else: its body is then exactly what follows the first blank line, so the head ends where the parser saw it
end. A recognized response has to come in one piece as well, with as many bytes behind the head as the digits say: its
length alone says which digits these must be. Everything else is parsed.
"""

from collections.abc import Mapping

MAX_HEAD_BYTES = 4 * 1024  # of a head that is kept
MAX_LENGTH_DIGITS = 10
_MAX_HEADS = 64  # of different lengths
_BLANK_LINE = b"\r\n\r\n"
_LENGTH_LINE = b"\r\ncontent-length:"


class ResponseHead:
    """A known head: the bytes before and after the digits of its Content-Length, and its headers if they are kept."""

    __slots__ = ("_after", "_before", "_heads", "headers")

    def __init__(self, before: bytes, after: bytes, headers: Mapping[bytes, bytes]) -> None:
        self.headers = headers
        self._before = before
        self._after = after
        self._heads: dict[int, bytes] = {}  # with their digits, by the length of the response

    @classmethod
    def of(cls, response: bytes, body: bytes, headers: Mapping[bytes, bytes]) -> "ResponseHead | None":
        """The head of a whole response, which the parser found plain, with this body; None if it cannot be kept."""
        end = response.find(_BLANK_LINE) + len(_BLANK_LINE)
        if end > MAX_HEAD_BYTES or response[end:] != body:
            return None
        line = response[:end].lower().find(_LENGTH_LINE)
        if line < 0:
            return None
        start = line + len(_LENGTH_LINE)
        digits = b"%d" % len(body)
        start += response.startswith(b" ", start)
        after = start + len(digits)
        if response[start:after] != digits or not response.startswith(b"\r\n", after):
            return None
        return cls(response[:start], response[after:end], headers)

    def body_of(self, response: bytes) -> bytes | None:
        """The body of a response with this head; None if the parser has to look at it."""
        head = self._heads.get(len(response)) or self._head_for(len(response))
        return response[len(head) :] if head and response.startswith(head) else None

    def _head_for(self, length: int) -> bytes | None:
        """The only head that a whole response of this length can have; None if there is none."""
        rest = length - len(self._before) - len(self._after)  # for the digits and for the body
        for digits in range(1, min(rest, MAX_LENGTH_DIGITS) + 1):
            stated = b"%d" % (rest - digits)
            if len(stated) == digits:
                if len(self._heads) >= _MAX_HEADS:
                    self._heads.clear()
                self._heads[length] = head = self._before + stated + self._after
                return head
        return None
