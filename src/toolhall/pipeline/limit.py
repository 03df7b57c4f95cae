"""Counts the calls of each caller, also those that a later stage refuses, and says when to come back."""

from collections.abc import Callable

from toolhall.model.errors import Limited
from toolhall.pipeline.states import Admitted, Allowed

MAX_CALLERS = 10_000


class Limit:
    """A generic cell rate for each caller: `rate` calls a second, `burst` of them at once.

    For each caller only the time is kept at which its allowance would be full again.
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float]) -> None:
        self._spacing = 1.0 / rate
        self._tolerance = burst / rate
        self._rounding = 0.001 / rate  # a sum of spacings may be larger than their product by a hair
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def __call__(self, allowed: Allowed) -> Admitted:
        """Admitted, or Limited with the time to wait."""
        caller = allowed.call.caller.id
        now = self._clock()
        full_at = max(self._full_at.get(caller, now), now) + self._spacing
        if full_at - now > self._tolerance + self._rounding:
            raise Limited(full_at - now - self._tolerance)
        if len(self._full_at) >= MAX_CALLERS and caller not in self._full_at:
            self._forget(now)
        self._full_at[caller] = full_at
        return Admitted(allowed.call, allowed.entry, allowed.verdict)

    def _forget(self, now: float) -> None:
        """Callers whose allowance is full again need no memory; if none is, the oldest goes."""
        self._full_at = {caller: full_at for caller, full_at in self._full_at.items() if full_at > now}
        if len(self._full_at) >= MAX_CALLERS:
            self._full_at.pop(next(iter(self._full_at)))
