"""What a lock holds of a tool, from its MCP definition: the one form in which every server shows its tools."""

from collections.abc import Callable

import msgspec

from toolhall.contracts.digest import Digests, digests
from toolhall.dialects.findings import sound
from toolhall.dialects.mcp.catalog import write_tool
from toolhall.dialects.mcp.definition import derived_id, read_tool
from toolhall.dialects.mcp.revisions import MODERN
from toolhall.model.json import Json
from toolhall.model.patch import changes
from toolhall.model.tool import Remainder, Tool


def pinned(document: Json, digest: Callable[[Tool], Digests] = digests) -> tuple[str, Digests]:
    """The id of a tool (its name where the server states none) and its digests; BadDocument if it cannot be read."""
    tool = read_tool(sound(document))
    return _key(tool), digest(msgspec.structs.replace(tool, remainder=_rest(tool, document)))


def _key(tool: Tool) -> str:
    return tool.name if tool.id == derived_id(tool.name) else str(tool.id)


def _rest(tool: Tool, document: Json) -> Remainder:
    """Members that we do not know may mean something to others; null is how some servers leave one out."""
    found = changes(write_tool(tool, MODERN), document)
    return Remainder("mcp", item=tuple(change for change in found if change.value is not None))
