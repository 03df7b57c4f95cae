"""CallPlans: what the stages find and authorize decided for a caller and a name, kept until something changes.

Theory of operation
-------------------
Most calls are repetitions: the same caller calls the same tool by the same name. What find and authorize decide then
depends on two objects only, and both are replaced, never changed:

- the snapshot of the registry, a new object whenever any tool, version or name changes;
- the policy's decisions about the caller (`LevelPolicy.cache_key`), a new object whenever rules or settings change, the
  caller's facts differ, or its sign-in has grown old.

CallPlans keeps one CallPlan per decisions object and name, and drops all of them with the snapshot. Only calls that
both stages allowed are kept; refusals are decided anew each time. Two kinds of calls are never kept: those of tools
with a sunset, which comes without a change of the snapshot, and those of anonymous callers, which are many.

A plan also says whether verify and equip have anything to do at all (`Unguarded`), so that a call which needs neither
does not pass through them.
"""

from collections.abc import Hashable

import msgspec

from toolhall.model.caller import Allow, RequireVerification
from toolhall.model.messages import Call
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.states import Allowed, Equipped, Unguarded, Valid
from toolhall.redaction.redactor import redactor_for
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry

MAX_PLANS = 20_000  # callers choose the names: a version range has many spellings


class CallPlan(msgspec.Struct, frozen=True):
    """The tool that a name means for a caller, the verdict, and whether verify and equip have nothing to do."""

    entry: Entry
    verdict: Allow | RequireVerification
    unguarded: Unguarded | None


class CallPlans:
    """The plans of the current snapshot, by the policy's decisions about the caller and by name."""

    def __init__(self, registry: Registry, policy: LevelPolicy) -> None:
        self._registry = registry
        self._policy = policy
        self._snapshot: object = None
        self._plans: dict[tuple[Hashable, str], CallPlan] = {}

    def find(self, call: Call) -> CallPlan | None:
        """Return the plan of a call; None if it was not allowed before, or something has changed since."""
        if self._registry.snapshot is not self._snapshot:
            return None
        return self._plans.get((self._policy.cache_key(call.caller), call.tool))

    def add(self, allowed: Allowed) -> None:
        """Keep what was decided; a caller's own credentials for a tool are no part of it."""
        call, entry, verdict = allowed.call, allowed.entry, allowed.verdict
        if self._registry.snapshot is not self._snapshot or len(self._plans) >= MAX_PLANS:
            self._plans.clear()
            self._snapshot = self._registry.snapshot
        if self._registry.snapshot.find(call.tool) is not entry:
            return  # the snapshot changed after the tool was found
        if entry.tool.deprecation is not None or call.caller.address is not None:
            return
        is_free = isinstance(verdict, Allow) and not verdict.conditional and entry.requirements is None
        unguarded = Unguarded(entry, verdict) if is_free and isinstance(verdict, Allow) else None
        self._plans[self._policy.cache_key(call.caller), call.tool] = CallPlan(entry, verdict, unguarded)


def equip_unguarded(proof: Unguarded, valid: Valid) -> Equipped:
    """Return Equipped without credentials; the caller's own one is redacted as always."""
    if valid.entry is not proof.entry or valid.verdict is not proof.verdict:
        raise RuntimeError("the proof is about another call")
    credential = valid.call.caller.credential
    redactor = None if credential is None else redactor_for(credential, ())
    return Equipped(valid.call, valid.entry, valid.verdict, valid.arguments, None, redactor)
