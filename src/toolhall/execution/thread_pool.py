"""`ThreadPool`: runs sync tools in daemon threads, with a fair share of slots for each tool (`FairScheduler`).

A thread cannot be stopped. When a call ends before its thread does, the thread is abandoned: its slot no longer counts
as the tool's, but it counts toward the total until the thread ends. `FairScheduler` also schedules worker processes.
"""

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from toolhall.model.errors import Unavailable

_MAX_WAITING = 1_000


class SchedulerLimits(msgspec.Struct, frozen=True):
    """How many places there are for all tools, for each of them, and altogether with those held in reserve.

    The first place of a tool comes out of the reserve when the shared ones are taken.
    """

    shared: int
    per_tool: int
    total: int


class _ToolQueue:
    """What is known of one tool."""

    __slots__ = ("abandoned", "running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.abandoned = 0  # places of calls that are over, where nobody could stop the work
        self.waiting: deque[asyncio.Future[None]] = deque()


class FairScheduler:
    """Counts places; they may be given back in any thread, also after the loop of the call has ended."""

    def __init__(self, limits: SchedulerLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._queues: dict[str, _ToolQueue] = {}
        self.running = 0
        self.abandoned = 0

    def abandoned_by(self, tool: str) -> int:
        """How many places this tool has lost and not yet given back."""
        queue = self._queues.get(tool)
        return queue.abandoned if queue else 0

    async def acquire(self, tool: str) -> None:
        """Wait for a place; Unavailable when too many wait already."""
        waiter = self._try_acquire(tool)
        if waiter is None:
            return
        try:
            await waiter
        except asyncio.CancelledError:
            self._cancel_wait(tool, waiter)
            raise

    def release(self, tool: str, *, was_abandoned: bool = False) -> None:
        """Give a place back, and let those in who can use it."""
        with self._lock:
            self._free_slot(tool, was_abandoned=was_abandoned)

    def abandon(self, tool: str) -> None:
        """A call is over and its work goes on: its place no longer counts as the tool's, until it is given back."""
        with self._lock:
            queue = self._queues[tool]
            queue.running -= 1
            queue.abandoned += 1
            self.running -= 1
            self.abandoned += 1
            self._wake_waiters()

    def _try_acquire(self, tool: str) -> "asyncio.Future[None] | None":
        with self._lock:
            queue = self._queues.get(tool)
            if queue is None:
                queue = self._queues[tool] = _ToolQueue()
            if not queue.waiting and self._has_slot(queue):
                self._take_slot(queue)
                return None
            if len(queue.waiting) >= _MAX_WAITING:
                raise Unavailable(f"{len(queue.waiting)} calls already wait for this tool; try again later")
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            queue.waiting.append(waiter)
            return waiter

    def _cancel_wait(self, tool: str, waiter: "asyncio.Future[None]") -> None:
        with self._lock:
            queue = self._queues[tool]
            if waiter in queue.waiting:
                queue.waiting.remove(waiter)
                self._drop_if_unused(tool, queue)
            else:  # the place came at the same moment
                self._free_slot(tool, was_abandoned=False)

    def _has_slot(self, queue: _ToolQueue) -> bool:
        if self.running + self.abandoned >= self._limits.total:
            return False
        return not queue.running or (queue.running < self._limits.per_tool and self.running < self._limits.shared)

    def _take_slot(self, queue: _ToolQueue) -> None:
        queue.running += 1
        self.running += 1

    def _free_slot(self, tool: str, *, was_abandoned: bool) -> None:
        queue = self._queues[tool]
        if was_abandoned:
            queue.abandoned -= 1
            self.abandoned -= 1
        else:
            queue.running -= 1
            self.running -= 1
        self._drop_if_unused(tool, queue)
        self._wake_waiters()

    def _drop_if_unused(self, tool: str, queue: _ToolQueue) -> None:
        if not (queue.running or queue.abandoned or queue.waiting):
            del self._queues[tool]

    def _wake_waiters(self) -> None:
        """Let in who can come in; the tool that was served goes to the end of the line."""
        for tool, tool_queue in list(self._waiting_queues()):
            while tool_queue.waiting and self._has_slot(tool_queue):
                waiter = tool_queue.waiting.popleft()
                self._take_slot(tool_queue)
                if not _wake(waiter):
                    tool_queue.running -= 1
                    self.running -= 1
                self._queues[tool] = self._queues.pop(tool)

    def _waiting_queues(self) -> Iterator[tuple[str, _ToolQueue]]:
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


class _Job:
    """One piece of work, the thread's way to report it, and whether anybody still waits for it."""

    __slots__ = ("_future", "_work", "abandoned", "ended", "tool")

    def __init__(self, tool: str, work: Callable[[], object], future: "asyncio.Future[object]") -> None:
        self.tool = tool
        self.abandoned = False
        self.ended = False
        self._work = work
        self._future = future

    def execute(self) -> Callable[[], None]:
        """Do it; what then hands the outcome to the loop."""
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, and must not end the thread
            return lambda failure=error: self._report(_set_exception, failure)  # type: ignore[misc]
        return lambda: self._report(_set_result, result)

    def _report(self, settle: Callable[["asyncio.Future[object]", object], None], outcome: object) -> None:
        try:
            self._future.get_loop().call_soon_threadsafe(settle, self._future, outcome)
        except RuntimeError:
            return  # the loop has ended, and whoever waited with it


class ThreadPool:
    """At most so many at once; those that are lost do not count, as long as there are not too many of them.

    They are daemons: a tool that hangs in one does not keep the hall from ending.
    """

    def __init__(self, size: int) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._scheduler = FairScheduler(
            SchedulerLimits(shared=size, per_tool=min(size, max(2, size // 2)), total=2 * size)
        )
        self._lock = threading.Lock()  # between a call that ends early and its thread that ends at the same moment
        self._alive = 0
        self._closed = False

    @property
    def abandoned(self) -> int:
        """How many still work for nobody."""
        return self._scheduler.abandoned

    def abandoned_by(self, tool: str) -> int:
        """How many of them were lost by this tool."""
        return self._scheduler.abandoned_by(tool)

    async def run(self, tool: str, work: Callable[[], object], grace: Callable[[], float]) -> object:
        """The work's result; when the call ends before it, the thread is lost after a grace of so many seconds."""
        await self._scheduler.acquire(tool)
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()
        job = _Job(tool, lambda: context.run(work), future)
        self._jobs.put(job)
        if self._alive < self._scheduler.running + self._scheduler.abandoned and not self._closed:
            self._alive += 1
            threading.Thread(target=self._run_jobs, name=f"toolhall-tool_{self._alive}", daemon=True).start()
        try:
            return await future
        except asyncio.CancelledError:
            if (seconds := grace()) > 0:
                asyncio.get_running_loop().call_later(seconds, self._abandon, job)
            else:
                self._abandon(job)
            raise

    def close(self) -> None:
        """Let idle threads end; what runs may finish."""
        self._closed = True
        for _ in range(self._alive):
            self._jobs.put(None)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            report = job.execute()
            with self._lock:
                job.ended = True
                was_lost = job.abandoned
            self._scheduler.release(job.tool, was_abandoned=was_lost)
            report()
            del job, report  # what it holds must not live until the next one comes

    def _abandon(self, job: _Job) -> None:
        with self._lock:
            if job.ended:
                return
            job.abandoned = True
            self._scheduler.abandon(job.tool)


def _set_result(future: "asyncio.Future[object]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: "asyncio.Future[object]", error: object) -> None:
    if not future.done() and isinstance(error, BaseException):
        future.set_exception(error)
