"""`ConnectionPool`: bounded keep-alive HTTP/1.1 connections to one origin, for requests that are written as bytes.

The pool hands out the connection that was used last, and reserves a few for messages that let calls go on: answers to
questions, health probes. What it raises is an `ExchangeLost` with `delivered=False`.
"""

import asyncio
import select
import ssl
from collections import deque
from time import monotonic
from typing import TypeAlias

import msgspec

from toolhall.egress.addresses import EgressFailed, EgressRefused
from toolhall.egress.exchange import TRANSPORT_CLOSED, ExchangeLost, PeerRejected
from toolhall.egress.http_connection import HttpConnection
from toolhall.egress.resolver import Dialer
from toolhall.egress.response_head import ResponseHead
from toolhall.egress.urls import Url

MAX_CONNECTIONS = 64
MAX_CALL_CONNECTIONS = 60  # the others are reserved
MAX_WAITING = 1_000
CONNECT_SECONDS = 2.0
_POLL_SECONDS = 0.001  # for which the poll of a pool is good
IDLE_SECONDS = 3.0  # servers close connections after five: a call must not meet that
_Waiter: TypeAlias = "asyncio.Future[HttpConnection | ExchangeLost | None]"


class PeerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is the same for all connections to a peer; `peer` names it in messages."""

    peer: str = "the server"
    max_bytes: int  # of one message, and of all unread messages of one response
    keeps_headers: bool = True
    max_connections: int = MAX_CONNECTIONS
    max_call_connections: int = MAX_CALL_CONNECTIONS
    connect_seconds: float = CONNECT_SECONDS


class ConnectionPool:
    """Keep-alive connections to one server in one loop, each for one request at a time.

    A call must not be written to a connection that the server has closed, because it would count as delivered; and the
    loop may be late to notice. So the sockets are polled before a connection is used again: all of them at once, and
    only if one has become idle since or a millisecond has passed. That is about once for all calls of a turn, which
    matters since each poll gives the interpreter's lock away.
    """

    def __init__(self, dial: Dialer, url: Url, settings: PeerSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._dial = dial
        self._url = url
        self.settings = settings
        self._idle: list[HttpConnection] = []
        self._connections: set[HttpConnection] = set()
        self._connecting = 0
        self._call_connections = 0  # in use by calls, or being opened for them
        self._priority_waiters: deque[_Waiter] = deque()  # answers to questions, and health probes
        self._call_waiters: deque[_Waiter] = deque()
        self._closed = False
        self._poll = select.poll()  # of all connections
        self._by_fd: dict[int, HttpConnection] = {}
        self._polled_at = 0.0  # by the real clock: the loop's own may stand still meanwhile
        self._is_polled = False  # since a connection became idle
        self.loop = loop
        self.known_head: ResponseHead | None = None  # of the server's last plain response, on any connection

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    @property
    def idle_count(self) -> int:
        """How many of them are idle."""
        return len(self._idle)

    def acquire_idle(self) -> HttpConnection | None:
        """An idle connection for a call; None: `acquire` one."""
        if self._call_connections >= self.settings.max_call_connections:
            return None
        connection = self._pop_idle()
        if connection is not None:
            connection.serves_call = True
            self._call_connections += 1
        return connection

    async def acquire(self, *, for_call: bool) -> HttpConnection:
        """An idle connection, a new one, or the next that becomes idle."""
        while not self._closed:
            if not for_call or self._call_connections < self.settings.max_call_connections:
                connection = self.acquire_idle() if for_call else self._pop_idle()
                if connection is not None:
                    return connection
                if len(self._connections) + self._connecting < self.settings.max_connections:
                    return await self._connect_new(for_call=for_call)
            connection = await self._wait_for_connection(self._call_waiters if for_call else self._priority_waiters)
            if connection is not None:
                self._abort_spoken()
                if connection.is_open:
                    return connection
        raise ExchangeLost(TRANSPORT_CLOSED, delivered=False)

    def close_idle(self) -> None:
        """Close idle connections."""
        while self._idle:
            self._idle.pop().abort()

    def close(self) -> None:
        """Close all connections, and refuse new requests."""
        self._closed = True
        for connection in [*self._connections]:
            connection.abort()
        self._connections.clear()
        self._idle.clear()
        if not self.loop.is_closed():  # else nothing waits any more
            self._reject_waiters(ExchangeLost(TRANSPORT_CLOSED, delivered=False))

    # --- for the connections ---

    def on_connected(self, connection: HttpConnection) -> None:
        """Count a new connection, even if the request that opened it was cancelled."""
        self._connections.add(connection)
        self._by_fd[connection.fd] = connection
        self._poll.register(connection.fd, select.POLLIN)
        if self._closed:
            connection.abort()

    def on_idle(self, connection: HttpConnection) -> None:
        """Hand the connection to the longest waiting request, or keep it; closes the oldest idle one if it is stale."""
        if connection.serves_call:
            connection.serves_call = False
            self._call_connections -= 1
        if (self._priority_waiters or self._call_waiters) and self._wake_waiter(connection):
            return
        idle = self._idle
        idle.append(connection)
        self._is_polled = False
        if connection.idle_since - idle[0].idle_since > IDLE_SECONDS:
            idle.pop(0).abort()

    def on_closed(self, connection: HttpConnection) -> None:
        """Forget a closed connection, and wake a waiting request, which may open another."""
        if connection.serves_call:
            connection.serves_call = False
            self._call_connections -= 1
        self._connections.discard(connection)
        if self._by_fd.get(connection.fd) is connection:  # else a new connection has got its number
            del self._by_fd[connection.fd]
            self._poll.unregister(connection.fd)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake_waiter(None)

    # --- private ---

    def _pop_idle(self) -> HttpConnection | None:
        idle = self._idle
        if idle and not (self._is_polled and monotonic() - self._polled_at < _POLL_SECONDS):
            self._abort_spoken()
        while idle:
            connection = idle.pop()
            if self.loop.time() - connection.idle_since > IDLE_SECONDS:
                connection.abort()
            elif connection.is_open:
                return connection
        return None

    def _abort_spoken(self) -> None:
        """Close each connection without a request whose server has sent or closed anything."""
        self._polled_at, self._is_polled = monotonic(), True
        for fd, _ in self._poll.poll(0):
            connection = self._by_fd.get(fd)
            if connection is not None and connection.is_idle:
                connection.abort()

    async def _connect_new(self, *, for_call: bool) -> HttpConnection:
        self._connecting += 1
        self._call_connections += for_call
        try:
            connection = await self._open_connection()
        except BaseException as failure:
            self._call_connections -= for_call
            if isinstance(failure, ExchangeLost) and not self._connections:  # then no connection can become idle
                self._reject_waiters(failure)
            self._wake_waiter(None)
            raise
        finally:
            self._connecting -= 1
        connection.serves_call = for_call
        return connection

    async def _open_connection(self) -> HttpConnection:
        try:
            async with asyncio.timeout(self.settings.connect_seconds):
                connection = await self._dial.connect(self._url, lambda: HttpConnection(self))
        except TimeoutError:
            raise ExchangeLost(f"{self._url.origin} cannot be reached in time", delivered=False) from None
        except ssl.SSLCertVerificationError as error:
            why = " ".join(str(error.verify_message).split())
            raise PeerRejected(f"the certificate of {self._url.origin} is not trusted: {why}") from None
        except OSError as error:
            why = " ".join(str(error).split())
            raise ExchangeLost(f"{self._url.origin} cannot be reached: {why}", delivered=False) from None
        except EgressRefused as error:
            raise PeerRejected(str(error)) from None
        except EgressFailed as error:
            raise ExchangeLost(str(error), delivered=False) from None
        if not connection.is_open:
            raise ExchangeLost(f"{self._url.origin} closes new connections at once", delivered=False)
        return connection

    async def _wait_for_connection(self, waiters: deque[_Waiter]) -> HttpConnection | None:
        """Wait for a connection that becomes idle, or for room for a new one (None)."""
        if len(waiters) >= MAX_WAITING:
            raise ExchangeLost(f"{MAX_WAITING} requests wait for {self.settings.peer} already", delivered=False)
        waiter: _Waiter = self.loop.create_future()
        waiters.append(waiter)
        try:
            result = await waiter
        except BaseException:
            if waiter in waiters:
                waiters.remove(waiter)
            elif not waiter.cancelled():  # it was resolved at the same moment: pass that on to the next waiter
                self._pass_on(waiter.result())
            raise
        if isinstance(result, ExchangeLost):
            raise ExchangeLost(result.reason, delivered=False)
        return result

    def _pass_on(self, result: HttpConnection | ExchangeLost | None) -> None:
        if isinstance(result, HttpConnection):
            self.on_idle(result)
        else:
            self._wake_waiter(None)

    def _wake_waiter(self, connection: HttpConnection | None) -> bool:
        """Resolve the first waiter that may use the connection or the free room, priority waiters first."""
        if _resolve_first(self._priority_waiters, connection):
            return True
        if self._call_connections >= self.settings.max_call_connections or not _resolve_first(
            self._call_waiters, connection
        ):
            return False
        if connection is not None:
            connection.serves_call = True
            self._call_connections += 1
        return True

    def _reject_waiters(self, error: ExchangeLost) -> None:
        for waiters in (self._priority_waiters, self._call_waiters):
            while _resolve_first(waiters, error):
                pass


def _resolve_first(waiters: deque[_Waiter], result: HttpConnection | ExchangeLost | None) -> bool:
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(result)
            return True
    return False
