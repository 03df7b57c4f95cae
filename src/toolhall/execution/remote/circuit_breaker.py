"""`CircuitBreaker`: keeps calls away from a failing replica; `RetryBudget`: limits retries to a share of all calls."""

from collections.abc import Callable
from typing import Literal, TypeAlias

CircuitState: TypeAlias = Literal["closed", "open", "half-open"]
FAILURE_THRESHOLD = 5  # in a row
OPEN_SECONDS = 30.0
_TRIAL_INTERVAL_SECONDS = 5.0  # a good probe after a failed trial allows the next one only so long after it


class CircuitBreaker:
    """Closed: calls pass. Open: none does. Half-open: one at a time, and how it ends decides.

    A failure is a call that was lost or a probe that failed; an error that the tool itself tells is none.
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
        self.is_closed = True  # as nearly always: whoever picks looks here first
        self._lost_calls = 0  # calls, since one that came back
        self._failed_probes = 0  # probes, since a good one or a call that came back
        self._open_until = 0.0  # when it is half-open by itself
        self._next_trial_at = 0.0  # when a good probe makes it so before that
        self._trial_running = False

    @property
    def state(self) -> CircuitState:
        """In the words of the hub."""
        if self.is_closed:
            return "closed"
        return "half-open" if self._clock() >= self._open_until else "open"

    @property
    def retry_after(self) -> float:
        """In how many seconds a call may pass by itself."""
        return 0.0 if self.is_closed else max(0.0, self._open_until - self._clock())

    def allows_call(self) -> bool:
        """Whether a call may pass now."""
        return self.is_closed or (not self._trial_running and self._clock() >= self._open_until)

    def begin_call(self) -> bool:
        """A call passes; True if it is the trial, which says so again when it leaves."""
        if self.is_closed:
            return False
        self._trial_running = True
        return True

    def end_trial(self) -> None:
        """The trial is over, however it ended."""
        self._trial_running = False

    def record_success(self) -> None:
        """A call came back; one that began before the circuit opened tells no more than a probe."""
        if self.state == "open":
            self.record_probe_success()
        else:
            self.is_closed = True
            self._lost_calls = self._failed_probes = 0

    def record_failure(self) -> None:
        """A call was lost."""
        self._lost_calls += 1
        self._open_if_failing()

    def record_probe_failure(self) -> None:
        """A probe failed."""
        self._failed_probes += 1
        self._open_if_failing()

    def record_probe_success(self) -> None:
        """A probe went well: an open circuit may be tried now. It closes nothing, for it runs no tool."""
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


_RETRY_RATIO = 0.1  # of all calls
_MIN_RETRIES = 10.0  # within a window, however few calls there are
_WINDOW_SECONDS = 10.0


class RetryBudget:
    """Counts calls and second tries over a window that slides: all of this one, and what is left of the last."""

    __slots__ = ("_calls", "_clock", "_retries", "_window_start")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._window_start = clock()
        self._calls = [0, 0]  # in the window before, and in this one
        self._retries = [0, 0]

    def record_call(self) -> None:
        """One more call."""
        if self._clock() - self._window_start >= _WINDOW_SECONDS:
            self._rotate_window()
        self._calls[1] += 1

    def try_spend(self) -> bool:
        """Whether one more call may be tried again, which then counts."""
        if self._clock() - self._window_start >= _WINDOW_SECONDS:
            self._rotate_window()
        left = 1 - (self._clock() - self._window_start) / _WINDOW_SECONDS
        called = self._calls[0] * left + self._calls[1]
        again = self._retries[0] * left + self._retries[1]
        if again + 1 > max(_MIN_RETRIES, called * _RETRY_RATIO):
            return False
        self._retries[1] += 1
        return True

    def _rotate_window(self) -> None:
        """The next window begins; after a long pause, the last one is forgotten too."""
        passed = (self._clock() - self._window_start) // _WINDOW_SECONDS
        for counted in (self._calls, self._retries):
            counted[:] = [counted[1] if passed == 1 else 0, 0]
        self._window_start += passed * _WINDOW_SECONDS
