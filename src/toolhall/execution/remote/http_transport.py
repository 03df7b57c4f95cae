"""`HttpTransport`: calls a tool server that listens, one POST per call, over a bounded keep-alive `ConnectionPool`.

The pool hands out the connection that was used last, and keeps a few for what lets calls go on (answers to questions,
health probes). Everything that it raises is a `CallLost` with `delivered=False`.
"""

import asyncio
from collections import deque
from functools import partial
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
    decode_report,
    decode_response,
)
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret

MAX_CONNECTIONS = 64
MAX_CALL_CONNECTIONS = (
    60  # the others are for what lets calls go on: answers to questions, and whether anybody is there
)
MAX_WAITING = 1_000
CONNECT_SECONDS = 2.0
IDLE_SECONDS = 3.0  # servers close what was idle for five: a call must not meet that
_Waiter: TypeAlias = "asyncio.Future[HttpConnection | CallLost | None]"


class ConnectionPool:
    """Hands out a connection to one request at a time, in one loop; all that it raises is Lost, and not delivered."""

    def __init__(self, dial: Dialer, url: Url, max_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self._dial = dial
        self._url = url
        self._max_bytes = max_bytes
        self._idle: list[HttpConnection] = []
        self._connections: set[HttpConnection] = set()
        self._connecting = 0
        self._call_connections = 0  # connections that calls have, or will have when they are made
        self._priority_waiters: deque[_Waiter] = deque()  # for what lets calls go on
        self._call_waiters: deque[_Waiter] = deque()  # for calls
        self._closed = False
        self.loop = loop

    @property
    def open_count(self) -> int:
        """How many there are."""
        return len(self._connections)

    @property
    def idle_count(self) -> int:
        """How many of them are idle."""
        return len(self._idle)

    def acquire_idle(self) -> HttpConnection | None:
        """For a call, one that is open and was used a moment ago; None: `take` one."""
        if self._call_connections >= MAX_CALL_CONNECTIONS:
            return None
        connection = self._pop_idle()
        if connection is not None:
            connection.serves_call = True
            self._call_connections += 1
        return connection

    async def acquire(self, *, for_call: bool) -> HttpConnection:
        """One that is idle, a new one, or the next that becomes free."""
        while not self._closed:
            if not for_call or self._call_connections < MAX_CALL_CONNECTIONS:
                connection = self.acquire_idle() if for_call else self._pop_idle()
                if connection is not None:
                    return connection
                if len(self._connections) + self._connecting < MAX_CONNECTIONS:
                    return await self._connect_new(for_call=for_call)
            connection = await self._wait_for_connection(self._call_waiters if for_call else self._priority_waiters)
            if connection is not None and connection.is_usable:
                return connection
        raise CallLost(TRANSPORT_CLOSED, delivered=False)

    def close_idle(self) -> None:
        """End those that are idle."""
        while self._idle:
            self._idle.pop().abort()

    def close(self) -> None:
        """End them all; nobody gets another."""
        self._closed = True
        for connection in [*self._connections]:
            connection.abort()
        self._connections.clear()
        self._idle.clear()
        if not self.loop.is_closed():  # else nobody waits any more
            self._reject_waiters(CallLost(TRANSPORT_CLOSED, delivered=False))

    # --- for the connections ---

    def on_connected(self, connection: HttpConnection) -> None:
        """It counts from now on, whatever becomes of whoever wanted it."""
        self._connections.add(connection)
        if self._closed:
            connection.abort()

    def on_idle(self, connection: HttpConnection) -> None:
        """Whoever waits longest gets it."""
        self._end_call_use(connection)
        if not self._wake_waiter(connection):
            self._idle.append(connection)
            oldest = self._idle[0]
            if connection.idle_since - oldest.idle_since > IDLE_SECONDS:
                del self._idle[0]
                oldest.abort()

    def on_closed(self, connection: HttpConnection) -> None:
        """There is room for another."""
        self._end_call_use(connection)
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake_waiter(None)

    # --- inside ---

    def _pop_idle(self) -> HttpConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if self.loop.time() - connection.idle_since > IDLE_SECONDS:
                connection.abort()
            elif connection.is_usable:
                return connection
        return None

    async def _connect_new(self, *, for_call: bool) -> HttpConnection:
        self._connecting += 1
        self._call_connections += for_call
        try:
            connection = await self._open_connection()
        except BaseException as failure:
            self._call_connections -= for_call
            if isinstance(failure, CallLost) and not self._connections:  # nobody who waits has anything to wait for
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
        """Wait for one that becomes free, or for room (None)."""
        if len(waiters) >= MAX_WAITING:
            raise CallLost(f"{MAX_WAITING} calls wait for this tool server already", delivered=False)
        turn: _Waiter = self.loop.create_future()
        waiters.append(turn)
        try:
            given = await turn
        except BaseException:
            if turn in waiters:
                waiters.remove(turn)
            elif not turn.cancelled():  # it was this one's turn: then it is the next one's
                self._hand_over(turn.result())
            raise
        if isinstance(given, CallLost):
            raise CallLost(given.reason, delivered=False)
        return given

    def _hand_over(self, given: HttpConnection | CallLost | None) -> None:
        if isinstance(given, HttpConnection):
            self.on_idle(given)
        else:
            self._wake_waiter(None)

    def _wake_waiter(self, given: HttpConnection | None) -> bool:
        """Whoever may use it, and first what lets calls go on."""
        if _resolve_first(self._priority_waiters, given):
            return True
        if self._call_connections >= MAX_CALL_CONNECTIONS or not _resolve_first(self._call_waiters, given):
            return False
        if given is not None:
            given.serves_call = True
            self._call_connections += 1
        return True

    def _end_call_use(self, connection: HttpConnection) -> None:
        if connection.serves_call:
            connection.serves_call = False
            self._call_connections -= 1

    def _reject_waiters(self, error: CallLost) -> None:
        for waiting in (self._priority_waiters, self._call_waiters):
            while _resolve_first(waiting, error):
                pass


def _resolve_first(waiters: deque[_Waiter], given: HttpConnection | CallLost | None) -> bool:
    while waiters:
        turn = waiters.popleft()
        if not turn.done():
            turn.set_result(given)
            return True
    return False


class HttpTransport:
    """A line to the server at `url`; EgressRefused at once for one where the hall does not go."""

    def __init__(self, url: str, token: Secret, dial: Dialer, max_bytes: int = MAX_MESSAGE_BYTES) -> None:
        target = dial.parse(url)
        if target.query is not None:
            raise EgressRefused(f"{target.display} has a query; a tool server's url is https://host[:port]/path")
        self._head = _request_head(target, token)
        self._make_pool = partial(ConnectionPool, dial, target, max_bytes)
        self._pool: ConnectionPool | None = None  # in the loop in which the last call was made
        self._closed = False

    async def call(self, request: bytes, id: str, on_report: ReportHandler) -> ToolResponseMessage:  # noqa: A002 - its word
        """Run a call over there; whoever cancels this ends its connection, which cancels it there."""
        connections = self._pool_for_loop()
        connection = connections.acquire_idle() or await connections.acquire(for_call=True)
        reply = self._send(connection, request)
        finished = False
        try:
            while True:
                report = decode_report(await reply.next(), id)
                if isinstance(report, ToolResponseMessage):
                    finished = True
                    return report
                answer = await reply.handle_report(on_report, report)
                if answer is not None:
                    await self._send_answer(answer)
        finally:
            connection.release(finished=finished)

    async def request(self, body: bytes, id: str) -> JsonObject:  # noqa: A002 - its word
        """Something that the hall itself wants to know: the whole response."""
        return decode_response(await self._post(body), id)

    def close_idle(self) -> None:
        """End the connections that no call needs now."""
        if self._pool is not None:
            self._pool.close_idle()

    def close(self) -> None:
        """End all connections, and whatever runs on them."""
        self._closed = True
        if self._pool is not None:
            self._pool.close()

    @property
    def open_count(self) -> int:
        """How many connections there are."""
        return 0 if self._pool is None else self._pool.open_count

    @property
    def idle_count(self) -> int:
        """How many of them wait for a call."""
        return 0 if self._pool is None else self._pool.idle_count

    def _pool_for_loop(self) -> ConnectionPool:
        """The connections of the loop that runs now; those of one that has stopped lead nowhere."""
        found = self._pool
        if found is not None and found.loop.is_running():
            return found
        if self._closed:
            raise CallLost(TRANSPORT_CLOSED, delivered=False)
        if found is not None:
            found.close()
        self._pool = found = self._make_pool(asyncio.get_running_loop())
        return found

    def _send(self, connection: HttpConnection, request: bytes) -> ResponseBody:
        return connection.send(b"%b%d\r\n\r\n%b" % (self._head, len(request), request))

    async def _send_answer(self, answer: bytes) -> None:
        """Send what came of a question; who did not get it waits for ever, and so would the call."""
        try:
            await self._post(answer)  # refused, if the call has just ended: that is in its own reply
        except CallLost as lost:
            raise CallLost(f"an answer did not get there: {lost.reason}", delivered=True) from None

    async def _post(self, request: bytes) -> bytes:
        connection = await self._pool_for_loop().acquire(for_call=False)
        reply = self._send(connection, request)
        try:
            return await reply.next()
        finally:
            connection.release(finished=False)


def _request_head(url: Url, token: Secret) -> bytes:
    """All that is the same for every request."""
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
