"""Errors, the storability check and MonotonicClock, shared by every store.

StoreFailed means that nothing was changed; its message is one line that names the fix. Stale means that another writer
was faster: read again, then repeat the change.
"""

import time
from collections.abc import Callable, Collection
from typing import TypeAlias

import msgspec

DATABASE_FILE = "toolhall.db"


class StoreFailed(Exception):
    """The store cannot do it, and nothing was changed; the message is one line that says what to do."""


class InUse(StoreFailed):
    """Another process writes to it; `pid` is None if that process did not say which it is."""

    def __init__(self, message: str, pid: int | None) -> None:
        self.pid = pid
        super().__init__(message)


class Stale(Exception):
    """Somebody else changed these tools since they were read; nothing was changed."""

    def __init__(self, ids: Collection[str]) -> None:
        self.ids = tuple(sorted(ids))
        super().__init__(f"{', '.join(self.ids)}: changed meanwhile; read it again, then repeat the change")


class Unstorable(ValueError):
    """A value that no engine keeps as it is; the message has its path."""


def check_storable(row: msgspec.Struct) -> None:
    """Raise Unstorable unless every engine will bring this row back exactly."""
    try:
        again = msgspec.json.decode(msgspec.json.encode(row), type=type(row))
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(f"this cannot be stored: {error}") from None
    if again != row:
        raise Unstorable("this cannot be stored: it holds more than plain values")


Clock: TypeAlias = Callable[[], float]


class MonotonicClock:
    """A clock that was set back is not believed: until it has caught up, only the time that has passed counts."""

    def __init__(self, clock: Clock, monotonic: Clock = time.monotonic) -> None:
        self._clock = clock
        self._monotonic = monotonic
        self._latest = 0.0
        self._latest_monotonic = monotonic()

    def __call__(self) -> float:
        """Now."""
        running = self._monotonic()
        now = self._clock()
        if now < self._latest:
            now = self._latest + running - self._latest_monotonic
        self._latest, self._latest_monotonic = now, running
        return now

    def advance_to(self, *moments: float | None) -> None:
        """Something was written then, so it is not earlier now."""
        latest = max((each for each in moments if each is not None), default=0.0)
        if latest > self._latest:
            self._latest, self._latest_monotonic = latest, self._monotonic()
