"""Concurrency limits of requests: `ConcurrencyLimiter` shares slots fairly between callers, with a bounded queue.

Theory of operation. A request passes four points, in this order:

1. Its headers are checked and its caller is authenticated. Neither takes a slot.
2. While its body is incomplete it is counted in `bodies`, which bounds memory and nothing else. A body that came
   complete with its headers is not counted.
3. Once its body is complete it takes a slot: `callers` for authenticated callers, `anonymous` for all others. The two
   never borrow from each other, so anonymous requests cannot keep an authenticated caller out, whatever they send.
4. It releases the slot with its reply. A stream that only listens releases it earlier and is counted elsewhere.

Slots are shared by one rule (`FairSlots.try_acquire`): a caller gets one more only while it holds fewer than are
free. Alone, it ends at half of them; n callers that take all they can get end at 1/(n+1) each, and a newcomer
always finds some. `per_caller` can lower that bound further. Anonymous callers are told apart by address. The local
user, who is every program of this machine, shares with nobody in its profile and may take whatever is free.

A request that finds no slot waits in a FIFO queue for up to `WAIT_SECONDS`, then gets 503. The queue is bounded and
shared by the same rule; WebSocket messages wait in it like HTTP requests. A released slot goes to the first in the
queue whose share allows it.

Two small reserves remain for operators: `reserve` for authenticated callers of the management and health paths,
`health` for anonymous health checks (load balancers).

Incomplete bodies of anonymous requests are few, and the newest has precedence: when there are too many, the oldest
one of the address with the most of them is dropped. An attacker who renews half-sent bodies drops its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from toolhall.model.caller import LOCAL, Caller

MAX_CONCURRENT_REQUESTS = 256
WAIT_SECONDS = 0.05  # a refusal comes soon, so that a client can go elsewhere
OVERLOADED_SECONDS = 15.0  # so long it matters that somebody was turned away
RESERVED_SLOTS = 32
RESERVED_HEALTH_SLOTS = 8
MAX_ANONYMOUS_BODIES = 64
_RESERVED_PATHS = ("/health", "/oxp/health", "/metrics", "/api/", "/approve/")
_HEALTH_PATHS = ("/health", "/oxp/health")


class FairSlots:
    """Counted slots, shared by key: nobody takes more than are left for the others, or than `per_key`."""

    __slots__ = ("_held", "_per_key", "in_use", "limit")

    in_use: int

    def __init__(self, limit: int, per_key: int | None = None) -> None:
        self.limit = limit
        self.in_use = 0
        self._per_key = limit if per_key is None else per_key
        self._held: dict[str, int] = {}

    def try_acquire(self, key: str) -> bool:
        """Take a slot, if this key may have one more."""
        mine, free = self._held.get(key, 0), self.limit - self.in_use
        if (mine >= free and (key != LOCAL.id or not free)) or mine >= self._per_key:
            return False
        self._held[key] = mine + 1
        self.in_use += 1
        return True

    def release(self, key: str) -> None:
        """Give a slot back."""
        left = self._held[key] - 1
        if left:
            self._held[key] = left
        else:
            del self._held[key]
        self.in_use -= 1

    def held_by(self, key: str) -> int:
        """How many slots this key has."""
        return self._held.get(key, 0)

    @property
    def holders(self) -> int:
        """How many keys hold slots; the others are not remembered."""
        return len(self._held)


class SlotPool(FairSlots):
    """Slots with a queue of those who wait for one."""

    __slots__ = ("_queue", "_wait_seconds", "_waiting")

    def __init__(self, limit: int, per_key: int | None = None, wait_seconds: float = WAIT_SECONDS) -> None:
        super().__init__(limit, per_key)
        self._wait_seconds = wait_seconds
        self._waiting = FairSlots(max(1, limit // 4))
        self._queue: dict[asyncio.Future[bool], str] = {}  # in order of arrival

    @property
    def is_queue_full(self) -> bool:
        """Whether nobody more may wait."""
        return self._waiting.in_use >= self._waiting.limit

    async def acquire(self, key: str) -> bool:
        """A slot that comes free in a moment; False if none does."""
        if not self._waiting.try_acquire(key):
            return False
        loop = asyncio.get_running_loop()
        coming: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(self._wait_seconds, _time_out, coming)
        self._queue[coming] = key
        try:
            return await coming
        except asyncio.CancelledError:
            if coming.done() and not coming.cancelled() and coming.result():
                self.release(key)  # it came too late
            raise
        finally:
            timer.cancel()
            self._queue.pop(coming, None)
            self._waiting.release(key)

    def release(self, key: str) -> None:
        """Give a slot back; the first in the queue whose share allows it has it next."""
        left = self._held[key] - 1  # as above, without the cost of asking there: every request comes by
        if left:
            self._held[key] = left
        else:
            del self._held[key]
        self.in_use -= 1
        if self._queue:
            self._wake_next()

    def _wake_next(self) -> None:
        for coming, key in self._queue.items():
            if not coming.done() and self.try_acquire(key):  # who has given up may not have noticed yet
                del self._queue[coming]
                coming.set_result(True)
                return


class NoSlot(Exception):
    """There is no slot for this caller now: it is told when to come back."""


class ReleasableSlot(Protocol):
    """Counted slots of one kind, one of which a request has."""

    def release(self, key: str) -> None:
        """Give it back."""
        ...


class Droppable(Protocol):
    """A request whose body is incomplete."""

    def drop(self) -> None:
        """End it and its connection."""
        ...


class IncompleteBodies:
    """Requests whose body is incomplete; of strangers, the oldest of the busiest address makes way for a new one."""

    def __init__(self, limit: int, anonymous_limit: int) -> None:
        self.callers = FairSlots(limit)
        self._anonymous_limit = anonymous_limit
        self._anonymous: dict[Droppable, str] = {}  # in order of arrival

    @property
    def anonymous(self) -> int:
        """How many are of strangers."""
        return len(self._anonymous)

    def add_anonymous(self, key: str, request: Droppable) -> None:
        """Count one more of a stranger; another one is dropped for it where there are too many."""
        if len(self._anonymous) >= self._anonymous_limit:
            oldest = self._oldest_of_busiest(key)
            del self._anonymous[oldest]
            oldest.drop()
        self._anonymous[request] = key

    def remove_anonymous(self, request: Droppable) -> None:
        """It is complete, or gone."""
        self._anonymous.pop(request, None)

    def _oldest_of_busiest(self, newcomer: str) -> Droppable:
        counts: dict[str, int] = {newcomer: 1}
        for key in self._anonymous.values():
            counts[key] = counts.get(key, 0) + 1
        most = max(counts.values())
        for request, key in self._anonymous.items():
            if counts[key] == most:
                return request
        return next(iter(self._anonymous))  # only a newcomer that is alone has more, and it has none in here


class ConcurrencyLimiter:
    """The limiter of one process; see the top of this module for how it works."""

    def __init__(
        self,
        limit: int = MAX_CONCURRENT_REQUESTS,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        *,
        per_caller: int | None = None,
        anonymous_limit: int | None = None,
    ) -> None:
        self.callers = SlotPool(limit, per_caller, wait_seconds)
        self.anonymous = SlotPool(anonymous_limit or max(1, limit // 4), per_caller, wait_seconds)
        self.reserve = FairSlots(RESERVED_SLOTS)
        self.health = FairSlots(RESERVED_HEALTH_SLOTS)
        self.bodies = IncompleteBodies(limit, MAX_ANONYMOUS_BODIES)
        self._clock = clock
        self._last_full_at: float | None = None  # when somebody last found no slot

    @property
    def running(self) -> int:
        """How many requests have a slot."""
        return self.callers.in_use + self.anonymous.in_use + self.reserve.in_use + self.health.in_use

    @property
    def is_overloaded(self) -> bool:
        """Whether proven callers hold every slot, or did so lately when somebody asked for one."""
        if self.callers.in_use >= self.callers.limit:
            return True
        return self._last_full_at is not None and self._clock() - self._last_full_at < OVERLOADED_SECONDS

    def try_acquire(self, caller: Caller, path: str) -> ReleasableSlot | None:
        """Take a slot; returns where, None if this caller may have none now."""
        if caller.proof == "none":
            key = caller.rate_limit_key
            if self.anonymous.try_acquire(key):
                return self.anonymous
            return self.health if path.startswith(_HEALTH_PATHS) and self.health.try_acquire(key) else None
        if self.callers.try_acquire(caller.id):
            return self.callers
        if path.startswith(_RESERVED_PATHS) and self.reserve.try_acquire(caller.id):
            return self.reserve
        if self.callers.in_use >= self.callers.limit:
            self._last_full_at = self._clock()
        return None

    async def acquire(self, caller: Caller) -> ReleasableSlot | None:
        """A slot that comes free in a moment; returns where, None if none does."""
        pool = self.anonymous if caller.proof == "none" else self.callers
        return pool if await pool.acquire(slot_key(caller)) else None

    def rejects(self, path: str) -> bool:
        """Whether a request is refused whoever sent it: every slot is taken, and nobody more may wait."""
        callers = self.callers
        if callers.in_use < callers.limit or not callers.is_queue_full or path.startswith(_RESERVED_PATHS):
            return False
        self._last_full_at = self._clock()
        return True


def slot_key(caller: Caller) -> str:
    """What is counted as one caller: whoever proved nothing is told apart by its address."""
    return caller.id if caller.address is None else caller.rate_limit_key


def _time_out(waiter: "asyncio.Future[bool]") -> None:
    if not waiter.done():
        waiter.set_result(False)
