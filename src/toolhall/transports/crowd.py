"""A bounded number of tasks that run side by side and end together."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class Crowd:
    """Whoever starts one too many waits until there is room."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def full(self) -> bool:
        """Whether the next one would wait."""
        return self._room.locked()

    async def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run it, once there is room."""
        await self._room.acquire()
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def finish(self, seconds: float = 0.0) -> None:
        """Give what runs a moment to end, then end it."""
        if self._tasks and seconds:
            await asyncio.wait(self._tasks, timeout=seconds)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._room.release()
