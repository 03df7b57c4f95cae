"""Changes between two definitions: kind, path and reason of each."""

from typing import Any

import msgspec
import pytest

from tests.tables import each_row
from toolhall.contracts.release import diff, diff_toolkit
from toolhall.contracts.semver import DefinitionChange
from toolhall.model.json import JsonChange as Patch
from toolhall.model.names import ToolId
from toolhall.model.tool import Annotations, Icon, Output, Remainder, Task, Tool, ToolkitInfo

ARGUMENTS = {"type": "object", "properties": {"city": {"type": "string", "description": "Where."}}}
WEATHER = {"type": "object", "properties": {"celsius": {"type": "number"}}, "required": ["celsius"]}


def tool(method: str = "get", **stated: Any) -> Tool:
    plain = Tool(id=ToolId("Weather", method, "1.0.0"), name=f"Weather_{method}", input=ARGUMENTS)
    return msgspec.structs.replace(plain, **stated)


def arguments(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members}


def returning(schema: Any) -> Tool:
    return tool(output=Output("schema", schema))


def said(old: Tool, new: Tool) -> list[str]:
    return [f"{change.kind} {change.path}: {change.reason}" for change in diff(old, new)]


@each_row(
    ("before", "after", "expected"),
    [
        ({"default": 1}, {"default": 2}, "breaking /default: the default changed from 1 to 2"),
        ({"default": 1}, {"default": True}, "breaking /default: the default changed from 1 to true"),
        ({"default": 1}, {}, "breaking /default: the default 1 was removed"),
        ({}, {"default": 2}, "feature /default: the default is 2 now"),
        ({}, {"default": None}, "fix : is written differently but means the same"),
        ({"title": "A"}, {"title": "B"}, "fix /title: the title changed"),
        ({"examples": [1]}, {}, "fix /examples: the examples changed"),
        ({}, {"deprecated": True}, "feature /deprecated: is deprecated now"),
        ({"x-note": 1}, {"x-note": 2}, "fix /x-note: 'x-note' changed"),
        (
            {},
            {"x-mcp-header": "City"},
            "breaking /x-mcp-header: clients must repeat this argument in the header 'City'",
        ),
        (
            {"x-mcp-header": "City"},
            {},
            "feature /x-mcp-header: clients need not repeat this argument in a header any more",
        ),
        ({"type": "string"}, {"type": ["string"]}, "fix : is written differently but means the same"),
    ],
)
def test_diff_argument_annotation_has_kind(before: Any, after: Any, expected: str) -> None:
    (found,) = said(tool(input=arguments(a=before)), tool(input=arguments(a=after)))
    kind, path = expected.partition(":")[0].split(" ")
    place = "/inputSchema" if not path else f"/inputSchema/properties/a{path}"
    assert found == f"{kind} {place}:{expected.partition(':')[2]}"


def test_diff_input_narrowing_breaks_widening_is_feature() -> None:
    old, new = tool(input=arguments(a={"type": "integer"})), tool(input=arguments(a={"type": "string"}))
    assert said(old, new) == [
        "breaking /inputSchema/properties/a/type: no longer accepts whole numbers",
        "feature /inputSchema/properties/a/type: also accepts texts",
    ]


def test_diff_unproven_input_breaks_with_reason() -> None:
    old, new = (tool(input=arguments(a={"type": "string", "pattern": pattern})) for pattern in ("a", "^a"))
    unproven = "could not be proven to accept all that it accepted: it is not known whether all texts match '^a'"
    assert said(old, new) == [
        f"breaking /inputSchema/properties/a/pattern: {unproven}",
        "feature /inputSchema/properties/a/pattern: may accept more: it is not known whether all texts match 'a'",
    ]


@each_row(
    ("change", "expected"),
    [
        (
            {"properties": {"celsius": {"type": "integer"}}},
            "feature /outputSchema/properties/celsius/type: no longer returns",
        ),
        ({"properties": {"celsius": {}}}, "breaking /outputSchema/properties/celsius/type: may now return"),
        ({"required": []}, "breaking /outputSchema/required: may now return objects without 'celsius'"),
        ({"additionalProperties": False}, "feature /outputSchema/additionalProperties: no longer returns members"),
    ],
)
def test_diff_output_schema_has_kind(change: Any, expected: str) -> None:
    (found,) = said(returning(WEATHER), returning({**WEATHER, **change}))
    assert found.startswith(expected)


def test_diff_output_member_removed_breaks() -> None:
    old = returning({**WEATHER, "required": []})
    for new in (arguments(), {**arguments(), "additionalProperties": False}, {"type": "object"}):
        assert said(old, returning(new))[0].startswith("breaking /outputSchema/properties/celsius: no longer returns")


def test_diff_output_member_added_breaks_only_closed_objects() -> None:
    more = {"celsius": {"type": "number"}, "wind": {"type": "number"}}
    (found,) = said(returning(WEATHER), returning({**WEATHER, "properties": more}))
    assert found == "feature /outputSchema/properties/wind: may now return the member 'wind'"
    closed = {**WEATHER, "additionalProperties": False}
    (found,) = said(returning(closed), returning({**closed, "properties": more}))
    assert found == "breaking /outputSchema/properties/wind: may now return the member 'wind'"


@each_row(
    ("old", "new", "kind"),
    [
        (Output(), Output("schema", WEATHER), "feature"),
        (Output(), Output("none"), "feature"),
        (Output("schema", WEATHER), Output(), "breaking"),
        (Output("schema", WEATHER), Output("none"), "breaking"),
        (Output("none"), Output("schema", WEATHER), "breaking"),
        (Output(description="A"), Output(description="B"), "fix"),
    ],
)
def test_diff_output_kind_change_has_kind(old: Output, new: Output, kind: str) -> None:
    (found,) = diff(tool(output=old), tool(output=new))
    assert found.kind == kind
    assert found.path.startswith("/outputSchema")


HINTS = Annotations
PROMISES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"name": "a"}, {"name": "b"}, "breaking /name: it was renamed from 'a' to 'b'"),
    ({"annotations": HINTS(read_only=True)}, {}, "breaking /annotations/readOnlyHint: no longer promises only to read"),
    ({}, {"annotations": HINTS(read_only=True)}, "feature /annotations/readOnlyHint: promises only to read"),
    ({}, {"annotations": HINTS(read_only=False)}, "fix /annotations/readOnlyHint: "),
    (
        {"annotations": HINTS(destructive=False)},
        {"annotations": HINTS(destructive=True)},
        "breaking /annotations/destr",
    ),
    ({"annotations": HINTS(idempotent=True)}, {}, "breaking /annotations/idempotentHint: "),
    ({"annotations": HINTS(open_world=False)}, {}, "breaking /annotations/openWorldHint: "),
    ({}, {"annotations": HINTS(open_world=False)}, "feature /annotations/openWorldHint: "),
    ({"annotations": HINTS(title="A")}, {"annotations": HINTS(title="B")}, "fix /annotations/title: "),
    ({"effect": "reads"}, {"effect": "writes"}, "breaking /effect: its effect was reads and is writes"),
    ({"effect": "destroys"}, {"effect": "writes"}, "feature /effect: "),
    ({"effect": "destroys"}, {}, "fix /effect: "),
    ({"level": 1}, {"level": 5}, "breaking /level: the level rises from 1 to 5: callers may be refused"),
    ({"level": 5}, {"level": 1}, "feature /level: the level falls from 5 to 1: more callers may call it"),
    ({}, {"level": 3}, "breaking /level: the level rises from unstated to 3"),
    ({}, {"level": 0}, "feature /level: "),
    ({"level": 9}, {}, "feature /level: the level falls from 9 to unstated"),
    ({"timeout": 9.0}, {"timeout": 3.0}, "breaking /timeout: the timeout was 9 s and is 3 s: calls may be cut off"),
    ({"timeout": 3.0}, {"timeout": 9.0}, "feature /timeout: "),
    ({"timeout": 3.0}, {}, "breaking /timeout: the timeout was 3 s and is the hall's own; it could not be proven"),
    ({"permissions": ("a",)}, {"permissions": ("a", "b")}, "breaking /permissions: needs the permission 'b'"),
    ({"permissions": ("a",)}, {}, "feature /permissions: no longer needs the permission 'a'"),
    ({}, {"requirements": {"secrets": [{"id": "K"}]}}, "breaking /requirements/secrets: needs the secret 'K'"),
    ({"requirements": {"user_id": True}}, {}, "feature /requirements/user_id: no longer needs the user's id"),
    ({}, {"requirements": {"user_id": True}}, "breaking /requirements/user_id: needs the user's id"),
    ({}, {"requirements": {"gold": 3}}, "breaking /requirements/gold: it could not be proven"),
    ({"requirements": {"gold": 3}}, {}, "feature /requirements/gold: no longer needs 'gold'"),
    ({}, {"requirements": {"x-note": 3}}, "fix /requirements/x-note: "),
    ({"title": "A"}, {"title": "B"}, "fix /title: the title changed"),
    ({"description": "A"}, {"description": "B"}, "fix /description: the description changed"),
    ({"tags": ("a",)}, {}, "fix /tags: "),
    ({"icons": (Icon(src="a"),)}, {}, "fix /icons: "),
    ({"meta": {"a": 1}}, {}, "fix /_meta: the meta changed"),
    ({"about": ToolkitInfo(title="A")}, {"about": ToolkitInfo(title="B")}, "fix /toolkit/title: "),
    ({"about": ToolkitInfo(resources=({"name": "r"},))}, {}, "breaking /resources: the resource 'r' was removed"),
    ({}, {"about": ToolkitInfo(resources=({"name": "r"},))}, "feature /resources: the resource 'r' was added"),
    (
        {"about": ToolkitInfo(resources=({"name": "r"},))},
        {"about": ToolkitInfo(resources=({"name": "r", "uri": "u"},))},
        "fix /resources: ",
    ),
    ({}, {"remainder": Remainder("mcp", item=(Patch("/x", value=1),))}, "fix /x: "),
    ({}, {"remainder": Remainder("mcp", item=(Patch("/execution", value={}),))}, "breaking /execution: "),
]


@each_row(("before", "after", "expected"), PROMISES)
def test_diff_metadata_change_has_kind(before: Any, after: Any, expected: str) -> None:
    (found,) = said(tool(**before), tool(**after))
    assert found.startswith(expected)
    assert diff(tool(**after), tool(**after)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (["a"], ["a", "b"], ["breaking /requirements/authorization: needs the scope 'b'"]),
        (["a", "b"], ["a"], ["feature /requirements/authorization: no longer needs the scope 'b'"]),
        (["a", "b"], ["b", "a"], []),
    ],
)
def test_diff_account_scopes_have_kind(old: list[str], new: list[str], expected: list[str]) -> None:
    one, other = (
        tool(requirements={"authorization": [{"id": "google", "oauth2": {"scopes": scopes}}]}) for scopes in (old, new)
    )
    assert said(one, other) == expected


def test_diff_account_described_differently_breaks() -> None:
    one, other = (tool(requirements={"authorization": [{"id": "google", "url": url}]}) for url in ("a", "b"))
    assert [change.kind for change in diff(one, other)] == ["breaking"]


def test_diff_effect_and_hints_reported_once() -> None:
    reads = tool(effect="reads", annotations=HINTS(read_only=True))
    writes = tool(effect="destroys", annotations=HINTS(read_only=False, destructive=True))
    assert [change.path for change in diff(reads, writes) if change.kind == "breaking"] == ["/annotations/readOnlyHint"]


def test_diff_toolkit_matches_tools_by_name() -> None:
    old = (tool("get"), tool("forecast"))
    new = (tool("get", description="Now."), tool("warn/all"))
    assert diff_toolkit(old, new) == [
        DefinitionChange("breaking", "/capabilities/forecast", "the tool 'forecast' was removed"),
        DefinitionChange("feature", "/capabilities/warn~1all", "the tool 'warn/all' was added"),
        DefinitionChange("fix", "/capabilities/get/description", "the description changed"),
    ]


def test_diff_equivalent_tuple_spelling_has_no_changes() -> None:
    pair = {"type": "array", "prefixItems": [{"type": "integer"}, {}], "minItems": 2, "maxItems": 2}
    old = tool(input=arguments(pair={**pair, "items": False}), output=Output("schema", {**pair, "items": False}))
    new = tool(input=arguments(pair=pair), output=Output("schema", pair))
    for before, after in ((old, new), (new, old)):
        assert {change.kind for change in diff(before, after)} == {"fix"}
    bare = {"type": "object", "additionalProperties": False}
    assert {change.kind for change in diff(tool(input=bare), tool(input={**bare, "properties": {}}))} == {"fix"}


@each_row(
    ("before", "after", "expected"),
    [
        (None, Task(), ["feature /task: it runs as a task in another way"]),
        (Task(), None, ["breaking /task: calls could be tasks, and cannot any more"]),
        (None, Task(required=True), ["breaking /task: clients without tasks could call it, and cannot any more"]),
        (Task(), Task(required=True), ["breaking /task: clients without tasks could call it, and cannot any more"]),
        (Task(required=True), Task(), ["feature /task: it runs as a task in another way"]),
        (Task(), Task(keep=60.0), ["fix /task: it runs as a task in another way"]),
        (Task(poll=2.0), Task(poll=2.0), []),
    ],
)
def test_task_changes(before: Task | None, after: Task | None, expected: list[str]) -> None:
    assert said(tool(task=before), tool(task=after)) == expected
