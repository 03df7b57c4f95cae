"""How many requests are answered at once in this process; whoever finds no place is told so at once, or nearly."""

import asyncio
import time
from collections.abc import Callable

MOST_AT_ONCE = 256
WAIT_SECONDS = 0.05  # a refusal comes soon, so that a client can go elsewhere
STRAINED_SECONDS = 15.0  # so long it matters that somebody was turned away
_RESERVED = 32  # places for those who must see and mend what is wrong
_VITAL = ("/health", "/oxp/health", "/metrics", "/api/", "/approve/")


class Room:
    """Places for requests; who finds none waits for a moment, unless too many wait already.

    A stream that only listens gives its place back, and is counted where streams are counted.
    """

    def __init__(
        self,
        most: int = MOST_AT_ONCE,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most = most
        self.running = 0
        self._seconds = wait_seconds
        self._most_waiting = max(1, most // 4)
        self._line: dict[asyncio.Future[bool], None] = {}  # in the order in which they came
        self._clock = clock
        self._full_at: float | None = None  # when somebody last found no place
        self._patient = 0  # of these, how many wait without an end

    def enter(self, path: str) -> bool:
        """Take a place, if there is one."""
        if self.running < self.most or (self.running < self.most + _RESERVED and path.startswith(_VITAL)):
            self.running += 1
            return True
        self._full_at = self._clock()
        return False

    @property
    def strained(self) -> bool:
        """Whether it is full, or was so lately that somebody found no place."""
        if self.running >= self.most:
            return True
        return self._full_at is not None and self._clock() - self._full_at < STRAINED_SECONDS

    def turns_away(self, path: str) -> bool:
        """Whether a request would be refused without a wait."""
        if len(self._line) - self._patient < self._most_waiting:
            return False
        away = self.running >= self.most + _RESERVED or not path.startswith(_VITAL)
        if away:
            self._full_at = self._clock()
        return away

    async def wait(self) -> bool:
        """A place that comes free in a moment; False if none does."""
        if len(self._line) - self._patient >= self._most_waiting:
            return False
        loop = asyncio.get_running_loop()
        coming = loop.create_future()
        timer = loop.call_later(self._seconds, self._give_up, coming)
        try:
            return await self._next(coming)
        finally:
            timer.cancel()

    async def enter_patiently(self) -> None:
        """A place, however long it takes: for a line on which nothing more is read meanwhile."""
        if self.running < self.most:
            self.running += 1
            return
        self._patient += 1
        try:
            await self._next(asyncio.get_running_loop().create_future())
        finally:
            self._patient -= 1

    def leave(self) -> None:
        """Give a place back; whoever waits longest has it next."""
        while self._line and self.running <= self.most:
            coming = next(iter(self._line))
            del self._line[coming]
            if not coming.done():  # who has given up may not have noticed yet
                coming.set_result(True)
                return
        self.running -= 1

    async def _next(self, coming: "asyncio.Future[bool]") -> bool:
        self._line[coming] = None
        try:
            return await coming
        except asyncio.CancelledError:
            if coming.done() and not coming.cancelled() and coming.result():
                self.leave()  # it came too late
            raise
        finally:
            self._line.pop(coming, None)

    def _give_up(self, coming: "asyncio.Future[bool]") -> None:
        if not coming.done():
            coming.set_result(False)
