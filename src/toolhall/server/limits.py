"""Limits of connections: ConnectionTimeouts and TimeoutTracker end slow clients, ConnectionLimiter bounds their number.

`server.protocol` explains how they work together.
"""

import ipaddress
import sys

import msgspec

if sys.platform != "win32":
    import resource

MIN_PROGRESS_BYTES = 64 * 1024  # a client that reads at least this much within `write_stall` is slow, not stalled
MAX_CONNECTIONS_PER_ADDRESS = 256
MAX_CONNECTIONS = 10_000
_RESERVED_FILES = 256  # file descriptors that the hall itself needs: audit, store, pipes of child processes


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
