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
    path = "/function" if "function" in document else ""
    stated = reading.text(function, "name", path) or ""
    own = safe_name(stated)
    tool = Tool(
        id=ToolId(own, own, DEFAULT_VERSION),
        name=own,
        stated=stated if stated != own else None,
        description=reading.text(function, "description", path, required=False) or None,
        input=_input(reading, function, path),
    )
    reading.done()
    return (tool,)


def write(tools: tuple[Tool, ...]) -> JsonObject:
    """One function."""
    (tool,) = tools
    described = {} if tool.description is None else {"description": tool.description}
    return {"name": tool.name, **described, "parameters": tool.input}


def _input(reading: Reading, function: JsonObject, path: str) -> JsonObject:
    for key in ("parameters", "inputSchema", "input_schema"):
        if function.get(key) is not None:
            schema = plain_schema(reading.object(function[key], f"{path}/{key}"))
            return schema if schema.get("type") == "object" else {**schema, "type": "object"}
    return {"type": "object", "properties": _arguments(reading, function, f"{path}/arguments")}


def _arguments(reading: Reading, function: JsonObject, path: str) -> JsonObject:
    """The properties that a list of arguments stands for."""
    given = function.get("arguments")
    listed = reading.items([] if given is None else given, path)
    reading.unique(listed, path, "arguments")
    properties: JsonObject = {}
    for index, each in enumerate(listed):
        argument = reading.object(each, f"{path}/{index}")
        own = reading.text(argument, "name", f"{path}/{index}") or ""
        description = reading.text(argument, "desc", f"{path}/{index}", required=False)
        schema = plain_schema({"type": argument.get("type")})
        properties[own] = schema if description is None else {**schema, "description": description}
    return properties
