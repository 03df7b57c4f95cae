"""Rate limits by the generic cell rate algorithm (GCRA): Rate, RateBucket, Charge, and take_charges for all of a call.

A bucket keeps per key only the time at which its allowance is full again, so that an idle key needs no timer.
"""

from typing import Annotated, NamedTuple

import msgspec

MAX_KEYS = 10_000


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rate limit: calls per second, and how many of them may come at once."""

    per_second: Annotated[float, msgspec.Meta(gt=0)]
    burst: Annotated[float, msgspec.Meta(ge=1)] = 1


class RateBucket:
    """The allowances of all keys under one rate."""

    __slots__ = ("full_at", "rounding", "spacing", "tolerance")

    def __init__(self, rate: Rate) -> None:
        self.spacing = 1.0 / rate.per_second
        self.tolerance = rate.burst / rate.per_second
        self.rounding = 0.001 / rate.per_second  # floating point: a sum of spacings may exceed their product
        self.full_at: dict[str, float] = {}  # never replaced: charges refer to it

    def make_room(self, now: float) -> None:
        """Drop keys whose allowance is full again; if these are few, drop the oldest tenth as well."""
        kept = [(key, full_at) for key, full_at in self.full_at.items() if full_at > now]
        self.full_at.clear()
        self.full_at.update(kept[-(MAX_KEYS * 9 // 10) :])


class Charge(NamedTuple):
    """What one call takes from one key of a bucket; computed once per caller and tool."""

    full_at: dict[str, float]  # the bucket's
    key: str
    seconds: float  # by which the call moves the time at which the allowance is full
    latest: float  # the call waits while the allowance is full later than this many seconds from now
    bucket: RateBucket

    @classmethod
    def of(cls, bucket: RateBucket, key: str, cost: float) -> "Charge":
        """The charge of a call with this cost; a cost above the burst waits for a full allowance."""
        seconds = bucket.spacing * cost
        free_until = bucket.tolerance - min(seconds, bucket.tolerance)
        return cls(bucket.full_at, key, seconds, free_until + bucket.rounding, bucket)

    def wait(self, now: float) -> float:
        """Seconds until the allowance suffices; 0 if it does now."""
        ahead = self.full_at.get(self.key, now) - now
        return ahead - self.latest + self.bucket.rounding if ahead > self.latest else 0.0


def take_charges(charges: tuple[Charge, ...], now: float) -> float:
    """Take every charge and return 0, or take none and return the longest wait in seconds."""
    taken = 0
    for known, key, seconds, latest, bucket in charges:
        full_at = known.get(key, 0.0)
        if full_at <= now:
            if len(known) >= MAX_KEYS and key not in known:
                bucket.make_room(now)
            known[key] = now + seconds
        elif full_at - now > latest:
            break
        else:
            known[key] = full_at + seconds
        taken += 1
    else:
        return 0.0
    for known, key, seconds, _, _ in charges[:taken]:
        known[key] -= seconds
    return max(charge.wait(now) for charge in charges)
