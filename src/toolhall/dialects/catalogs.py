"""Every catalog by its dialect's name, for whoever wants documents of a dialect named at run time."""

from collections.abc import Sequence

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.function import catalog as function
from toolhall.dialects.hub import catalog as hub
from toolhall.dialects.machine import catalog as machine
from toolhall.dialects.mcp.catalog import McpCatalog
from toolhall.dialects.mcp.revisions import MODERN, REVISIONS
from toolhall.dialects.oxp import catalog as oxp
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool

# Dialects whose documents are read and written; bare `mcp` is the newest revision.
CATALOGS: dict[str, Catalog] = {
    **{f"mcp@{name}": McpCatalog(revision) for name, revision in REVISIONS.items()},
    "machine": machine,
    "hub": hub,
    "oxp": oxp,
    "function": function,
}
ALIASES = {"mcp": f"mcp@{MODERN.name}"}


def catalog_named(name: str) -> Catalog | None:
    """The catalog of a dialect, by its name or its alias."""
    return CATALOGS.get(ALIASES.get(name, name))


def documents_of(tools: Sequence[Tool], catalog: Catalog) -> list[JsonObject]:
    """The documents of these tools: one for each toolkit where the dialect groups them, else one for each tool."""
    if not catalog.grouped:
        return [catalog.write((tool,)) for tool in tools]
    return [catalog.write(group) for group in toolkits(tools)]


def toolkits(tools: Sequence[Tool]) -> list[tuple[Tool, ...]]:
    """The tools grouped as they ship: by toolkit and version, in the order they come."""
    grouped: dict[tuple[str, str], list[Tool]] = {}
    for tool in tools:
        grouped.setdefault((tool.id.toolkit, tool.id.version), []).append(tool)
    return [tuple(group) for group in grouped.values()]
