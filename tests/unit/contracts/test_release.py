"""Whether new definitions may be published under their stated versions."""

from typing import Any

from tests.tables import each_row
from toolhall.contracts.release import check_release
from toolhall.contracts.semver import ChangeKind
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool


def tool(known: str, *needed: str, description: str = "D.") -> Tool:
    """A tool by its id; every argument is needed."""
    place, _, version = known.partition("@")
    kit, _, name = place.rpartition(".")
    schema: dict[str, Any] = {"type": "object", "properties": {each: {} for each in needed}, "required": list(needed)}
    return Tool(id=ToolId(kit or name, name, version or "0.1.0"), name=name, input=schema, description=description)


def verdict(old: list[Tool], new: list[Tool], behaviour: ChangeKind | None = None) -> tuple[str, str, bool]:
    found = check_release(old, new, behaviour)
    return found.required, found.declared, found.ok


@each_row(
    ("old", "new", "expected"),
    [
        (tool("K.a@1.0.0"), tool("K.a@1.0.0"), ("none", "none", True)),
        (tool("K.a@1.0.0"), tool("K.a@1.1.0", "x"), ("major", "minor", False)),
        (tool("K.a@1.0.0"), tool("K.a@2.0.0", "x"), ("major", "major", True)),
        (tool("K.a@0.1.0"), tool("K.a@0.2.0", "x"), ("major", "minor", True)),
        (tool("K.a@1.0.0"), tool("K.a@1.0.0", description="E."), ("patch", "none", False)),
        (tool("K.a@7"), tool("K.a@8", "x"), ("major", "major", True)),
        (tool("K.a@1.0.0"), tool("K.b@2.0.0"), ("major", "major", True)),
        (tool("a"), tool("a", description="E."), ("patch", "none", True)),
        (tool("a"), tool("a", "x"), ("major", "none", False)),
        (tool("a"), tool("a@2.0.0", "x"), ("major", "none", False)),
        (tool("a@2.0.0"), tool("a", description="E."), ("patch", "none", True)),
    ],
)
def test_check_release_single_tool_has_verdict(old: Tool, new: Tool, expected: tuple[str, str, bool]) -> None:
    assert verdict([old], [new]) == expected


def test_check_release_insufficient_bump_names_next_version() -> None:
    assert check_release([tool("K.a@1.2.0")], [tool("K.a@1.2.1", "x")]).next == "2.0.0"
    assert check_release([tool("K.a@1.2.0")], [tool("K.a@2.0.0", "x")]).next is None
    assert check_release([tool("a")], [tool("a", "x")]).next is None


def test_check_release_declared_behaviour_counts() -> None:
    old, new = [tool("K.a@1.0.0")], [tool("K.a@1.0.1", description="E.")]
    assert verdict(old, new, "feature") == ("minor", "patch", False)
    assert verdict(old, new, "breaking") == ("major", "patch", False)
    assert verdict(old, [tool("K.a@2.0.0")], "breaking") == ("major", "major", True)
    assert verdict(old, old, "feature") == ("minor", "none", False)
    assert check_release(old, new, "feature").changes[0].path == ""


def test_check_release_toolkit_is_one_unit() -> None:
    old = [tool("K.a@1.0.0"), tool("K.b@1.0.0")]
    assert verdict(old, [tool("K.a@1.1.0"), tool("K.b@1.1.0"), tool("K.c@1.1.0")]) == ("minor", "minor", True)
    found = check_release(old, [tool("K.a@1.1.0")])
    assert (found.required, found.ok) == ("major", False)
    assert [change.path for change in found.changes] == ["/capabilities/b"]
    assert verdict(old, [tool("K.a@2.0.0")]) == ("major", "major", True)


def test_check_release_separate_versions_are_separate_units() -> None:
    old = [tool("K.a@1.0.0"), tool("K.b@3.0.0")]
    assert verdict(old, [tool("K.a@1.0.0"), tool("K.b@4.0.0", "x")]) == ("major", "major", True)
    assert verdict(old, [tool("K.a@1.1.0", "x"), tool("K.b@4.0.0", "x")]) == ("major", "minor", False)
    assert verdict(old, [*old, tool("K.c@1.0.0")]) == ("minor", "none", True)
    assert verdict(old, old[:1]) == ("major", "none", False)


def test_check_release_unversioned_tools_are_separate_units() -> None:
    old = [tool("a"), tool("b")]
    found = check_release(old, [tool("a", "x"), tool("b", description="E."), tool("c")])
    assert [change.path for change in found.changes] == [
        "/tools/a/inputSchema/required",
        *found_features(found.changes),
    ]
    assert (found.required, found.ok) == ("major", False)
    assert verdict(old, [tool("a"), tool("b", description="E."), tool("c")]) == ("minor", "none", True)
    assert verdict(old, [tool("a")]) == ("major", "none", False)


def found_features(changes: list[Any]) -> list[str]:
    return [change.path for change in changes if change.kind != "breaking"]


def test_check_release_several_versions_compares_newest() -> None:
    old = [tool("K.a@1.10.0", "x"), tool("K.a@1.9.0")]
    assert verdict(old, [tool("K.a@1.10.0", "x")]) == ("none", "none", True)


def test_check_release_empty_is_ok() -> None:
    assert verdict([], []) == ("none", "none", True)
