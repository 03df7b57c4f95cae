"""Bounded and deferred asyncio tasks: BoundedTaskGroup and DeferredTasks.

BoundedTaskGroup runs at most `limit` tasks side by side: `start` waits for a free slot, `shutdown` gives the running
tasks a grace period, then cancels them and waits until they have ended. DeferredTasks takes work from code that has no
event loop or runs in another thread, and runs it in the serving loop once `start` was called there.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from toolhall.model.errors import ToolhallError


class BoundedTaskGroup:
    """Whoever starts one too many waits until there is room."""

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def is_full(self) -> bool:
        """Whether the next one would wait."""
        return self._slots.locked()

    async def start(self, coroutine: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it, once there is room."""
        await self._slots.acquire()
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    async def shutdown(self, grace_seconds: float = 0.0) -> None:
        """Give what runs a moment to end, then end it."""
        if self._tasks and grace_seconds:
            await asyncio.wait(self._tasks, timeout=grace_seconds)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._slots.release()


TaskFactory: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
_log = logging.getLogger("toolhall.registrar")


class DeferredTasks:
    """Keeps work until there is a loop, then does it there."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: list[TaskFactory] = []
        self._running: set[asyncio.Task[None]] = set()

    def submit(self, work: TaskFactory) -> None:
        """Soon, or once there is a loop."""
        self._pending.append(work)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.start)

    def start(self) -> None:
        """Do in the loop that runs now what waits, and from now on everything."""
        self._loop = asyncio.get_running_loop()
        waiting, self._pending = self._pending, []
        for work in waiting:
            task = self._loop.create_task(_run_logged(work))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    def stop(self) -> None:
        """Nothing more is done."""
        self._loop = None
        for task in self._running:
            task.cancel()


async def _run_logged(work: TaskFactory) -> None:
    try:
        await work()
    except ToolhallError as error:
        _log.warning("code that was added is served but not remembered: %s", error.detail or error.message)
