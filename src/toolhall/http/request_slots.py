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

A request that finds no slot waits in a FIFO queue for up to `WAIT_SECONDS`; then `http.app` answers 503, or
`server.protocol`, if the queue is full too. The queue is bounded and shared by the same rule; WebSocket messages wait
in it like HTTP requests. A released slot goes to the first in the queue whose share allows it.

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
WAIT_SECONDS = 0.05  # short, so that a client can go elsewhere
OVERLOADED_SECONDS = 15.0  # how long a rejection counts as overload
RESERVED_SLOTS = 32
RESERVED_HEALTH_SLOTS = 8
MAX_ANONYMOUS_BODIES = 64
_RESERVED_PATHS = ("/health", "/oxp/health", "/metrics", "/api/", "/approve/")
_HEALTH_PATHS = ("/health", "/oxp/health")


class FairSlots:
    """Counted slots, shared by key: a key holds at most as many as remain free, and at most `per_key`."""

    __slots__ = ("_held", "_per_key", "in_use", "limit")

    in_use: int

    def __init__(self, limit: int, per_key: int | None = None) -> None:
        self.limit = limit
        self.in_use = 0
        self._per_key = limit if per_key is None else per_key
        self._held: dict[str, int] = {}

    def try_acquire(self, key: str) -> bool:
        """Take a slot if this key may have one more."""
        held, free = self._held.get(key, 0), self.limit - self.in_use
        if (held >= free and (key != LOCAL.id or not free)) or held >= self._per_key:
            return False
        self._held[key] = held + 1
        self.in_use += 1
        return True

    def release(self, key: str) -> None:
        """Return a slot of this key."""
        remaining = self._held[key] - 1
        if remaining:
            self._held[key] = remaining
        else:
            del self._held[key]
        self.in_use -= 1

    def held_by(self, key: str) -> int:
        """Return how many slots this key holds."""
        return self._held.get(key, 0)

    @property
    def holders(self) -> int:
        """How many keys hold slots; other keys take no memory."""
        return len(self._held)


class SlotPool(FairSlots):
    """FairSlots with a bounded FIFO queue."""

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
        """Wait up to `wait_seconds` for a slot; False if none became free or the queue is full."""
        if not self._waiting.try_acquire(key):
            return False
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(self._wait_seconds, _time_out, granted)
        self._queue[granted] = key
        try:
            return await granted
        except asyncio.CancelledError:
            if granted.done() and not granted.cancelled() and granted.result():
                self.release(key)  # it was granted just before the cancellation
            raise
        finally:
            timer.cancel()
            self._queue.pop(granted, None)
            self._waiting.release(key)

    def release(self, key: str) -> None:
        """Return a slot; it goes to the first in the queue whose share allows it."""
        remaining = self._held[key] - 1  # inlined from FairSlots.release: every request comes by
        if remaining:
            self._held[key] = remaining
        else:
            del self._held[key]
        self.in_use -= 1
        if self._queue:
            self._wake_next()

    def _wake_next(self) -> None:
        for granted, key in self._queue.items():
            if not granted.done() and self.try_acquire(key):  # a waiter that timed out may still be in the queue
                del self._queue[granted]
                granted.set_result(True)
                return


class NoSlot(Exception):
    """No slot is free for this caller; the client is told when to retry."""


class ReleasableSlot(Protocol):
    """The pool that a request holds a slot of."""

    def release(self, key: str) -> None:
        """Return the slot of this key."""
        ...


class Droppable(Protocol):
    """A request with an incomplete body; `http.request`, which imports this module, implements it."""

    def drop(self) -> None:
        """End the request and its connection."""
        ...


class IncompleteBodies:
    """Requests with incomplete bodies; the oldest anonymous one of the busiest address makes way for a new one."""

    def __init__(self, limit: int, anonymous_limit: int) -> None:
        self.callers = FairSlots(limit)
        self._anonymous_limit = anonymous_limit
        self._anonymous: dict[Droppable, str] = {}  # in order of arrival

    @property
    def anonymous(self) -> int:
        """How many of them are anonymous."""
        return len(self._anonymous)

    def add_anonymous(self, key: str, request: Droppable) -> None:
        """Count one more anonymous request; drop another one if there are too many."""
        if len(self._anonymous) >= self._anonymous_limit:
            oldest = self._oldest_of_busiest(key)
            del self._anonymous[oldest]
            oldest.drop()
        self._anonymous[request] = key

    def remove_anonymous(self, request: Droppable) -> None:
        """Forget a request whose body is complete, or that has ended."""
        self._anonymous.pop(request, None)

    def _oldest_of_busiest(self, newcomer: str) -> Droppable:
        counts: dict[str, int] = {newcomer: 1}
        for key in self._anonymous.values():
            counts[key] = counts.get(key, 0) + 1
        highest = max(counts.values())
        for request, key in self._anonymous.items():
            if counts[key] == highest:
                return request
        return next(iter(self._anonymous))  # only if the newcomer alone is the busiest


class ConcurrencyLimiter:
    """Limits concurrent requests of one process; the module docstring explains how."""

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
        self._last_full_at: float | None = None  # when an authenticated caller last found none

    @property
    def running(self) -> int:
        """How many requests hold a slot."""
        return self.callers.in_use + self.anonymous.in_use + self.reserve.in_use + self.health.in_use

    @property
    def is_overloaded(self) -> bool:
        """Whether authenticated callers hold every slot, or did within 15 seconds when one more was needed."""
        if self.callers.in_use >= self.callers.limit:
            return True
        return self._last_full_at is not None and self._clock() - self._last_full_at < OVERLOADED_SECONDS

    def try_acquire(self, caller: Caller, path: str) -> ReleasableSlot | None:
        """Take a slot and return its pool; None if this caller may have none now."""
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
        """Wait a moment for a slot and return its pool; None if none became free."""
        pool = self.anonymous if caller.proof == "none" else self.callers
        return pool if await pool.acquire(slot_key(caller)) else None

    def rejects(self, path: str) -> bool:
        """Whether any request to this path is rejected unread: every slot is taken, and the queue is full."""
        callers = self.callers
        if callers.in_use < callers.limit or not callers.is_queue_full or path.startswith(_RESERVED_PATHS):
            return False
        self._last_full_at = self._clock()
        return True


def slot_key(caller: Caller) -> str:
    """Return the key that slots are counted by: the caller id, or the address of an anonymous caller."""
    return caller.id if caller.address is None else caller.rate_limit_key


def _time_out(waiter: "asyncio.Future[bool]") -> None:
    if not waiter.done():
        waiter.set_result(False)
