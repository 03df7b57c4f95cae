"""Sample tools with features that model APIs cannot express, and corpora if they are available."""

import json
from functools import cache
from pathlib import Path

from toolhall.model.json import Json, JsonObject
from toolhall.model.names import ToolId
from toolhall.model.tool import Annotations, Icon, Output, Tool, ToolkitInfo

CORPORA = Path(__file__).parents[5] / "shared" / "accept" / "corpora"

FORECAST = Tool(
    id=ToolId("Weather", "forecast", "1.2.0"),
    name="Weather_forecast",
    title="Forecast",
    description="Forecast the weather for a city.",
    input={
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City name", "minLength": 1},
            "days": {"type": "integer", "default": 3, "exclusiveMinimum": 0, "maximum": 14},
            "unit": {"const": "celsius"},
        },
        "required": ["city"],
        "additionalProperties": False,
    },
    output=Output("schema", {"type": "object"}),
    annotations=Annotations(read_only=True),
    icons=(Icon(src="https://example.com/sun.png"),),
    tags=("weather",),
    meta={"com.example/color": "blue"},
    level=2,
    requirements={"secrets": [{"id": "KEY"}]},
    about=ToolkitInfo(description="Weather of the world."),
)

MOVE = Tool(
    id=ToolId("Files", "move", "0.1.0"),
    name="Files_move",
    description="Move a file.",
    input={
        "type": "object",
        "properties": {
            "to": {"anyOf": [{"type": "string", "format": "uri"}, {"type": "null"}], "default": None, "title": "To"},
            "mode": {"oneOf": [{"const": "copy", "title": "Copy"}, {"const": "link"}]},
            "size": {"type": ["integer", "string"], "description": "How much."},
            "level": {"enum": [1, 2, None]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "parts": {"type": "array"},
            "anything": {},
        },
        "required": ["mode"],
    },
)

TREE = Tool(
    id=ToolId("Trees", "plant", "0.1.0"),
    name="plant",
    description="Plant a tree.",
    input={
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree", "description": "The whole tree."}},
        "required": ["tree"],
        "additionalProperties": False,
        "$defs": {
            "Tree": {
                "type": "object",
                "properties": {
                    "name": {"$ref": "#/$defs/Name"},
                    "branches": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                },
                "required": ["name", "branches"],
                "additionalProperties": False,
            },
            "Name": {"type": "string", "pattern": "^[a-z]+$"},
        },
    },
)

FIND = Tool(
    id=ToolId("People", "find", "0.1.0"),
    name="People_find",
    description="Find a person.",
    input={
        "type": "object",
        "properties": {"limit": {"type": "integer"}},
        "oneOf": [
            {"properties": {"by": {"const": "id"}, "id": {"type": "integer"}}, "required": ["by", "id"]},
            {"properties": {"by": {"const": "mail"}, "mail": {"type": "string"}}, "required": ["by", "mail"]},
        ],
    },
)

NOTHING = Tool(
    id=ToolId("System", "get_timestamp", "0.1.0"),
    name="System_get_timestamp",
    input={"type": "object", "additionalProperties": False},
    output=Output("none"),
)

OLD = Tool(
    id=ToolId("Old", "pair", "0.1.0"),
    name="pair",
    description="Pair two things.",
    input={
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": False},
            "definitions": {"$ref": "#/definitions/Word", "minLength": 9},
        },
        "dependencies": {"pair": ["definitions"]},
        "definitions": {"Word": {"type": "string", "title": "Word"}},
    },
)

SAMPLES = (FORECAST, MOVE, TREE, FIND, NOTHING, OLD)


def tool(schema: JsonObject, name: str = "t") -> Tool:
    """A tool of which only the input matters."""
    return Tool(id=ToolId("K", name, "0.1.0"), name=name, description="D.", input=schema)


@cache
def corpora() -> tuple[Tool, ...]:
    """Real definitions, as published; none where they are not at hand."""
    files = sorted(CORPORA.glob("*.jsonl")) if CORPORA.is_dir() else []
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return tuple(_published(json.loads(line), index) for index, line in enumerate(lines))


def _published(document: Json, index: int) -> Tool:
    schema = document.get("inputSchema") or document.get("parameters") or {"type": "object"}
    return Tool(
        id=ToolId("Corpora", f"tool{index}", "0.1.0"),
        name=document["name"],
        description=document.get("description"),
        input=schema,
    )
