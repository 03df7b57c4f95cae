"""What single grants say, and which arguments meet their conditions."""

from typing import Any

import pytest

from tests.unit.builders import tool_named
from toolhall.model.caller import Caller
from toolhall.pipeline.access_rules import (
    MAX_CACHED_CALLERS,
    Conditional,
    Forbidden,
    GrantRules,
    Permitted,
    RuleDecision,
    Unmatched,
)
from toolhall.schema.defaults import UNKNOWN
from toolhall.stores.access import Condition, Grant

CI = Caller("ci", proof="key")
TOOL = tool_named("get")


def grant(grant_id: str, effect: str = "permit", *conditions: Condition, **other: Any) -> Grant:
    plain: dict[str, Any] = {"callers": "ci", "tools": "*", "created_at": 1.0, "by": "local"}
    members: dict[str, Any] = plain | {"id": grant_id, "effect": effect, "conditions": conditions} | other
    return Grant(**members)


def ruling(*grants: Grant, level: int = 4) -> RuleDecision:
    return GrantRules(grants).decide(CI, TOOL, level)


def settled(arguments: dict[str, Any], *grants: Grant) -> RuleDecision:
    return GrantRules(grants).decide_arguments(CI, TOOL, 4, arguments)


REPO = Condition("/repo", ("a", "b"))


def test_grant_rules_without_grants_are_unmatched() -> None:
    assert ruling() == settled({}) == Unmatched()


def test_grant_rules_with_more_grants_decide_like_all_of_them_and_change_nothing() -> None:
    rules = GrantRules((grant("p"), grant("q")))
    assert rules.decide(CI, TOOL, 4) == Permitted("p")
    assert rules.with_grants(()).decide(CI, TOOL, 4) == Permitted("p")
    assert rules.with_grants((grant("a"),)).decide(CI, TOOL, 4) == Permitted("a")
    more = rules.with_grants((grant("f", "forbid"),))
    assert more.decide(CI, TOOL, 4) == more.decide_arguments(CI, TOOL, 4, {}) == Forbidden("f")
    assert rules.decide(CI, TOOL, 4) == Permitted("p")


def test_grant_rules_forbid_overrides_permit_and_names_the_grant() -> None:
    assert ruling(grant("p"), grant("f", "forbid")) == settled({}, grant("p"), grant("f", "forbid")) == Forbidden("f")
    assert ruling(grant("q"), grant("p")) == Permitted("p")


def test_grant_rules_decide_without_arguments_is_conditional_for_grants_with_conditions() -> None:
    assert ruling(grant("p", "permit", REPO)) == Conditional()
    assert ruling(grant("p"), grant("f", "forbid", REPO)) == Conditional()
    assert ruling(grant("p"), grant("q", "permit", REPO)) == Permitted("p")


def test_grant_rules_with_only_a_conditional_forbid_are_unmatched_from_level_four() -> None:
    """Below level 4 everybody with a credential may call, but for what a grant forbids."""
    forbids = grant("f", "forbid", REPO)
    assert (ruling(forbids, level=4), ruling(forbids, level=3)) == (Unmatched(), Conditional())
    assert settled({"repo": "a"}, forbids) == Forbidden("f")
    assert settled({"repo": "c"}, forbids) == Unmatched()


def test_grant_rules_permit_only_when_all_conditions_hold() -> None:
    narrow = grant("p", "permit", REPO, Condition("/n", (1,)))
    assert settled({"repo": "a", "n": 1}, narrow) == Permitted("p")
    assert settled({"repo": "a", "n": 2}, narrow) == settled({"n": 1}, narrow) == Unmatched()


@pytest.mark.parametrize(
    ("path", "value", "arguments", "meets"),
    [
        ("/a", 1, {"a": 1.0}, True),
        ("/a", 1, {"a": True}, False),
        ("/a", 1, {"a": "1"}, False),
        ("/a", None, {"a": None}, True),
        ("/a", None, {}, False),
        ("/a", None, {"a": float("nan")}, False),
        ("/a", "x", {"a": "X"}, False),
        ("/a/b", 1, {"a": {"b": 1}}, True),
        ("/a/b", 1, {"a": "b"}, False),
        ("/a/0", 1, {"a": [1]}, True),
        ("/a/00", 1, {"a": [1]}, False),
        ("/a/-1", 1, {"a": [1]}, False),
        ("/a/1", 1, {"a": [1]}, False),
        ("/a/0", 1, {"a": {"0": 1}}, True),
        ("/a~1b/~0c", 1, {"a/b": {"~c": 1}}, True),
        ("/", 1, {"": 1}, True),
        ("/a", {"x": [1, 2]}, {"a": {"x": [1, 2.0]}}, True),
        ("/a", [1, 2], {"a": [2, 1]}, False),
        ("/a", "x", {"a": object()}, False),
    ],
)
def test_grant_condition_matches_only_an_argument_of_equal_type_and_value(
    path: str, value: Any, arguments: dict[str, Any], meets: bool
) -> None:
    """What cannot be read, or is of another type, never does; so it never permits."""
    narrow = grant("p", "permit", Condition(path, (value,)))
    assert settled(arguments, narrow) == (Permitted("p") if meets else Unmatched())


@pytest.mark.parametrize(
    ("path", "arguments", "in_doubt"),
    [
        ("/a", {"a": UNKNOWN}, True),
        ("/a/b", {"a": UNKNOWN}, True),
        ("/a", {"a": {"b": UNKNOWN}}, True),
        ("/a/b", {"a": {"c": UNKNOWN}}, False),
        ("/c", {"a": UNKNOWN}, False),
    ],
)
def test_grant_condition_on_an_unknown_argument_forbids_and_never_permits(
    path: str, arguments: dict[str, Any], in_doubt: bool
) -> None:
    demand = Condition(path, ("x",))
    assert settled(arguments, grant("p", "permit", demand)) == Unmatched()
    forbidding = settled(arguments, grant("p"), grant("f", "forbid", demand))
    assert forbidding == (Forbidden("f") if in_doubt else Permitted("p"))


def test_grant_rules_match_tools_and_callers_by_case_sensitive_globs() -> None:
    for tools, meant in (
        ("Kit.get", True),
        ("Kit.*", True),
        (str(TOOL.id), True),
        ("Kit.g", False),
        ("kit.get", False),
    ):
        assert isinstance(ruling(grant("p", tools=tools)), Permitted) is meant
    for callers, meant in (("c?", True), ("c", False), ("cii", False), ("CI", False), ("*", True)):
        assert isinstance(ruling(grant("p", callers=callers)), Permitted) is meant


def test_grant_rules_cache_of_callers_is_bounded() -> None:
    rulings = GrantRules([grant("p", callers="c*")])
    for number in range(MAX_CACHED_CALLERS + 10):
        assert rulings.decide(Caller(f"c{number}"), TOOL, 4) == Permitted("p")
    assert len(vars(rulings)["_by_caller"]) <= MAX_CACHED_CALLERS
