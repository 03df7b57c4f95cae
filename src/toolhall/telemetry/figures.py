"""Counts calls and their durations; labels are names that the registry knows, and there is an end to them."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from toolhall.model.call import Call
from toolhall.telemetry.spans import Spans

UNKNOWN = "unknown"  # what no tool of this hall is called; whoever calls it chose the name
OTHER = "other"  # one too many
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_MOST_SERIES = 10_000


class Durations:
    """A histogram: how many calls took at most so long, and the seconds of all of them."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0


class Gauge(NamedTuple):
    """A figure that somebody else keeps, read when it is asked for."""

    name: str
    kind: Literal["counter", "gauge"]
    about: str
    read: Callable[[], float]


class Telemetry:
    """Hears of every call once, when it ends; `spans` is None unless somebody collects them."""

    def __init__(self, spans: Spans | None = None, gauges: Iterable[Gauge] = ()) -> None:
        self.spans = spans
        self.calls: dict[tuple[str, str, str], int] = {}
        self.durations: dict[str, Durations] = {}
        self.gauges = tuple(gauges)

    def ended(self, call: Call, tool: str | None, outcome: str, seconds: float) -> None:
        """Count a call; `tool` is the id of the tool that was found, if one was."""
        key = (tool or UNKNOWN, call.dialect, outcome)
        count = self.calls.get(key)
        if count is None:
            key, count = self._new(key)
        self.calls[key] = count + 1
        durations = self.durations.get(key[0])
        if durations is None:
            durations = self.durations[key[0]] = Durations()
        durations.counts[bisect_left(BOUNDS, seconds)] += 1
        durations.seconds += seconds

    def close(self) -> None:
        """Send what is left."""
        if self.spans is not None:
            self.spans.close()

    def by_outcome(self) -> Iterator[tuple[str, int]]:
        """How many calls ended in each way."""
        totals: dict[str, int] = {}
        for (_, _, outcome), count in self.calls.copy().items():
            totals[outcome] = totals.get(outcome, 0) + count
        return iter(totals.items())

    def _new(self, key: tuple[str, str, str]) -> tuple[tuple[str, str, str], int]:
        """A series that is not there yet; tools come and go, so their number has no bound of its own."""
        if len(self.calls) < _MOST_SERIES:
            return key, 0
        other = (OTHER, OTHER, key[2] if len(self.calls) < 2 * _MOST_SERIES else OTHER)
        return other, self.calls.get(other, 0)
