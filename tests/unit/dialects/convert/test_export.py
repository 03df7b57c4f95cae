"""Tools of the model written in every dialect, with losses."""

import pytest

from tests.tables import each_row
from tests.unit.dialects.model_apis.sample_tools import FORECAST, MOVE, SAMPLES
from toolhall import tool
from toolhall.authoring.definition import definitions_of
from toolhall.dialects.catalogs import CATALOGS, DIALECTS
from toolhall.dialects.convert.export import write_tools
from toolhall.dialects.model_apis.function import losses_by_tool
from toolhall.model.errors import Malformed
from toolhall.model.names import ToolId
from toolhall.model.tool import Output, Tool, ToolkitInfo

PLAIN = Tool(id=ToolId("add", "add", "0.1.0"), name="add", description="Add.", input={"type": "object"})


def paths(dialect: str, tool: Tool) -> list[str]:
    return [loss.path for loss in write_tools(dialect, [tool]).losses]


@each_row("dialect", [name for name in DIALECTS if "strict" not in name])
def test_write_tools_every_dialect_writes_every_tool(dialect: str) -> None:
    written = write_tools(dialect, SAMPLES)
    assert written.documents
    assert {number for number, _ in losses_by_tool(written.losses, len(SAMPLES))} <= set(range(len(SAMPLES)))


@pytest.mark.parametrize("dialect", ["mcp", "function"])
def test_write_tools_plain_tool_has_no_losses(dialect: str) -> None:
    assert paths(dialect, PLAIN) == []


def test_write_tools_expressible_member_is_no_loss() -> None:
    assert paths("mcp", FORECAST) == ["/toolkit/description", "/requirements"]
    assert "/requirements" not in paths("oxp", FORECAST)
    assert "/level" not in paths("machine", FORECAST)


def test_write_tools_changed_and_missing_members_have_different_reasons() -> None:
    listed = Tool(
        id=ToolId("T", "t", "2.0.0"), name="T_t", input={"type": "object"}, output=Output("schema", {"type": "array"})
    )
    (loss,) = write_tools("mcp@2025-11-25", [listed]).losses
    assert loss.path == "/outputSchema"
    assert loss.reason.startswith("mcp@2025-11-25 requires an object at the root of an output schema")
    (loss,) = (each for each in write_tools("hub", [listed]).losses if each.path == "/outputSchema")
    assert loss.reason == "hub does not describe what a method returns"


def test_write_tools_toolkit_members_are_losses() -> None:
    of = Tool(id=ToolId("T", "t", "2.0.0"), name="T_t", input={"type": "object"}, about=ToolkitInfo(metadata={"a": 1}))
    assert "/toolkit/metadata" in paths("hub", of)
    assert "/toolkit/metadata" not in paths("machine", of)


def test_write_tools_machine_level_is_the_highest() -> None:
    low, high, unsaid = (
        Tool(id=ToolId("T", name, "1.0.0"), name=f"T_{name}", description=name, input={"type": "object"}, level=level)
        for name, level in (("low", 0), ("high", 9), ("unsaid", None))
    )
    written = write_tools("machine", [low, high, unsaid])
    assert [document["securityLevel"] for document in written.documents] == [9]
    assert [number for number, loss in losses_by_tool(written.losses, 3) if loss.path == "/level"] == [0]


def test_write_tools_several_tools_prefix_losses_with_index() -> None:
    numbers = [number for number, _ in losses_by_tool(write_tools("hub", [MOVE, FORECAST]).losses, 2)]
    assert 1 in numbers


def test_write_tools_unknown_dialect_is_refused() -> None:
    with pytest.raises(Malformed, match="use one of"):
        write_tools("esperanto", [PLAIN])
    assert "function" in CATALOGS


@pytest.mark.parametrize(
    ("dialect", "reason"),
    [
        ("mcp@2025-11-25", None),
        ("mcp@2026-07-28", None),
        ("openapi", None),
        ("mcp@2025-06-18", "mcp@2025-06-18 has no tasks: a call waits for its end"),
        ("anthropic", "anthropic has no tasks: a call waits for its end"),
        ("hub", "hub has no tasks: a call that takes long is answered by its id, once it has ended"),
    ],
)
def test_export_names_the_loss_of_tasks(dialect: str, reason: str | None) -> None:
    @tool(effect="reads", task=True)
    def long(year: int) -> str:
        """Export a year."""
        return str(year)

    @tool(effect="reads")
    def short(year: int) -> str:
        """Count a year."""
        return str(year)

    tools = [each.tool for function in (short, long) for each in definitions_of(function)]
    lost = [(loss.path, loss.reason) for loss in write_tools(dialect, tools).losses if loss.path.endswith("/task")]
    assert lost == ([] if reason is None else [("/1/task", reason)])
    alone = [loss.path for loss in write_tools(dialect, tools[1:]).losses if loss.path == "/task"]
    assert alone == ([] if reason is None else ["/task"])
