"""Gemini function declarations: name, description and parameters in Google's subset of OpenAPI's schema."""

import re

from toolhall.dialects.catalog import Loss, Written
from toolhall.dialects.functions import description_of, function_names, losses_in, losses_of, placed
from toolhall.dialects.gemini.parameters import TARGET
from toolhall.model.json import JsonObject
from toolhall.model.names import NAME_LIMIT
from toolhall.model.tool import Tool
from toolhall.schema.reshape import reshape

name = "gemini"
grouped = False

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{NAME_LIMIT - 1}}}")


def write(tools: tuple[Tool, ...]) -> Written:
    """One declaration for each tool, in their order."""
    written = [_write(tool, given) for tool, given in zip(tools, function_names(tools, _NAME), strict=True)]
    return Written([document for document, _ in written], placed([losses for _, losses in written]))


def _write(tool: Tool, given: str) -> tuple[JsonObject, list[Loss]]:
    reshaped = reshape(tool.input, TARGET)
    document: JsonObject = {"name": given, "description": description_of(tool, reshaped.notes) or tool.name}
    losses = [*losses_of(tool, given, name), *losses_in(reshaped)]
    if "properties" in reshaped.schema or tool.input.get("additionalProperties"):
        document["parameters"] = reshaped.schema
        return document, losses
    # A function without parameters has none at all: that it takes no others is said by that.
    return document, [loss for loss in losses if loss.path != "/inputSchema/additionalProperties"]
