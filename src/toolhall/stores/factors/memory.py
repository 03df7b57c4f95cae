"""Factors in memory: for halls without a data folder, and the oracle that every other engine must equal."""

import time

import msgspec

from toolhall.stores.approvals.base import Clock
from toolhall.stores.approvals.onward import Onward
from toolhall.stores.factors.base import TRIES, Factor, in_order, wait_after


class MemoryFactors:
    """Keeps them until the process ends."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = Onward(clock)
        self._kept: dict[str, Factor] = {}
        self._tries: dict[str, list[float]] = {}

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Every factor of a person, or of everybody, the oldest first; an invitation that is too old is not there."""
        return in_order([each for each in self._kept.values() if person in (None, each.person)], self._clock())

    async def find(self, factor_id: str) -> Factor | None:
        """The one with this id; an invitation that is too old is not there."""
        kept = self._kept.get(factor_id)
        return next(iter(in_order([] if kept is None else [kept], self._clock())), None)

    async def add(self, factor: Factor, instead_of: str | None = None) -> bool:
        """Add it, in place of an invitation if one is named; False if that is gone, or if it is there already."""
        there = {each.id for each in in_order(list(self._kept.values()), self._clock())}
        if factor.id in self._kept or (instead_of is not None and instead_of not in there):
            return False
        self._kept = {name: each for name, each in self._kept.items() if name in there and name != instead_of}
        self._kept[factor.id] = factor
        return True

    async def remove(self, factor_id: str) -> bool:
        """Forget it; False if there is none."""
        return self._kept.pop(factor_id, None) is not None

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Note that it was used; False unless the counter rises (or is 0 always, as it is for most passkeys)."""
        found = self._kept.get(factor_id)
        if found is None or not (counter > found.counter or counter == found.counter == 0):
            return False
        self._kept[factor_id] = msgspec.structs.replace(found, counter=counter, used_at=self._clock())
        return True

    async def attempt(self, person: str) -> float:
        """Count a try of this person; 0, or in how many seconds the next one is allowed."""
        now = self._clock()
        tries = self._tries.get(person, [])
        wait = wait_after(tries, now)
        if not wait:
            self._tries[person] = [*tries, now][-TRIES:]
        return wait

    async def forgive(self, person: str) -> None:
        """Forget the tries of this person, because one was right."""
        self._tries.pop(person, None)
