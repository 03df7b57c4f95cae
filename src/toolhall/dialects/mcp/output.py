"""Which output schema a revision is shown, and whether values are wrapped to fit it."""

import msgspec

from toolhall.dialects.mcp.revisions import Revision
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool

WRAPPER = "result"


class Shown(msgspec.Struct, frozen=True):
    """The schema to publish (None: none), whether a value goes out as structured content, and in a wrapper."""

    schema: JsonObject | None
    structured: bool
    wrapped: bool = False


_NOTHING = Shown(None, structured=False)
_FREE = Shown(None, structured=True)


def shown_output(tool: Tool, revision: Revision) -> Shown:
    """Decided from what the tool declares, never from the shape of a value."""
    schema = tool.output.schema
    if tool.output.kind == "none" or schema == {"type": "string"}:
        return _NOTHING  # plain text is said once, as text
    if schema is None:
        return _FREE
    if revision.any_output or schema.get("type") == "object":
        return Shown(schema, structured=True)
    # MCP 2025-06-18 and 2025-11-25: the root of an output schema must be an object.
    inner = {key: part for key, part in schema.items() if key not in ("$defs", "$schema")}
    outer = {key: part for key, part in schema.items() if key in ("$defs", "$schema")}
    wrapper: JsonObject = {"type": "object", "properties": {WRAPPER: inner}, "required": [WRAPPER], **outer}
    return Shown(wrapper, structured=True, wrapped=True)
