"""Admission of requests: how many are answered at once, and how the slots are shared between callers.

Theory of operation. A request passes four points, in this order:

1. Its headers are checked and its caller is proven. Neither takes a slot.
2. While its body is incomplete it holds a place in `bodies`, which bounds memory and nothing else. A body that came
   whole with its headers holds none.
3. Once its body is there it takes a slot: `callers` for whoever proved something, `strangers` for everybody else. The
   two never borrow from each other, so strangers cannot keep a proven caller out, whatever they send.
4. It gives the slot back with its reply. A stream that only listens gives it back earlier and is counted elsewhere.

Slots are shared by one rule (`FairShares.take`): a caller gets one more only while it holds fewer than are free. Alone,
it ends at half of them; n callers that take all they can get end at 1/(n+1) each, and a newcomer always finds some.
`per_caller` can lower that bound further. Strangers are told apart by address. The local user, who is every program of
this machine, shares with nobody in its profile and may take whatever is free.

Whoever finds no slot waits in a queue for `WAIT_SECONDS`, in order of arrival, and is then refused. The queue is
bounded and shared by the same rule; WebSocket messages wait in it like HTTP requests. A slot that comes free goes to
the first in the queue whose share allows it.

Two small reserves stay for those who must see and mend what is wrong: `reserve` for proven callers of the vital paths,
`health` for strangers (load balancers) that ask for the health.

Incomplete bodies of strangers are few, and the newest has precedence: when there are too many, the oldest one of the
address that has most of them is dropped. An attacker who renews half-sent bodies drops its own.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from toolhall.model.caller import LOCAL, Caller

MOST_AT_ONCE = 256
WAIT_SECONDS = 0.05  # a refusal comes soon, so that a client can go elsewhere
STRAINED_SECONDS = 15.0  # so long it matters that somebody was turned away
RESERVED = 32
RESERVED_FOR_HEALTH = 8
MOST_STRANGERS_BODIES = 64
_VITAL = ("/health", "/oxp/health", "/metrics", "/api/", "/approve/")
_HEALTH = ("/health", "/oxp/health")


class FairShares:
    """Counted slots, shared by key: nobody takes more than are left for the others, or than `per_key`."""

    __slots__ = ("_held", "_per_key", "most", "taken")

    taken: int

    def __init__(self, most: int, per_key: int | None = None) -> None:
        self.most = most
        self.taken = 0
        self._per_key = most if per_key is None else per_key
        self._held: dict[str, int] = {}

    def take(self, key: str) -> bool:
        """Take a slot, if this key may have one more."""
        mine, free = self._held.get(key, 0), self.most - self.taken
        if (mine >= free and (key != LOCAL.id or not free)) or mine >= self._per_key:
            return False
        self._held[key] = mine + 1
        self.taken += 1
        return True

    def leave(self, key: str) -> None:
        """Give a slot back."""
        left = self._held[key] - 1
        if left:
            self._held[key] = left
        else:
            del self._held[key]
        self.taken -= 1

    def held(self, key: str) -> int:
        """How many slots this key has."""
        return self._held.get(key, 0)

    @property
    def keys(self) -> int:
        """How many keys hold slots; the others are not remembered."""
        return len(self._held)


class SlotPool(FairShares):
    """Slots with a queue of those who wait for one."""

    __slots__ = ("_queue", "_seconds", "_waiting")

    def __init__(self, most: int, per_key: int | None = None, wait_seconds: float = WAIT_SECONDS) -> None:
        super().__init__(most, per_key)
        self._seconds = wait_seconds
        self._waiting = FairShares(max(1, most // 4))
        self._queue: dict[asyncio.Future[bool], str] = {}  # in order of arrival

    @property
    def queue_is_full(self) -> bool:
        """Whether nobody more may wait."""
        return self._waiting.taken >= self._waiting.most

    async def wait(self, key: str) -> bool:
        """A slot that comes free in a moment; False if none does."""
        if not self._waiting.take(key):
            return False
        loop = asyncio.get_running_loop()
        coming: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(self._seconds, _give_up, coming)
        self._queue[coming] = key
        try:
            return await coming
        except asyncio.CancelledError:
            if coming.done() and not coming.cancelled() and coming.result():
                self.leave(key)  # it came too late
            raise
        finally:
            timer.cancel()
            self._queue.pop(coming, None)
            self._waiting.leave(key)

    def leave(self, key: str) -> None:
        """Give a slot back; the first in the queue whose share allows it has it next."""
        left = self._held[key] - 1  # as above, without the cost of asking there: every request comes by
        if left:
            self._held[key] = left
        else:
            del self._held[key]
        self.taken -= 1
        if self._queue:
            self._hand_over()

    def _hand_over(self) -> None:
        for coming, key in self._queue.items():
            if not coming.done() and self.take(key):  # who has given up may not have noticed yet
                del self._queue[coming]
                coming.set_result(True)
                return


class NoSlot(Exception):
    """There is no slot for this caller now: it is told when to come back."""


class Slots(Protocol):
    """Counted slots of one kind, one of which a request has."""

    def leave(self, key: str) -> None:
        """Give it back."""
        ...


class Droppable(Protocol):
    """A request whose body is incomplete."""

    def drop(self) -> None:
        """End it and its connection."""
        ...


class Bodies:
    """Requests whose body is incomplete; of strangers, the oldest of the busiest address makes way for a new one."""

    def __init__(self, most: int, most_of_strangers: int) -> None:
        self.callers = FairShares(most)
        self._most = most_of_strangers
        self._strangers: dict[Droppable, str] = {}  # in order of arrival

    @property
    def strangers(self) -> int:
        """How many are of strangers."""
        return len(self._strangers)

    def begin_stranger(self, key: str, request: Droppable) -> None:
        """Count one more of a stranger; another one is dropped for it where there are too many."""
        if len(self._strangers) >= self._most:
            oldest = self._oldest_of_busiest(key)
            del self._strangers[oldest]
            oldest.drop()
        self._strangers[request] = key

    def end_stranger(self, request: Droppable) -> None:
        """It is complete, or gone."""
        self._strangers.pop(request, None)

    def _oldest_of_busiest(self, newcomer: str) -> Droppable:
        counts: dict[str, int] = {newcomer: 1}
        for key in self._strangers.values():
            counts[key] = counts.get(key, 0) + 1
        most = max(counts.values())
        for request, key in self._strangers.items():
            if counts[key] == most:
                return request
        return next(iter(self._strangers))  # only a newcomer that is alone has more, and it has none in here


class RequestLimiter:
    """The limiter of one process; see the top of this module for how it works."""

    def __init__(
        self,
        most: int = MOST_AT_ONCE,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        *,
        per_caller: int | None = None,
        strangers: int | None = None,
    ) -> None:
        self.callers = SlotPool(most, per_caller, wait_seconds)
        self.strangers = SlotPool(strangers or max(1, most // 4), per_caller, wait_seconds)
        self.reserve = FairShares(RESERVED)
        self.health = FairShares(RESERVED_FOR_HEALTH)
        self.bodies = Bodies(most, MOST_STRANGERS_BODIES)
        self._clock = clock
        self._full_at: float | None = None  # when somebody last found no slot

    @property
    def running(self) -> int:
        """How many requests have a slot."""
        return self.callers.taken + self.strangers.taken + self.reserve.taken + self.health.taken

    @property
    def strained(self) -> bool:
        """Whether proven callers hold every slot, or did so lately when somebody asked for one."""
        if self.callers.taken >= self.callers.most:
            return True
        return self._full_at is not None and self._clock() - self._full_at < STRAINED_SECONDS

    def enter(self, caller: Caller, path: str) -> Slots | None:
        """Take a slot; returns where, None if this caller may have none now."""
        if caller.proof == "none":
            key = caller.account
            if self.strangers.take(key):
                return self.strangers
            return self.health if path.startswith(_HEALTH) and self.health.take(key) else None
        if self.callers.take(caller.id):
            return self.callers
        if path.startswith(_VITAL) and self.reserve.take(caller.id):
            return self.reserve
        if self.callers.taken >= self.callers.most:
            self._full_at = self._clock()
        return None

    async def wait(self, caller: Caller) -> Slots | None:
        """A slot that comes free in a moment; returns where, None if none does."""
        pool = self.strangers if caller.proof == "none" else self.callers
        return pool if await pool.wait(key_of(caller)) else None

    def turns_away(self, path: str) -> bool:
        """Whether a request is refused whoever sent it: every slot is taken, and nobody more may wait."""
        callers = self.callers
        if callers.taken < callers.most or not callers.queue_is_full or path.startswith(_VITAL):
            return False
        self._full_at = self._clock()
        return True


def key_of(caller: Caller) -> str:
    """What is counted as one caller: whoever proved nothing is told apart by its address."""
    return caller.id if caller.address is None else caller.account


def _give_up(coming: "asyncio.Future[bool]") -> None:
    if not coming.done():
        coming.set_result(False)
