"""CallPlans: what it keeps lives no longer than the policy's decisions."""

import gc

import msgspec

from tests.unit.builders import Clock, call_of, entry_named
from toolhall.model.caller import Allow, Caller
from toolhall.pipeline.access_rules import NoRules
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.plans import CallPlans
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.states import Allowed
from toolhall.registry.registry import Registry

CALLER = Caller("ada", proof="key")


def vars_of(struct: object) -> dict[str, object]:
    """The fields of a struct whose type is not public."""
    assert isinstance(struct, msgspec.Struct)
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


def test_plans_do_not_keep_decisions_alive_that_the_policy_dropped() -> None:
    entry, registry, policy = entry_named(), Registry(10), LevelPolicy(clock=Clock())
    registry.add((entry,))
    plans = CallPlans(registry, policy, Limit(RateLimits(), Clock()).charges)
    call = call_of(tool=entry.id, caller=CALLER)
    for _ in range(20):
        policy.set_rules(NoRules())
        assert plans.find(call) is None
        plans.add(Allowed(call, entry, Allow("test")))
        assert plans.find(call) is not None
    gc.collect()
    decisions = type(policy.cache_key(CALLER))
    alive = [each for each in gc.get_objects() if isinstance(each, decisions) and vars_of(each)["caller"] is CALLER]
    assert len(alive) == 1
