"""Bare functions: a name, a description, and parameters as a schema, as a list of arguments, or not at all."""

from toolhall.dialects.findings import Reading
from toolhall.dialects.function.types import plain_schema
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import DEFAULT_VERSION, ToolId, safe_name
from toolhall.model.tool import Tool

name = "function"
grouped = False
carrier: tuple[str, ...] = ("x-toolhall",)


def place(document: JsonObject) -> tuple[str, ...]:  # noqa: ARG001 - the same in every document
    """A document is one function itself."""
    return ()


def read(document: Json) -> tuple[Tool, ...]:
    """The one function of a document; BadDocument with every finding."""
    reading = Reading(name)
    document = reading.object(document, "")
    function = reading.object(document["function"], "/function") if "function" in document else document
    own = reading.text(function, "name", "") or ""
    description = function.get("description")
    tool = Tool(
        id=ToolId(safe_name(own), safe_name(own), DEFAULT_VERSION),
        name=safe_name(own),
        description=description if isinstance(description, str) and description else None,
        input=_input(reading, function),
    )
    reading.done()
    return (tool,)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One function."""
    (tool,) = tools
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "parameters": tool.input}


def _input(reading: Reading, function: JsonObject) -> JsonObject:
    for key in ("parameters", "inputSchema", "input_schema"):
        if isinstance(function.get(key), dict):
            schema = plain_schema(function[key])
            return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    properties: JsonObject = {}
    for index, listed in enumerate(reading.items(function.get("arguments") or [], "/arguments")):
        argument = reading.object(listed, f"/arguments/{index}")
        own = reading.text(argument, "name", f"/arguments/{index}")
        if own is not None:
            described = {"description": argument["desc"]} if isinstance(argument.get("desc"), str) else {}
            properties[own] = {**plain_schema({"type": argument.get("type")}), **described}
    return {"type": "object", "properties": properties}
