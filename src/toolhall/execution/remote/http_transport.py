"""`HttpTransport`: calls a tool server that listens, one POST per call, over a bounded keep-alive `ConnectionPool`.

The pool hands out the connection that was used last, and reserves a few for messages that let calls go on (answers to
questions, health probes). Everything that it raises is a `CallLost` with `delivered=False`.
"""

import asyncio
import select
from collections import deque
from functools import partial
from time import monotonic
from typing import TypeAlias

from toolhall.dialects.hub.call_messages import ToolResponseMessage
from toolhall.egress.addresses import EgressFailed, EgressRefused
from toolhall.egress.resolver import Dialer
from toolhall.egress.urls import Url, check_header_value
from toolhall.execution.remote.http_connection import HttpConnection, ResponseBody
from toolhall.execution.remote.replica_transport import (
    MAX_MESSAGE_BYTES,
    TRANSPORT_CLOSED,
    CallLost,
    ReportHandler,
    check_report,
    check_response,
    decode_message,
)
from toolhall.execution.remote.response_head import ResponseHead
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret

MAX_CONNECTIONS = 64
MAX_CALL_CONNECTIONS = 60  # the others are reserved for answers to questions, and for health probes
MAX_WAITING = 1_000
CONNECT_SECONDS = 2.0
_POLL_SECONDS = 0.001  # for which the poll of a pool is good
IDLE_SECONDS = 3.0  # servers close connections after five: a call must not meet that
_Waiter: TypeAlias = "asyncio.Future[HttpConnection | CallLost | None]"


class HttpTransport:
    """Calls the tool server at `url`; raises EgressRefused at once for an address that the hall may not reach."""

    def __init__(self, url: str, token: Secret, dial: Dialer, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        target = dial.parse(url)
        if target.query is not None:
            raise EgressRefused(f"{target.display} has a query; a tool server's url is https://host[:port]/path")
        self._head = _request_head(target, token)
        self._make_pool = partial(ConnectionPool, dial, target, max_bytes)
        self._pool: ConnectionPool | None = None  # of the loop in which the last call was made
        self._closed = False

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its name in the protocol
        """Run a call at the tool server; cancelling this closes its connection, which cancels the call there."""
        pool = self._pool_for_loop()
        connection = pool.acquire_idle() or await pool.acquire(for_call=True)
        response = self._send(connection, request)
        finished = False
        try:
            await response.wait()  # nothing can have come yet
            while True:
                while (message := response.pop()) is None:
                    await response.wait()
                report = check_report(decode_message(message), id)
                if isinstance(report, ToolResponseMessage):
                    finished = True
                    return report
                answer = await response.handle_report(on_report, report)
                if answer is not None:
                    await self._send_answer(answer)
        finally:
            connection.release(finished=finished)

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its name in the protocol
        """Send a request of the hall itself; returns the whole response."""
        return check_response(decode_message(await self._post(body)), id)

    def close_idle(self) -> None:
        """Close connections that no call uses now."""
        if self._pool is not None:
            self._pool.close_idle()

    def close(self) -> None:
        """Close all connections; running calls are lost."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return 0 if self._pool is None else self._pool.open_count

    @property
    def idle_count(self) -> int:
        """How many of them are idle."""
        return 0 if self._pool is None else self._pool.idle_count

    def _pool_for_loop(self) -> "ConnectionPool":
        """The connections of the running loop; those of a loop that has stopped cannot be used any more."""
        pool = self._pool
        if pool is not None and pool.loop.is_running():
            return pool
        if self._closed:
            raise CallLost(TRANSPORT_CLOSED, delivered=False)
        if pool is not None:
            pool.close()
        self._pool = pool = self._make_pool(asyncio.get_running_loop())
        return pool

    def _send(self, connection: HttpConnection, request: bytes) -> ResponseBody:
        return connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(request), request))

    async def _send_answer(self, answer: bytes) -> None:
        """Send the answer to a question; if that fails the call is lost, because its tool would wait for ever."""
        try:
            await self._post(answer)  # the server refuses it if the call has just ended; the call's own response tells
        except CallLost as lost:
            raise CallLost(f"an answer did not get there: {lost.reason}", delivered=True) from None

    async def _post(self, request: bytes) -> bytes:
        connection = await self._pool_for_loop().acquire(for_call=False)
        response = self._send(connection, request)
        try:
            while (message := response.pop()) is None:
                await response.wait()
            return message
        finally:
            connection.release(finished=False)


def _request_head(url: Url, token: Secret) -> bytes:
    """The request head up to the value of Content-Length, which is the same for every request."""
    host = url.origin.partition("//")[2]
    lines = [
        f"POST {url.path.rstrip('/')}/hub HTTP/1.1",
        f"Host: {host}",
        f"Authorization: Bearer {check_header_value(token.reveal())}",
        "Content-Type: application/json",
        "Accept: application/json, application/x-ndjson",
        "Content-Length: ",
    ]
    return "\r\n".join(lines).encode("ascii")


class ConnectionPool:
    """Keep-alive connections to one server in one loop, each for one request at a time.

    A call must not be written to a connection that the server has closed, because it would count as delivered; and the
    loop may be late to notice. So the sockets are polled before a connection is used again: all of them at once, and
    only if one has become idle since or a millisecond has passed. That is about once for all calls of a turn, which
    matters since each poll gives the interpreter's lock away.
    """

    def __init__(self, dial: Dialer, url: Url, max_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self._dial = dial
        self._url = url
        self._max_bytes = max_bytes
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
        if self._call_connections >= MAX_CALL_CONNECTIONS:
            return None
        connection = self._pop_idle()
        if connection is not None:
            connection.serves_call = True
            self._call_connections += 1
        return connection

    async def acquire(self, *, for_call: bool) -> HttpConnection:
        """An idle connection, a new one, or the next that becomes idle."""
        while not self._closed:
            if not for_call or self._call_connections < MAX_CALL_CONNECTIONS:
                connection = self.acquire_idle() if for_call else self._pop_idle()
                if connection is not None:
                    return connection
                if len(self._connections) + self._connecting < MAX_CONNECTIONS:
                    return await self._connect_new(for_call=for_call)
            connection = await self._wait_for_connection(self._call_waiters if for_call else self._priority_waiters)
            if connection is not None:
                self._abort_spoken()
                if connection.is_open:
                    return connection
        raise CallLost(TRANSPORT_CLOSED, delivered=False)

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
            self._reject_waiters(CallLost(TRANSPORT_CLOSED, delivered=False))

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
            if isinstance(failure, CallLost) and not self._connections:  # then no connection can become idle
                self._reject_waiters(failure)
            self._wake_waiter(None)
            raise
        finally:
            self._connecting -= 1
        connection.serves_call = for_call
        return connection

    async def _open_connection(self) -> HttpConnection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self._dial.connect(self._url, lambda: HttpConnection(self, self._max_bytes))
        except TimeoutError:
            raise CallLost(f"{self._url.origin} cannot be reached in time", delivered=False) from None
        except OSError as error:
            why = " ".join(str(error).split())
            raise CallLost(f"{self._url.origin} cannot be reached: {why}", delivered=False) from None
        except (EgressRefused, EgressFailed) as error:
            raise CallLost(str(error), delivered=False) from None
        if not connection.is_open:
            raise CallLost(f"{self._url.origin} closes new connections at once", delivered=False)
        return connection

    async def _wait_for_connection(self, waiters: deque[_Waiter]) -> HttpConnection | None:
        """Wait for a connection that becomes idle, or for room for a new one (None)."""
        if len(waiters) >= MAX_WAITING:
            raise CallLost(f"{MAX_WAITING} calls wait for this tool server already", delivered=False)
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
        if isinstance(result, CallLost):
            raise CallLost(result.reason, delivered=False)
        return result

    def _pass_on(self, result: HttpConnection | CallLost | None) -> None:
        if isinstance(result, HttpConnection):
            self.on_idle(result)
        else:
            self._wake_waiter(None)

    def _wake_waiter(self, connection: HttpConnection | None) -> bool:
        """Resolve the first waiter that may use the connection or the free room, priority waiters first."""
        if _resolve_first(self._priority_waiters, connection):
            return True
        if self._call_connections >= MAX_CALL_CONNECTIONS or not _resolve_first(self._call_waiters, connection):
            return False
        if connection is not None:
            connection.serves_call = True
            self._call_connections += 1
        return True

    def _reject_waiters(self, error: CallLost) -> None:
        for waiters in (self._priority_waiters, self._call_waiters):
            while _resolve_first(waiters, error):
                pass


def _resolve_first(waiters: deque[_Waiter], result: HttpConnection | CallLost | None) -> bool:
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(result)
            return True
    return False
