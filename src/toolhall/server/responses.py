"""Encoded parts of HTTP/1.1 responses: status lines, the Date header, complete error responses.

ResponseHeads keeps what most responses of a server have in common, BusyResponses the 503 of a server without free
request slots.
"""

from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus

from toolhall.http.errors import busy_response
from toolhall.model.messages import WireResponse

_MAX_CACHED_PATHS = 64
_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_JSON_HEADERS = b"content-type: application/json\r\ncontent-length: "


def status_line(status: int) -> bytes:
    """The first line of a response; a status without a name is sent without one."""
    try:
        phrase = HTTPStatus(status).phrase.encode()
    except ValueError:
        phrase = b""
    return b"HTTP/1.1 %d %s\r\n" % (status, phrase)


def encode_headers(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The lines of these headers."""
    return b"".join([b"%s: %s\r\n" % pair for pair in headers])


def encode_response(response: WireResponse, *extra: tuple[bytes, bytes]) -> bytes:
    """A complete HTTP/1.1 response."""
    headers = (_JSON, (b"content-length", b"%d" % len(response.body)), *response.headers, *extra)
    return b"%s%s\r\n%s" % (status_line(response.status), encode_headers(headers), response.body)


def _error_response(status: int, code: str, message: str) -> bytes:
    return encode_response(
        WireResponse(b'{"error":{"code":"%s","message":"%s"}}' % (code.encode(), message.encode()), status), _CLOSE
    )


MALFORMED_RESPONSE = _error_response(400, "malformed", "this is no valid HTTP request; the connection is closed")
REQUEST_TIMEOUT_RESPONSE = _error_response(
    408, "too_slow", "the request did not arrive in time; send it again, and faster"
)
HEADERS_TOO_LARGE_RESPONSE = _error_response(431, "too_large", "the headers are larger than 64 kB; send less")
TOO_MANY_CONNECTIONS_RESPONSE = encode_response(busy_response("/"), _CLOSE)
CONTINUE_RESPONSE = b"HTTP/1.1 100 Continue\r\n\r\n"


class ResponseHeads:
    """The beginnings of responses with their Date header, which `set_date` renews once a second."""

    __slots__ = ("_status_lines", "date", "json")

    def __init__(self) -> None:
        self.date = b""  # the header as a line
        self._status_lines: dict[int, bytes] = {}
        self.json = JsonHeads(self)

    def set_date(self, seconds: float) -> None:
        """Date the responses from now on; seconds since the epoch."""
        date = b"date: %s\r\n" % formatdate(seconds, usegmt=True).encode()
        if date != self.date:
            self.date = date
            self._status_lines.clear()
            self.json.clear()

    def start(self, status: int) -> bytes:
        """The status line and the Date header."""
        start = self._status_lines.get(status)
        if start is None:
            start = self._status_lines[status] = status_line(status) + self.date
        return start


class JsonHeads(dict[int, bytes]):
    """The heads of JSON responses by status, up to the value of their content length; each is made on first use."""

    __slots__ = ("_heads",)

    def __init__(self, heads: ResponseHeads) -> None:
        super().__init__()
        self._heads = heads

    def __missing__(self, status: int) -> bytes:
        """Make the head of a status."""
        head = self[status] = self._heads.start(status) + _JSON_HEADERS
        return head


class BusyResponses:
    """Encoded 503 responses for requests that find no free slot, cached by path."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, bool], bytes] = {}

    def for_path(self, path: str, *, keep_alive: bool) -> bytes:
        """The complete response in the dialect of this path."""
        response = self._cache.get((path, keep_alive))
        if response is None:
            if len(self._cache) >= _MAX_CACHED_PATHS:  # clients choose the paths
                self._cache.clear()
            response = self._cache[path, keep_alive] = encode_response(
                busy_response(path), *(() if keep_alive else (_CLOSE,))
            )
        return response
