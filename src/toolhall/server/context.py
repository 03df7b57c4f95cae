"""Configures uvicorn: ServerContext shared by all connections, ServerConfig, AccessLog, pre-encoded error responses."""

import ipaddress
import logging
import sys
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol

import msgspec
import uvicorn

from toolhall.auth.authenticator import AsgiMessage, Receive, Scope, Send
from toolhall.http.concurrency import ConcurrencyLimiter
from toolhall.http.errors import busy_response
from toolhall.http.request import SERVER_EXTENSION, ServerExtension
from toolhall.model.messages import WireResponse

MIN_PROGRESS_BYTES = 64 * 1024  # taken within one `stall`: whoever reads at least so fast is slow, and not stuck


class ConnectionTimeouts(msgspec.Struct, frozen=True):
    """Seconds, counted from the first look that finds a connection waiting for the same thing."""

    first_byte: float = 5.0  # from the connection to the first byte
    headers: float = 10.0  # for the request line and the headers, however they trickle in
    body: float = 30.0
    keep_alive: float = 5.0  # between two requests
    write_stall: float = 30.0  # while what was written is not read
    close: float = 5.0  # from our closing of a WebSocket until its client has answered


class TimeoutTracker:
    """What one connection was last seen waiting for, and since when."""

    __slots__ = ("_request", "_since", "_state", "_unread")

    def __init__(self) -> None:
        self._state = ""
        self._request: object = None
        self._since = 0.0
        self._unread = 0

    def start(self, state: str, request: object, now: float, unread: int = 0) -> bool:
        """Note it; False if it waits for the same thing as before, of the same request."""
        if state == self._state and request is self._request:
            return False
        self._state, self._request, self._since, self._unread = state, request, now, unread
        return True

    def has_exceeded(self, seconds: float, now: float) -> bool:
        """Whether that has lasted so long."""
        return now - self._since >= seconds

    def is_stalled(self, seconds: float, unread: int, now: float) -> bool:
        """Whether nearly nothing of what was written has been read for so long."""
        if not self.has_exceeded(seconds, now):
            return False
        if self._unread - unread >= MIN_PROGRESS_BYTES:
            self._since, self._unread = now, unread
            return False
        return True


if sys.platform != "win32":
    import resource
MAX_CONNECTIONS_PER_ADDRESS = 256
MAX_CONNECTIONS = 10_000
_RESERVED_FILES = 256  # descriptors that the hall needs for itself: records, the store, its children's pipes


class ConnectionLimiter:
    """Counts who is in; an address that has too many connections keeps only its own callers out.

    This machine's own address is not limited: everybody behind a proxy here would share it.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS, limit_per_address: int = MAX_CONNECTIONS_PER_ADDRESS) -> None:
        self._limit = limit
        self._limit_per_address = limit_per_address
        self.open_connections = 0
        self._by_address: dict[str, int] = {}

    def acquire(self, address: str | None) -> bool:
        """Whether one more may come in from there; a Unix socket has no address."""
        if self.open_connections >= self._limit:
            return False
        if address is not None and not _is_loopback_address(address):
            there = self._by_address.get(address, 0)
            if there >= self._limit_per_address:
                return False
            self._by_address[address] = there + 1
        self.open_connections += 1
        return True

    @property
    def tracked_addresses(self) -> int:
        """Of how many addresses something is remembered."""
        return len(self._by_address)

    def release(self, address: str | None) -> None:
        """One that came in is gone."""
        self.open_connections -= 1
        left = self._by_address.pop(address or "", 0) - 1
        if address is not None and left > 0:
            self._by_address[address] = left


def raise_connection_limit() -> int:
    """How many connections this process can hold; it asks the system for as many files as that takes."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_CONNECTIONS + _RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(1, min(MAX_CONNECTIONS, soft - _RESERVED_FILES))


def _is_loopback_address(address: str) -> bool:
    return address == "127.0.0.1" or ipaddress.ip_address(address.partition("%")[0]).is_loopback


_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")
_MAX_CACHED_PATHS = 64


def encode_response(response: WireResponse, *extra: tuple[bytes, bytes]) -> bytes:
    """A whole reply."""
    headers = (_JSON, (b"content-length", b"%d" % len(response.body)), *response.headers, *extra)
    status = HTTPStatus(response.status)
    lines = b"".join(b"%s: %s\r\n" % pair for pair in headers)
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), lines, response.body)


def _error_response(status: int, code: str, message: str) -> bytes:
    return encode_response(
        WireResponse(b'{"error":{"code":"%s","message":"%s"}}' % (code.encode(), message.encode()), status), _CLOSE
    )


REQUEST_TIMEOUT_RESPONSE = _error_response(
    408, "too_slow", "the request did not arrive in time; send it again, and faster"
)
HEADERS_TOO_LARGE_RESPONSE = _error_response(431, "too_large", "the headers are larger than 64 kB; send less")
TOO_MANY_CONNECTIONS_RESPONSE = encode_response(busy_response("/"), _CLOSE)


class BusyResponses:
    """What is said when every place is taken, written once for every path that is asked for."""

    def __init__(self) -> None:
        self._cache: dict[tuple[str, bool], bytes] = {}

    def for_path(self, path: str, *, keep_alive: bool) -> bytes:
        """The whole reply."""
        said = self._cache.get((path, keep_alive))
        if said is None:
            if len(self._cache) >= _MAX_CACHED_PATHS:  # paths are anybody's
                self._cache.clear()
            said = self._cache[path, keep_alive] = encode_response(
                busy_response(path), *(() if keep_alive else (_CLOSE,))
            )
        return said


_log = logging.getLogger("toolhall.access")


class AccessLog:
    """Wraps an ASGI application; it logs address, method, path, status and milliseconds once a reply is over.

    The query is left out, because it may hold what only the caller should know. A WebSocket is logged when it ends.
    """

    def __init__(self, app: Callable[[Scope, Receive, Send], Any]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        status, started = 0, time.perf_counter()

        async def observed(message: AsgiMessage) -> None:
            nonlocal status
            status = message.get("status", 101 if message["type"] == "websocket.accept" else status)
            await send(message)

        def answered(sent: int) -> None:
            nonlocal status
            status = sent

        own: ServerExtension | None = scope.get(SERVER_EXTENSION)
        if own is not None:
            scope[SERVER_EXTENSION] = _StatusObserver(own, answered)
        try:
            await self._app(scope, receive, observed)
        finally:
            client, elapsed = scope.get("client"), (time.perf_counter() - started) * 1000
            said = (client[0] if client else "-", scope.get("method", "GET"), scope["path"], status or "-", elapsed)
            _log.info("%s %s %s %s %.1f ms", *said)


class _StatusObserver:
    """Our own server's side of a request, which also tells the status of a reply that goes out whole."""

    def __init__(self, extension: ServerExtension, on_status: Callable[[int], None]) -> None:
        self._extension = extension
        self._on_status = on_status

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extension, name)

    def send_complete(self, status: int, header_lines: bytes, body: bytes) -> bool:
        """Send a whole reply, if the server can; its status is known then."""
        sent = self._extension.send_complete(status, header_lines, body)
        if sent:
            self._on_status(status)
        return sent


SHUTDOWN_GRACE_SECONDS = 25
_DEFAULT_TIMEOUTS = ConnectionTimeouts()


class AsgiApp(Protocol):
    """Answers requests, as many at once as it admits."""

    @property
    def limiter(self) -> ConcurrencyLimiter:
        """What bounds them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        ...


class SizeLimits(Protocol):
    """Settings."""

    @property
    def max_body_bytes(self) -> int:
        """The largest message that is read."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """The largest frame of a WebSocket that is read."""
        ...

    @property
    def access_log(self) -> bool:
        """Whether every request is logged."""
        ...


class ServedApp(Protocol):
    """What a server is there for: a hall, or a tool server."""

    @property
    def http(self) -> AsgiApp:
        """What answers."""
        ...

    @property
    def config(self) -> SizeLimits:
        """Its settings."""
        ...


class ServerContext:
    """Made once per server."""

    def __init__(
        self,
        served: ServedApp,
        connections: ConnectionLimiter | None = None,
        timeouts: ConnectionTimeouts = _DEFAULT_TIMEOUTS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.connections = connections or ConnectionLimiter(raise_connection_limit())
        self.timeouts = timeouts
        self.clock = clock
        self.limiter = served.http.limiter
        self.busy_responses = BusyResponses()


class ServerConfig(uvicorn.Config):
    """Uvicorn's settings; the connections find the premises in them."""

    def __init__(
        self, served: ServedApp, context: ServerContext, http_protocol: type, websocket_protocol: type
    ) -> None:
        self.context = context
        super().__init__(
            AccessLog(served.http) if served.config.access_log else served.http,  # a hall itself would only hand on
            loop="auto",  # uvloop, where there is one
            http=http_protocol,
            ws=websocket_protocol,
            ws_max_size=served.config.max_frame_bytes,
            ws_per_message_deflate=False,  # what is packed could grow here, and its size could tell of secrets
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # who calls is told by the connection alone
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_GRACE_SECONDS,
        )
