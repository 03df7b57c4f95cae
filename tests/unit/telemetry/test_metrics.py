"""The figures: right, bounded, and readable by Prometheus."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from toolhall.telemetry import BUCKETS, Metric, Telemetry, render


def read(telemetry: Telemetry) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Every sample, as Prometheus' own parser sees it: by name, then by labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(render(telemetry).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def labels(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(given.items()))


def test_calls_are_counted_by_tool_dialect_and_outcome() -> None:
    telemetry = Telemetry()
    for outcome in ("ok", "ok", "TimedOut"):
        telemetry.record_call("Kit.pick@1.0.0", "test", outcome, 0.002)
    counted = read(telemetry)["toolhall_calls_total"]
    assert counted[labels(tool="Kit.pick@1.0.0", dialect="test", outcome="ok")] == 2
    assert counted[labels(tool="Kit.pick@1.0.0", dialect="test", outcome="TimedOut")] == 1


def test_refusals_are_counted_by_reason() -> None:
    telemetry = Telemetry()
    for outcome in ("Denied", "Limited", "Limited", "ok", "Crashed"):
        telemetry.record_call("Kit.pick@1.0.0", "test", outcome, 0)
    assert read(telemetry)["toolhall_refused_total"] == {labels(reason="Denied"): 1, labels(reason="Limited"): 2}


def test_durations_are_in_buckets() -> None:
    telemetry = Telemetry()
    for seconds in (0.0001, BUCKETS[0], 0.3, 1000.0):
        telemetry.record_call("Kit.pick@1.0.0", "test", "ok", seconds)
    found = read(telemetry)
    buckets = found["toolhall_call_duration_seconds_bucket"]
    for bound, count in ((str(BUCKETS[0]), 2), ("0.25", 2), ("0.5", 3), ("60.0", 3), ("+Inf", 4)):
        assert buckets[labels(tool="Kit.pick@1.0.0", le=bound)] == count
    (total,) = found["toolhall_call_duration_seconds_sum"].values()
    assert total == pytest.approx(1000.3006)
    (ended,) = found["toolhall_call_duration_seconds_count"].values()
    assert ended == 4


def test_metrics_are_read_when_rendered() -> None:
    now = [1]
    telemetry = Telemetry(None, [Metric("toolhall_lost_threads", "gauge", "Threads.", lambda: now[0])])
    now[0] = 5
    assert read(telemetry)["toolhall_lost_threads"] == {(): 5}


def test_labels_are_escaped() -> None:
    telemetry = Telemetry()
    hostile = 'a"b\\c\nd{e}'
    telemetry.record_call("Kit.pick@1.0.0", hostile, "ok", 0)
    ((found, _),) = read(telemetry)["toolhall_calls_total"].items()
    assert dict(found)["dialect"] == hostile
