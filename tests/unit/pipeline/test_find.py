"""Finding a tool, or not being told that there is one."""

import pytest

from tests.unit.parts import call_of, entry_named
from toolhall.model.caller import Caller
from toolhall.model.errors import NotFound
from toolhall.pipeline.authorize import LocalPolicy
from toolhall.pipeline.find import Find
from toolhall.registry.registry import Registry


@pytest.fixture
def find() -> Find:
    registry = Registry()
    registry.add([entry_named("pick")])
    return Find(registry, LocalPolicy())


@pytest.mark.parametrize("name", ["pick", "Kit.pick@1.0.0"])
def test_a_tool_is_found_by_name_or_id(find: Find, name: str) -> None:
    found = find(call_of(name))
    assert found.entry.tool.name == "pick"
    assert found.call.tool == name


@pytest.mark.parametrize("name", ["", "Pick", "pick ", "Kit.pick@2.0.0"])
def test_any_other_name_is_unknown(find: Find, name: str) -> None:
    with pytest.raises(NotFound, match=f"unknown tool: {name}"):
        find(call_of(name))


def test_a_hidden_tool_and_a_missing_one_are_told_apart_by_nobody(find: Find) -> None:
    with pytest.raises(NotFound) as hidden:
        find(call_of("pick", caller=Caller("stranger")))
    with pytest.raises(NotFound) as missing:
        find(call_of("miss", caller=Caller("stranger")))
    assert hidden.value.message.replace("pick", "miss") == missing.value.message


def test_a_long_name_is_not_repeated_whole(find: Find) -> None:
    with pytest.raises(NotFound) as caught:
        find(call_of("x" * 10_000))
    assert len(caught.value.message) < 200
