"""CallPlans: what the stages find and authorize decided for a caller and a name, kept until something changes.

Theory of operation
-------------------
Most calls are repetitions: the same caller calls the same tool by the same name. What find and authorize decide then
depends on two objects only, and both are replaced, never changed:

- the snapshot of the registry, a new object whenever any tool, version or name changes;
- the policy's decisions about the caller (`LevelPolicy.plan_cache`), a new object whenever rules or settings change,
  the caller's facts differ, or its sign-in has grown old.

The plans of a caller lie beside the policy's decisions about it (PlanCache), so that both are dropped together. They
are stamped with an epoch, which ends with the snapshot. Only calls that both stages allowed are kept; refusals are
decided anew each time. Two kinds of calls are never kept: those of tools with a sunset, which comes without a change of
the snapshot, and those of anonymous callers, which are many.

A plan also says what a call takes from each rate limit, and whether verify and equip have anything to do at all
(`Unguarded`), so that a call which needs neither does not pass through them.
"""

from collections.abc import Callable

import msgspec

from toolhall.model.caller import Allow, Caller, RequireVerification
from toolhall.model.messages import Call
from toolhall.pipeline.policy import LevelPolicy, PlanCache
from toolhall.pipeline.rate_buckets import Charge
from toolhall.pipeline.states import Allowed, Equipped, Unguarded, Valid
from toolhall.redaction.redactor import Redactor
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry

MAX_PLANS = 20_000  # callers choose the names: a version range has many spellings


class CallPlan(msgspec.Struct, frozen=True):
    """What every call of one name by one caller has in common."""

    entry: Entry  # the tool that the name means
    verdict: Allow | RequireVerification
    unguarded: Unguarded | None  # the proof that verify and equip have nothing to do, if they have not
    charges: tuple[Charge, ...]


class CallPlans:
    """The plans of the current snapshot, by caller and name."""

    def __init__(
        self, registry: Registry, policy: LevelPolicy, charges: Callable[[Caller, Entry], tuple[Charge, ...]]
    ) -> None:
        """`charges` computes what a call of a tool takes from the rate limits."""
        self._registry = registry
        self._policy = policy
        self._charges = charges
        self._snapshot: object = None
        self._epoch = object()
        self._caches: list[PlanCache] = []  # those of this epoch that hold plans
        self._count = 0

    def find(self, call: Call) -> CallPlan | None:
        """Return the plan of a call; None if it was not allowed before, or something has changed since."""
        if self._registry.snapshot is not self._snapshot:
            return None
        cache = self._policy.plan_cache(call.caller)
        if cache.epoch is not self._epoch:
            return None
        return cache.plans.get(call.tool if call.kind == "tool" else (call.kind, call.tool))

    def add(self, allowed: Allowed) -> None:
        """Keep what was decided; a caller's own credentials for a tool are no part of it."""
        call, entry, verdict = allowed.call, allowed.entry, allowed.verdict
        if self._registry.snapshot is not self._snapshot or self._count >= MAX_PLANS:
            self._start_epoch()
        if self._registry.snapshot.of_kind(call.kind).find(call.tool) is not entry:
            return  # the snapshot changed after the tool was found
        if entry.tool.deprecation is not None or call.caller.address is not None:
            return
        cache = self._policy.plan_cache(call.caller)
        if cache.epoch is not self._epoch:
            cache.epoch, cache.plans = self._epoch, {}
            self._caches.append(cache)
        key = call.tool if call.kind == "tool" else (call.kind, call.tool)  # one name may be a tool's and a prompt's
        cache.plans[key] = CallPlan(entry, verdict, _proof(entry, verdict), self._charges(call.caller, entry))
        self._count += 1

    def _start_epoch(self) -> None:
        """Drop all plans."""
        for cache in self._caches:
            cache.plans = {}
        self._caches.clear()
        self._count, self._epoch, self._snapshot = 0, object(), self._registry.snapshot


def _proof(entry: Entry, verdict: Allow | RequireVerification) -> Unguarded | None:
    """Return the proof that verify and equip have nothing to do, if they have not."""
    if isinstance(verdict, Allow) and not verdict.conditional and entry.requirements is None:
        return Unguarded(entry, verdict)
    return None


def equip_unguarded(proof: Unguarded, valid: Valid) -> Equipped:
    """Return Equipped without credentials; the caller's own one is redacted as always."""
    if valid.entry is not proof.entry or valid.verdict is not proof.verdict:
        raise RuntimeError("the proof is about another call")
    credential = valid.call.caller.credential
    redactor = None if credential is None else Redactor((), credential)
    return Equipped(valid.call, valid.entry, valid.verdict, valid.arguments, None, redactor)
