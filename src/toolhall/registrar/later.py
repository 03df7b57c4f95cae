"""What must be done soon in the loop that serves, asked for by code that cannot wait for it, perhaps in a thread."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from toolhall.model.errors import ToolhallError

Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
_log = logging.getLogger("toolhall.registrar")


class Later:
    """Keeps work until there is a loop, then does it there."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: list[Work] = []
        self._doing: set[asyncio.Task[None]] = set()

    def do(self, work: Work) -> None:
        """Soon, or once there is a loop."""
        self._waiting.append(work)
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.begin)

    def begin(self) -> None:
        """Do in the loop that runs now what waits, and from now on everything."""
        self._loop = asyncio.get_running_loop()
        waiting, self._waiting = self._waiting, []
        for work in waiting:
            task = self._loop.create_task(_guarded(work))
            self._doing.add(task)
            task.add_done_callback(self._doing.discard)

    def stop(self) -> None:
        """Nothing more is done."""
        self._loop = None
        for task in self._doing:
            task.cancel()


async def _guarded(work: Work) -> None:
    try:
        await work()
    except ToolhallError as error:
        _log.warning("code that was added is served but not remembered: %s", error.detail or error.message)
