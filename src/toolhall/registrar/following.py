"""Notices about once a second what other processes have changed in the same store."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from toolhall.model.errors import ToolhallError
from toolhall.stores.base import StoreFailed

LOOK_SECONDS = 1.0
_log = logging.getLogger("toolhall.registrar")


class Following:
    """Calls `take` once the store's version is another; if that fails, what was known stays, and it is tried again."""

    def __init__(self, take: Callable[[], Awaitable[None]]) -> None:
        self._take = take
        self._version: Callable[[], Awaitable[int]] | None = None
        self._seen = 0
        self._failing = False
        self._alarm: asyncio.TimerHandle | None = None
        self._looking: asyncio.Task[None] | None = None

    async def begin(self, version: Callable[[], Awaitable[int]] | None) -> None:
        """What is read after this is what is known; without a version, nobody else changes anything."""
        self._version = version
        if version is not None:
            self._seen = await version()

    def watch(self) -> None:
        """Look from now on, in the loop that runs now."""
        self.stop()
        if self._version is not None:
            self._alarm = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_on)

    def stop(self) -> None:
        """Look no longer."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def look(self) -> None:
        """Take over what was changed, if anything was."""
        if self._version is None:
            return
        try:
            version = await self._version()
            if version != self._seen:
                await self._take()
            self._seen = version
            self._failing = False
        except (StoreFailed, ToolhallError) as failed:
            if not self._failing:  # or it would be said every second
                _log.error("what other processes changed is not known here: %s", getattr(failed, "detail", failed))
            self._failing = True

    def _look_on(self) -> None:
        self._looking = asyncio.get_running_loop().create_task(self.look())
        self._looking.add_done_callback(self._looked)

    def _looked(self, looking: "asyncio.Task[None]") -> None:
        if self._alarm is not None and not looking.cancelled():
            self.watch()
