"""Restoring originals from edited documents: edits win, and inexpressible ones are listed."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.journeys import converted, documents
from toolhall.dialects.base import Loss
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.targets import ConversionResult

VECTORS = Path(__file__).parents[3] / "vectors"
CALCULATOR = json.loads((VECTORS / "machine/calculator.json").read_text())
FILES = json.loads((VECTORS / "hub/names_only.json").read_text())
MCP = "mcp@2026-07-28"


def losses(parts: list[ConversionResult]) -> list[Loss]:
    return [loss for part in parts for loss in part.losses]


def named(document: Any) -> list[str]:
    return [each["name"] for each in document["capabilities"]]


def test_restore_renamed_tool_stays_in_toolkit() -> None:
    add, subtract = documents(converted([CALCULATOR], MCP))
    add["name"] = "calculator_plus"
    parts = converted([add, subtract], "machine")
    (back,) = documents(parts)
    assert named(back) == ["plus", "subtract"]
    assert {**back, "capabilities": 0} == {**CALCULATOR, "capabilities": 0}
    assert back["capabilities"][0] == {**CALCULATOR["capabilities"][0], "name": "plus"}
    assert losses(parts) == []


def test_restore_arbitrary_name_is_listed_as_loss() -> None:
    add, subtract = documents(converted([CALCULATOR], MCP))
    add["name"] = "renamed_tool"
    parts = converted([add, subtract], "machine")
    (back,) = documents(parts)
    assert named(back) == ["renamed_tool", "subtract"]
    (loss,) = losses(parts)  # Machine Context has no names but the capability's
    assert (loss.path, loss.reason) == ("/name", "machine, which this was made from, expresses this differently")


def test_restore_renamed_hub_method_is_kept() -> None:
    read, write = documents(converted([FILES], MCP))
    read["name"] = f"{FILES['name']}_look"
    (back,) = documents(converted([read, write], "hub"))
    methods = back["capabilities"]["methods"]
    assert (methods[0]["name"], methods[1]) == ("look", FILES["capabilities"]["methods"][1])


@pytest.mark.parametrize("original", [CALCULATOR, FILES], ids=["machine", "hub"])
def test_restore_edited_oxp_name_is_kept(original: Any) -> None:
    first, second = documents(converted([original], "oxp"))
    toolkit = first["id"].partition(".")[0]
    first["name"] = f"{toolkit}_other"
    source = "machine" if original is CALCULATOR else "hub"
    parts = converted([first, second], source)
    (back,) = documents(parts)
    listed = back["capabilities"] if source == "machine" else back["capabilities"]["methods"]
    assert listed[0]["name"] == "other"
    assert listed[1:] == (original["capabilities"] if source == "machine" else original["capabilities"]["methods"])[1:]
    assert losses(parts) == []


def test_restore_single_tool_toolkit_is_renamed_with_tool() -> None:
    original = {"tool": {"name": "echo", "version": "3", "capabilities": {"methods": ["echo"]}}}
    (mcp,) = documents(converted([original], MCP))
    mcp["name"] = "parrot"
    (back,) = documents(converted([mcp], "hub"))
    assert (back["tool"]["name"], back["tool"]["version"]) == ("parrot", "3")
    assert back["tool"]["capabilities"]["methods"][0]["name"] == "parrot"


def test_restore_oxp_name_is_independent_of_id() -> None:
    original = json.loads((VECTORS / "oxp/calculator_add.json").read_text()) | {"name": "my_add"}
    parts = converted([original], MCP)
    assert "/id" not in [loss.path for loss in losses(parts)]
    (mcp,) = documents(parts)
    mcp["_meta"].pop("dev.toolhall/carrier", None)
    (back,) = documents(converted([mcp], "oxp"))
    assert (back["id"], back["name"]) == (original["id"], "my_add")
    mcp["name"] = "your_add"
    (back,) = documents(converted([mcp], "oxp"))
    assert (back["id"], back["name"]) == ("Calculator.your_add@1.0.0", "your_add")


def test_restore_inexpressible_added_member_is_listed() -> None:
    add, subtract = documents(converted([CALCULATOR], MCP))
    add["title"] = "Add"
    add["x-note"] = 1
    parts = converted([add, subtract], "machine")
    assert documents(parts) == [CALCULATOR]
    assert [(part.index, loss.path) for part in parts for loss in part.losses] == [(0, "/title"), (0, "/x-note")]


def test_restore_unedited_document_has_no_losses() -> None:
    for original in (CALCULATOR, FILES):
        for target in ("oxp", MCP, "function"):
            there = documents(converted([original], target))
            source = "machine" if original is CALCULATOR else "hub"
            parts = converted(there, source, target)
            assert (documents(parts), losses(parts)) == ([original], [])


def whole(given: list[Any], target: str) -> list[ConversionResult]:
    converter = Converter(target, whole=True)
    return [*(part for index, each in enumerate(given) for part in converter.feed(each, index)), *converter.finish()]


def test_converter_whole_joins_scattered_parts() -> None:
    add, subtract = documents(converted([CALCULATOR], MCP))
    weather = json.loads((VECTORS / "mcp/get_weather.json").read_text())
    toolkits = documents(whole([subtract, weather, add], "machine"))
    assert [each["id"] for each in toolkits] == ["calculator", "get_weather"]
    assert toolkits[0] == CALCULATOR


def test_converter_streaming_joins_consecutive_parts_only() -> None:
    add, subtract = documents(converted([CALCULATOR], MCP))
    weather = json.loads((VECTORS / "mcp/get_weather.json").read_text())
    parts = converted([subtract, weather, add], "machine")
    assert [each["id"] for each in documents(parts)] == ["calculator", "get_weather"]
    (bad,) = (part for part in parts if part.refused)
    assert bad.index == 2
    assert "calculator 1.0.0 is document 0 already" in str(bad.refused)


def test_converter_duplicate_part_makes_two_originals() -> None:
    add, subtract = documents(converted([CALCULATOR], MCP))
    parts = whole([add, copy.deepcopy(add), subtract], "machine")
    assert documents(parts) == [CALCULATOR]
    assert [part.index for part in parts if part.refused] == [1]
