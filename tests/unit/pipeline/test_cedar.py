"""Cedar policies as rules: who may call what, with which arguments, and that an error is a no."""

import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from tests.unit.builders import tool_named
from toolhall.model.caller import Caller
from toolhall.model.tool import PromptInfo, ResourceInfo
from toolhall.pipeline.access_rules import Conditional, Forbidden, Permitted, RuleDecision, Unmatched
from toolhall.pipeline.cedar import BadPolicies, CedarRules
from toolhall.schema.defaults import UNKNOWN

POLICIES = """
@id("ops-db") permit(principal in Group::"ops", action == Action::"call", resource in Toolkit::"Kit")
  when { context.arguments has table && context.arguments.table != "users" };
@id("ci-pick") permit(principal == Caller::"ci", action == Action::"call", resource == Tool::"Kit.pick@1.0.0");
@id("no-eight") forbid(principal, action, resource) when { resource.level >= 8 };
"""
CI, OPS, EVE = Caller("ci"), Caller("corp:ada", scopes=frozenset({"ops"})), Caller("eve")
RULES = CedarRules(POLICIES)
PICK, QUERY = tool_named("pick"), tool_named("query")


def settled(caller: Caller, name: str, arguments: dict[str, Any], level: int = 5) -> RuleDecision:
    return RULES.decide_arguments(caller, tool_named(name), level, arguments)


@pytest.mark.parametrize(
    ("caller", "tool", "level", "said"),
    [
        (CI, PICK, 5, Conditional()),
        (OPS, QUERY, 5, Conditional()),
        (CI, QUERY, 5, Unmatched()),
        (EVE, PICK, 5, Unmatched()),
        (CI, PICK, 8, Forbidden("cedar:no-eight")),
    ],
    ids=["named", "group", "other tool", "nobody", "forbidden"],
)
def test_cedar_decide_without_arguments_never_permits(
    caller: Caller, tool: Any, level: int, said: RuleDecision
) -> None:
    assert RULES.decide(caller, tool, level) == said


@pytest.mark.parametrize(
    ("caller", "name", "arguments", "level", "said"),
    [
        (CI, "pick", {}, 5, Permitted("cedar:ci-pick")),
        (OPS, "query", {"table": "orders"}, 5, Permitted("cedar:ops-db")),
        (OPS, "query", {"table": "users"}, 5, Unmatched()),
        (OPS, "query", {}, 5, Unmatched()),
        (EVE, "pick", {}, 5, Unmatched()),
        (CI, "pick", {}, 9, Forbidden("cedar:no-eight")),
        (OPS, "query", {"table": "orders", "n": 1.5, "m": None, "big": 2**70, "deep": [{"x": None}]}, 5,
         Permitted("cedar:ops-db")),
    ],
)  # fmt: skip
def test_cedar_decide_arguments_evaluates_policies_on_the_arguments(
    caller: Caller, name: str, arguments: dict[str, Any], level: int, said: RuleDecision
) -> None:
    assert settled(caller, name, arguments, level) == said


def test_cedar_policy_that_raises_an_error_forbids_the_call_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    careless = CedarRules(
        '@id("all") permit(principal, action, resource);'
        '@id("no") forbid(principal, action, resource) when { context.arguments.amount > 10 };'
    )
    assert careless.decide_arguments(CI, PICK, 5, {"amount": 5}) == Permitted("cedar:all")
    with caplog.at_level(logging.WARNING):
        assert careless.decide_arguments(CI, PICK, 5, {}) == Forbidden("cedar:error")
    assert "a Cedar policy failed" in caplog.text


FIVE = CedarRules(
    '@id("all") permit(principal, action, resource);'
    '@id("no-five") forbid(principal, action, resource)'
    " when { context.arguments has account && context.arguments.account == 5 };"
)


@pytest.mark.parametrize(
    ("account", "said"),
    [
        (5, Forbidden("cedar:no-five")),
        (5.0, Forbidden("cedar:no-five")),
        (5.5, Permitted("cedar:all")),
        (1e300, Permitted("cedar:all")),
        (float("inf"), Permitted("cedar:all")),
        ("5", Permitted("cedar:all")),
        (UNKNOWN, Forbidden("cedar:arguments")),
    ],
)
def test_cedar_compares_integral_floats_and_integers_as_equal(account: Any, said: RuleDecision) -> None:
    assert FIVE.decide_arguments(CI, PICK, 5, {"account": account}) == said


@pytest.mark.parametrize("key", ["__entity", "__extn", "__expr"])
def test_cedar_forbids_arguments_with_entity_escape_keys(key: str) -> None:
    value = {key: {"type": "Caller", "id": "root"}}
    for arguments in (value, {"a": value}, {"a": [{"b": value}]}):
        assert FIVE.decide_arguments(CI, PICK, 5, arguments) == Forbidden("cedar:arguments")


@pytest.mark.parametrize("name", ["é", "x" * 1_000, "corp:ada|1", "https://a.example/#1?x=y&z"])
def test_cedar_decides_for_long_and_non_ascii_caller_names(name: str) -> None:
    assert RULES.decide(Caller(name), PICK, 5) == Unmatched()
    assert RULES.decide_arguments(Caller(name), PICK, 5, {}) == Unmatched()


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a\\b", "\u202e"])
def test_cedar_forbids_callers_whose_name_needs_escaping(name: str) -> None:
    assert RULES.decide(Caller(name), PICK, 5) == Forbidden("cedar:name")
    assert RULES.decide_arguments(Caller(name), PICK, 5, {}) == Unmatched()


def test_cedar_file_that_cannot_be_parsed_or_read_raises_bad_policies_naming_the_file(tmp_path: Path) -> None:
    (tmp_path / "rules.cedar").write_text("permit(", "utf-8")
    with pytest.raises(BadPolicies, match=r"rules\.cedar cannot be used"):
        CedarRules.read(tmp_path / "rules.cedar")
    with pytest.raises(BadPolicies, match="cannot be read"):
        CedarRules.read(tmp_path / "missing.cedar")


FORBIDS = st.sampled_from(
    [
        "forbid(principal, action, resource) when { resource.level >= 3 };",
        'forbid(principal == Caller::"ci", action, resource);',
        'forbid(principal, action, resource in Toolkit::"Kit");',
        "forbid(principal, action, resource) when { context.arguments has table };",
        "forbid(principal, action, resource) when { context.arguments.missing == 1 };",
    ]
)
TABLES = st.sampled_from([{}, {"table": "users"}, {"table": "orders"}])


@settings(max_examples=examples(50))
@given(st.lists(FORBIDS, min_size=1), st.sampled_from([CI, OPS, EVE]), st.integers(0, 10), TABLES)
def test_cedar_adding_a_forbid_policy_never_permits_more(
    forbids: list[str], caller: Caller, level: int, arguments: dict[str, Any]
) -> None:
    stricter = CedarRules(POLICIES + "\n".join(forbids))
    for tool in (PICK, QUERY):
        before, after = (
            RULES.decide_arguments(caller, tool, level, arguments),
            stricter.decide_arguments(caller, tool, level, arguments),
        )
        assert isinstance(before, Permitted) or not isinstance(after, Permitted)
        seen, then = RULES.decide(caller, tool, level), stricter.decide(caller, tool, level)
        assert isinstance(seen, Conditional) or not isinstance(then, Conditional)


KINDS = """
@id("read") permit(principal, action == Action::"read", resource in Toolkit::"Kit")
  when { context.arguments has number && context.arguments.number < 100 };
@id("policy") permit(principal, action == Action::"read", resource == Resource::"Kit.policy@1.0.0");
@id("letter") permit(principal, action == Action::"prompt", resource == Prompt::"Kit.letter@1.0.0");
"""


@pytest.mark.parametrize(
    ("kind", "name", "arguments", "said"),
    [
        ("resource", "order", {"number": 17}, Permitted("cedar:read")),
        ("resource", "order", {"number": 170}, Unmatched()),
        ("resource", "policy", {}, Permitted("cedar:policy")),
        ("prompt", "letter", {}, Permitted("cedar:letter")),
        ("prompt", "order", {"number": 17}, Unmatched()),
        ("tool", "letter", {}, Unmatched()),
        ("tool", "order", {"number": 17}, Unmatched()),
    ],
)
def test_cedar_reads_and_prompts_have_their_own_actions_and_entities(
    kind: str, name: str, arguments: dict[str, Any], said: RuleDecision
) -> None:
    rules = CedarRules(KINDS)
    stated: dict[str, Any] = {
        "tool": {},
        "resource": {"resource": ResourceInfo(uri="kit://a")},
        "prompt": {"prompt": PromptInfo()},
    }
    tool = tool_named(name, **stated[kind])
    assert rules.decide_arguments(CI, tool, 5, arguments) == said
    never = kind == "tool" or (kind, name) == ("prompt", "order")
    assert rules.decide(CI, tool, 5) == (Unmatched() if never else Conditional())
