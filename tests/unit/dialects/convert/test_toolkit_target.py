"""Conversion of single tools to toolkit dialects: unique ids, exact round trips."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.corpora.journeys import converted, documents, exactly
from tests.tables import each_row
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.targets import ConversionResult
from toolhall.dialects.findings import BadDocument

VECTORS = Path(__file__).parents[3] / "vectors"
CALCULATOR = json.loads((VECTORS / "machine/calculator.json").read_text())
FILES = json.loads((VECTORS / "hub/names_only.json").read_text())
MCP = "mcp@2026-07-28"


def tool(toolkit: str, name: str, version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    meta = {"dev.toolhall/id": f"{toolkit}.{name}@{version}"}
    return {"name": f"{toolkit}_{name}", "inputSchema": {"type": "object"}, "_meta": meta, **more}


def whole(given: list[Any], target: str) -> list[ConversionResult]:
    converter = Converter(target, whole=True)
    return [*(part for index, each in enumerate(given) for part in converter.feed(each, index)), *converter.finish()]


def shapes(parts: list[ConversionResult]) -> list[list[str]]:
    """The tools of each document."""
    return [
        [each["name"] for each in document.get("tool", document)["capabilities"]["methods"]]
        for document in documents(parts)
    ]


ROWS = [
    ([("A", "x"), ("A", "y")], [["x", "y"]], [["x", "y"]]),
    ([("A", "x"), ("B", "z"), ("A", "y")], [["x"], ["z"], ["y"]], [["x", "y"], ["z"]]),
    ([("A", "x"), ("A", "y", "2.0.0")], [["x"], ["y"]], [["x"], ["y"]]),
    ([("A", "x"), ("A", "x"), ("A", "y")], [["x", "y"], ["x"]], [["x", "y"], ["x"]]),
]


@each_row(("given", "streamed", "at_once"), ROWS)
def test_toolkit_target_joins_tools_of_one_toolkit(given: Any, streamed: Any, at_once: Any) -> None:
    tools = [tool(*each, title="T.") for each in given]
    assert shapes(converted(tools, "hub")) == streamed
    assert shapes(whole(tools, "hub")) == at_once


@pytest.mark.parametrize("target", ["machine", "hub"])
def test_toolkit_target_round_trip_is_exact(target: str) -> None:
    tools = [tool("A", name, title=name.upper(), icons=[{"src": "data:,"}]) for name in "xyz"]
    (there,) = documents(converted(tools, target))
    assert exactly(documents(converted([there], MCP, target))) == exactly(tools)
    oxp = documents(converted(tools, "oxp"))
    assert exactly(documents(converted(documents(converted(oxp, target)), MCP, target))) == exactly(tools)


def test_toolkit_target_losses_belong_to_their_input() -> None:
    parts = converted([tool("A", "x"), tool("A", "y", icons=[{"src": "data:,"}])], "machine")
    assert [(part.index, [loss.path for loss in part.losses]) for part in parts] == [(0, []), (1, ["/icons"])]


def test_toolkit_target_duplicate_name_is_a_loss() -> None:
    parts = converted([tool("A", "x"), tool("A", "x")], "machine")
    assert len(documents(parts)) == 2
    assert ["the same id" in loss.reason for loss in parts[1].losses if not loss.path] == [True]


def test_toolkit_target_unreadable_document_does_not_split_group() -> None:
    converter = Converter("hub")
    parts = [*converter.feed(tool("A", "x"), 0)]
    with pytest.raises(BadDocument):
        list(converter.feed({"name": "", "inputSchema": {}}, 1))
    parts += [*converter.feed(tool("A", "y"), 2), *converter.finish()]
    assert shapes(parts) == [["x", "y"]]


def test_toolkit_target_whole_toolkit_is_converted_at_once() -> None:
    converter = Converter("hub")
    assert documents(list(converter.feed(CALCULATOR, 0)))
    assert not converter.has_pending
    assert not documents(list(converter.feed(tool("A", "x"), 1)))
    assert converter.has_pending


@pytest.mark.parametrize("target", [MCP, "openai", "openapi", "hub", "machine"])
@pytest.mark.parametrize("original", [CALCULATOR, FILES], ids=["machine", "hub"])
def test_toolkit_target_duplicate_toolkit_is_refused(original: Any, target: str) -> None:
    key = "id" if original is CALCULATOR else "name"
    twin = {**original, key: original[key].upper()}
    with pytest.raises(BadDocument, match=r"is document 0 already; remove one, or raise its version"):
        converted([original, twin], target)
    assert [part.index for part in whole([original, twin], target) if part.refused] == [1]
    later = {**original, "version": "99.0.0"}
    assert not [part for part in converted([original, later], target) if part.refused]


def test_toolkit_target_hub_conflict_is_reported_once() -> None:
    for wrong in ({"methods": [3]}, {"methods": ["m"], "resources": [1]}):
        with pytest.raises(BadDocument) as refused:
            converted([{"name": "n", "version": "1", "capabilities": wrong}], MCP, "hub")
        (finding,) = refused.value.findings
        assert finding.fix == "write a name or an object here"
