"""Definitions of resources, templates and prompts, read and written in each revision."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.catalogs import CATALOGS, detect_dialect
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.mcp.definitions import definition_kind, read_definition, write_definition
from toolhall.dialects.mcp.protocol import REVISION_2025_06_18, REVISIONS
from toolhall.model.content import Notes
from toolhall.model.names import ToolId, safe_name
from toolhall.model.tool import ResourceInfo

ICONS = [{"src": "https://example.org/a.png"}]
RESOURCE = {
    "uri": "shop://policy",
    "name": "Rules for refunds",
    "title": "Rules",
    "description": "Our rules.",
    "mimeType": "text/markdown",
    "size": 12,
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-07-28T00:00:00Z"},
    "icons": ICONS,
    "_meta": {"example.org/owner": "shop"},
}
TEMPLATE = {"uriTemplate": "shop://orders/{number}{?lang}", "name": "order", "mimeType": "application/json"}
PROMPT = {
    "name": "refund",
    "description": "Drafts a letter.",
    "arguments": [
        {"name": "number", "title": "Number", "description": "Which order.", "required": True},
        {"name": "tone"},
    ],
    "icons": ICONS,
}


@each_row("document", [RESOURCE, TEMPLATE, PROMPT, {"name": "refund"}])
def test_read_definition_is_written_again(document: Any) -> None:
    for name, revision in REVISIONS.items():
        without_icons = {key: part for key, part in document.items() if key != "icons"}
        expected = without_icons if revision is REVISION_2025_06_18 else document
        tool = read_definition(document)
        # The name is published as one that every client takes; the rest of the way back is the lossless reader's.
        assert write_definition(tool, revision) | {"name": document["name"]} == expected, name


def test_read_resource_has_its_members() -> None:
    tool = read_definition(RESOURCE)
    assert (tool.kind, tool.effect, tool.level) == ("resource", "reads", None)
    assert (tool.name, tool.stated) == (safe_name("Rules for refunds"), "Rules for refunds")
    notes = Notes(audience=("user",), priority=0.5, last_modified="2026-07-28T00:00:00Z")
    assert tool.resource == ResourceInfo(uri="shop://policy", mime_type="text/markdown", size=12, notes=notes)
    assert tool.input == {"type": "object", "properties": {}, "additionalProperties": False}


def test_read_template_takes_its_variables_as_texts() -> None:
    text = {"type": "string"}
    assert read_definition(TEMPLATE).input == {
        "type": "object",
        "properties": {"number": text, "lang": text},
        "required": ["number"],
        "additionalProperties": False,
    }
    assert read_definition({"uriTemplate": "shop://{a:3}", "name": "a"}).input == {"type": "object"}


def test_read_prompt_takes_its_arguments_as_texts() -> None:
    tool = read_definition(PROMPT)
    assert tool.input == {
        "type": "object",
        "properties": {
            "number": {"type": "string", "title": "Number", "description": "Which order."},
            "tone": {"type": "string"},
        },
        "required": ["number"],
        "additionalProperties": False,
    }


def test_read_definition_takes_the_stated_id_and_level() -> None:
    meta = {"dev.toolhall/id": "Shop.order@1.2.0", "dev.toolhall/level": 5}
    tool = read_definition(TEMPLATE | {"name": "Shop_order", "_meta": meta})
    assert (tool.id, tool.level, tool.meta) == (ToolId("Shop", "order", "1.2.0"), 5, None)


@each_row(
    ("document", "paths"),
    [
        ({"uri": "shop://a"}, ["/name"]),
        ({"uri": "shop://a", "uriTemplate": "shop://{a}", "name": "a"}, ["/uriTemplate"]),
        ({"uri": "shop://{a}", "name": "a"}, ["/uri"]),
        ({"uriTemplate": "shop://a", "name": "a"}, ["/uriTemplate"]),
        ({"uri": 7, "name": "a"}, ["/uri"]),
        ({"uri": "shop://a", "name": "a", "size": -1, "mimeType": 7}, ["/size", "/mimeType"]),
        ({"uri": "shop://a", "name": "a", "size": True}, ["/size"]),
        ({"uri": "shop://a", "name": "a", "annotations": {"audience": ["all"]}}, ["/annotations/audience"]),
        ({"uri": "shop://a", "name": "a", "annotations": {"priority": "high"}}, ["/annotations/priority"]),
        ({"name": "a", "arguments": {}}, ["/arguments"]),
        ({"name": "a", "arguments": [{"title": 1}, 2]}, ["/arguments/0/name", "/arguments/0/title", "/arguments/1"]),
        ({"name": "a", "arguments": [{"name": "x"}, {"name": "x"}]}, ["/arguments/1/name"]),
        ({"name": "a", "arguments": [{"name": "x", "required": "yes"}]}, ["/arguments/0/required"]),
    ],
)
def test_read_definition_names_every_problem(document: Any, paths: list[str]) -> None:
    with pytest.raises(BadDocument) as bad:
        read_definition(document)
    assert set(paths) <= {each.path for each in bad.value.findings}


@each_row(
    ("document", "kind"),
    [
        ({"name": "a", "inputSchema": {}, "uri": "shop://a"}, "tool"),
        ({"name": "a", "uri": "shop://a"}, "resource"),
        ({"name": "a", "uriTemplate": "shop://{a}"}, "resource"),
        ({"name": "a", "arguments": []}, "prompt"),
        ({"name": "a", "description": "A."}, "prompt"),
        ({"name": "a", "outputSchema": {}}, "tool"),
        ({"description": "A."}, "tool"),
        (7, "tool"),
    ],
)
def test_definition_kind_follows_from_the_members(document: Any, kind: str) -> None:
    assert definition_kind(document) == kind


@each_row(
    ("document", "listed_as", "name"),
    [
        (RESOURCE, "", "mcp@2026-07-28"),
        (TEMPLATE, "", "mcp@2026-07-28"),
        (PROMPT, "", "mcp@2026-07-28"),
        ({"name": "a", "description": "A."}, "", "function"),
        ({"name": "a", "description": "A."}, "prompts", "mcp@2026-07-28"),
        ({"name": "a", "parameters": {}}, "prompts", "function"),
        ({"name": "a", "arguments": [{"name": "x", "type": "int", "desc": "X"}]}, "", "function"),
        ({"name": "a", "arguments": []}, "", "function"),
        ({"name": "a", "uri": "shop://a", "parameters": {}}, "", "function"),
    ],
)
def test_detect_dialect_tells_prompts_from_functions(document: Any, listed_as: str, name: str) -> None:
    assert detect_dialect(document, listed_as) is CATALOGS[name]
