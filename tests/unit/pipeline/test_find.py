"""Finding a tool, or not being told that there is one."""

import pytest

from tests.unit.builders import Clock, FixedResultRunner, call_of, entry_named, tool_named
from toolhall.model.caller import ANONYMOUS, Caller, Deny
from toolhall.model.errors import NotActive, NotFound, Retired, Unauthenticated
from toolhall.model.tool import Deprecation
from toolhall.pipeline.find import Find, NotVisible
from toolhall.pipeline.policy import LevelPolicy
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import compile_entry

STRANGER = Caller("stranger", proof="key")  # without a grant


@pytest.fixture
def find() -> Find:
    registry = Registry()
    registry.add([entry_named("pick"), entry_named("grave", level=4)])
    return Find(registry, LevelPolicy(clock=Clock()), lambda: 0.0)


MIDNIGHT = 1_800_057_600.0  # 2027-01-16
ENDING = tool_named("old", deprecation=Deprecation(sunset="2027-01-16", successor="Kit.pick@1.0.0"))
NAMES = ["old", "Kit.old", "Kit.old@1.0.0", "Kit.old@^1"]


@pytest.mark.parametrize("name", NAMES)
def test_find_inactive_tool_is_not_active_for_the_operator_and_unknown_for_others(name: str) -> None:
    registry = Registry()
    registry.inactive.put(tool_named("old"), "quarantined")
    find = Find(registry, LevelPolicy(clock=Clock()), lambda: 0.0)
    with pytest.raises(NotActive, match=r"Kit\.old@1\.0\.0 is quarantined: look at it") as told:
        find(call_of(name))
    assert told.value.state == "quarantined"
    with pytest.raises(NotFound) as unknown:
        find(call_of(name, caller=STRANGER))
    assert (type(unknown.value), unknown.value.message) == (NotFound, f"unknown tool: {name}")
    registry.inactive.drop("Kit.old@1.0.0")
    with pytest.raises(NotFound, match="unknown tool"):
        find(call_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_find_retired_tool_names_its_successor_to_authenticated_callers_only(name: str) -> None:
    registry = Registry()
    registry.inactive.put(ENDING, "retired")
    find = Find(registry, LevelPolicy(clock=Clock()), lambda: MIDNIGHT)
    with pytest.raises(Retired, match=r"was retired on 2027-01-16; call Kit\.pick@1\.0\.0 instead"):
        find(call_of(name))
    with pytest.raises(Unauthenticated):
        find(call_of(name, caller=ANONYMOUS))


def test_find_tool_past_its_sunset_midnight_is_retired_without_a_registry_update() -> None:
    registry, clock = Registry(), Clock(MIDNIGHT - 1)
    registry.add([compile_entry(ENDING, FixedResultRunner())])
    find = Find(registry, LevelPolicy(clock=Clock()), clock)
    assert find(call_of("old")).entry.tool is ENDING
    clock.now = MIDNIGHT
    with pytest.raises(Retired):
        find(call_of("old"))


@pytest.mark.parametrize("name", ["pick", "Kit.pick@1.0.0"])
def test_find_resolves_a_tool_by_name_or_id(find: Find, name: str) -> None:
    found = find(call_of(name))
    assert found.entry.tool.name == "pick"
    assert found.call.tool == name


@pytest.mark.parametrize("name", ["", "Pick", "pick ", "Kit.pick@2.0.0"])
def test_find_unknown_name_raises_not_found(find: Find, name: str) -> None:
    with pytest.raises(NotFound, match=f"unknown tool: {name}"):
        find(call_of(name))


def test_find_error_for_a_hidden_tool_equals_the_error_for_a_missing_tool(find: Find) -> None:
    with pytest.raises(NotFound) as hidden:
        find(call_of("grave", caller=STRANGER))
    with pytest.raises(NotFound) as missing:
        find(call_of("brave", caller=STRANGER))
    assert hidden.value.message.replace("grave", "brave") == missing.value.message
    assert missing.value.hidden is None


def test_find_error_for_a_hidden_tool_carries_the_entry_and_verdict_for_the_audit(find: Find) -> None:
    with pytest.raises(NotFound) as told:
        find(call_of("grave", caller=STRANGER))
    hidden = told.value.hidden
    assert isinstance(hidden, NotVisible)
    assert hidden.entry.id == "Kit.grave@1.0.0"
    assert hidden.verdict == Deny("no grant or policy allows this caller to call this tool", level=4)


@pytest.mark.parametrize("name", ["pick", "grave", "miss"])
def test_find_answers_an_anonymous_caller_alike_for_every_name(find: Find, name: str) -> None:
    with pytest.raises(Unauthenticated) as told:
        find(call_of(name, caller=ANONYMOUS))
    assert told.value.message == "a valid credential is required"


def test_find_error_truncates_a_long_tool_name(find: Find) -> None:
    with pytest.raises(NotFound) as caught:
        find(call_of("x" * 10_000))
    assert len(caught.value.message) < 200
