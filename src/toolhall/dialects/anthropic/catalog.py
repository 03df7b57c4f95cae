"""Anthropic tool definitions: name, description and an input schema in JSON Schema 2020-12."""

import re

from toolhall.dialects.catalog import Loss, Written
from toolhall.dialects.functions import description_of, function_names, losses_in, losses_of, placed
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.branches import Branch, one_object
from toolhall.schema.place import Place
from toolhall.schema.reshape import Reshaping, Target, reshape, whole

name = "anthropic"
grouped = False

# Messages API, tools.N.custom.input_schema.properties: other keys at the top level refuse the whole request.
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def write(tools: tuple[Tool, ...]) -> Written:
    """One definition for each tool, in their order."""
    written = [_write(tool, given) for tool, given in zip(tools, function_names(tools), strict=True)]
    return Written([document for document, _ in written], placed([losses for _, losses in written]))


def _write(tool: Tool, given: str) -> tuple[JsonObject, list[Loss]]:
    reshaped = reshape(tool.input, TARGET)
    document: JsonObject = {"name": given}
    description = description_of(tool, reshaped.notes)
    if description is not None:
        document["description"] = description
    document["input_schema"] = reshaped.schema
    return document, [*losses_of(tool, given, name), *losses_in(reshaped)]


def _root(reshaping: Reshaping, schema: JsonObject, place: Place) -> Branch:
    """One object, every top-level key of which the API accepts."""
    schema, place = one_object(reshaping, schema, place)
    refused = [key for key in schema["properties"] if not _KEY.fullmatch(key)]
    if not refused:
        return schema, place
    for key in refused:
        reshaping.lose(place.at("properties"), key, "top-level names have 1 to 64 letters, digits, _ . and -")
    listed = ", ".join(f"{key!r}" for key in refused)
    reshaping.note(schema, place, [f"It also takes these, which are not described: {listed}."])
    # The object is open from now on, so that a model may give them all the same.
    kept = {key: part for key, part in schema.items() if key != "additionalProperties"}
    kept["properties"] = {key: part for key, part in schema["properties"].items() if key not in refused}
    if "required" in kept:
        kept["required"] = [key for key in kept["required"] if key not in refused]
    return kept, place


# References are documented as refused in the schemas of custom tools, so recursion is cut; all other keywords pass.
TARGET = Target(name, whole, _root)
