"""What is a change of a list, and what is not."""

from typing import Any

import pytest

from tests.unit.parts import entry_named, tool_named
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
def test_the_same_definitions_are_no_change_in_whatever_order(before: list[Tool], after: list[Tool]) -> None:
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
def test_anything_else_is(before: list[Tool], after: list[Tool]) -> None:
    assert lists_differ(listed(*before), listed(*after), whole)
    assert lists_differ(listed(*after), listed(*before), whole)


def test_only_what_is_said_counts_and_what_is_the_same_object_is_not_said() -> None:
    kept, said = tool_named("kept"), list[str]()

    def title(name: str, tool: Tool) -> str | None:
        said.append(name)
        return tool.title

    assert not lists_differ(listed(kept, tool_named("a")), listed(kept, tool_named("a", description="New.")), title)
    assert set(said) == {"a"}


def test_an_answer_is_found_once() -> None:
    change, found = RegistryChange(Snapshot((), 1), Snapshot((), 1)), list[str]()

    def find() -> bool:
        found.append("found")
        return False

    assert [change.cached("a", find), change.cached("a", find), change.cached("b", find)] == [False] * 3
    assert found == ["found", "found"]


def test_the_same_tool_compiled_again_is_served_and_no_news() -> None:
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
