"""The limit stage: rate limits by generic cell rate (GCRA) per caller and tool, and calls in progress per tool.

A call takes from every bucket or from none. Refused attempts count, too; Limited says when to try again.
"""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, NamedTuple

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

    __slots__ = ("full_at", "rounding", "spacing", "tolerance")

    def __init__(self, rate: Rate) -> None:
        self.spacing = 1.0 / rate.per_second
        self.tolerance = rate.burst / rate.per_second
        self.rounding = 0.001 / rate.per_second  # floating point: a sum of spacings may exceed their product
        self.full_at: dict[str, float] = {}

    def evict(self, now: float) -> None:
        """Drop keys whose allowance is full again; if these are few, drop the oldest tenth as well."""
        kept = [(key, full_at) for key, full_at in self.full_at.items() if full_at > now]
        self.full_at.clear()
        self.full_at.update(kept[-(MAX_KEYS * 9 // 10) :])


class Charge(NamedTuple):
    """What one call takes from one bucket; computed once per caller and tool."""

    bucket: RateBucket
    key: str
    seconds: float  # by which the call moves the time at which the allowance is full
    free_until: float  # the call waits while the allowance is full later than this many seconds from now

    @classmethod
    def of(cls, bucket: RateBucket, key: str, cost: float) -> "Charge":
        """The charge of a call with this cost; a cost above the burst waits for a full allowance."""
        seconds = bucket.spacing * cost
        return cls(bucket, key, seconds, bucket.tolerance - min(seconds, bucket.tolerance))


def take_charges(charges: tuple[Charge, ...], now: float) -> float:
    """Take every charge and return 0, or take none and return the longest wait in seconds."""
    longest = 0.0
    for bucket, key, _, free_until in charges:
        full_at = bucket.full_at.get(key, now)
        over = (full_at - now if full_at > now else 0.0) - free_until
        if over > bucket.rounding and over > longest:
            longest = over
    if longest > 0.0:
        return longest
    for bucket, key, seconds, _ in charges:
        known = bucket.full_at
        full_at = known.get(key, now)
        if len(known) >= MAX_KEYS and key not in known:
            bucket.evict(now)
        known[key] = max(now, full_at) + seconds
    return 0.0


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
        self._callers = RateBucket(rates.caller) if rates.caller else None
        self._tools = RateBucket(rates.tool) if rates.tool else None
        self._pairs = RateBucket(rates.pair) if rates.pair else None
        self._costs = rates.costs
        self._clock = clock
        self._max_running = sys.maxsize if rates.running is None else rates.running
        self._running: dict[str, int] = {}  # by tool
        self._charges: dict[tuple[str, str], tuple[Charge, ...]] = {}  # by account and tool

    def __call__(self, allowed: Allowed) -> Admitted:
        """Return Admitted, which must be passed to `release`; raises Limited with the time to wait."""
        caller, entry = allowed.call.caller, allowed.entry
        running = self._running.get(entry.id)
        if running is None:
            running = self._track(entry.id)
        if running >= self._max_running:
            raise _busy_error()
        account = caller.id if caller.address is None else caller.rate_limit_key
        charges = self._charges.get((account, entry.id))
        if charges is None:
            charges = self._new_charges(account, entry)
        wait = take_charges(charges, self._clock())
        if wait > 0.0:
            raise Limited(wait)
        self._running[entry.id] = running + 1
        return Admitted(allowed.call, entry, allowed.verdict)

    def release(self, admitted: Admitted) -> None:
        """Free the slot of an admitted call that has ended."""
        self._running[admitted.entry.id] -= 1

    def _new_charges(self, account: str, entry: Entry) -> tuple[Charge, ...]:
        """Compute what a call of this tool by this account takes from every bucket there is, and keep it."""
        if len(self._charges) >= MAX_KEYS:
            self._charges.clear()
        costs = [each for glob, each in self._costs.items() if matches_any((glob,), entry.id)]
        cost = max(costs, default=1.0)
        # Neither part of a pair's key contains a line break.
        keyed = ((self._callers, account), (self._tools, entry.id), (self._pairs, f"{account}\n{entry.id}"))
        charges = tuple(Charge.of(bucket, key, cost) for bucket, key in keyed if bucket is not None)
        self._charges[account, entry.id] = charges
        return charges

    def _track(self, tool: str) -> int:
        """Start counting a tool; with too many tools, those without running calls are dropped."""
        if len(self._running) >= MAX_TRACKED_TOOLS:
            self._running = {known: count for known, count in self._running.items() if count}
        self._running[tool] = 0
        return 0

    def count_refusal(self, call: Call) -> None:
        """Count an attempt that reached no tool, so that names cannot be guessed without limit; raises Limited."""
        if self._callers is not None:
            charge = Charge.of(self._callers, call.caller.rate_limit_key, 1.0)
            wait = take_charges((charge,), self._clock())
            if wait > 0.0:
                raise Limited(wait)


def _busy_error() -> Limited:
    error = Limited(BUSY_SECONDS)
    error.message = "this tool runs as many calls at once as it may: try again in a second"
    return error
