"""RequestParser: parses the requests of a connection with httptools and makes an ASGI scope of each head.

Upgrades. httptools takes every request with `Upgrade` for the last one of HTTP on its connection, and one without a
body, whatever its Content-Length says. That holds for WebSockets. Any other protocol (`h2c`, which some clients offer
with every request) is not supported here, so the request is one of HTTP, and its body must not be read as the next
request: such a head is given to a new parser without the offer, followed by the bytes behind it.
"""

from typing import Any, Protocol
from urllib.parse import unquote

import httptools

from toolhall.auth.authenticator import Scope
from toolhall.server.responses import encode_headers

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
    behind_upgrade = b""  # what followed the head of that request in the same read
    is_rewritten = False  # the latest data held an offer of another protocol, which was left out
    _expects_continue = False
    _request: ParsedRequest | None = None

    def __init__(
        self, handler: RequestHandler, client: tuple[str, int] | None, server: tuple[str, int | None] | None
    ) -> None:
        self.headers: list[tuple[bytes, bytes]] = []  # of the latest request
        self._handler: RequestHandler = handler
        self._client = client
        self._server = server
        self._parser: Any = self._new_parser()

    def _new_parser(self) -> httptools.HttpRequestParser:
        parser = httptools.HttpRequestParser(self)
        # Without this, bytes behind a request with `Connection: close` would be an error before it is answered.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    def feed(self, data: bytes) -> None:
        """Parse this; raises MalformedRequest."""
        self.is_rewritten = False
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                behind = data[upgrade.args[0] :]
                if self.wants_websocket:
                    self.behind_upgrade = behind
                    return
                if self.method == b"CONNECT":  # it asks for a tunnel, which is nothing that could be left out
                    raise MalformedRequest from None
                data = self._head_without_upgrade() + behind
                self._parser, self.is_rewritten = self._new_parser(), True
            except httptools.HttpParserError:
                raise MalformedRequest from None
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The latest head without its offer of another protocol."""
        kept: list[tuple[bytes, bytes]] = []
        for name, value in self.headers:
            if name == b"connection":
                tokens = [token.strip() for token in value.split(b",")]
                left = [token for token in tokens if token.lower() not in (b"upgrade", b"http2-settings")]
                if left:
                    kept.append((name, b", ".join(left)))
            elif name not in (b"upgrade", b"http2-settings"):
                kept.append((name, value))
        version = self._parser.get_http_version().encode()
        return b"%s %s HTTP/%s\r\n%s\r\n" % (self.method, self.url, version, encode_headers(kept))

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
        if parser.should_upgrade():
            self.wants_websocket = _wants_websocket(self.headers)
            return  # `feed` goes on with it
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


def _wants_websocket(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether this is the handshake of a WebSocket, which has no body (RFC 6455, 4.1: it is a GET)."""
    connection, upgrade = b"", b""
    for name, value in headers:
        if name == b"connection":
            connection = value.lower()
        elif name == b"upgrade":
            upgrade = value.lower()
        elif name in (b"content-length", b"transfer-encoding"):
            return False
    return upgrade == b"websocket" and b"upgrade" in [token.strip() for token in connection.split(b",")]


def _set_path(scope: Scope, url: bytes) -> None:
    """Set `path` (decoded), `raw_path` and `query_string`; a plain path, the usual case, needs no URL parser.

    Raises ValueError for a target that names another host than the header: two readers would disagree on it.
    """
    if b"%" in url or b"?" in url or b"#" in url or not url.startswith(b"/"):
        parts = httptools.parse_url(url)
        if parts.host:
            authority = b"%s:%d" % (parts.host, parts.port) if parts.port else parts.host
            named = [value.lower() for name, value in scope["headers"] if name == b"host"]
            if named != [authority.lower()]:
                raise ValueError("the target and the Host header name different hosts")
        raw, scope["query_string"] = parts.path, parts.query or b""
    else:
        raw, scope["query_string"] = url, b""
    path = raw.decode("ascii")
    scope["path"] = unquote(path) if "%" in path else path
    scope["raw_path"] = raw
