"""`ThreadPool`: runs sync tools in daemon threads, with a fair share of slots for each tool (`FairScheduler`).

Theory of operation
-------------------
`FairScheduler` counts slots. A tool may take one if the total allows it and either the tool runs nothing yet (its first
slot comes out of a reserve, so that no busy tool can keep another from running at all) or the tool is below its own
limit and the shared slots are not used up. Otherwise the call waits in a queue of its tool, at most 1,000 of them, then
it is refused. When a slot becomes free, the queues are served in turn: a tool that was served goes to the end of the
order, so a tool with a thousand waiting calls delays another tool's call by one slot, not by a thousand.

A thread cannot be stopped. When a call ends before its thread does (cancelled, or past its deadline), the thread is
abandoned after a grace period: its slot no longer counts as the tool's nor as a shared one, but it counts toward the
total until the thread ends. So hanging tools cannot take the slots of others, and cannot make the number of threads
grow beyond the total either (twice the pool's size).

Slots are given back in any thread, also after the loop of the call has ended; waiters are woken in their own loop.
Threads are daemons: a tool that hangs does not keep the process from exiting. `FairScheduler` also schedules worker
processes (see `worker_pool`).
"""

import asyncio
import contextvars
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from toolhall.model.errors import Unavailable

_MAX_WAITING = 1_000  # calls of one tool


class SchedulerLimits(msgspec.Struct, frozen=True):
    """Slots shared by all tools, the most that one tool may have, and the total with the reserve and abandoned ones."""

    shared: int
    per_tool: int
    total: int


class _ToolQueue:
    """The slots and the waiting calls of one tool."""

    __slots__ = ("abandoned", "running", "waiting")

    def __init__(self) -> None:
        self.running = 0
        self.abandoned = 0  # slots of calls that are over, whose work could not be stopped
        self.waiting: deque[asyncio.Future[None]] = deque()


class FairScheduler:
    """Counts slots and queues calls per tool; safe to use from any thread."""

    def __init__(self, limits: SchedulerLimits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._queues: dict[str, _ToolQueue] = {}
        self.running = 0
        self.abandoned = 0

    def abandoned_by(self, tool: str) -> int:
        """How many abandoned slots of this tool are still in use."""
        queue = self._queues.get(tool)
        return queue.abandoned if queue else 0

    async def acquire(self, tool: str) -> None:
        """Wait for a slot; raises Unavailable if too many calls of this tool wait already."""
        waiter = self._try_acquire(tool)
        if waiter is None:
            return
        try:
            await waiter
        except asyncio.CancelledError:
            self._cancel_wait(tool, waiter)
            raise

    def release(self, tool: str, *, was_abandoned: bool = False) -> None:
        """Give a slot back, and wake the calls that can use it."""
        with self._lock:
            self._free_slot(tool, was_abandoned=was_abandoned)

    def abandon(self, tool: str) -> None:
        """Count the slot as abandoned: its call is over, and its work goes on until it is released."""
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
            else:  # the slot was granted at the same moment
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
        """Grant free slots to waiting calls; a tool that was served goes to the end of the order."""
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
    """Wake a waiter in its loop; False if that loop is closed."""
    try:
        waiter.get_loop().call_soon_threadsafe(_grant, waiter)
    except RuntimeError:
        return False
    return True


def _grant(waiter: "asyncio.Future[None]") -> None:
    if not waiter.done():
        waiter.set_result(None)


class _Job:
    """One function call for a thread, the future of its result, and whether its call has been abandoned."""

    __slots__ = ("_future", "_work", "abandoned", "ended", "tool")

    def __init__(self, tool: str, work: Callable[[], object], future: "asyncio.Future[object]") -> None:
        self.tool = tool
        self.abandoned = False
        self.ended = False
        self._work = work
        self._future = future

    def execute(self) -> Callable[[], None]:
        """Call the function; returns a function that hands the outcome to the loop."""
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - it belongs to the call, and must not end the thread
            return lambda failure=error: self._report(_set_exception, failure)  # type: ignore[misc]
        return lambda: self._report(_set_result, result)

    def _report(self, settle: Callable[["asyncio.Future[object]", object], None], outcome: object) -> None:
        try:
            self._future.get_loop().call_soon_threadsafe(settle, self._future, outcome)
        except RuntimeError:
            return  # the loop is closed, and the call has ended with it


class ThreadPool:
    """Runs at most `size` functions at once, each in a daemon thread; starts threads as they are needed."""

    def __init__(self, size: int) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._scheduler = FairScheduler(
            SchedulerLimits(shared=size, per_tool=min(size, max(2, size // 2)), total=2 * size)
        )
        self._lock = threading.Lock()  # for a call that is abandoned at the moment in which its thread ends
        self._alive = 0
        self._closed = False

    @property
    def abandoned(self) -> int:
        """How many threads run for calls that are over."""
        return self._scheduler.abandoned

    def abandoned_by(self, tool: str) -> int:
        """How many of these threads run this tool."""
        return self._scheduler.abandoned_by(tool)

    async def run(self, tool: str, work: Callable[[], object], grace: Callable[[], float]) -> object:
        """The result of the work. If the caller is cancelled first, the thread is abandoned after `grace()` seconds."""
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
        """Let idle threads end; running work may finish."""
        self._closed = True
        for _ in range(self._alive):
            self._jobs.put(None)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            report = job.execute()
            with self._lock:
                job.ended = True
                was_abandoned = job.abandoned
            self._scheduler.release(job.tool, was_abandoned=was_abandoned)
            report()
            del job, report  # its arguments and result must not live until the next job comes

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
