"""RequestParser: parses the requests of a connection with httptools and makes an ASGI scope of each head."""

from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from toolhall.auth.authenticator import Scope

_ASGI = {"version": "3.0", "spec_version": "2.3"}


class ParsedRequest(Protocol):
    """A request whose head is complete; takes its body."""

    def feed_body(self, data: bytes) -> None:
        """Take a part of the body."""
        ...

    def end_body(self) -> None:
        """Note that the body is complete."""
        ...


class RequestHandler(Protocol):
    """Gets the requests in their order."""

    def on_request(self, scope: Scope, *, keep_alive: bool, expects_continue: bool) -> ParsedRequest:
        """Take a request whose head is complete."""
        ...


class MalformedRequest(Exception):
    """What was received is no HTTP request."""


class RequestParser:
    """Feeds received bytes to httptools, and requests to a handler."""

    url = b""  # of the latest request
    method = b""
    has_begun = False  # a byte of the first request was parsed
    is_reading_headers = False
    is_at_boundary = True  # the whole of every request that has begun was parsed
    wants_websocket = False  # the latest request is to be upgraded, and no request of HTTP any more
    _expects_continue = False
    _request: ParsedRequest | None = None

    def __init__(
        self, handler: RequestHandler, client: tuple[str, int] | None, server: tuple[str, int | None] | None
    ) -> None:
        self.headers: list[tuple[bytes, bytes]] = []  # of the latest request
        self._handler: RequestHandler = handler
        self._client = client
        self._server = server
        self._parser: Any = httptools.HttpRequestParser(self)
        # Without this, bytes behind a request with `Connection: close` would be an error before it is answered.
        self._parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def feed(self, data: bytes) -> None:
        """Parse this; raises MalformedRequest. What follows the head of an upgrade in the same read is dropped."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # `wants_websocket`, or a protocol that is not supported: then the request is one of HTTP
        except httptools.HttpParserError:
            raise MalformedRequest from None

    def close(self) -> None:
        """Break the reference cycles with httptools and the handler."""
        self._parser = self._request = None
        del self._handler

    # Called by httptools. What these raise becomes an HttpParserError.

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.has_begun = self.is_reading_headers = True
        self.is_at_boundary = self._expects_continue = False
        self.url = b""
        self.headers = []

    def on_url(self, url: bytes) -> None:
        """A part of the request target."""
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header."""
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        """The end of a head."""
        parser = self._parser
        self.is_reading_headers = False
        self.method = parser.get_method()
        self.wants_websocket = parser.should_upgrade() and _names_websocket(self.headers)
        if self.wants_websocket:
            return
        version: str = parser.get_http_version()
        scope: Scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "method": self.method.decode("ascii"),
            "scheme": "http",
            "server": self._server,
            "client": self._client,
            "root_path": "",
            "headers": self.headers,
        }
        _set_path(scope, self.url)
        self._request = self._handler.on_request(
            scope,
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            expects_continue=self._expects_continue,
        )

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        if self._request is not None:
            self._request.feed_body(body)

    def on_message_complete(self) -> None:
        """The last byte of a request."""
        self.is_at_boundary = True
        if self._request is not None:
            self._request.end_body()
            self._request = None


def _names_websocket(headers: list[tuple[bytes, bytes]]) -> bool:
    connection, upgrade = b"", b""
    for name, value in headers:
        if name == b"connection":
            connection = value.lower()
        elif name == b"upgrade":
            upgrade = value.lower()
    return upgrade == b"websocket" and b"upgrade" in [token.strip() for token in connection.split(b",")]


def _set_path(scope: Scope, url: bytes) -> None:
    """Set `path` (decoded), `raw_path` and `query_string`; a plain path, the usual case, needs no URL parser."""
    if b"%" in url or b"?" in url or b"#" in url or not url.startswith(b"/"):
        parts = httptools.parse_url(url)
        raw, scope["query_string"] = parts.path, parts.query or b""
    else:
        raw, scope["query_string"] = url, b""
    path = raw.decode("ascii")
    scope["path"] = unquote(path) if "%" in path else path
    scope["raw_path"] = raw
