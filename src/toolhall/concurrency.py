"""Tasks and locks that outlive their callers (BackgroundTasks, BoundedTaskGroup, SingleFlight), and on_first_suspend.

Theory of operation
-------------------
asyncio keeps only weak references to tasks: a task that nothing else refers to may be collected before it ends. It also
cancels whatever a cancelled task is waiting for, and a client that hangs up cancels the task that serves it. Both are
wrong for work that must finish once it has begun: storing a refreshed OAuth token, writing a change to the store. Every
set of tasks in this package is therefore one of these:

- `BackgroundTasks` holds strong references to tasks until they end. The caller bounds how many it starts. At shutdown
  the owner either waits for all of them (`wait`) or gives them a grace period and then cancels them (`shutdown`).
- `BoundedTaskGroup` runs at most `limit` tasks at a time: `start` waits for a free slot. That wait is the back pressure
  on a reader of a socket or of standard input.
- `SingleFlight` runs one task per key. Callers that need the same key at the same time wait for the same task, each for
  as long as it likes; the task goes on when they stop waiting.
- `DeferredTasks` takes work from code that has no event loop, or that runs in another thread, and runs it in the
  serving loop once `start` was called there.
- `TimeSlices` and `in_portions` let other tasks have a turn in long work of the loop.
- `shielded_exclusive` runs one coroutine at a time under a lock. A coroutine that was handed over finishes even if its
  caller is cancelled while it waits, so a change to the store is never half done.
- `on_first_suspend` starts no task at all: it drives an awaitable step by step in the caller's task and calls a hook
  when the awaitable first has to wait. What only waiting calls need (a deadline's timer, a watch for a disconnect, an
  entry in the table of cancellable calls) is set up in that hook, so that a call which finishes at once pays for none
  of it.

An error of a task that no caller waits for any more reaches the event loop's exception handler (BackgroundTasks,
BoundedTaskGroup) or is dropped (SingleFlight and the shielded functions, whose next caller meets the same error).
"""

import asyncio
import logging
import time
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Hashable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)
TaskFactory: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
_log = logging.getLogger("toolhall.run")


class BackgroundTasks:
    """Holds strong references to running tasks until they end."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> "Iterator[asyncio.Task[Any]]":
        return iter(tuple(self._tasks))

    def start(self, coroutine: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Run the coroutine in a task of the running loop."""
        return self.add(asyncio.get_running_loop().create_task(coroutine))

    def add(self, task: "asyncio.Task[T]") -> "asyncio.Task[T]":
        """Hold a task that runs already."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run_shielded(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine and return its result; it goes on if the caller is cancelled."""
        return await asyncio.shield(self.start(coroutine))

    def cancel(self) -> None:
        """Cancel every task, without waiting."""
        for task in self._tasks:
            task.cancel()

    async def wait(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 - tasks that take longer go on
        """Wait until every task has ended, or for `timeout` seconds; cancels nothing."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    async def shutdown(self, grace_seconds: float = 0.0) -> None:
        """Wait up to `grace_seconds`, then cancel what still runs and wait until it has ended."""
        if grace_seconds:
            await self.wait(grace_seconds)
        tasks = list(self._tasks)
        self.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class BoundedTaskGroup:
    """Runs at most `limit` tasks at a time; starting one more waits for a free slot."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._tasks = BackgroundTasks()

    @property
    def is_full(self) -> bool:
        """Whether the next `start` would wait."""
        return self._slots.locked()

    async def start(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run the coroutine in a task as soon as a slot is free; the task frees the slot when it ends."""
        await self._slots.acquire()
        task = self._tasks.start(coroutine)
        task.add_done_callback(lambda _: self._slots.release())
        return task

    async def shutdown(self, grace_seconds: float = 0.0) -> None:
        """Wait up to `grace_seconds`, then cancel what still runs and wait until it has ended."""
        await self._tasks.shutdown(grace_seconds)


class StillRunning(Exception):
    """The caller of a SingleFlight has waited long enough; the task goes on."""


class SingleFlight(Generic[KeyT, T]):
    """Runs one task per key, which all callers of that key share."""

    def __init__(self) -> None:
        self._flights: dict[KeyT, asyncio.Task[T]] = {}

    async def run(self, key: KeyT, work: Callable[[], Coroutine[Any, Any, T]], wait_seconds: float) -> T:
        """Return the result of the key's task, started now if none runs.

        Raises what the task raises, or StillRunning after `wait_seconds`. The task goes on after a timeout, and if the
        caller is cancelled.
        """
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.get_running_loop().create_task(work())
            flight.add_done_callback(lambda done: self._on_done(key, done))
        done, _ = await asyncio.wait({flight}, timeout=wait_seconds)
        if not done:
            raise StillRunning
        return flight.result()

    async def wait(self, key: KeyT, wait_seconds: float) -> None:
        """Wait for the key's task, if one runs, at most for `wait_seconds`; ignores how it ends."""
        flight = self._flights.get(key)
        if flight is not None:
            await asyncio.wait({flight}, timeout=wait_seconds)

    async def close(self) -> None:
        """Wait until every task has ended; cancels nothing."""
        if self._flights:
            await asyncio.wait(set(self._flights.values()))

    def _on_done(self, key: KeyT, done: "asyncio.Task[T]") -> None:
        self._flights.pop(key, None)
        if not done.cancelled():
            done.exception()  # its callers raise it; without callers, asyncio would log it as never retrieved


class DeferredTasks:
    """Keeps work until a loop runs, then runs it there; work may be submitted from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: list[TaskFactory] = []
        self._running = BackgroundTasks()

    def submit(self, work: TaskFactory) -> None:
        """Run the work soon in the loop of `start`, or as soon as `start` is called."""
        self._pending.append(work)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.start)

    def start(self) -> None:
        """Run what was submitted, and from now on what will be, in the running loop."""
        self._loop = asyncio.get_running_loop()
        pending, self._pending = self._pending, []
        for work in pending:
            self._running.start(work())

    def stop(self) -> None:
        """Cancel what runs; work that is submitted later waits for the next `start`."""
        self._loop = None
        self._running.cancel()


_shielded = BackgroundTasks()  # of all loops: a task whose caller is gone has no other strong reference


async def shielded_exclusive(lock: asyncio.Lock, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine while holding the lock; it waits its turn and finishes even if the caller is cancelled."""

    async def run() -> T:
        async with lock:
            return await coroutine

    task = _shielded.start(run())
    task.add_done_callback(lambda _: coroutine.close())  # one whose turn never came, as the loop ended, was not awaited
    return await asyncio.shield(task)


class TimeSlices:
    """Cuts long work of the loop into slices: `pause` lets other tasks have a turn once a slice is used up."""

    def __init__(self, seconds: float = 0.01) -> None:
        self._seconds = seconds
        self._until = 0.0  # the first `pause` is one

    async def pause(self) -> None:
        """Let other tasks have a turn, if it is time for that; otherwise this costs nothing."""
        if time.monotonic() >= self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + self._seconds


async def in_portions(items: Sequence[T], size: int) -> AsyncIterator[Sequence[T]]:
    """Yield the items in portions, between which other tasks have a turn."""
    for start in range(0, len(items), size):
        if start:
            await asyncio.sleep(0)
        yield items[start : start + size]


def is_short_wait(waiting_for: object) -> bool:
    """Whether this future declares (`brief = True`) that it is done in a moment, so that no watch is worth its cost."""
    return getattr(waiting_for, "brief", False) is True


def _never() -> bool:
    return False


@types.coroutine
def on_first_suspend(
    work: Awaitable[T], on_suspend: Callable[[], None], should_abandon: Callable[[], bool] = _never
) -> Generator[Any, Any, T]:
    """Await the work, and call a hook once if it does not finish at once.

    Short waits (see `is_short_wait`), such as for an audit record that is written to disk, do not count. Results,
    exceptions and cancellations pass through unchanged. Work that goes on waiting after it was cancelled is abandoned
    once `should_abandon` returns True: it is closed where it waits, and CancelledError is raised.
    """
    awaitable: Any = work  # a generator of types.coroutine can be awaited, but has no `__await__`
    steps = awaitable if isinstance(awaitable, types.GeneratorType) else awaitable.__await__()
    try:
        waiting_for = next(steps)
    except StopIteration as finished:
        return finished.value  # type: ignore[no-any-return]
    ended: T = yield from drive_suspended(steps, waiting_for, on_suspend, should_abandon)
    return ended


def drive_suspended(
    steps: Generator[Any, Any, T],
    waiting_for: object,
    on_suspend: Callable[[], None],
    should_abandon: Callable[[], bool] = _never,
) -> Generator[Any, Any, T]:
    """Drive work to its end whose first step had to wait for something; see `on_first_suspend`."""
    suspended = False
    while True:
        if not suspended and not is_short_wait(waiting_for):
            suspended = True
            on_suspend()
        thrown: BaseException | None = None
        try:
            yield waiting_for
        except BaseException as error:  # noqa: BLE001 - a cancellation must reach the work, as it would without us
            thrown = error
        try:
            waiting_for = next(steps) if thrown is None else steps.throw(thrown)
        except StopIteration as finished:
            return finished.value  # type: ignore[no-any-return]
        if thrown is not None and should_abandon():
            _close_abandoned(steps)
            raise asyncio.CancelledError


def _close_abandoned(steps: Generator[Any, Any, Any]) -> None:
    """Close the work where it waits, and log whatever it raises in response."""
    try:
        steps.close()
    except (Exception, asyncio.CancelledError):  # noqa: BLE001
        _log.exception("a tool that was abandoned did not end quietly")
