"""Writes the figures as Prometheus reads them (text format 0.0.4)."""

from collections.abc import Iterable, Iterator

from toolhall.model import errors
from toolhall.telemetry.figures import BOUNDS, Telemetry

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def written(telemetry: Telemetry) -> bytes:
    """Every figure, one per line."""
    return "".join(f"{line}\n" for line in _lines(telemetry)).encode()


def _lines(telemetry: Telemetry) -> Iterator[str]:
    yield from _head("toolhall_calls_total", "counter", "Calls that have ended, by tool, dialect and outcome.")
    for (tool, dialect, outcome), count in telemetry.calls.copy().items():
        yield f"toolhall_calls_total{_labels(tool=tool, dialect=dialect, outcome=outcome)} {count}"
    yield from _head("toolhall_refused_total", "counter", "Calls that were refused, by reason.")
    for outcome, count in telemetry.by_outcome():
        if outcome in _REFUSALS:
            yield f"toolhall_refused_total{_labels(reason=outcome)} {count}"
    yield from _durations(telemetry)
    for gauge in telemetry.gauges:
        yield from _head(gauge.name, gauge.kind, gauge.about)
        yield f"{gauge.name} {gauge.read():g}"


def _durations(telemetry: Telemetry) -> Iterator[str]:
    name = "toolhall_call_duration_seconds"
    yield from _head(name, "histogram", "Seconds from the arrival of a call to its end, by tool.")
    for tool, durations in telemetry.durations.copy().items():
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), durations.counts, strict=True):
            total += count
            yield f"{name}_bucket{_labels(tool=tool, le=bound)} {total}"
        yield f"{name}_sum{_labels(tool=tool)} {durations.seconds!r}"
        yield f"{name}_count{_labels(tool=tool)} {total}"


def _head(name: str, kind: str, about: str) -> Iterable[str]:
    return f"# HELP {name} {about}", f"# TYPE {name} {kind}"


def _labels(**labels: str) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _refusals(kind: type[BaseException]) -> Iterator[str]:
    for below in kind.__subclasses__():
        yield below.__name__
        yield from _refusals(below)


_REFUSALS = frozenset(_refusals(errors.Refused))
