"""Keeps calls away from a replica that fails again and again, and lets one through now and then to see how it is."""

from collections.abc import Callable
from typing import Literal, TypeAlias

State: TypeAlias = Literal["closed", "open", "half-open"]

MOST_FAILURES = 5  # in a row
OPEN_SECONDS = 30.0
_TRIAL_SECONDS = 5.0  # a good probe after a failed trial allows the next one only so long after it


class Circuit:
    """Closed: calls pass. Open: none does. Half-open: one at a time, and how it ends decides.

    A failure is a call that was lost or a probe that failed; an error that the tool itself tells is none.
    """

    __slots__ = ("_again", "_clock", "_lost", "_missed", "_trying", "_until", "closed")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.closed = True  # as nearly always: whoever picks looks here first
        self._lost = 0  # calls, since one that came back
        self._missed = 0  # probes, since a good one or a call that came back
        self._until = 0.0  # when it is half-open by itself
        self._again = 0.0  # when a good probe makes it so before that
        self._trying = False

    @property
    def state(self) -> State:
        """In the words of the hub."""
        if self.closed:
            return "closed"
        return "half-open" if self._clock() >= self._until else "open"

    @property
    def retry_after(self) -> float:
        """In how many seconds a call may pass by itself."""
        return 0.0 if self.closed else max(0.0, self._until - self._clock())

    def takes(self) -> bool:
        """Whether a call may pass now."""
        return self.closed or (not self._trying and self._clock() >= self._until)

    def enter(self) -> bool:
        """A call passes; True if it is the trial, which says so again when it leaves."""
        if self.closed:
            return False
        self._trying = True
        return True

    def leave(self) -> None:
        """The trial is over, however it ended."""
        self._trying = False

    def succeeded(self) -> None:
        """A call came back; one that began before the circuit opened tells no more than a probe."""
        if self.state == "open":
            self.probed()
        else:
            self.closed = True
            self._lost = self._missed = 0

    def failed(self) -> None:
        """A call was lost."""
        self._lost += 1
        self._judge()

    def missed(self) -> None:
        """A probe failed."""
        self._missed += 1
        self._judge()

    def probed(self) -> None:
        """A probe went well: an open circuit may be tried now. It closes nothing, for it runs no tool."""
        self._missed = 0
        if not self.closed and (now := self._clock()) >= self._again:
            self._until = min(self._until, now)

    def _judge(self) -> None:
        state, now = self.state, self._clock()
        if state == "half-open":
            self._open(now, now + _TRIAL_SECONDS)
        elif state == "closed" and self._lost + self._missed >= MOST_FAILURES:
            self._open(now, now)

    def _open(self, now: float, again: float) -> None:
        self.closed = False
        self._until, self._again = now + OPEN_SECONDS, again
