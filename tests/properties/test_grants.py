"""Grants: forbidding never allows, nobody's grant changes another's, and the evidence is always a grant there is."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import tool_named
from toolhall.model.caller import Caller
from toolhall.model.names import matches_any
from toolhall.pipeline.access_rules import Conditional, Forbidden, GrantRules, Permitted, RuleDecision, Unmatched
from toolhall.stores.access import Condition, Grant

CALLERS = ["ci", "ci-two", "corp:ada"]
TOOLS = [tool_named("get"), tool_named("put")]
values: st.SearchStrategy[Any] = st.sampled_from([None, True, 1, 1.0, "1", "a", [1], {"b": 1}])
conditions = st.builds(
    Condition,
    st.sampled_from(["/a", "/a/b", "/a/0", "/a~1b", "/c"]),
    st.lists(values, min_size=1, max_size=2).map(tuple),
)
arguments = st.dictionaries(st.sampled_from(["a", "c", "a/b"]), values | st.dictionaries(st.just("b"), values))
grants = st.builds(
    Grant,
    id=st.uuids().map(str),
    effect=st.sampled_from(["permit", "forbid"]),
    callers=st.sampled_from([*CALLERS, "ci*", "*", "corp:?da", "[c]i", "nobody"]),
    tools=st.sampled_from(["Kit.get", "Kit.*", "*", "Kit.get@1.*", "Kit.put@9.9.9", "Other.*"]),
    conditions=st.lists(conditions, max_size=2).map(tuple),
    created_at=st.just(1.0),
    by=st.just("local"),
)
several = st.lists(grants, max_size=6, unique_by=lambda each: each.id)
asked = st.tuples(st.sampled_from(CALLERS), st.sampled_from(TOOLS), st.integers(0, 10), arguments)


def decisions(rules: list[Grant], ask: tuple[str, Any, int, dict[str, Any]]) -> tuple[RuleDecision, RuleDecision]:
    caller, tool, level, given_arguments = ask
    found = GrantRules(rules)
    who = Caller(caller)
    return found.decide(who, tool, level), found.decide_arguments(who, tool, level, given_arguments)


def allows(rules: list[Grant], ask: tuple[str, Any, int, dict[str, Any]]) -> bool:
    """As the policy reads it from level 4 on."""
    ruling, settled = decisions(rules, ask)
    return isinstance(ruling, Permitted) or (isinstance(ruling, Conditional) and isinstance(settled, Permitted))


@given(several, grants, asked)
def test_forbid_grant_added_never_allows_a_denied_call(rules: list[Grant], one: Grant, ask: Any) -> None:
    forbidding = [*rules, _with(one, effect="forbid")]
    assert allows(rules, ask) or not allows(forbidding, ask)


@given(several, grants, asked)
def test_permit_grant_for_another_caller_or_tool_changes_no_decision(rules: list[Grant], one: Grant, ask: Any) -> None:
    caller, tool, _, _ = ask
    unrelated = _with(one, effect="permit")
    if matches_any([unrelated.tools], str(tool.id)) and matches_any([unrelated.callers], caller):
        unrelated = _with(unrelated, callers="somebody-else")
    assert decisions(rules, ask) == decisions([*rules, unrelated], ask)


@given(several, asked, st.randoms())
def test_grant_order_does_not_change_the_decision(rules: list[Grant], ask: Any, chance: Any) -> None:
    shuffled = list(rules)
    chance.shuffle(shuffled)
    assert decisions(rules, ask) == decisions(shuffled, ask)


@given(several, asked)
def test_grant_decision_names_a_grant_of_its_effect_and_tool(rules: list[Grant], ask: Any) -> None:
    by_id = {each.id: each for each in rules}
    for ruling in decisions(rules, ask):
        if isinstance(ruling, Permitted | Forbidden):
            grant = by_id[ruling.by]
            assert grant.effect == ("permit" if isinstance(ruling, Permitted) else "forbid")
            assert matches_any([grant.tools], str(ask[1].id))


@given(several, asked)
def test_grant_decision_without_conditions_holds_for_any_arguments(rules: list[Grant], ask: Any) -> None:
    ruling, settled = decisions(rules, ask)
    assert not isinstance(settled, Conditional)
    if isinstance(ruling, Permitted | Forbidden):
        assert type(settled) is type(ruling)
    if isinstance(ruling, Unmatched):
        assert not isinstance(settled, Permitted)


@given(several)
def test_grant_rules_without_a_permit_allow_nothing(rules: list[Grant]) -> None:
    forbidding = [each for each in rules if each.effect == "forbid"]
    for caller in CALLERS:
        assert not allows(forbidding, (caller, TOOLS[0], 4, {}))


def _with(grant: Grant, **other: Any) -> Grant:
    return msgspec.structs.replace(grant, id="zz", **other)
