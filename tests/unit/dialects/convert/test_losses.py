"""Reasons of losses, by member and target."""

import json
from pathlib import Path
from typing import Any

from tests.corpora.journeys import converted
from tests.tables import each_row
from toolhall.dialects.convert.export import write_tools
from toolhall.model.names import ToolId
from toolhall.model.tool import Output, Tool

VECTORS = Path(__file__).parents[3] / "vectors"
CALCULATOR = json.loads((VECTORS / "machine/calculator.json").read_text())


def reasons(document: Any, target: str) -> dict[str, str]:
    return {loss.path: loss.reason.partition(";")[0] for part in converted([document], target) for loss in part.losses}


def referring(schema: Any) -> Any:
    properties = {"a": {"$ref": "#/$defs/a"}}
    return {"name": "n", "inputSchema": {"type": "object", "properties": properties, "$defs": {"a": schema}}}


def test_loss_reasons_plain_text_output_is_explained() -> None:
    tool = Tool(
        id=ToolId("T", "t", "2.0.0"), name="T_t", input={"type": "object"}, output=Output("schema", {"type": "string"})
    )
    (loss,) = write_tools("mcp", [tool]).losses
    assert (loss.path, loss.reason) == (
        "/outputSchema",
        "mcp@2026-07-28 states no schema for plain text, which is sent as text",
    )


ROWS: list[tuple[str, str, str]] = [
    ("oxp", "/capabilities/0/return/description", "oxp has this in output_schema/description"),
    ("oxp", "/securityLevel", "oxp has no place for this"),
    ("function", "/version", "function has no versions"),
    ("function", "/capabilities/0/name", "function has one name only"),
    ("hub", "/capabilities/0/return", "hub does not describe what a method returns"),
    ("mcp", "/metadata", "mcp@2026-07-28 cannot describe a toolkit as a whole"),
]


@each_row(("target", "path", "reason"), ROWS)
def test_loss_reasons_by_member_and_target(target: str, path: str, reason: str) -> None:
    assert reasons(CALCULATOR, target)[path] == reason


def test_loss_reasons_cut_recursion_widens() -> None:
    tree = {"type": "object", "properties": {"inside": {"$ref": "#/$defs/a"}}}
    lost = [loss for part in converted([referring(tree)], "oxp") for loss in part.losses]
    assert lost
    assert all("beyond that more is accepted" in loss.reason for loss in lost if loss.path.startswith("/inputSchema"))
    assert "more is accepted" not in str(converted([referring({"type": "string"})], "oxp")[0].losses)


def test_loss_reasons_flat_parameter_widens() -> None:
    limited = {"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "title": "A"}}}
    found = {loss.path: loss.reason for loss in converted([{"name": "n", "inputSchema": limited}], "machine")[0].losses}
    assert "more is accepted there" in found["/inputSchema/properties/a/minLength"]
    assert "more" not in found["/inputSchema/properties/a/title"]


def test_loss_reasons_toolkit_losses_are_listed_once() -> None:
    for target in ("openai", "anthropic", "gemini", "openapi"):
        listed = [loss for part in converted([CALCULATOR], target) for loss in part.losses]
        assert len(listed) == len(set(listed))
        assert "/metadata" in [loss.path for loss in listed]


def test_loss_of_a_stated_task_support_is_named() -> None:
    document = {"name": "long", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}}
    assert reasons(document, "oxp")["/execution"] == "oxp does not state whether a tool's calls may become tasks"
