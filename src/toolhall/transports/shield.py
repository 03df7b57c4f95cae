"""Turns away what no dialect should see: foreign hosts and origins, doubled headers, bodies too large or not JSON."""

import re

from toolhall.transports.asgi import Headers, Receive, Scope

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://((\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?)", re.IGNORECASE)
# A second one of these would let two readers of the same request disagree.
_SINGLE = (b"host", b"origin", b"authorization", b"content-type", b"content-length", b"content-encoding", b"mcp-")
_ELSEWHERE = (b"cross-site", b"same-site")  # another port of this machine is of the same site
_READING = ("GET", "HEAD")
_MOST_REMEMBERED = 64
MOST_HEADERS = 100


class Turned(Exception):
    """A request that goes no further; the message says what to change."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class Shield:
    """Checks what every request must pass before its body is read."""

    def __init__(self, hosts: frozenset[str] = LOOPBACK_HOSTS, *, max_body: int = 1024 * 1024) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = self._hosts - LOOPBACK_HOSTS  # any program of this machine can serve pages at one of its ports
        self._max_body = max_body
        self._good_hosts: set[bytes] = set()

    def headers(self, scope: Scope) -> Headers:
        """The headers of a request that may be served."""
        headers = dict(scope["headers"])
        if len(scope["headers"]) > MOST_HEADERS:
            raise Turned(431, f"there are more than {MOST_HEADERS} headers; send fewer")
        if len(headers) != len(scope["headers"]):
            headers = _joined(scope["headers"])
        host = headers.get(b"host", b"")
        if host not in self._good_hosts:
            self._check_host(host)
        if b"origin" in headers or headers.get(b"sec-fetch-site") in _ELSEWHERE:
            self._check_page(scope, headers)
        return headers

    async def body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body, or Turned before more than the limit has been read."""
        kind = headers.get(b"content-type", b"")
        if kind != b"application/json" and kind.split(b";")[0].strip().lower() != b"application/json":
            raise Turned(415, "send the body as Content-Type: application/json")
        if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
            raise Turned(415, "send the body without Content-Encoding")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self._max_body:
            raise Turned(413, f"the body is larger than {self._max_body} bytes")
        message = await receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            if len(body) > self._max_body:
                break
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Turned(400, "the body did not arrive")
            body += message.get("body", b"")
        if len(body) > self._max_body:
            raise Turned(413, f"the body is larger than {self._max_body} bytes")
        return body

    def _check_host(self, host: bytes) -> None:
        found = _AUTHORITY.fullmatch(host.decode("latin-1"))
        if not found:
            raise Turned(400, "the Host header is missing or malformed")
        if found[1].lower() not in self._hosts:
            raise Turned(
                421, f"this server does not answer for {found[1][:64]!r}; allow it with allowed_hosts in toolhall.toml"
            )
        if len(self._good_hosts) < _MOST_REMEMBERED:
            self._good_hosts.add(host)

    def _check_page(self, scope: Scope, headers: Headers) -> None:
        """A browser sends this: for a page of our own, for one that is listed, or because somebody follows a link."""
        elsewhere = headers.get(b"sec-fetch-site") in _ELSEWHERE
        if b"origin" in headers:
            found = _ORIGIN.fullmatch(headers[b"origin"].decode("latin-1").lower())
            if found and found[1] == headers[b"host"].decode("latin-1").lower() and not elsewhere:
                return
            if found and not self._origins.isdisjoint((found[1], found[2])):
                return
        elif scope.get("method") in _READING and headers.get(b"sec-fetch-mode") == b"navigate":
            return
        raise Turned(
            403, "pages of this Origin may not call here; list it as HOST:PORT in allowed_hosts in toolhall.toml"
        )


def _joined(pairs: list[tuple[bytes, bytes]]) -> Headers:
    headers: Headers = {}
    for name, value in pairs:
        if name in headers and name.startswith(_SINGLE):
            raise Turned(400, f"the header {name.decode('latin-1')[:64]} is there twice")
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers
