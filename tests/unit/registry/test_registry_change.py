"""What is a change of a list, and what is not."""

from typing import Any

import pytest

from tests.unit.builders import entry_named, tool_named
from toolhall.model.names import ToolId
from toolhall.model.tool import Icon, Tool
from toolhall.registry.registry import Registry, RegistryChange, lists_differ
from toolhall.registry.snapshot import Snapshot


def whole(name: str, tool: Tool) -> Tool:
    return tool


def listed(*tools: Tool) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


def constant(value: Any) -> Tool:
    return tool_named("a", input={"type": "object", "properties": {"x": {"const": value}}})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], []),
        ([tool_named("a")], [tool_named("a")]),
        ([tool_named("a"), tool_named("b")], [tool_named("b"), tool_named("a")]),
        ([constant({"p": 1, "q": 2})], [constant({"q": 2, "p": 1})]),
    ],
)
def test_lists_differ_is_false_for_equal_definitions_in_any_order(before: list[Tool], after: list[Tool]) -> None:
    assert not lists_differ(listed(*before), listed(*after), whole)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [tool_named("a")]),
        ([tool_named("a"), tool_named("b")], [tool_named("a")]),
        ([tool_named("a")], [tool_named("b")]),
        ([tool_named("a")], [tool_named("a", id=ToolId("Kit", "a", "1.0.1"))]),
        ([tool_named("a")], [tool_named("a", icons=(Icon(src="data:,"),))]),
        ([constant(True)], [constant(1)]),
        ([constant(1)], [constant(1.0)]),
        ([constant([1, 2])], [constant([2, 1])]),
    ],
)
def test_lists_differ_is_true_for_different_definitions(before: list[Tool], after: list[Tool]) -> None:
    assert lists_differ(listed(*before), listed(*after), whole)
    assert lists_differ(listed(*after), listed(*before), whole)


def test_lists_differ_compares_rendered_tools_and_skips_identical_objects() -> None:
    kept, said = tool_named("kept"), list[str]()

    def title(name: str, tool: Tool) -> str | None:
        said.append(name)
        return tool.title

    assert not lists_differ(listed(kept, tool_named("a")), listed(kept, tool_named("a", description="New.")), title)
    assert set(said) == {"a"}


def test_registry_change_cached_computes_each_key_once() -> None:
    change, found = RegistryChange(Snapshot((), 1), Snapshot((), 1)), list[str]()

    def find() -> bool:
        found.append("found")
        return False

    assert [change.cached("a", find), change.cached("a", find), change.cached("b", find)] == [False] * 3
    assert found == ["found", "found"]


def test_registry_replacing_a_tool_by_an_equal_one_does_not_notify_list_listeners() -> None:
    registry, heard = Registry(), list[str]()
    first, again = entry_named("a"), entry_named("a")
    registry.add([first, entry_named("b")])
    registry.subscribe(lambda: heard.append("list"))
    registry.subscribe(lambda: heard.append("change"), lambda change: True)
    registry.change([again], removed_ids=[first.id])
    assert registry.snapshot.find("a") is again
    assert heard == ["change"]
    registry.change([entry_named("a", description="New.")], removed_ids=[again.id])
    assert heard == ["change", "list", "change"]
