"""Anthropic tool definitions: name, description and an input schema in JSON Schema 2020-12."""

import re

from toolhall.dialects.base import Loss, WriteResult
from toolhall.dialects.model_apis.function import (
    function_description,
    function_losses,
    function_names,
    indexed_losses,
    schema_losses,
)
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool
from toolhall.schema.adapt import SchemaAdapter, SchemaLocation, SchemaTarget, adapt_schema, adapt_subschemas
from toolhall.schema.combinators import LocatedSchema, as_single_object

name = "anthropic"
grouped = False
# Messages API, tools.N.custom.input_schema.properties: other keys at the top level refuse the whole request.
_PROPERTY_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def write(tools: tuple[Tool, ...]) -> WriteResult:
    """One definition per tool, in order."""
    written = [_write(tool, function_name) for tool, function_name in zip(tools, function_names(tools), strict=True)]
    return WriteResult([document for document, _ in written], indexed_losses([losses for _, losses in written]))


def _write(tool: Tool, function_name: str) -> tuple[JsonObject, list[Loss]]:
    adapted = adapt_schema(tool.input, TARGET)
    document: JsonObject = {"name": function_name}
    description = function_description(tool, adapted.notes)
    if description is not None:
        document["description"] = description
    document["input_schema"] = adapted.schema
    return document, [*function_losses(tool, function_name, name), *schema_losses(adapted)]


def _root(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> LocatedSchema:
    """A single object without top-level property names that the API refuses."""
    schema, location = as_single_object(adapter, schema, location)
    refused_names = [key for key in schema["properties"] if not _PROPERTY_NAME.fullmatch(key)]
    if not refused_names:
        return schema, location
    for key in refused_names:
        adapter.report_loss(location.at("properties"), key, "top-level names have 1 to 64 letters, digits, _ . and -")
    listed = ", ".join(f"{key!r}" for key in refused_names)
    adapter.describe(schema, location, [f"It also takes these, which are not described: {listed}."])
    # The object becomes open, so that a model may still send them.
    kept = {key: part for key, part in schema.items() if key != "additionalProperties"}
    kept["properties"] = {key: part for key, part in schema["properties"].items() if key not in refused_names}
    if "required" in kept:
        kept["required"] = [key for key in kept["required"] if key not in refused_names]
    return kept, location


# References are documented as refused in the schemas of custom tools, so recursion is cut; all other keywords pass.
TARGET = SchemaTarget(name, adapt_subschemas, _root)
