"""Errors, the storability check and MonotonicClock, shared by every store.

StoreFailed means that nothing was changed; its message is one line that names the fix. Stale means that another writer
was faster: read again, then repeat the change.
"""

import time
from collections.abc import Callable, Collection
from typing import TypeAlias

import msgspec

DATABASE_FILE = "toolhall.db"
Clock: TypeAlias = Callable[[], float]


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
