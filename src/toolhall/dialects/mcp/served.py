"""Definitions as clients are shown them: as their own documents said it, where those were MCP's."""

import msgspec

from toolhall.dialects import exact
from toolhall.dialects.mcp.catalog import McpCatalog
from toolhall.dialects.mcp.revisions import REVISIONS, Revision
from toolhall.model.json import Json, JsonObject, levels
from toolhall.model.patch import Change
from toolhall.model.tool import Tool

_CATALOGS = {name: McpCatalog(revision) for name, revision in REVISIONS.items()}
# What a tool is called by, what its values are checked with and how it runs is for the hall to say, which answers.
_HALLS = frozenset({"name", "inputSchema", "outputSchema", "execution"})
# Clients read these as types of their own, and for a null there some refuse the whole list; it says nothing anyway.
_TYPED = frozenset({"title", "description", "annotations", "icons", "_meta"})


def served(tool: Tool, revision: Revision) -> JsonObject:
    """The definition of one tool in a list."""
    remainder = tool.remainder
    if remainder is not None:
        item = tuple(change for change in remainder.item if _is_for_clients(change))
        tool = msgspec.structs.replace(tool, remainder=msgspec.structs.replace(remainder, item=item))
    return exact.write((tool,), _CATALOGS[revision.name])


def _is_for_clients(change: Change) -> bool:
    """Whether a list may say this as the document did; never a document that is to be replaced whole."""
    member = change.path[1:].partition("/")[0]
    return bool(change.path) and member not in _HALLS and not (member in _TYPED and _holds_null(change.value))


def _holds_null(value: Json) -> bool:
    parts = (part.values() if isinstance(part, dict) else part for level in levels(value) for part in level)
    return value is None or any(each is None for part in parts for each in part)
