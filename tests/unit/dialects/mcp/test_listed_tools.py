"""Definitions in a list: members of the original document that the hall can repeat."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.catalogs import CATALOGS
from toolhall.dialects.convert import lossless
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    REVISIONS,
    Revision,
)
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_listed_tool
from toolhall.model.messages import ToolPage
from toolhall.model.tool import Tool

PLAIN: dict[str, Any] = {"name": "search", "inputSchema": {"type": "object"}}
RICH: dict[str, Any] = {
    **PLAIN,
    "title": "Search",
    "annotations": {"readOnlyHint": True, "x-note": 1},
    "icons": [{"src": "data:,a", "x-note": [None]}, {"src": "data:,b", "x-note": 2}],
    "_meta": {"com.example/a": None, "dev.toolhall/level": 3},
    "x-unknown": [None, 1, 1.0, True],
    "x-null": None,
}


def read(document: dict[str, Any], revision: Revision = REVISION_2026_07_28) -> Tool:
    (tool,) = lossless.read(document, CATALOGS[f"mcp@{revision.name}"])
    return tool


@each_row("revision", REVISIONS.values())
def test_listed_tool_keeps_unknown_members(revision: Revision) -> None:
    document = {**RICH, "icons": [{"src": "data:,a", "x-note": 1}]}
    assert write_listed_tool(read(document, revision), revision) == document
    page = ToolPage((read(document, revision),), None, shared=True)
    assert (
        b'"x-unknown":[null,1,1.0,true]'
        in McpEncoder(ServerInfo(name="x", version="1"), revision).list_result(1, page).body
    )


def test_listed_tool_without_remainder_is_plain() -> None:
    assert write_listed_tool(read(PLAIN), REVISION_2026_07_28) == PLAIN == write_tool(read(PLAIN), REVISION_2026_07_28)


def test_listed_tool_ignores_remainder_of_other_dialect() -> None:
    document = {"id": "clock", "name": "Clock", "version": "1.0.0", "description": "Time.", "x-owner": "team"}
    capability = {"name": "now", "description": "Now.", "x-cost": 1}
    (tool,) = lossless.read({**document, "capabilities": [capability]}, CATALOGS["machine"])
    assert tool.remainder is not None
    assert write_listed_tool(tool, REVISION_2026_07_28) == write_tool(tool, REVISION_2026_07_28)


@pytest.mark.parametrize(
    "more",
    [
        {"title": None},
        {"description": None},
        {"annotations": None},
        {"annotations": {"readOnlyHint": None}},
        {"annotations": {"title": None, "x-note": 1}},
        {"icons": None},
        {"icons": [{"src": "data:,", "sizes": None}]},
        {"_meta": None},
        {"outputSchema": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
def test_listed_tool_null_members_are_left_out(more: dict[str, Any], revision: Revision) -> None:
    listed = write_listed_tool(read({**PLAIN, **more, "x-unknown": 1}, revision), revision)
    assert listed["x-unknown"] == 1
    for part in (listed, listed.get("annotations", {}), *listed.get("icons", [])):
        assert None not in part.values()


@pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "array"}, {"type": "object"}], ids=str)
def test_listed_tool_output_schema_matches_results(schema: Any, revision: Revision) -> None:
    """A client refuses a result without structured content, or one that does not fit, where a schema promised it."""
    for came in REVISIONS.values():
        tool = read({**PLAIN, "outputSchema": schema, "x-unknown": 1}, came)
        assert write_listed_tool(tool, revision).get("outputSchema") == write_tool(tool, revision).get("outputSchema")


def test_listed_tool_has_published_name() -> None:
    tool = read({**PLAIN, "name": "look it up"})
    assert write_listed_tool(tool, REVISION_2026_07_28)["name"] == tool.name != "look it up"


@pytest.mark.parametrize("execution", [{"taskSupport": "required"}, "odd", None])
def test_listed_tool_execution_is_left_out(execution: Any) -> None:
    assert "execution" not in write_listed_tool(
        read({**PLAIN, "execution": execution}, REVISION_2025_11_25), REVISION_2025_11_25
    )


def test_listed_tool_whole_replacement_is_ignored() -> None:
    tool = read({**PLAIN, "$ref": "#/x", "name": "look it up"})
    assert tool.remainder is not None
    assert [change.path for change in tool.remainder.item] == [""], "else this test shows nothing"
    assert write_listed_tool(tool, REVISION_2026_07_28) == write_tool(tool, REVISION_2026_07_28)


def test_listed_tool_revision_without_member_omits_it() -> None:
    assert "icons" not in write_listed_tool(read(RICH), REVISION_2025_06_18)
