"""The limit stage: rate limits per caller and tool (see `rate_buckets`), and calls in progress per tool.

A call takes from every bucket or from none. Refused attempts count, too; Limited says when to try again.
"""

import sys
from collections.abc import Callable, Mapping
from heapq import nlargest
from typing import Annotated, Literal, NamedTuple, TypeAlias

import msgspec

from toolhall.model.caller import Caller
from toolhall.model.errors import Limited
from toolhall.model.messages import Call
from toolhall.model.names import matches_any
from toolhall.pipeline.rate_buckets import MAX_KEYS, Charge, Rate, RateBucket, take_charges
from toolhall.pipeline.states import Admitted, Allowed
from toolhall.registry.snapshot import Entry

MAX_TRACKED_TOOLS = 4_096
BucketKind: TypeAlias = Literal["caller", "tool", "pair"]
BUSY_SECONDS = 1.0  # retry_after for a tool at its concurrency limit


class Concurrency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of concurrent requests, in all and per caller, and of concurrent calls per tool; None: a share of all."""

    total: Annotated[int, msgspec.Meta(ge=1)] = 256
    per_caller: Annotated[int, msgspec.Meta(ge=1)] | None = None
    per_tool: Annotated[int, msgspec.Meta(ge=1)] | None = None


class RateLimits(msgspec.Struct, frozen=True, kw_only=True):
    """All limits of a hall; None means no limit. `costs` maps globs of tools to what one call of them costs."""

    caller: Rate | None = None
    tool: Rate | None = None
    pair: Rate | None = None  # of one caller for one tool
    running: int | None = None  # concurrent calls of one tool
    costs: Mapping[str, float] = {}


class BucketFill(NamedTuple):
    """How much of the allowance of one key is used, from 0 to 1; the key of a pair is the caller and the tool."""

    kind: BucketKind
    key: str
    fill: float


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
        call, entry, charges = allowed.call, allowed.entry, allowed.charges
        tool = entry.id
        running = self._running.get(tool)
        if running is None:
            running = self._track(tool)
        if running >= self._max_running:
            raise _busy_error()
        wait = take_charges(self.charges(call.caller, entry) if charges is None else charges, self._clock())
        if wait > 0.0:
            raise Limited(wait)
        self._running[tool] = running + 1
        return Admitted(call, entry, allowed.verdict)

    @property
    def running(self) -> int:
        """The number of calls that are admitted and have not ended."""
        return sum(self._running.values())

    def release(self, admitted: Admitted) -> None:
        """Free the slot of an admitted call that has ended."""
        self._running[admitted.entry.id] -= 1

    def wait_for(self, caller: Caller, entry: Entry) -> float:
        """Return the seconds that a call would have to wait now; it takes nothing from any limit."""
        if self._running.get(entry.id, 0) >= self._max_running:
            return BUSY_SECONDS
        now = self._clock()
        return max((charge.wait(now) for charge in self._make_charges(caller.rate_limit_key, entry.id)), default=0.0)

    def take(self, account: str, tool: str | None, now: float) -> float:
        """Take what a call of this tool id costs, or an attempt that reached no tool; returns the seconds to wait."""
        if tool is not None:
            return take_charges(self._make_charges(account, tool), now)
        return 0.0 if self._callers is None else take_charges((Charge.of(self._callers, account, 1.0),), now)

    def fullest(self, count: int) -> list[BucketFill]:
        """Return the keys with the least allowance left, the fullest first."""
        now = self._clock()
        kinds: tuple[tuple[BucketKind, RateBucket | None], ...] = (
            ("caller", self._callers),
            ("tool", self._tools),
            ("pair", self._pairs),
        )
        fills = [
            BucketFill(kind, key.replace("\n", " "), min((full_at - now) / bucket.tolerance, 1.0))
            for kind, bucket in kinds
            if bucket is not None
            for key, full_at in bucket.full_at.items()
            if full_at > now
        ]
        return nlargest(count, fills, key=lambda each: each.fill)

    def charges(self, caller: Caller, entry: Entry) -> tuple[Charge, ...]:
        """What a call of this tool by this caller takes from every bucket there is."""
        account = caller.id if caller.address is None else caller.rate_limit_key
        known = self._charges.get((account, entry.id))
        return self._new_charges(account, entry) if known is None else known

    def _new_charges(self, account: str, entry: Entry) -> tuple[Charge, ...]:
        if len(self._charges) >= MAX_KEYS:
            self._charges.clear()
        charges = self._charges[account, entry.id] = self._make_charges(account, entry.id)
        return charges

    def _make_charges(self, account: str, tool: str) -> tuple[Charge, ...]:
        costs = [each for glob, each in self._costs.items() if matches_any((glob,), tool)]
        cost = max(costs, default=1.0)
        # Neither part of a pair's key contains a line break.
        keyed = ((self._callers, account), (self._tools, tool), (self._pairs, f"{account}\n{tool}"))
        return tuple(Charge.of(bucket, key, cost) for bucket, key in keyed if bucket is not None)

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
