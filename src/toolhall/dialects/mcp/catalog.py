"""Tool definitions as MCP documents."""

from toolhall.dialects.mcp.output import shown_output
from toolhall.dialects.mcp.revisions import Revision
from toolhall.model.json import JsonObject
from toolhall.model.tool import Annotations, Icon, Tool

_ID_KEY = "dev.toolhall/id"
_TAGS_KEY = "dev.toolhall/tags"
_HINTS = {
    "title": "title",
    "read_only": "readOnlyHint",
    "destructive": "destructiveHint",
    "idempotent": "idempotentHint",
    "open_world": "openWorldHint",
}


def write_tool(tool: Tool, revision: Revision) -> JsonObject:
    """The definition of one tool, as this revision spells it."""
    document: JsonObject = {"name": tool.name}
    if tool.title is not None:
        document["title"] = tool.title
    if tool.description is not None:
        document["description"] = tool.description
    document["inputSchema"] = tool.input
    shown = shown_output(tool, revision)
    if shown.schema is not None:
        document["outputSchema"] = shown.schema
    if tool.annotations is not None:
        document["annotations"] = _annotations(tool.annotations)
    if tool.icons and revision.icons:
        document["icons"] = [_icon(icon) for icon in tool.icons]
    document["_meta"] = {**(tool.meta or {}), _ID_KEY: str(tool.id)} | ({_TAGS_KEY: tool.tags} if tool.tags else {})
    return document


def _annotations(annotations: Annotations) -> JsonObject:
    stated = ((hint, getattr(annotations, field)) for field, hint in _HINTS.items())
    return {hint: value for hint, value in stated if value is not None}


def _icon(icon: Icon) -> JsonObject:
    stated = (("src", icon.src), ("mimeType", icon.mime_type), ("sizes", icon.sizes), ("theme", icon.theme))
    return {key: value for key, value in stated if value is not None}
