"""Tool definitions in each revision."""

from tests.tables import each_row
from tests.unit.builders import tool_named
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    REVISIONS,
    Revision,
)
from toolhall.model.json import JsonObject
from toolhall.model.tool import Annotations, Icon, Output

INPUT: JsonObject = {"type": "object", "properties": {"city": {"type": "string"}}}
FULL = tool_named(
    "forecast",
    title="Forecast",
    description="What the sky will do.",
    input=INPUT,
    output=Output("schema", {"type": "array", "items": {"type": "number"}}),
    annotations=Annotations(title="Look", read_only=True, open_world=False),
    icons=(
        Icon(src="https://example.org/a.png", mime_type="image/png", sizes=("48x48",), theme="dark"),
        Icon(src="data:image/png,"),
    ),
    tags=("sky",),
    meta={"example.org/owner": "sky"},
    level=3,
    timeout=5.0,
)
META = {
    "example.org/owner": "sky",
    "dev.toolhall/id": "Kit.forecast@1.0.0",
    "dev.toolhall/level": 3,
    "dev.toolhall/tags": ["sky"],
}
ICONS = [
    {"src": "https://example.org/a.png", "mimeType": "image/png", "sizes": ["48x48"], "theme": "dark"},
    {"src": "data:image/png,"},
]
COMMON: JsonObject = {
    "name": "forecast",
    "title": "Forecast",
    "description": "What the sky will do.",
    "inputSchema": INPUT,
    "annotations": {"title": "Look", "readOnlyHint": True, "openWorldHint": False},
    "_meta": META,
}
PLAIN: JsonObject = {"type": "array", "items": {"type": "number"}}
WRAPPED: JsonObject = {"type": "object", "properties": {"result": PLAIN}, "required": ["result"]}

GOLDEN: list[tuple[Revision, JsonObject]] = [
    (REVISION_2025_06_18, {**COMMON, "outputSchema": WRAPPED}),
    (REVISION_2025_11_25, {**COMMON, "outputSchema": WRAPPED, "icons": ICONS}),
    (REVISION_2026_07_28, {**COMMON, "outputSchema": PLAIN, "icons": ICONS}),
]


@each_row(("revision", "document"), GOLDEN)
def test_write_tool_full_definition(revision: Revision, document: JsonObject) -> None:
    assert write_tool(FULL, revision) == document


@each_row("revision", REVISIONS.values())
def test_write_tool_absent_members_are_left_out(revision: Revision) -> None:
    document = write_tool(tool_named("pick"), revision)
    document.pop("_meta", None)
    assert document == {"name": "pick", "inputSchema": {"type": "object"}}


@each_row("revision", REVISIONS.values())
def test_write_tool_has_no_plain_level_or_timeout(revision: Revision) -> None:
    document = write_tool(FULL, revision)
    assert not {"level", "timeout"} & (document.keys() | document["_meta"].keys())
