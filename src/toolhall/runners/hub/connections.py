"""The connections to one replica: kept open between calls, the last used first, and never more than so many."""

import asyncio
from collections import deque
from typing import TypeAlias

from toolhall.egress.dialing import Dial
from toolhall.egress.errors import EgressFailed, EgressRefused
from toolhall.egress.urls import Url
from toolhall.runners.hub.connection import Connection
from toolhall.runners.hub.line import Lost

MOST = 64
MOST_FOR_CALLS = 60  # the others are for what lets calls go on: answers to questions, and whether anybody is there
MOST_WAITING = 1_000
CONNECT_SECONDS = 2.0
IDLE_SECONDS = 3.0  # servers close what was idle for five: a call must not meet that
_CLOSED = "the line was closed"

_Turn: TypeAlias = "asyncio.Future[Connection | Lost | None]"


class Connections:
    """Hands out a connection to one call at a time; everything that it raises is Lost, and not delivered."""

    def __init__(self, dial: Dial, url: Url, most_bytes: int) -> None:
        self._dial = dial
        self._url = url
        self._most_bytes = most_bytes
        self._idle: list[Connection] = []
        self._made: set[Connection] = set()
        self._connecting = 0
        self._waiting: deque[_Turn] = deque()
        self._closed = False

    @property
    def open(self) -> int:
        """How many there are."""
        return len(self._made)

    @property
    def spare(self) -> int:
        """How many of them are idle."""
        return len(self._idle)

    def idle(self) -> Connection | None:
        """One that is open and was used a moment ago; None: `take` one."""
        while self._idle:
            connection = self._idle.pop()
            if asyncio.get_running_loop().time() - connection.since > IDLE_SECONDS:
                connection.end()
            elif connection.usable:
                return connection
        return None

    async def take(self, most: int = MOST_FOR_CALLS) -> Connection:
        """One that is idle, a new one, or the next that becomes free."""
        while not self._closed:
            connection = self.idle()
            if connection is not None:
                return connection
            if len(self._made) + self._connecting < most:
                return await self._connected()
            connection = await self._turn(first=most == MOST)
            if connection is not None and connection.usable:
                return connection
        raise Lost(_CLOSED, delivered=False)

    def close(self) -> None:
        """End them all; nobody gets another."""
        self._closed = True
        for connection in [*self._made]:
            connection.end()
        self._idle.clear()
        self._turn_away(Lost(_CLOSED, delivered=False))

    # --- for the connections ---

    def made(self, connection: Connection) -> None:
        """It counts from now on, whatever becomes of whoever wanted it."""
        self._made.add(connection)
        if self._closed:
            connection.end()

    def free(self, connection: Connection) -> None:
        """Whoever waits longest gets it."""
        if not self._wake(connection):
            self._idle.append(connection)
            oldest = self._idle[0]
            if connection.since - oldest.since > IDLE_SECONDS:
                del self._idle[0]
                oldest.end()

    def gone(self, connection: Connection) -> None:
        """There is room for another."""
        self._made.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        self._wake(None)

    # --- inside ---

    async def _connected(self) -> Connection:
        self._connecting += 1
        try:
            connection = await self._dialled()
        except Lost as lost:
            if not self._made:  # nobody who waits has anything to wait for
                self._turn_away(lost)
            raise
        finally:
            self._connecting -= 1
            self._wake(None)
        if not connection.open:
            raise Lost(f"{self._url.origin} closes new connections at once", delivered=False)
        return connection

    async def _dialled(self) -> Connection:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._dial.connect(self._url, lambda: Connection(self, self._most_bytes))
        except TimeoutError:
            raise Lost(f"{self._url.origin} cannot be reached in time", delivered=False) from None
        except OSError as error:
            why = " ".join(str(error).split())
            raise Lost(f"{self._url.origin} cannot be reached: {why}", delivered=False) from None
        except (EgressRefused, EgressFailed) as error:
            raise Lost(str(error), delivered=False) from None

    async def _turn(self, *, first: bool) -> Connection | None:
        """Wait for one that becomes free, or for room (None)."""
        if len(self._waiting) >= MOST_WAITING:
            raise Lost(f"{MOST_WAITING} calls wait for this tool server already", delivered=False)
        turn: _Turn = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if first else self._waiting.append)(turn)
        try:
            given = await turn
        except BaseException:
            if turn in self._waiting:
                self._waiting.remove(turn)
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

    def _wake(self, given: Connection | Lost | None) -> bool:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(given)
                return True
        return False

    def _turn_away(self, lost: Lost) -> None:
        while self._wake(lost):
            pass
