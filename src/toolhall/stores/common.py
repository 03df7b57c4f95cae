"""Shared by every store and its writers: errors, the storability check, MonotonicClock, WriteLock and StorePoller.

StoreFailed means that nothing was changed; its message is one line that names the fix. Stale means that another writer
was faster: read again, then repeat the change. A write under a WriteLock that has begun finishes even if its caller is
cancelled; it is refused while `read_only_reason` is set. The poller compares the store's version every second and
reloads on change; a failed reload is tried again.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine
from typing import Any, TypeAlias, TypeVar

import msgspec

from toolhall.concurrency import shielded_exclusive
from toolhall.model.errors import Denied, ToolhallError, Unavailable

DATABASE_FILE = "toolhall.db"
Clock: TypeAlias = Callable[[], float]
POLL_SECONDS = 1.0
_T = TypeVar("_T")
_log = logging.getLogger("toolhall.registrar")


class StoreFailed(Exception):
    """An operation of a store failed and changed nothing; the message is one line that names the fix."""


class InUse(StoreFailed):
    """Another process holds the lock; `pid` is None if that process has not written its id into the lock file."""

    def __init__(self, message: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(message)


class Stale(Exception):
    """Another writer changed these rows since they were read; this write changed nothing."""

    def __init__(self, ids: Collection[str]) -> None:
        self.ids = tuple(sorted(ids))
        super().__init__(f"{', '.join(self.ids)}: changed meanwhile; read it again, then repeat the change")


class Unstorable(ValueError):
    """A value that does not survive a round trip through every engine; the message has its path."""


def check_storable(row: msgspec.Struct) -> None:
    """Raise Unstorable unless the row survives a round trip through JSON, and so through every engine."""
    try:
        again = msgspec.json.decode(msgspec.json.encode(row), type=type(row))
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(f"this cannot be stored: {error}") from None
    if again != row:
        raise Unstorable(f"this cannot be stored: {type(row).__name__} does not survive a round trip through JSON")


class MonotonicClock:
    """A wall clock that never runs backwards.

    After the system clock was set back, time advances with the monotonic clock until the system clock has caught up.
    """

    def __init__(self, clock: Clock, monotonic: Clock = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._latest = 0.0
        self._latest_monotonic = monotonic()

    def __call__(self) -> float:
        """Return the time in seconds since 1970."""
        running = self._monotonic()
        now = self._clock()
        if now < self._latest:
            now = self._latest + running - self._latest_monotonic
        self._latest, self._latest_monotonic = now, running
        return now

    def advance_to(self, *moments: float | None) -> None:
        """Never return a time before these, which stored rows carry."""
        latest = max((each for each in moments if each is not None), default=0.0)
        if latest > self._latest:
            self._latest, self._latest_monotonic = latest, self._monotonic()


class WriteLock:
    """Serializes the changes of one kind in this process: those of tools, or those of keys and grants."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self.read_only_reason: str | None = None  # set while changes are refused

    async def exclusive(self, change: Coroutine[Any, Any, _T], *, by_hall: bool = False) -> _T:
        """Run one change at a time; it finishes even if its caller is cancelled. Raises Denied or Unavailable.

        `by_hall`: nobody asked for it, and this process is the one that makes such changes; it is never refused.
        """
        if self.read_only_reason is not None and not by_hall:
            change.close()
            raise Denied(self.read_only_reason)
        try:
            return await shielded_exclusive(self._lock, change)
        except (StoreFailed, Stale) as failed:
            raise store_unavailable(failed) from None


class StorePoller:
    """Calls `on_change` when the store's version differs; after a failure the old state stays, and it tries again."""

    def __init__(self, on_change: Callable[[], Awaitable[None]]) -> None:
        self._on_change = on_change
        self._read_version: Callable[[], Awaitable[int]] | None = None
        self._last_version = 0
        self._failing = False
        self._timer: asyncio.TimerHandle | None = None
        self._polling: asyncio.Task[None] | None = None

    async def set_baseline(self, read_version: Callable[[], Awaitable[int]] | None) -> None:
        """Note the store's version before it is read; None: no other process can change this store."""
        self._read_version = read_version
        if read_version is not None:
            self._last_version = await read_version()

    def start(self) -> None:
        """Start polling in the running loop."""
        self.stop()
        if self._read_version is not None:
            self._timer = asyncio.get_running_loop().call_later(POLL_SECONDS, self._start_poll)

    def stop(self) -> None:
        """Stop polling."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._polling is not None:
            self._polling.cancel()
            self._polling = None

    async def poll(self) -> None:
        """Reload if the store's version has changed."""
        if self._read_version is None:
            return
        try:
            version = await self._read_version()
            if version != self._last_version:
                await self._on_change()
            self._last_version = version
            self._failing = False
        except (StoreFailed, ToolhallError) as failed:
            if not self._failing:  # log it once, not every second
                _log.error("changes of other processes cannot be loaded: %s", getattr(failed, "detail", failed))
            self._failing = True

    def _start_poll(self) -> None:
        self._polling = asyncio.get_running_loop().create_task(self.poll())
        self._polling.add_done_callback(self._on_polled)

    def _on_polled(self, polling: "asyncio.Task[None]") -> None:
        if self._timer is not None and not polling.cancelled():
            self.start()


def store_unavailable(failed: Exception) -> Unavailable:
    """Return the error for a change that the store has not accepted."""
    return Unavailable("the change could not be stored; the server's log says why", detail=str(failed))
