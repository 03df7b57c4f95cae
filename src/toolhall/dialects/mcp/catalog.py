"""Tool definitions as MCP documents."""

import msgspec

from toolhall.dialects.catalog import DEPRECATED_KEY
from toolhall.dialects.mcp.definition import (
    HINTS,
    ID_KEY,
    LEVEL_KEY,
    NAME_KEY,
    TAGS_KEY,
    derived_id,
    id_for,
    read_tool,
    stated_id,
)
from toolhall.dialects.mcp.output import shown_output
from toolhall.dialects.mcp.revisions import Revision
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Annotations, Icon, Tool


class McpCatalog:
    """MCP tool definitions, as one revision spells them."""

    grouped = False
    carrier: tuple[str, ...] = ("_meta", "dev.toolhall/carrier")

    def __init__(self, revision: Revision) -> None:
        self.name = f"mcp@{revision.name}"
        self._revision = revision

    def place(self, document: JsonObject) -> tuple[str, ...]:  # noqa: ARG002 - the same in every document
        """A definition is one tool itself."""
        return ()

    def read(self, document: Json) -> tuple[Tool, ...]:
        """The one tool of a document; BadDocument with every finding."""
        return (read_tool(document),)

    def write(self, tools: tuple[Tool, ...]) -> JsonObject:
        """One definition."""
        (tool,) = tools
        return write_tool(tool, self._revision)


def write_tool(tool: Tool, revision: Revision) -> JsonObject:
    """The definition of one tool, as this revision spells it."""
    document: JsonObject = {"name": tool.name}
    if tool.title is not None:
        document["title"] = tool.title
    if tool.description is not None:
        document["description"] = tool.description
    document["inputSchema"] = tool.input
    shown = shown_output(tool, revision)
    if (published := shown.published) is not None:
        document["outputSchema"] = published
    if tool.annotations is not None:
        document["annotations"] = _annotations(tool.annotations)
    if tool.icons and revision.icons:
        document["icons"] = [_icon(icon) for icon in tool.icons]
    meta = dict(tool.meta or {})
    # An id that would be read as another one is better not stated.
    if tool.id != derived_id(tool.name) and stated_id(stated := str(tool.id)) == tool.id:
        meta[ID_KEY] = stated
        if id_for(tool.id, tool.name) != tool.id:
            meta[NAME_KEY] = tool.name
    if tool.level is not None:
        meta[LEVEL_KEY] = tool.level
    if tool.tags:
        meta[TAGS_KEY] = list(tool.tags)
    if tool.deprecation is not None:
        meta[DEPRECATED_KEY] = msgspec.to_builtins(tool.deprecation)
    if meta or tool.meta is not None:
        document["_meta"] = meta
    return document


def _annotations(annotations: Annotations) -> JsonObject:
    stated = ((hint, getattr(annotations, field)) for field, hint in HINTS.items())
    return {hint: value for hint, value in stated if value is not None}


def _icon(icon: Icon) -> JsonObject:
    sizes = None if icon.sizes is None else list(icon.sizes)
    stated = (("src", icon.src), ("mimeType", icon.mime_type), ("sizes", sizes), ("theme", icon.theme))
    return {key: value for key, value in stated if value is not None}
