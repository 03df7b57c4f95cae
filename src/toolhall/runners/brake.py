"""Slows down a tool that keeps losing its worker processes: starting new ones must not keep the machine busy."""

from collections.abc import Callable

_HALVED_SECONDS = 10.0  # after so long, a death counts half
_PATIENT_DEATHS = 3.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0


class Brake:
    """Counts the deaths of each tool's workers, and forgets them slowly."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._deaths: dict[str, tuple[float, float]] = {}  # how many, and when that was

    def __contains__(self, tool: str) -> bool:
        """Whether this tool ever lost a worker."""
        return tool in self._deaths

    def died(self, tool: str) -> None:
        """One more."""
        self._deaths[tool] = self._recent(tool) + 1, self._clock()

    def pause(self, tool: str) -> float:
        """How many seconds the next worker has to wait: none at first, then twice as long with each death."""
        over = self._recent(tool) - _PATIENT_DEATHS
        return min(_FIRST_PAUSE * 2 ** min(over, 10), _LONGEST_PAUSE) if over > 0 else 0.0

    def _recent(self, tool: str) -> float:
        count, at = self._deaths.get(tool, (0.0, 0.0))
        return count * 0.5 ** ((self._clock() - at) / _HALVED_SECONDS) if count else 0.0
