"""The requests that are being answered now, by id, so that a client can cancel one."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from toolhall.dialects.mcp.jsonrpc import Notification, RequestId

_log = logging.getLogger("toolhall.mcp")


class Running:
    """Each request runs in a task of its own."""

    def __init__(self) -> None:
        self._tasks: dict[RequestId, asyncio.Task[None]] = {}
        self._all: set[asyncio.Task[None]] = set()  # also those whose id a later request took

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._tasks

    def __len__(self) -> int:
        return len(self._all)

    def start(self, request_id: RequestId, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run it; of two with the same id, a cancellation reaches the later."""
        task = self._tasks[request_id] = asyncio.create_task(work)
        self._all.add(task)
        task.add_done_callback(lambda done: self._forget(request_id, done))
        return task

    def cancel(self, notification: Notification) -> None:
        """`notifications/cancelled`: one that names nothing that runs comes too late, or never mattered."""
        named = notification.params.get("requestId")
        if not isinstance(named, str | int) or isinstance(named, bool):  # to Python, true is the request number 1
            return
        task = self._tasks.get(named)
        if task:
            _log.info("request %r was cancelled by its client: %.200s", named, notification.params.get("reason"))
            task.cancel()

    async def finish(self, seconds: float) -> None:
        """Give what runs a moment to end, then end it."""
        if self._all:
            await asyncio.wait(self._all, timeout=seconds)
        tasks = self.close()
        await asyncio.gather(*tasks, return_exceptions=True)

    def close(self) -> list[asyncio.Task[None]]:
        """Cancel everything that runs."""
        tasks = list(self._all)
        for task in tasks:
            task.cancel()
        return tasks

    def _forget(self, request_id: RequestId, done: asyncio.Task[None]) -> None:
        self._all.discard(done)
        if self._tasks.get(request_id) is done:
            del self._tasks[request_id]
