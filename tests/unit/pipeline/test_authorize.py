"""The levels 0-10: what each level requires of a caller, and that levels are monotone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import Clock, call_of, entry_named, tool_named
from toolhall.model.caller import (
    ABOVE_ALL_LEVELS,
    ADMIN,
    ANONYMOUS,
    LOCAL,
    Allow,
    Caller,
    Deny,
    RequireVerification,
    Verdict,
    effective_level,
)
from toolhall.model.errors import Denied, Unauthenticated
from toolhall.model.tool import Annotations, Tool
from toolhall.pipeline.access_rules import AccessRules, Forbidden, Permitted, RuleDecision, Unmatched
from toolhall.pipeline.find import Authorize
from toolhall.pipeline.policy import LevelPolicy, LevelRequirements
from toolhall.pipeline.states import Found

NOW = 1_000_000.0
KEY = Caller("ci", proof="key", person="ci", scopes=frozenset({"tools:*"}), expires_at=NOW + 1)
TOKEN = Caller(
    "corp:ada",
    proof="token",
    scopes=frozenset({"tools:Kit"}),
    expires_at=NOW + 1,
    authenticated_at=NOW,
    short_lived=True,
)
EVERY_LEVEL = range(11)


class FixedRules:
    """Access rules that give the same decision for every caller and tool."""

    def __init__(self, decision: RuleDecision) -> None:
        self._decision = decision

    def decide(self, caller: Caller, tool: Tool, level: int) -> RuleDecision:
        return self._decision

    def decide_arguments(self, caller: Caller, tool: Tool, level: int, arguments: dict[str, Any]) -> RuleDecision:
        return self._decision


GRANTED = FixedRules(Permitted("grant-1"))


def policy(rules: AccessRules | None = GRANTED, **settings: Any) -> LevelPolicy:
    return LevelPolicy(rules, clock=Clock(NOW), **settings)


def verdict(caller: Caller, level: int, rules: AccessRules | None = GRANTED, **settings: Any) -> Verdict:
    return policy(rules, **settings).authorize(caller, tool_named("pick", level=level))


@pytest.mark.parametrize("level", range(8))
def test_policy_allows_the_local_caller_up_to_level_seven_without_a_grant(level: int) -> None:
    assert verdict(LOCAL, level, None) == Allow("profile:local", level)


@pytest.mark.parametrize(("level", "how"), [(8, "step_up"), (9, "approval"), (10, "second_person")])
@pytest.mark.parametrize("caller", [LOCAL, KEY, TOKEN], ids=["local", "key", "token"])
def test_policy_requires_verification_from_level_eight(caller: Caller, level: int, how: str) -> None:
    said = verdict(caller, level)
    assert isinstance(said, RequireVerification)
    assert (said.level, said.how) == (level, how)


@pytest.mark.parametrize("level", EVERY_LEVEL)
def test_policy_hides_and_refuses_every_tool_for_an_anonymous_caller(level: int) -> None:
    tool = tool_named("pick", level=level, effect="reads")
    assert not policy().can_see(ANONYMOUS, tool)
    assert not policy().can_see_all(ANONYMOUS)
    with pytest.raises(Unauthenticated):
        Authorize(policy())(Found(call_of(caller=ANONYMOUS), entry_named(level=level)))


@pytest.mark.parametrize(("level", "seen"), [(0, True), (1, False), (4, False)])
def test_allow_anonymous_shows_an_anonymous_caller_read_only_tools_of_level_zero_only(level: int, seen: bool) -> None:
    tool = tool_named("pick", level=level, effect="reads")
    assert policy(allow_anonymous=True).can_see(ANONYMOUS, tool) is seen


@pytest.mark.parametrize("stated", [{"effect": "writes"}, {}, {"effect": "reads", "foreign": True}])
def test_allow_anonymous_hides_level_zero_tools_that_may_write_or_are_foreign(stated: dict[str, Any]) -> None:
    assert not policy(allow_anonymous=True).can_see(ANONYMOUS, tool_named("pick", level=0, **stated))


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("caller", [KEY, TOKEN], ids=["key", "token"])
def test_policy_allows_an_authenticated_caller_up_to_level_three_without_a_grant(caller: Caller, level: int) -> None:
    assert verdict(caller, level, None) == Allow("level:authenticated", level)


@pytest.mark.parametrize("level", range(4, 11))
@pytest.mark.parametrize("caller", [KEY, TOKEN], ids=["key", "token"])
def test_policy_denies_and_hides_tools_from_level_four_without_a_grant(caller: Caller, level: int) -> None:
    tool = tool_named("pick", level=level)
    assert isinstance(policy(None).authorize(caller, tool), Deny)
    assert not policy(None).can_see(caller, tool)
    assert policy().can_see(caller, tool)


@pytest.mark.parametrize("level", range(4, 8))
def test_verdict_of_a_permitted_call_names_its_grant(level: int) -> None:
    assert verdict(KEY, level) == Allow("grant-1", level)


@pytest.mark.parametrize("level", range(1, 11))
def test_policy_hides_and_denies_a_forbidden_tool_at_every_level(level: int) -> None:
    forbidding = policy(FixedRules(Forbidden("grant-2")))
    tool = tool_named("pick", level=level)
    assert not forbidding.can_see(KEY, tool)
    denied = forbidding.authorize(KEY, tool)
    assert isinstance(denied, Deny)
    assert denied.by == "grant-2"


CREDENTIALS = {
    "shared": (Caller("ci", proof="shared", scopes=KEY.scopes, expires_at=NOW + 1), 2, "not one that several share"),
    "endless": (Caller("ci", proof="key", scopes=KEY.scopes), 3, "that expires"),
    "stale": (
        Caller("c:a", proof="token", scopes=KEY.scopes, expires_at=NOW, authenticated_at=NOW - 43_201),
        7,
        "again",
    ),
    "undated": (Caller("c:a", proof="token", scopes=KEY.scopes, expires_at=NOW), 7, "auth_time"),
}


@pytest.mark.parametrize("name", CREDENTIALS)
@pytest.mark.parametrize("level", range(1, 11))
def test_policy_denies_a_credential_too_weak_for_the_level_and_names_the_fix(name: str, level: int) -> None:
    caller, step, fix = CREDENTIALS[name]
    said = verdict(caller, level)
    assert isinstance(said, Deny) is (level >= step)
    if isinstance(said, Deny):
        assert fix in said.reason
        assert policy().can_see(caller, tool_named("pick", level=level)), "it is told what to change"


def test_policy_denies_level_seven_once_the_sign_in_is_too_old() -> None:
    clock, tool = Clock(NOW), tool_named("pick", level=7)
    growing = LevelPolicy(GRANTED, clock=clock)
    assert isinstance(growing.authorize(TOKEN, tool), Allow)
    clock.now += 43_201
    assert isinstance(growing.authorize(TOKEN, tool), Deny)


SCOPES = {
    "none": (frozenset[str](), 4),
    "another": (frozenset({"tools:Other"}), 1),
    "this": (frozenset({"tools:Kit"}), ABOVE_ALL_LEVELS),
    "all": (frozenset({"tools:*"}), ABOVE_ALL_LEVELS),
    "admin": (frozenset({ADMIN}), 4),
}


@pytest.mark.parametrize("name", SCOPES)
@pytest.mark.parametrize("level", range(1, 11))
def test_policy_denial_for_a_missing_scope_names_the_scope(name: str, level: int) -> None:
    scopes, step = SCOPES[name]
    said = verdict(Caller("corp:eve", proof="token", scopes=scopes, expires_at=NOW, authenticated_at=NOW), level)
    assert isinstance(said, Deny) is (level >= step)
    if isinstance(said, Deny):
        assert said.scopes == ("tools:Kit",)


CALLERS = st.builds(
    Caller,
    st.sampled_from(["ada", "bob"]),
    proof=st.sampled_from(["none", "shared", "key", "token"]),
    scopes=st.frozensets(st.sampled_from(["tools:*", "tools:Kit", "tools:Other", "admin", "approve", "openid"])),
    expires_at=st.sampled_from([None, NOW + 1]),
    authenticated_at=st.sampled_from([None, NOW, NOW - 43_201]),
    short_lived=st.booleans(),
)
STEPS = st.builds(
    LevelRequirements, **{name: st.integers(1, ABOVE_ALL_LEVELS) for name in LevelRequirements.__struct_fields__}
)
RULINGS = st.sampled_from([Permitted("grant-1"), Forbidden("grant-2"), Unmatched()])
HARDNESS = {"step_up": 1, "approval": 2, "second_person": 3}


@given(
    caller=CALLERS, steps=STEPS, ruling=RULINGS, anonymous=st.booleans(), effect=st.sampled_from(["reads", "writes"])
)
def test_policy_is_monotone_lower_levels_never_require_more(
    caller: Caller, steps: LevelRequirements, ruling: RuleDecision, anonymous: bool, effect: Any
) -> None:
    """Monotone, whatever the steps are: going down the ladder never asks for more."""
    judged = [
        policy(FixedRules(ruling), requirements=steps, allow_anonymous=anonymous).authorize(
            caller, tool_named("pick", level=level, effect=effect)
        )
        for level in EVERY_LEVEL
    ]
    asked = [
        HARDNESS[said.how] if isinstance(said, RequireVerification) else 0 if isinstance(said, Allow) else 4
        for said in judged
    ]
    if caller.proof == "none":  # nobody may call what only reads; everything above asks who it is
        assert asked[1:] == [4] * 10
    elif not isinstance(ruling, Forbidden):
        assert asked == sorted(asked)
    else:
        assert asked == [4] * 11


@given(caller=CALLERS, level=st.integers(0, 10), steps=STEPS)
def test_policy_never_allows_a_forbidden_call(caller: Caller, level: int, steps: LevelRequirements) -> None:
    tool = tool_named("pick", level=level)
    assert isinstance(policy(FixedRules(Forbidden("no")), requirements=steps).authorize(caller, tool), Deny)


TRAITS: list[tuple[dict[str, Any], int]] = [
    ({}, 1),
    ({"level": 0}, 0),
    ({"level": 7}, 7),
    ({"foreign": True}, 4),
    ({"foreign": True, "level": 2}, 2),
    ({"level": 1, "effect": "destroys"}, 4),
    ({"level": 1, "annotations": Annotations(destructive=True)}, 4),
    ({"level": 1, "foreign": True, "annotations": Annotations(open_world=True)}, 4),
    ({"level": 1, "annotations": Annotations(open_world=True)}, 1),
    ({"level": 1, "requirements": {"secrets": [{"id": "KEY"}]}}, 4),
    ({"level": 1, "requirements": {"authorization": [{"id": "google"}]}}, 4),
    ({"level": 1, "requirements": {"user_id": True}}, 2),
    ({"level": 9, "requirements": {"user_id": True}}, 9),
]


@pytest.mark.parametrize(("stated", "level"), TRAITS, ids=str)
def test_effective_level_is_the_maximum_of_stated_level_effect_annotations_and_requirements(
    stated: dict[str, Any], level: int
) -> None:
    assert effective_level(tool_named("pick", **stated)) == level


@given(stated=st.sampled_from([stated for stated, _ in TRAITS]), said=st.integers(0, 10))
def test_effective_level_setting_of_the_operator_can_only_raise_the_level(stated: dict[str, Any], said: int) -> None:
    tool = tool_named("pick", **stated)
    assert effective_level(tool, {"Kit.*": said}) == max(effective_level(tool), said)
    assert effective_level(tool, {"Other.*": 10}) == effective_level(tool)


def test_policy_set_rules_takes_effect_immediately() -> None:
    changing, tool = policy(None), tool_named("pick", level=5)
    assert not changing.can_see(KEY, tool)
    changing.set_rules(GRANTED)
    assert changing.can_see(KEY, tool)


def test_authorize_denied_error_names_the_missing_scopes() -> None:
    with pytest.raises(Denied) as denied:
        Authorize(policy())(Found(call_of(caller=Caller("x:y", proof="token", expires_at=NOW)), entry_named(level=5)))
    assert denied.value.scopes == ("tools:Kit",)


@pytest.mark.parametrize(
    ("caller", "may"), [(LOCAL, True), (KEY, False), (Caller("ops", proof="key", scopes=frozenset({ADMIN})), True)]
)
def test_policy_is_admin_for_the_local_caller_and_authenticated_callers_with_admin_scope(
    caller: Caller, may: bool
) -> None:
    assert policy().is_admin(caller) is may
    assert not policy().is_admin(Caller("anonymous", scopes=frozenset({ADMIN})))
