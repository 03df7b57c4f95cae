"""Every dialect by its name, for whoever wants documents of a dialect named at run time."""

from collections.abc import Sequence

from toolhall.dialects import exact
from toolhall.dialects.anthropic import catalog as anthropic
from toolhall.dialects.catalog import Catalog, Writer
from toolhall.dialects.function import catalog as function
from toolhall.dialects.gemini import catalog as gemini
from toolhall.dialects.hub import catalog as hub
from toolhall.dialects.machine import catalog as machine
from toolhall.dialects.mcp.catalog import McpCatalog
from toolhall.dialects.mcp.revisions import MODERN, REVISIONS
from toolhall.dialects.openai import catalog as openai
from toolhall.dialects.openapi import catalog as openapi
from toolhall.dialects.oxp import catalog as oxp
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool

# Dialects whose documents are read and written.
CATALOGS: dict[str, Catalog] = {
    **{f"mcp@{name}": McpCatalog(revision) for name, revision in REVISIONS.items()},
    "machine": machine,
    "hub": hub,
    "oxp": oxp,
    "function": function,
}
# Dialects that are only written: what model APIs and REST clients read.
WRITERS: dict[str, Writer] = {"openapi": openapi, **openai.CATALOGS, "anthropic": anthropic, "gemini": gemini}
ALIASES = {"mcp": f"mcp@{MODERN.name}"}  # bare `mcp` is the newest revision
READABLE = (*ALIASES, *CATALOGS)
DIALECTS = (*READABLE, *WRITERS)


def readable(name: str) -> Catalog:
    """The dialect that documents are read in; Malformed names those there are."""
    found = CATALOGS.get(ALIASES.get(name, name))
    if found is None:
        raise Malformed(f"definitions cannot be read in {name[:32]!r}; use one of {', '.join(READABLE)}")
    return found


def writable(name: str) -> Catalog | Writer:
    """The dialect that documents are written in; Malformed names those there are."""
    found = WRITERS.get(name) or CATALOGS.get(ALIASES.get(name, name))
    if found is None:
        raise Malformed(f"there is no dialect {name[:32]!r}; use one of {', '.join(DIALECTS)}")
    return found


def documents_of(tools: Sequence[Tool], catalog: Catalog) -> list[JsonObject]:
    """The documents of these tools: one for each toolkit where the dialect groups them, else one for each tool."""
    if not catalog.grouped:
        return [exact.write((tool,), catalog) for tool in tools]
    return [exact.write(group, catalog) for group in toolkits(tools)]


def toolkits(tools: Sequence[Tool]) -> list[tuple[Tool, ...]]:
    """The tools grouped as they ship: by toolkit and version, in the order they come."""
    grouped: dict[tuple[str, str], list[Tool]] = {}
    for tool in tools:
        grouped.setdefault((tool.id.toolkit, tool.id.version), []).append(tool)
    return [tuple(group) for group in grouped.values()]
