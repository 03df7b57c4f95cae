"""Who may run now: every tool has a share, so that one that holds on to its places never takes those of the others."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator

import msgspec

from toolhall.model.errors import Unavailable

_MOST_WAITING = 1_000


class Shares(msgspec.Struct, frozen=True):
    """How many places there are for all tools, for each of them, and altogether with those held in reserve.

    The first place of a tool comes out of the reserve when the shared ones are taken.
    """

    shared: int
    each: int
    most: int


class _Queue:
    """What is known of one tool."""

    __slots__ = ("lost", "running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.lost = 0  # places of calls that are over, where nobody could stop the work
        self.waiting: deque[asyncio.Future[None]] = deque()


class Turns:
    """Counts places; they may be given back in any thread, also after the loop of the call has ended."""

    def __init__(self, shares: Shares) -> None:
        self._shares = shares
        self._lock = threading.Lock()
        self._queues: dict[str, _Queue] = {}
        self.running = 0
        self.lost = 0

    def lost_by(self, tool: str) -> int:
        """How many places this tool has lost and not yet given back."""
        queue = self._queues.get(tool)
        return queue.lost if queue else 0

    async def enter(self, tool: str) -> None:
        """Wait for a place; Unavailable when too many wait already."""
        waiter = self._enter(tool)
        if waiter is None:
            return
        try:
            await waiter
        except asyncio.CancelledError:
            self._withdraw(tool, waiter)
            raise

    def leave(self, tool: str, *, was_lost: bool = False) -> None:
        """Give a place back, and let those in who can use it."""
        with self._lock:
            self._end(tool, was_lost=was_lost)

    def lose(self, tool: str) -> None:
        """A call is over and its work goes on: its place no longer counts as the tool's, until it is given back."""
        with self._lock:
            queue = self._queues[tool]
            queue.running -= 1
            queue.lost += 1
            self.running -= 1
            self.lost += 1
            self._admit()

    def _enter(self, tool: str) -> "asyncio.Future[None] | None":
        with self._lock:
            queue = self._queues.get(tool)
            if queue is None:
                queue = self._queues[tool] = _Queue()
            if not queue.waiting and self._has_place(queue):
                self._begin(queue)
                return None
            if len(queue.waiting) >= _MOST_WAITING:
                raise Unavailable(f"{len(queue.waiting)} calls already wait for this tool; try again later")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.waiting.append(waiter)
            return waiter

    def _withdraw(self, tool: str, waiter: "asyncio.Future[None]") -> None:
        with self._lock:
            queue = self._queues[tool]
            if waiter in queue.waiting:
                queue.waiting.remove(waiter)
                self._forget(tool, queue)
            else:  # the place came at the same moment
                self._end(tool, was_lost=False)

    def _has_place(self, queue: _Queue) -> bool:
        if self.running + self.lost >= self._shares.most:
            return False
        return not queue.running or (queue.running < self._shares.each and self.running < self._shares.shared)

    def _begin(self, queue: _Queue) -> None:
        queue.running += 1
        self.running += 1

    def _end(self, tool: str, *, was_lost: bool) -> None:
        queue = self._queues[tool]
        if was_lost:
            queue.lost -= 1
            self.lost -= 1
        else:
            queue.running -= 1
            self.running -= 1
        self._forget(tool, queue)
        self._admit()

    def _forget(self, tool: str, queue: _Queue) -> None:
        if not (queue.running or queue.lost or queue.waiting):
            del self._queues[tool]

    def _admit(self) -> None:
        """Let in who can come in; the tool that was served goes to the end of the line."""
        for tool, queue in list(self._waiting()):
            while queue.waiting and self._has_place(queue):
                waiter = queue.waiting.popleft()
                self._begin(queue)
                if not _wake(waiter):
                    queue.running -= 1
                    self.running -= 1
                self._queues[tool] = self._queues.pop(tool)

    def _waiting(self) -> Iterator[tuple[str, _Queue]]:
        return ((tool, queue) for tool, queue in self._queues.items() if queue.waiting)


def _wake(waiter: "asyncio.Future[None]") -> bool:
    """False when the loop it waits in is no more."""
    try:
        waiter.get_loop().call_soon_threadsafe(_grant, waiter)
    except RuntimeError:
        return False
    return True


def _grant(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)
