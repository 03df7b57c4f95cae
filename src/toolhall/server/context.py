"""Configures uvicorn: ServerContext shared by all connections, ServerConfig, AccessLog, pre-encoded error responses.

ConnectionTimeouts and TimeoutTracker end slow clients, ConnectionLimiter bounds open connections in total and per
address, BusyResponses are the 503 of a server without free request slots. `server.protocol` explains how they work
together.
"""

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
from toolhall.http.errors import busy_response
from toolhall.http.request import SERVER_EXTENSION, ServerExtension
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.model.messages import WireResponse

if sys.platform != "win32":
    import resource

MIN_PROGRESS_BYTES = 64 * 1024  # a client that reads at least this much within `write_stall` is slow, not stalled
MAX_CONNECTIONS_PER_ADDRESS = 256
MAX_CONNECTIONS = 10_000
SHUTDOWN_GRACE_SECONDS = 25
_RESERVED_FILES = 256  # file descriptors that the hall itself needs: audit, store, pipes of child processes
_MAX_CACHED_PATHS = 64
_JSON = (b"content-type", b"application/json")
_CLOSE = (b"connection", b"close")

_log = logging.getLogger("toolhall.access")


class ConnectionTimeouts(msgspec.Struct, frozen=True):
    """Seconds that a connection may wait for one thing, counted from the first check that finds it waiting."""

    first_byte: float = 5.0  # from the connection to its first byte
    headers: float = 10.0  # for the whole request line and headers
    body: float = 30.0
    keep_alive: float = 5.0  # between two requests
    write_stall: float = 30.0  # while the client does not read what was written
    close: float = 5.0  # from our close frame of a WebSocket to the client's


class TimeoutTracker:
    """Remembers what a connection was waiting for at the last check, and since when."""

    __slots__ = ("_request", "_since", "_state", "_unread")

    def __init__(self) -> None:
        self._state = ""
        self._request: object = None
        self._since = 0.0
        self._unread = 0

    def start(self, state: str, request: object, now: float, unread: int = 0) -> bool:
        """Start the clock and return True if the state or the request has changed; False if both are the same."""
        if state == self._state and request is self._request:
            return False
        self._state, self._request, self._since, self._unread = state, request, now, unread
        return True

    def has_exceeded(self, seconds: float, now: float) -> bool:
        """Whether the current state has lasted this long."""
        return now - self._since >= seconds

    def is_stalled(self, seconds: float, unread: int, now: float) -> bool:
        """Whether the client has read less than MIN_PROGRESS_BYTES of what was written for this long."""
        if not self.has_exceeded(seconds, now):
            return False
        if self._unread - unread >= MIN_PROGRESS_BYTES:
            self._since, self._unread = now, unread
            return False
        return True


class ConnectionLimiter:
    """Limits open connections in total and per client address.

    Loopback addresses have no limit of their own: all clients behind a proxy on this machine share one.
    """

    def __init__(self, limit: int = MAX_CONNECTIONS, limit_per_address: int = MAX_CONNECTIONS_PER_ADDRESS) -> None:
        self._limit = limit
        self._limit_per_address = limit_per_address
        self.open_connections = 0
        self._by_address: dict[str, int] = {}

    def acquire(self, address: str | None) -> bool:
        """Count a connection and return True, or return False at a limit; a Unix socket has no address."""
        if self.open_connections >= self._limit:
            return False
        if address is not None and not _is_loopback_address(address):
            count = self._by_address.get(address, 0)
            if count >= self._limit_per_address:
                return False
            self._by_address[address] = count + 1
        self.open_connections += 1
        return True

    @property
    def tracked_addresses(self) -> int:
        """How many addresses have open connections."""
        return len(self._by_address)

    def release(self, address: str | None) -> None:
        """Forget a connection that `acquire` counted."""
        self.open_connections -= 1
        left = self._by_address.pop(address or "", 0) - 1
        if address is not None and left > 0:
            self._by_address[address] = left


def raise_connection_limit() -> int:
    """Raise the limit on open files as far as needed and allowed; return how many connections it leaves room for."""
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


def encode_response(response: WireResponse, *extra: tuple[bytes, bytes]) -> bytes:
    """Encode a complete HTTP/1.1 response."""
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


class AccessLog:
    """ASGI middleware that logs address, method, path, status and milliseconds of every request when it ends.

    The query is left out, because it may hold secrets. A WebSocket is logged when it ends.
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

        def set_status(sent: int) -> None:
            nonlocal status
            status = sent

        extension: ServerExtension | None = scope.get(SERVER_EXTENSION)
        if extension is not None:
            scope[SERVER_EXTENSION] = _StatusObserver(extension, set_status)
        try:
            await self._app(scope, receive, observed)
        finally:
            client, elapsed = scope.get("client"), (time.perf_counter() - started) * 1000
            fields = (client[0] if client else "-", scope.get("method", "GET"), scope["path"], status or "-", elapsed)
            _log.info("%s %s %s %s %.1f ms", *fields)


class _StatusObserver:
    """Wraps a ServerExtension to learn the status of responses that are sent with `send_json`."""

    def __init__(self, extension: ServerExtension, on_status: Callable[[int], None]) -> None:
        self._extension = extension
        self._on_status = on_status

    def __getattr__(self, name: str) -> Any:
        return getattr(self._extension, name)

    def send_json(self, status: int, body: bytes) -> bool:
        """Send a complete response if the server can, and report its status."""
        sent = self._extension.send_json(status, body)
        if sent:
            self._on_status(status)
        return sent


_DEFAULT_TIMEOUTS = ConnectionTimeouts()


class AsgiApp(Protocol):
    """An ASGI application with a limit on concurrent requests."""

    @property
    def limiter(self) -> ConcurrencyLimiter:
        """The limiter of concurrent requests, which also rejects them."""
        ...

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection event of ASGI."""
        ...


class SizeLimits(Protocol):
    """The settings of a served application that uvicorn is configured with."""

    @property
    def max_body_bytes(self) -> int:
        """The largest request body in bytes."""
        ...

    @property
    def max_frame_bytes(self) -> int:
        """The largest WebSocket message in bytes."""
        ...

    @property
    def access_log(self) -> bool:
        """Whether every request is logged."""
        ...


class ServedApp(Protocol):
    """What a server serves: a hall or a tool server."""

    @property
    def http(self) -> AsgiApp:
        """The ASGI application."""
        ...

    @property
    def config(self) -> SizeLimits:
        """Its settings."""
        ...


class ServerContext:
    """What all connections of a server share: limits, timeouts, the clock and pre-encoded responses."""

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
    """Uvicorn's settings, by which the protocol classes also get the ServerContext."""

    def __init__(
        self, served: ServedApp, context: ServerContext, http_protocol: type, websocket_protocol: type
    ) -> None:
        self.context = context
        super().__init__(
            AccessLog(served.http)
            if served.config.access_log
            else served.http,  # `http`, because calling the hall itself adds a step
            loop="auto",  # uvloop where it is installed
            http=http_protocol,
            ws=websocket_protocol,
            ws_max_size=served.config.max_frame_bytes,
            ws_per_message_deflate=False,  # no decompression bombs, no CRIME-like leaks
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,  # X-Forwarded-For can be forged
            server_header=False,
            timeout_graceful_shutdown=SHUTDOWN_GRACE_SECONDS,
        )
