"""Time that never goes back, whatever happens to the clock."""

import time

from toolhall.stores.approvals.base import Clock


class Onward:
    """A clock that was set back is not believed: until it has caught up, only the time that has passed counts."""

    def __init__(self, clock: Clock, running: Clock = time.monotonic) -> None:
        self._clock = clock
        self._running = running
        self._latest = 0.0
        self._at = running()

    def __call__(self) -> float:
        """Now."""
        running = self._running()
        now = self._clock()
        if now < self._latest:
            now = self._latest + running - self._at
        self._latest, self._at = now, running
        return now

    def saw(self, *moments: float | None) -> None:
        """Something was written then, so it is not earlier now."""
        latest = max((each for each in moments if each is not None), default=0.0)
        if latest > self._latest:
            self._latest, self._at = latest, self._running()
