"""Replies that a connection writes by itself, as the bytes of HTTP."""

from http import HTTPStatus

from toolhall.model.exchange import Wire
from toolhall.transports.busy import busy

_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_MOST_KEPT = 64


def http_of(wire: Wire, *extra: tuple[bytes, bytes]) -> bytes:
    """A whole reply."""
    headers = (_JSON, (b"content-length", b"%d" % len(wire.body)), *wire.headers, *extra)
    status = HTTPStatus(wire.status)
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), lines, wire.body)


def _refusal(status: int, code: str, message: str) -> bytes:
    return http_of(Wire(b'{"error":{"code":"%s","message":"%s"}}' % (code.encode(), message.encode()), status), _CLOSE)


TOO_SLOW = _refusal(408, "too_slow", "the request did not arrive in time; send it again, and faster")
TOO_LARGE = _refusal(431, "too_large", "the headers are larger than 64 kB; send less")
CROWDED = http_of(busy("/"), _CLOSE)


class Refusals:
    """What is said when every place is taken, written once for every path that is asked for."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, bool], bytes] = {}

    def of(self, path: str, *, keep_alive: bool) -> bytes:
        """The whole reply."""
        said = self._kept.get((path, keep_alive))
        if said is None:
            if len(self._kept) >= _MOST_KEPT:  # paths are anybody's
                self._kept.clear()
            said = self._kept[path, keep_alive] = http_of(busy(path), *(() if keep_alive else (_CLOSE,)))
        return said
