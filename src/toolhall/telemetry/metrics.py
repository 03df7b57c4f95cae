"""Telemetry counts calls and their durations, and `render` writes them in the Prometheus text format.

The number of time series is bounded: beyond 10,000 the labels become `other`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

from toolhall.model import errors
from toolhall.model.messages import Call
from toolhall.telemetry.spans import CallTracer

UNKNOWN_TOOL = "unknown"  # the label for every name that is no tool: callers could otherwise invent labels
OVERFLOW_LABEL = "other"  # the label beyond _MAX_SERIES
BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_MAX_SERIES = 10_000


class DurationHistogram:
    """The number of calls in each bucket, and the sum of their seconds."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BUCKETS) + 1)
        self.seconds = 0.0


class Metric(NamedTuple):
    """A counter or gauge that another component maintains; it is read when the metrics are rendered."""

    name: str
    kind: Literal["counter", "gauge"]
    about: str
    read: Callable[[], float]


class Telemetry:
    """Records every call once, when it ends; `tracer` is None unless spans are exported."""

    def __init__(self, tracer: CallTracer | None = None, metrics: Iterable[Metric] = ()) -> None:
        self.tracer = tracer
        self.calls: dict[tuple[str, str, str], int] = {}
        self.durations: dict[str, DurationHistogram] = {}
        self.metrics = tuple(metrics)

    def record_call(self, call: Call, tool: str | None, outcome: str, seconds: float) -> None:
        """Count a call; `tool` is the id of the tool, or None if there is no such tool."""
        key = (tool or UNKNOWN_TOOL, call.dialect, outcome)
        count = self.calls.get(key)
        if count is None:
            key, count = self._new_series(key)
        self.calls[key] = count + 1
        durations = self.durations.get(key[0])
        if durations is None:
            durations = self.durations[key[0]] = DurationHistogram()
        durations.counts[bisect_left(BUCKETS, seconds)] += 1
        durations.seconds += seconds

    def close(self) -> None:
        """Flush spans that have not been exported."""
        if self.tracer is not None:
            self.tracer.close()

    def calls_by_outcome(self) -> Iterator[tuple[str, int]]:
        """The number of calls by outcome."""
        totals: dict[str, int] = {}
        for (_, _, outcome), count in self.calls.copy().items():
            totals[outcome] = totals.get(outcome, 0) + count
        return iter(totals.items())

    def _new_series(self, key: tuple[str, str, str]) -> tuple[tuple[str, str, str], int]:
        """The key and count for a new series; tools come and go, so the number of their ids has no bound of its own."""
        if len(self.calls) < _MAX_SERIES:
            return key, 0
        other = (OVERFLOW_LABEL, OVERFLOW_LABEL, key[2] if len(self.calls) < 2 * _MAX_SERIES else OVERFLOW_LABEL)
        return other, self.calls.get(other, 0)


def render(telemetry: Telemetry) -> bytes:
    """All metrics in the Prometheus text format."""
    return "".join(f"{line}\n" for line in _lines(telemetry)).encode()


def _lines(telemetry: Telemetry) -> Iterator[str]:
    yield from _header("toolhall_calls_total", "counter", "Calls that have ended, by tool, dialect and outcome.")
    for (tool, dialect, outcome), count in telemetry.calls.copy().items():
        yield f"toolhall_calls_total{_labels(tool=tool, dialect=dialect, outcome=outcome)} {count}"
    yield from _header("toolhall_refused_total", "counter", "Calls that were refused, by reason.")
    for outcome, count in telemetry.calls_by_outcome():
        if outcome in _REFUSED_OUTCOMES:
            yield f"toolhall_refused_total{_labels(reason=outcome)} {count}"
    yield from _durations(telemetry)
    for metric in telemetry.metrics:
        yield from _header(metric.name, metric.kind, metric.about)
        yield f"{metric.name} {metric.read():g}"


def _durations(telemetry: Telemetry) -> Iterator[str]:
    name = "toolhall_call_duration_seconds"
    yield from _header(name, "histogram", "Seconds from the arrival of a call to its end, by tool.")
    for tool, durations in telemetry.durations.copy().items():
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), durations.counts, strict=True):
            total += count
            yield f"{name}_bucket{_labels(tool=tool, le=bound)} {total}"
        yield f"{name}_sum{_labels(tool=tool)} {durations.seconds!r}"
        yield f"{name}_count{_labels(tool=tool)} {total}"


def _header(name: str, kind: str, about: str) -> Iterable[str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escape_label(value)}"' for name, value in labels.items()) + "}"


def _escape_label(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


_REFUSED_OUTCOMES = frozenset(
    name
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.Refused) and kind is not errors.Refused
)
