"""CallStatistics: how many calls ended how, in which stage and how fast, by time; counted from audit records.

Every record is counted in three rings of buckets (minutes, quarters of an hour, hours), so that every window has about
as many. Memory does not grow with the number of calls: a bucket holds a bounded number of names.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from toolhall.http.api.base import iso_time
from toolhall.model.call_records import CALL_STAGES, AuditRecord, OutcomeKind, outcome_kind
from toolhall.model.json import Json, JsonObject

MAX_NAMES = 500  # tools, and callers, of one bucket
TOP = 10
BOUNDS_US = tuple(int(step * 10**power) for power in range(1, 8) for step in (1, 1.5, 2, 3, 5, 7))
_RUN = CALL_STAGES.index("run")


class Ring(NamedTuple):
    """Buckets of one width, of which the newest `kept` are shown."""

    seconds: int
    kept: int


RINGS = (Ring(60, 61), Ring(900, 97), Ring(3_600, 169))


class Window(NamedTuple):
    """A stretch of time until now, and the ring whose buckets show it."""

    name: str
    seconds: int
    ring: Ring


WINDOWS = {
    each.name: each
    for each in (
        Window("15m", 900, RINGS[0]),
        Window("1h", 3_600, RINGS[0]),
        Window("24h", 86_400, RINGS[1]),
        Window("7d", 604_800, RINGS[2]),
    )
}


class CallBucket:
    """The calls that ended in one stretch of time."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.kinds: Counter[OutcomeKind] = Counter()
        self.stopped: Counter[str] = Counter()
        self.durations = [0] * (len(BOUNDS_US) + 1)
        self.added = [0] * (len(BOUNDS_US) + 1)  # what the hall itself took
        self.tools: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()  # by tool
        self.callers: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()  # by caller

    def add(self, record: AuditRecord) -> None:
        """Count a call that has ended."""
        kind = outcome_kind(record.outcome)
        self.outcomes[record.outcome] += 1
        self.kinds[kind] += 1
        if record.stage is not None and kind not in {"ok", "tool_error"}:
            self.stopped[record.stage] += 1
        self.durations[bisect_left(BOUNDS_US, record.duration_us)] += 1
        if record.stages_us is not None:
            self.added[bisect_left(BOUNDS_US, sum(record.stages_us) - record.stages_us[_RUN])] += 1
        _count_bounded(self.tools, record.tool)
        _count_bounded(self.callers, record.caller)
        if kind in {"failed", "tool_error"}:
            _count_bounded(self.failed, record.tool)
        if kind == "refused":
            _count_bounded(self.refused, record.caller)

    def merge(self, other: "CallBucket") -> None:
        """Add the counts of another bucket."""
        for name in ("outcomes", "kinds", "stopped", "tools", "failed", "callers", "refused"):
            getattr(self, name).update(getattr(other, name))
        self.durations = [one + more for one, more in zip(self.durations, other.durations, strict=True)]
        self.added = [one + more for one, more in zip(self.added, other.added, strict=True)]


class CallStatistics:
    """The calls since a time, at most of the last seven days."""

    def __init__(self, since: float) -> None:
        self.since = since  # all calls from then on are counted
        self._rings: dict[Ring, dict[int, CallBucket]] = {ring: {} for ring in RINGS}

    def add(self, records: Iterable[AuditRecord]) -> None:
        """Count what ended; intents and changes of the hall are no calls."""
        for record in records:
            if record.is_ended_call:
                for ring, buckets in self._rings.items():
                    at = int(record.time // ring.seconds)
                    bucket = buckets.get(at)
                    if bucket is None:
                        bucket = buckets[at] = CallBucket()
                    bucket.add(record)

    def drop_old(self, now: float) -> None:
        """Drop buckets that no window shows any more."""
        for ring, buckets in self._rings.items():
            oldest = int(now // ring.seconds) - ring.kept
            for at in [at for at in buckets if at < oldest]:
                del buckets[at]

    def to_json(self, window: Window, now: float) -> JsonObject:
        """Return the window that ends now."""
        buckets, seconds = self._rings[window.ring], window.ring.seconds
        total, series = CallBucket(), list[Json]()
        first = int(start_of(window, now) // seconds)
        for at in range(first, int(now // seconds) + 1):
            bucket = buckets.get(at)
            if bucket is not None:
                total.merge(bucket)
            series.append({"at": iso_time(at * seconds), **_kinds_json(bucket)})
        return {
            "window": window.name,
            "bucketSeconds": seconds,
            "from": iso_time(first * seconds),
            "to": iso_time(now),
            "calls": sum(total.outcomes.values()),
            "outcomes": dict(total.outcomes),
            "stopped": {stage: total.stopped[stage] for stage in CALL_STAGES},
            "buckets": series,
            "durations": _durations_json(total.durations),
            "p50Us": _quantile(total.durations, 0.5),
            "p99Us": _quantile(total.durations, 0.99),
            "addedUs": _quantile(total.added, 0.5),
            "topTools": [
                {"tool": tool, "calls": calls, "failed": total.failed[tool]}
                for tool, calls in total.tools.most_common(TOP)
            ],
            "topCallers": [
                {"caller": caller, "calls": calls, "refused": total.refused[caller]}
                for caller, calls in total.callers.most_common(TOP)
            ],
        }


def start_of(window: Window, now: float) -> float:
    """Return when the first bucket of a window begins."""
    seconds = window.ring.seconds
    return float((int(now // seconds) - window.seconds // seconds + 1) * seconds)


def _count_bounded(counts: Counter[str], name: str) -> None:
    if name in counts or len(counts) < MAX_NAMES:
        counts[name] += 1


def _kinds_json(bucket: CallBucket | None) -> JsonObject:
    kinds = Counter[OutcomeKind]() if bucket is None else bucket.kinds
    return {
        "ok": kinds["ok"],
        "refused": kinds["refused"],
        "failed": kinds["failed"] + kinds["tool_error"],
        "asked": kinds["asked"],
    }


def _durations_json(counts: Sequence[int]) -> list[Json]:
    """Return the histogram from its first to its last call; the bound of the longest is null."""
    bounds: list[int | None] = [*BOUNDS_US, None]
    used = [place for place, calls in enumerate(counts) if calls]
    if not used:
        return []
    return [{"le": bounds[place], "calls": counts[place]} for place in range(used[0], used[-1] + 1)]


def _quantile(counts: Sequence[int], part: float) -> int | None:
    """Return about how long the fastest `part` of the calls took at most; None without calls."""
    sums = list(accumulate(counts))
    if not sums[-1]:
        return None
    wanted = part * sums[-1]
    place = bisect_left(sums, wanted)
    if place >= len(BOUNDS_US):
        return BOUNDS_US[-1]
    low, before = (BOUNDS_US[place - 1], sums[place - 1]) if place else (0, 0)
    return int(low + (BOUNDS_US[place] - low) * (wanted - before) / counts[place])
