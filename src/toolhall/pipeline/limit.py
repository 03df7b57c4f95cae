"""The limit stage: rate limits by generic cell rate (GCRA) per caller and tool, and calls in progress per tool.

A call takes from every bucket or from none. Refused attempts count, too; Limited says when to try again.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated

import msgspec

from toolhall.model.errors import Limited
from toolhall.model.messages import Call
from toolhall.model.names import matches_any
from toolhall.pipeline.states import Admitted, Allowed
from toolhall.registry.snapshot import Entry

MAX_KEYS = 10_000
MAX_TRACKED_TOOLS = 4_096
BUSY_SECONDS = 1.0  # retry_after for a tool at its concurrency limit


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rate limit: calls per second, and how many of them may come at once."""

    per_second: Annotated[float, msgspec.Meta(gt=0)]
    burst: Annotated[float, msgspec.Meta(ge=1)] = 1


class Concurrency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of concurrent requests per caller and concurrent calls per tool; None: a share of the overall limit."""

    per_caller: Annotated[int, msgspec.Meta(ge=1)] | None = None
    per_tool: Annotated[int, msgspec.Meta(ge=1)] | None = None


class RateBucket:
    """A GCRA rate limiter: keeps per key only the time at which its allowance is full again."""

    def __init__(self, rate: Rate, key: Callable[[str, str], str]) -> None:
        self.key = key  # makes the key from the caller's account and the tool's id
        self._spacing = 1.0 / rate.per_second
        self._tolerance = rate.burst / rate.per_second
        self._rounding = 0.001 / rate.per_second  # floating point: a sum of spacings may exceed their product
        self._full_at: dict[str, float] = {}

    def wait_time(self, key: str, cost: float, now: float) -> float:
        """Return the seconds until `cost` may be taken; a cost above the burst waits for a full allowance."""
        ahead = self._full_at.get(key, now) - now
        over = (max(0.0, ahead)) + min(self._spacing * cost, self._tolerance) - self._tolerance
        return over if over > self._rounding else 0.0

    def take(self, key: str, cost: float, now: float) -> None:
        """Take `cost`, without checking."""
        full_at = self._full_at.get(key, now)
        if len(self._full_at) >= MAX_KEYS and key not in self._full_at:
            self._evict(now)
        self._full_at[key] = max(now, full_at) + self._spacing * cost

    def try_take(self, key: str, cost: float, now: float) -> float:
        """Take `cost` and return 0, or return the seconds to wait: both in one step, because every call does this."""
        ahead = max(0.0, self._full_at.get(key, now) - now)
        share = self._spacing * cost
        over = ahead + min(share, self._tolerance) - self._tolerance
        if over > self._rounding:
            return over
        if len(self._full_at) >= MAX_KEYS and key not in self._full_at:
            self._evict(now)
        self._full_at[key] = now + ahead + share
        return 0.0

    def _evict(self, now: float) -> None:
        """Drop keys whose allowance is full again; if these are few, drop the oldest tenth as well."""
        kept = [(key, full_at) for key, full_at in self._full_at.items() if full_at > now]
        self._full_at = dict(kept[-(MAX_KEYS * 9 // 10) :])


def _caller_key(caller: str, tool: str) -> str:  # noqa: ARG001 - one of three ways to make a key
    return caller


def _tool_key(caller: str, tool: str) -> str:  # noqa: ARG001
    return tool


def _pair_key(caller: str, tool: str) -> str:
    return f"{caller}\n{tool}"  # neither part contains a line break


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """All limits of a hall; None means no limit. `costs` maps globs of tools to what one call of them costs."""

    caller: Rate | None = None
    tool: Rate | None = None
    pair: Rate | None = None  # of one caller for one tool
    running: int | None = None  # concurrent calls of one tool
    costs: Mapping[str, float] = {}


class Limit:
    """Admits calls within all limits: a call takes from every bucket, or from none."""

    def __init__(self, rates: RateLimits, clock: Callable[[], float]) -> None:
        self._callers = RateBucket(rates.caller, _caller_key) if rates.caller else None
        tools = RateBucket(rates.tool, _tool_key) if rates.tool else None
        pairs = RateBucket(rates.pair, _pair_key) if rates.pair else None
        self._buckets = tuple(bucket for bucket in (self._callers, tools, pairs) if bucket is not None)
        self._only = self._callers if len(self._buckets) == 1 else None
        self._costs = rates.costs
        self._tool_costs: dict[str, float] = {}
        self._clock = clock
        self._max_running = sys.maxsize if rates.running is None else rates.running
        self._running: dict[str, int] = {}  # by tool

    def __call__(self, allowed: Allowed) -> Admitted:
        """Return Admitted, which must be passed to `release`; raises Limited with the time to wait."""
        caller, entry, now = allowed.call.caller, allowed.entry, self._clock()
        running = self._running.get(entry.id)
        if running is None:
            running = self._track(entry.id)
        if running >= self._max_running:
            raise _busy_error()
        account = caller.id if caller.address is None else caller.rate_limit_key
        cost = self._cost(entry) if self._costs else 1.0
        if self._only is not None:  # the usual case: one limit
            wait = self._only.try_take(account, cost, now)
        else:
            wait = self._take_all(account, entry.id, cost, now)
        if wait > 0.0:
            raise Limited(wait)
        self._running[entry.id] = running + 1
        return Admitted(allowed.call, entry, allowed.verdict)

    def release(self, admitted: Admitted) -> None:
        """Free the slot of an admitted call that has ended."""
        self._running[admitted.entry.id] -= 1

    def _track(self, tool: str) -> int:
        """Start counting a tool; with too many tools, those without running calls are dropped."""
        if len(self._running) >= MAX_TRACKED_TOOLS:
            self._running = {known: count for known, count in self._running.items() if count}
        self._running[tool] = 0
        return 0

    def _take_all(self, caller: str, tool: str, cost: float, now: float) -> float:
        """Take from every bucket and return 0; or take from none and return the longest wait."""
        keyed = [(bucket, bucket.key(caller, tool)) for bucket in self._buckets]
        wait = max([bucket.wait_time(key, cost, now) for bucket, key in keyed], default=0.0)
        if wait <= 0.0:
            for bucket, key in keyed:
                bucket.take(key, cost, now)
        return wait

    def count_refusal(self, call: Call) -> None:
        """Count an attempt that reached no tool, so that names cannot be guessed without limit; raises Limited."""
        if self._callers is not None:
            wait = self._callers.try_take(call.caller.rate_limit_key, 1.0, self._clock())
            if wait > 0.0:
                raise Limited(wait)

    def _cost(self, entry: Entry) -> float:
        """Return the highest configured cost of a tool; cached."""
        cost = self._tool_costs.get(entry.id)
        if cost is None:
            if len(self._tool_costs) >= MAX_TRACKED_TOOLS:
                self._tool_costs.clear()
            costs = [each for glob, each in self._costs.items() if matches_any((glob,), entry.id)]
            cost = self._tool_costs[entry.id] = max(costs, default=1.0)
        return cost


def _busy_error() -> Limited:
    error = Limited(BUSY_SECONDS)
    error.message = "this tool runs as many calls at once as it may: try again in a second"
    return error
