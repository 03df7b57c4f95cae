"""Function names for model APIs: changed deterministically, listed as losses, and mapped back."""

from typing import Any

import pytest

from tests.corpora.journeys import converted, documents
from toolhall.dialects.catalogs import WRITE_ONLY_CATALOGS, readable_catalog
from toolhall.dialects.model_apis.function import function_names, original_name, tools_by_name
from toolhall.model.names import published_name

LONG = "a" * 100
NAMES = [(LONG, "a" * 55 + "_28165978"), ("ns/tool.name", "ns_tool_name_c9831c56"), ("a.b", None), ("天気", None)]


CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}


def definition(name: str, dialect: str) -> dict[str, Any]:
    return {"name": name, "inputSchema" if dialect == "mcp" else "parameters": CLOSED}


@pytest.mark.parametrize("target", [name for name in WRITE_ONLY_CATALOGS if name != "openapi"])
@pytest.mark.parametrize("dialect", ["mcp", "function"])
@pytest.mark.parametrize(("name", "expected"), NAMES)
def test_function_name_changed_is_a_loss_with_original(
    target: str, dialect: str, name: str, expected: str | None
) -> None:
    parts = converted([definition(name, dialect)], target)
    (document,) = documents(parts)
    written = document.get("function", document)["name"]
    assert expected is None or written == expected, "one hash, of the whole name"
    (loss,) = (loss for part in parts for loss in part.losses if loss.path == "/name")
    assert loss.reason.endswith(f"written as {written} for {name!r}")


def test_function_name_of_renamed_capability() -> None:
    document = {
        "id": "天気",
        "name": "Weather",
        "version": "1.0.0",
        "description": "W.",
        "capabilities": [{"name": "now", "description": "N."}, {"name": "plain", "description": "P."}],
    }
    parts = converted([document], "anthropic")
    named = [
        loss.reason for part in parts for loss in part.losses if loss.path.endswith("/name") and loss.path[1] == "c"
    ]
    assert [reason.rpartition(" for ")[2] for reason in named] == ["'天気_now'", "'天気_plain'"]


def test_function_name_is_hashed_once() -> None:
    whole = "天" * 40 + "_" + "気" * 40
    assert published_name("天" * 40, "気" * 40).count("_") == 55 + 1
    assert published_name("天" * 40, "気" * 40) == published_name(whole, whole)


def test_tools_by_name_finds_tool() -> None:
    mcp = readable_catalog("mcp")
    tools = tuple(mcp.read(definition(name, "mcp"))[0] for name, _ in (*NAMES, ("plain", None), ("plain", None)))
    found = tools_by_name(tools)
    assert list(found) == function_names(tools)
    assert [found[name] for name in function_names(tools)] == list(tools)
    assert [original_name(tool) for tool in found.values()] == [*(name for name, _ in NAMES), "plain", "plain"]
