"""Threads for sync tools: a fair share for each tool, and an account of those that nobody can stop any more."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable

from toolhall.runners.turns import Shares, Turns


class _Job:
    """One piece of work, the thread's way to report it, and whether anybody still waits for it."""

    __slots__ = ("_future", "_work", "ended", "lost", "tool")

    def __init__(self, tool: str, work: Callable[[], object], future: "asyncio.Future[object]") -> None:
        self.tool = tool
        self.lost = False
        self.ended = False
        self._work = work
        self._future = future

    def do(self) -> Callable[[], None]:
        """Do it; what then hands the outcome to the loop."""
        try:
            result = self._work()
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, and must not end the thread
            return lambda failure=error: self._report(_fail, failure)  # type: ignore[misc]
        return lambda: self._report(_succeed, result)

    def _report(self, settle: Callable[["asyncio.Future[object]", object], None], outcome: object) -> None:
        try:
            self._future.get_loop().call_soon_threadsafe(settle, self._future, outcome)
        except RuntimeError:
            return  # the loop has ended, and whoever waited with it


class Threads:
    """At most so many at once; those that are lost do not count, as long as there are not too many of them.

    They are daemons: a tool that hangs in one does not keep the hall from ending.
    """

    def __init__(self, size: int) -> None:
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._turns = Turns(Shares(shared=size, each=min(size, max(2, size // 2)), most=2 * size))
        self._lock = threading.Lock()  # between a call that ends early and its thread that ends at the same moment
        self._alive = 0
        self._closed = False

    @property
    def lost(self) -> int:
        """How many still work for nobody."""
        return self._turns.lost

    def lost_by(self, tool: str) -> int:
        """How many of them were lost by this tool."""
        return self._turns.lost_by(tool)

    async def run(self, tool: str, work: Callable[[], object], grace: Callable[[], float]) -> object:
        """The work's result; when the call ends before it, the thread is lost after a grace of so many seconds."""
        await self._turns.enter(tool)
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        context = contextvars.copy_context()
        job = _Job(tool, lambda: context.run(work), future)
        self._jobs.put(job)
        if self._alive < self._turns.running + self._turns.lost and not self._closed:
            self._alive += 1
            threading.Thread(target=self._serve, name=f"toolhall-tool_{self._alive}", daemon=True).start()
        try:
            return await future
        except asyncio.CancelledError:
            if (seconds := grace()) > 0:
                asyncio.get_running_loop().call_later(seconds, self._lose, job)
            else:
                self._lose(job)
            raise

    def close(self) -> None:
        """Let idle threads end; what runs may finish."""
        self._closed = True
        for _ in range(self._alive):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            report = job.do()
            with self._lock:
                job.ended = True
                was_lost = job.lost
            self._turns.leave(job.tool, was_lost=was_lost)
            report()
            del job, report  # what it holds must not live until the next one comes

    def _lose(self, job: _Job) -> None:
        with self._lock:
            if job.ended:
                return
            job.lost = True
            self._turns.lose(job.tool)


def _succeed(future: "asyncio.Future[object]", result: object) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[object]", error: object) -> None:
    if not future.done() and isinstance(error, BaseException):
        future.set_exception(error)
