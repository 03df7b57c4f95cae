"""A definition of a real server is mended where it means one thing only, and each change has its finding."""

from typing import Any

import pytest

from toolhall.dialects.mcp.definitions import read_definition
from toolhall.dialects.mcp.mending import mend_definition
from toolhall.model.json import JsonObject
from toolhall.model.tool import Kind

OBJECT = {"type": "object"}


def mended(document: JsonObject, kind: Kind = "tool", *, any_output: bool = False) -> tuple[JsonObject, list[str]]:
    """The definition, and where what was changed in it."""
    before = repr(document)
    found, findings = mend_definition(document, kind, any_output=any_output)
    assert repr(document) == before
    assert all(each.severity == "warning" and each.fix for each in findings)
    return found, [f"{each.path} {each.rule.removeprefix('mended/')}" for each in findings]


@pytest.mark.parametrize(
    ("stated", "read", "notes"),
    [
        ({}, {"inputSchema": OBJECT}, ["/inputSchema input"]),
        ({"inputSchema": None}, {"inputSchema": OBJECT}, ["/inputSchema input"]),
        ({"inputSchema": {}}, {"inputSchema": OBJECT}, ["/inputSchema/type root"]),
        ({"inputSchema": {"type": ["object", "null"]}}, {"inputSchema": OBJECT}, ["/inputSchema/type root"]),
        ({"inputSchema": {"type": "dict"}}, {"inputSchema": OBJECT}, ["/inputSchema/type type"]),
        ({"inputSchema": OBJECT, "description": None}, {"inputSchema": OBJECT}, ["/description text"]),
        ({"inputSchema": OBJECT, "icons": [{"url": "x"}]}, {"inputSchema": OBJECT}, ["/icons icons"]),
        ({"inputSchema": OBJECT, "annotations": None}, {"inputSchema": OBJECT}, []),
        ({"inputSchema": OBJECT, "annotations": []}, {"inputSchema": OBJECT}, ["/annotations hint"]),
        (
            {"inputSchema": OBJECT, "annotations": {"readOnlyHint": "yes", "idempotentHint": True, "title": None}},
            {"inputSchema": OBJECT, "annotations": {"idempotentHint": True}},
            ["/annotations/readOnlyHint hint"],
        ),
        ({"inputSchema": OBJECT, "execution": {"taskSupport": "optional"}}, {"inputSchema": OBJECT}, []),
        (
            {"inputSchema": OBJECT, "_meta": {"dev.toolhall/level": 0, "com.example/x": 1}},
            {"inputSchema": OBJECT, "_meta": {"com.example/x": 1}},
            ["/_meta/dev.toolhall~1level meta"],
        ),
        ({"inputSchema": OBJECT, "_meta": 5}, {"inputSchema": OBJECT}, ["/_meta meta"]),
    ],
)
def test_tool_is_mended_with_a_finding_for_each_change(stated: Any, read: Any, notes: list[str]) -> None:
    found, noted = mended({"name": "t", **stated})
    assert (found, noted) == ({"name": "t", **read}, notes)
    assert read_definition(found).kind == "tool"


@pytest.mark.parametrize(
    ("schema", "any_output", "read"),
    [
        ({"type": "string"}, False, None),
        ({"type": "string"}, True, {"type": "string"}),
        ({"properties": {"a": {"type": "int"}}}, False, {"type": "object", "properties": {"a": {"type": "integer"}}}),
        ({"type": "object", "properties": {"a": {"$ref": "https://example.com"}}}, True, None),
        ("text", True, None),
        (None, False, None),
    ],
)
def test_output_schema_that_cannot_be_used_counts_as_not_stated(schema: Any, any_output: bool, read: Any) -> None:
    found, noted = mended({"name": "t", "inputSchema": OBJECT, "outputSchema": schema}, any_output=any_output)
    assert found.get("outputSchema") == read
    assert (any("output" in each for each in noted) or read == schema) is True


@pytest.mark.parametrize(
    ("stated", "read"),
    [
        ({"uri": "a://b"}, {"uri": "a://b", "name": "a://b"}),
        ({"uriTemplate": "a://b", "name": "n"}, {"uri": "a://b", "name": "n"}),
        ({"uri": "a://b", "name": "n", "size": -1, "mimeType": 5}, {"uri": "a://b", "name": "n"}),
        ({"uri": "a://b", "name": "n", "annotations": {"audience": ["cats"]}}, {"uri": "a://b", "name": "n"}),
    ],
)
def test_resource_is_mended(stated: JsonObject, read: JsonObject) -> None:
    found, noted = mended(stated, "resource")
    assert (found, bool(noted)) == (read, True)
    assert read_definition(found).kind == "resource"


def test_prompt_is_mended() -> None:
    stated: JsonObject = {
        "name": "p",
        "inputSchema": {},
        "arguments": [{"name": "a", "description": None, "required": "yes"}],
    }
    found, noted = mended(stated, "prompt")
    assert found == {"name": "p", "arguments": [{"name": "a"}]}
    assert sorted(noted) == [
        "/arguments/0/description text",
        "/arguments/0/required required",
        "/inputSchema unknown",
    ]
    assert read_definition(found).kind == "prompt"
