"""Approvals in memory: for halls without a data folder, and the oracle that every other engine must equal."""

import time

import msgspec

from toolhall.stores.approvals.base import (
    COOL_DOWN_SECONDS,
    KEPT_SECONDS,
    MOST_KEPT,
    Approval,
    Clock,
    Decision,
    Wanted,
    as_of,
    asked,
    decided,
    is_same,
    refuse_crowd,
)
from toolhall.stores.approvals.onward import Onward


class MemoryApprovals:
    """Keeps them until the process ends; nothing here waits, so nothing comes in between."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = Onward(clock)
        self._kept: dict[str, Approval] = {}
        self._live: dict[str, Approval] = {}  # those that a call may still meet: few, where many are kept

    async def find(self, approval_id: str) -> Approval | None:
        """As it stands now: what is too old is `expired`."""
        found = self._kept.get(approval_id)
        return None if found is None else as_of(found, self._clock())

    async def pending(self) -> tuple[Approval, ...]:
        """Everything that waits for an answer, the oldest first."""
        now = self._clock()
        waiting = [each for each in self._in("pending") if _is_live(each, now)]
        return tuple(sorted(waiting, key=lambda each: (each.created, each.id)))

    async def before(self, approval: Approval) -> Approval | None:
        """The last one that was approved of the same caller and tool, whatever its version."""
        about = (approval.caller, approval.tool_key)
        said_yes = [
            each
            for each in self._kept.values()
            if each.state in ("approved", "consumed")
            and (each.caller, each.tool_key) == about
            and each.id != approval.id
        ]
        last = max(said_yes, key=lambda each: (each.decided_at or 0.0, each.id), default=None)
        return None if last is None else as_of(last, self._clock())

    async def claim(self, wanted: Wanted, new_id: str) -> Approval:
        """Use up the yes to this exact call (`consumed`), or ask for one (`pending`); raises NotNow."""
        now = self._clock()
        self._live = {each.id: each for each in self._live.values() if _is_live(each, now)}
        for each in self._in("approved"):
            if is_same(wanted, each):
                return each if each.how == "step_up" else self._put(msgspec.structs.replace(each, state="consumed"))
        waiting = self._in("pending")
        for each in waiting:
            if is_same(wanted, each):
                return each
        refuse_crowd(wanted, waiting, self._in("denied"), now)
        self._forget(now)
        return self._put(asked(wanted, new_id, now))

    async def decide(self, approval_id: str, decision: Decision) -> Approval | None:
        """Answer what is pending; None if it no longer is."""
        now = self._clock()
        found = self._kept.get(approval_id)
        if found is None or as_of(found, now).state != "pending":
            return None
        return self._put(decided(found, decision, now))

    def _in(self, state: str) -> list[Approval]:
        return [each for each in self._live.values() if each.state == state]

    def _put(self, approval: Approval) -> Approval:
        self._kept[approval.id] = self._live[approval.id] = approval
        return approval

    def _forget(self, now: float) -> None:
        """What ended long ago goes, and of too many those that ended first."""
        kept = {each.id: each for each in self._kept.values() if each.expires > now - KEPT_SECONDS}
        surplus = max(len(kept) + 1 - MOST_KEPT, 0)
        for each in sorted(kept.values(), key=lambda each: (each.expires, each.id))[:surplus]:
            if each.expires <= now:
                del kept[each.id]
        self._kept = kept


def _is_live(approval: Approval, now: float) -> bool:
    """Whether a call may still be let in, wait or be refused by it."""
    if approval.state == "denied":
        return (approval.decided_at or 0.0) + COOL_DOWN_SECONDS > now
    return as_of(approval, now).state in ("pending", "approved")
