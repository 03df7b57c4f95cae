"""Which output schema a revision is shown, and whether values are wrapped to fit it."""

import msgspec

from toolhall.dialects.mcp.revisions import Revision
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool

WRAPPER = "result"
_PLAIN_TEXT = {"type": "string"}
_OF_THE_ROOT = ("$schema", "$id", "$defs", "definitions")


class Shown(msgspec.Struct, frozen=True):
    """The tool's own schema (None: none), whether a value goes out as structured content, and in a wrapper."""

    schema: JsonObject | None
    structured: bool
    wrapped: bool = False

    @property
    def published(self) -> JsonObject | None:
        """The schema that clients are shown."""
        return _wrapper(self.schema) if self.wrapped and self.schema is not None else self.schema


_NOTHING = Shown(None, structured=False)
_FREE = Shown(None, structured=True)


def shown_output(tool: Tool, revision: Revision) -> Shown:
    """Decided from what the tool declares, never from the shape of a value."""
    schema = tool.output.schema
    if tool.output.kind == "none" or schema == _PLAIN_TEXT:
        return _NOTHING  # plain text is said once, as text
    if schema is None:
        return _FREE
    if revision.any_output or schema.get("type") == "object":
        return Shown(schema, structured=True)
    # MCP 2025-06-18 and 2025-11-25: the root of an output schema must be an object.
    return Shown(schema, structured=True, wrapped=True)


def _wrapper(schema: JsonObject) -> JsonObject:
    """An object that holds the value; what belongs to the root of a document stays there."""
    inner = {key: _moved(part, key) for key, part in schema.items() if key not in _OF_THE_ROOT}
    outer = {key: _moved(part, key) for key, part in schema.items() if key in _OF_THE_ROOT}
    return {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER], **outer}


def _moved(part: Json, key: str) -> Json:
    """References to places that are now inside the wrapper lead there."""
    match part:
        case str() if key in ("$ref", "$dynamicRef", "$recursiveRef") and part.partition("/")[0] == "#":
            stays = part.startswith(tuple(f"#/{name}/" for name in _OF_THE_ROOT))
            return part if stays else f"#/properties/{WRAPPER}{part[1:]}"
        case dict():
            return {name: _moved(value, name) for name, value in part.items()}
        case list():
            return [_moved(value, "") for value in part]
        case _:
            return part
