"""The connections to one replica: kept open between calls, the last used first, and never more than so many."""

import asyncio
from collections import deque
from typing import TypeAlias

from toolhall.egress.dialing import Dial
from toolhall.egress.errors import EgressFailed, EgressRefused
from toolhall.egress.urls import Url
from toolhall.runners.hub.connection import Connection
from toolhall.runners.hub.line import CLOSED, Lost

MOST = 64
MOST_FOR_CALLS = 60  # the others are for what lets calls go on: answers to questions, and whether anybody is there
MOST_WAITING = 1_000
CONNECT_SECONDS = 2.0
IDLE_SECONDS = 3.0  # servers close what was idle for five: a call must not meet that

_Turn: TypeAlias = "asyncio.Future[Connection | Lost | None]"


class Connections:
    """Hands out a connection to one request at a time, in one loop; all that it raises is Lost, and not delivered."""

    def __init__(self, dial: Dial, url: Url, most_bytes: int, loop: asyncio.AbstractEventLoop) -> None:
        self._dial = dial
        self._url = url
        self._most_bytes = most_bytes
        self._idle: list[Connection] = []
        self._made: set[Connection] = set()
        self._connecting = 0
        self._calls = 0  # connections that calls have, or will have when they are made
        self._urgent: deque[_Turn] = deque()  # for what lets calls go on
        self._waiting: deque[_Turn] = deque()  # for calls
        self._closed = False
        self.loop = loop

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self._made)

    @property
    def spare(self) -> int:
        """How many of them are idle."""
        return len(self._idle)

    def idle(self) -> Connection | None:
        """For a call, one that is open and was used a moment ago; None: `take` one."""
        if self._calls >= MOST_FOR_CALLS:
            return None
        connection = self._kept()
        if connection is not None:
            connection.has_call = True
            self._calls += 1
        return connection

    async def take(self, *, for_call: bool) -> Connection:
        """One that is idle, a new one, or the next that becomes free."""
        while not self._closed:
            if not for_call or self._calls < MOST_FOR_CALLS:
                connection = self.idle() if for_call else self._kept()
                if connection is not None:
                    return connection
                if len(self._made) + self._connecting < MOST:
                    return await self._connected(for_call=for_call)
            connection = await self._turn(self._waiting if for_call else self._urgent)
            if connection is not None and connection.usable:
                return connection
        raise Lost(CLOSED, delivered=False)

    def rest(self) -> None:
        """End those that are idle."""
        while self._idle:
            self._idle.pop().end()

    def close(self) -> None:
        """End them all; nobody gets another."""
        self._closed = True
        for connection in [*self._made]:
            connection.end()
        self._made.clear()
        self._idle.clear()
        if not self.loop.is_closed():  # else nobody waits any more
            self._turn_away(Lost(CLOSED, delivered=False))

    # --- for the connections ---

    def made(self, connection: Connection) -> None:
        """It counts from now on, whatever becomes of whoever wanted it."""
        self._made.add(connection)
        if self._closed:
            connection.end()

    def free(self, connection: Connection) -> None:
        """Whoever waits longest gets it."""
        self._without_call(connection)
        if not self._wake(connection):
            self._idle.append(connection)
            oldest = self._idle[0]
            if connection.since - oldest.since > IDLE_SECONDS:
                del self._idle[0]
                oldest.end()

    def gone(self, connection: Connection) -> None:
        """There is room for another."""
        self._without_call(connection)
        self._made.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake(None)

    # --- inside ---

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if self.loop.time() - connection.since > IDLE_SECONDS:
                connection.end()
            elif connection.usable:
                return connection
        return None

    async def _connected(self, *, for_call: bool) -> Connection:
        self._connecting += 1
        self._calls += for_call
        try:
            connection = await self._dialled()
        except BaseException as failure:
            self._calls -= for_call
            if isinstance(failure, Lost) and not self._made:  # nobody who waits has anything to wait for
                self._turn_away(failure)
            self._wake(None)
            raise
        finally:
            self._connecting -= 1
        connection.has_call = for_call
        return connection

    async def _dialled(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await self._dial.connect(self._url, lambda: Connection(self, self._most_bytes))
        except TimeoutError:
            raise Lost(f"{self._url.origin} cannot be reached in time", delivered=False) from None
        except OSError as error:
            why = " ".join(str(error).split())
            raise Lost(f"{self._url.origin} cannot be reached: {why}", delivered=False) from None
        except (EgressRefused, EgressFailed) as error:
            raise Lost(str(error), delivered=False) from None
        if not connection.open:
            raise Lost(f"{self._url.origin} closes new connections at once", delivered=False)
        return connection

    async def _turn(self, waiting: deque[_Turn]) -> Connection | None:
        """Wait for one that becomes free, or for room (None)."""
        if len(waiting) >= MOST_WAITING:
            raise Lost(f"{MOST_WAITING} calls wait for this tool server already", delivered=False)
        turn: _Turn = self.loop.create_future()
        waiting.append(turn)
        try:
            given = await turn
        except BaseException:
            if turn in waiting:
                waiting.remove(turn)
            elif not turn.cancelled():  # it was this one's turn: then it is the next one's
                self._pass_on(turn.result())
            raise
        if isinstance(given, Lost):
            raise Lost(given.why, delivered=False)
        return given

    def _pass_on(self, given: Connection | Lost | None) -> None:
        if isinstance(given, Connection):
            self.free(given)
        else:
            self._wake(None)

    def _wake(self, given: Connection | None) -> bool:
        """Whoever may use it, and first what lets calls go on."""
        if _tell(self._urgent, given):
            return True
        if self._calls >= MOST_FOR_CALLS or not _tell(self._waiting, given):
            return False
        if given is not None:
            given.has_call = True
            self._calls += 1
        return True

    def _without_call(self, connection: Connection) -> None:
        if connection.has_call:
            connection.has_call = False
            self._calls -= 1

    def _turn_away(self, lost: Lost) -> None:
        for waiting in (self._urgent, self._waiting):
            while _tell(waiting, lost):
                pass


def _tell(waiting: deque[_Turn], given: Connection | Lost | None) -> bool:
    while waiting:
        turn = waiting.popleft()
        if not turn.done():
            turn.set_result(given)
            return True
    return False
