"""`CircuitBreaker`: keeps calls away from a failing replica; `RetryBudget`: limits retries to a share of all calls."""

from collections.abc import Callable
from typing import Literal, TypeAlias

CircuitState: TypeAlias = Literal["closed", "open", "half-open"]
FAILURE_THRESHOLD = 5  # lost calls and failed probes in a row
OPEN_SECONDS = 30.0
_TRIAL_INTERVAL_SECONDS = 5.0  # after a failed trial, before a good probe allows the next one
_RETRY_RATIO = 0.1  # of all calls
_MIN_RETRIES = 10.0  # within a window, however few calls there are
_WINDOW_SECONDS = 10.0


class CircuitBreaker:
    """The circuit of one replica. Closed: calls pass. Open: none does. Half-open: one trial call at a time passes.

    A failure is a lost call or a failed probe; an error that the tool itself returns is none. Five in a row open the
    circuit for 30 seconds, then it is half-open: a trial that comes back closes it, one that is lost opens it again. A
    good probe makes it half-open before that time, but never closes it, because a probe runs no tool.
    """

    __slots__ = (
        "_clock",
        "_failed_probes",
        "_lost_calls",
        "_next_trial_at",
        "_open_until",
        "_trial_running",
        "is_closed",
    )

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.is_closed = True  # as nearly always: ReplicaPools.pick reads only this then
        self._lost_calls = 0  # since a call that came back
        self._failed_probes = 0  # since a good probe, or a call that came back
        self._open_until = 0.0  # when it becomes half-open by itself
        self._next_trial_at = 0.0  # the earliest time at which a good probe makes it half-open
        self._trial_running = False

    @property
    def state(self) -> CircuitState:
        """The state as the hub protocol names it."""
        if self.is_closed:
            return "closed"
        return "half-open" if self._clock() >= self._open_until else "open"

    @property
    def retry_after(self) -> float:
        """Seconds until the circuit becomes half-open by itself."""
        return 0.0 if self.is_closed else max(0.0, self._open_until - self._clock())

    def allows_call(self) -> bool:
        """Whether a call may pass now, as a trial if the circuit is half-open."""
        return self.is_closed or (not self._trial_running and self._clock() >= self._open_until)

    def begin_call(self) -> bool:
        """Count a call that passes; True if it is the trial, which must `end_trial`."""
        if self.is_closed:
            return False
        self._trial_running = True
        return True

    def end_trial(self) -> None:
        """Allow the next trial, however this one ended."""
        self._trial_running = False

    def record_success(self) -> None:
        """Record that a call came back; one that began before the circuit opened counts as a good probe."""
        if self.state == "open":
            self.record_probe_success()
        else:
            self.is_closed = True
            self._lost_calls = self._failed_probes = 0

    def record_failure(self) -> None:
        """Record a lost call."""
        self._lost_calls += 1
        self._open_if_failing()

    def record_probe_failure(self) -> None:
        """Record a failed probe."""
        self._failed_probes += 1
        self._open_if_failing()

    def record_probe_success(self) -> None:
        """Record a good probe: an open circuit becomes half-open, unless a trial failed a moment ago."""
        self._failed_probes = 0
        if not self.is_closed and (now := self._clock()) >= self._next_trial_at:
            self._open_until = min(self._open_until, now)

    def _open_if_failing(self) -> None:
        state, now = self.state, self._clock()
        if state == "half-open":
            self._open(now, now + _TRIAL_INTERVAL_SECONDS)
        elif state == "closed" and self._lost_calls + self._failed_probes >= FAILURE_THRESHOLD:
            self._open(now, now)

    def _open(self, now: float, next_trial_at: float) -> None:
        self.is_closed = False
        self._open_until, self._next_trial_at = now + OPEN_SECONDS, next_trial_at


class RetryBudget:
    """Allows retries up to a tenth of all calls, over a sliding window (this one, and the rest of the one before)."""

    __slots__ = ("_calls", "_clock", "_retries", "_window_start")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._window_start = clock()
        self._calls = [0, 0]  # in the previous window, and in this one
        self._retries = [0, 0]

    def record_call(self) -> None:
        """Count one more call."""
        if self._clock() - self._window_start >= _WINDOW_SECONDS:
            self._rotate_window()
        self._calls[1] += 1

    def try_spend(self) -> bool:
        """Whether one more retry is allowed; it is counted if so."""
        if self._clock() - self._window_start >= _WINDOW_SECONDS:
            self._rotate_window()
        weight = 1 - (self._clock() - self._window_start) / _WINDOW_SECONDS  # of the previous window
        calls = self._calls[0] * weight + self._calls[1]
        retries = self._retries[0] * weight + self._retries[1]
        if retries + 1 > max(_MIN_RETRIES, calls * _RETRY_RATIO):
            return False
        self._retries[1] += 1
        return True

    def _rotate_window(self) -> None:
        """Begin the next window; after a pause of two windows both counts are forgotten."""
        passed = (self._clock() - self._window_start) // _WINDOW_SECONDS
        for counts in (self._calls, self._retries):
            counts[:] = [counts[1] if passed == 1 else 0, 0]
        self._window_start += passed * _WINDOW_SECONDS
