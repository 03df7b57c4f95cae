"""Request validation before any dialect: `RequestValidator` checks hosts, origins, headers and bodies.

It rejects unknown `Host` values (DNS rebinding), cross-origin browser requests, duplicate headers that two parsers
could read differently, and bodies that are too large or not JSON. `RequestRejected` carries the status and a
message that names the fix.
"""

import re
from collections.abc import Collection, Mapping
from urllib.parse import quote, unquote

from toolhall.auth.authenticator import AsgiApp, Headers, Receive, Scope

LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]"})
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?", re.IGNORECASE)
_ORIGIN = re.compile(r"https?://((\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::\d{1,5})?)", re.IGNORECASE)
# Two of these would let two readers of the same request disagree.
_UNIQUE_HEADERS = (
    b"host",
    b"origin",
    b"authorization",
    b"content-type",
    b"content-length",
    b"content-encoding",
    b"mcp-",
)
CROSS_SITE = (b"cross-site", b"same-site")  # `same-site`: another port of this machine
_SAFE_METHODS = ("GET", "HEAD")
_MAX_CACHED_HOSTS = 64
MAX_HEADERS = 100
_BODY_HEADERS = {b"content-type", b"content-encoding", b"transfer-encoding"}
RESOURCE_METADATA_PATH = "/.well-known/oauth-protected-resource"
# Where clients connect, by the names that people know; anybody may learn of these.
ENDPOINTS: Mapping[str, str] = {
    "MCP": "/mcp",
    "OXP": "/oxp",
    "hub": "/hub",
    "machine": "/machine",
    "REST": "/tools",
    "health": "/health",
}
_ROUTE_PATH = re.compile(r"(/[^/?#%]+)+")


class RequestRejected(Exception):
    """The request is rejected with this status; the message says what to change."""

    def __init__(self, status: int, message: str) -> None:
        self.status = status
        self.message = message
        super().__init__(message)


class RequestValidator:
    """Checks headers and bodies of all requests before any dialect reads them."""

    def __init__(self, hosts: frozenset[str] = LOOPBACK_HOSTS, *, max_body: int = 1024 * 1024) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)
        self._origins = self._hosts - LOOPBACK_HOSTS  # any local program can serve pages at a loopback port
        self.max_body = max_body
        self._known_hosts: set[bytes] = set()

    def validate_headers(self, scope: Scope) -> Headers:
        """Return the headers as a dict; RequestRejected for too many, duplicates, or a foreign host or origin."""
        headers = dict(scope["headers"])
        if len(scope["headers"]) > MAX_HEADERS:
            raise RequestRejected(431, f"there are more than {MAX_HEADERS} headers; send fewer")
        if len(headers) != len(scope["headers"]):
            headers = _merge_headers(scope["headers"])
        host = headers.get(b"host", b"")
        if host not in self._known_hosts:
            self._check_host(host)
        if b"origin" in headers or headers.get(b"sec-fetch-site") in CROSS_SITE:
            self._check_origin(scope, headers)
        return headers

    def validate_body_headers(self, headers: Headers) -> None:
        """Check what the headers say of the body; RequestRejected unless it is JSON, not encoded, within the limit."""
        content_type = headers.get(b"content-type", b"")
        if content_type != b"application/json" and content_type.split(b";")[0].strip().lower() != b"application/json":
            raise RequestRejected(415, "send the body as Content-Type: application/json")
        if b"content-encoding" in headers and headers[b"content-encoding"].lower() != b"identity":
            raise RequestRejected(415, "send the body without Content-Encoding")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.max_body:
            raise RequestRejected(413, f"the body is larger than {self.max_body} bytes")

    async def read_body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole JSON body; RequestRejected before more than the limit is read."""
        self.validate_body_headers(headers)
        message = await receive()
        body: bytes = message.get("body", b"")
        while message.get("more_body"):
            if len(body) > self.max_body:
                break
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RequestRejected(400, "the body did not arrive")
            body += message.get("body", b"")
        if len(body) > self.max_body:
            raise RequestRejected(413, f"the body is larger than {self.max_body} bytes")
        return body

    def _check_host(self, host: bytes) -> None:
        match = _AUTHORITY.fullmatch(host.decode("latin-1"))
        if not match:
            raise RequestRejected(400, "the Host header is missing or malformed")
        if match[1].lower() not in self._hosts:
            raise RequestRejected(
                421, f"this server does not answer for {match[1][:64]!r}; allow it with allowed_hosts in toolhall.toml"
            )
        if len(self._known_hosts) < _MAX_CACHED_HOSTS:
            self._known_hosts.add(host)

    def _check_origin(self, scope: Scope, headers: Headers) -> None:
        """Accept own pages, listed origins, and navigation by a link; reject other requests of browsers."""
        is_cross_site = headers.get(b"sec-fetch-site") in CROSS_SITE
        if b"origin" in headers:
            match = _ORIGIN.fullmatch(headers[b"origin"].decode("latin-1").lower())
            if match and match[1] == headers[b"host"].decode("latin-1").lower() and not is_cross_site:
                return
            if match and not self._origins.isdisjoint((match[1], match[2])):
                return
        elif scope.get("method") in _SAFE_METHODS and headers.get(b"sec-fetch-mode") == b"navigate":
            return
        raise RequestRejected(
            403, "pages of this Origin may not call here; list it as HOST:PORT in allowed_hosts in toolhall.toml"
        )


def _merge_headers(pairs: list[tuple[bytes, bytes]]) -> Headers:
    headers: Headers = {}
    for name, value in pairs:
        if name in headers and name.startswith(_UNIQUE_HEADERS):
            raise RequestRejected(400, f"the header {name.decode('latin-1')[:64]} is there twice")
        headers[name] = headers[name] + b", " + value if name in headers else value
    return headers


def strip_root_path(scope: Scope, root: str) -> Scope:
    """Return the scope as the hall sees it: its own path, and in `root_path` the prefix of its links."""
    root = root.rstrip("/")
    raw, inner = scope.get("raw_path") or b"", root
    outer = scope.get("app_root_path", "").rstrip("/")  # Starlette's: of the application, without the mount
    if outer and not f"{scope['path']}/".startswith(f"{root}/"):
        inner = root.removeprefix(outer)  # a proxy stripped it, and the server did not restore it
    path = _strip_prefix(scope["path"], inner)
    before, mark, after = root.partition(RESOURCE_METADATA_PATH)
    if mark and (not after or after.startswith("/")):
        return {
            **scope,
            "path": RESOURCE_METADATA_PATH + ("" if path == "/" else path),
            "raw_path": b"",
            "root_path": before + after,
        }
    for prefix in (quote(inner).encode(), inner.encode("utf-8", "replace")):
        if raw.startswith(prefix + b"/"):
            raw = raw[len(prefix) :]
            break
    else:
        raw = raw if unquote(raw.decode("latin-1")) == path else b""
    return {**scope, "path": path, "raw_path": raw, "root_path": root}


def base_url(scope: Scope, headers: Headers) -> str:
    """Return the URL by which the client addressed the hall; RequestValidator has checked the host."""
    origin = f"{scope.get('scheme', 'http')}://{headers.get(b'host', b'').decode('latin-1')}"
    return origin + quote(scope.get("root_path", ""))


def has_body(headers: Headers) -> bool:
    """Whether the headers announce a body that is not empty."""
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


def omits_body(headers: Headers) -> bool:
    """Whether there is no body and no header that describes one; only then may Content-Type be missing."""
    return not headers.keys() & _BODY_HEADERS and headers.get(b"content-length", b"0") == b"0"


def _strip_prefix(path: str, root: str) -> str:
    if path == root:
        return "/"
    return path[len(root) :] if path.startswith(f"{root}/") else path


class MountedApps:
    """The operator's own ASGI applications, each at a path and everything below it."""

    def __init__(self, routes: Mapping[str, AsgiApp], reserved_paths: Collection[str]) -> None:
        for path in routes:
            if not _ROUTE_PATH.fullmatch(path):
                raise ValueError(f"routes: {path!r} is no path; write it like '/webhook', without a slash at its end")
            taken = next((own for own in reserved_paths if _overlaps(path, own.rstrip("/"))), None)
            if taken is not None:
                raise ValueError(f"routes: {path!r} is in the way of the hall's own {taken}; choose another path")
        self._apps = dict(sorted(routes.items(), key=lambda route: -len(route[0])))

    def find(self, scope: Scope) -> tuple[AsgiApp, Scope] | None:
        """Return the application of this path with the scope as ASGI mounts it; None if there is none."""
        root = scope.get("root_path", "").rstrip("/")
        path = strip_root_path(scope, root)["path"] if root else scope["path"]
        for route, app in self._apps.items():
            if path == route or path.startswith(f"{route}/"):
                return app, {**scope, "path": root + path, "root_path": root + route}
        return None


def _overlaps(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
