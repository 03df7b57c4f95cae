"""Looks up the catalog of a dialect by name (readable_catalog, writable_catalog) or by a document (detect_dialect)."""

from collections.abc import Sequence

from toolhall.dialects.base import Catalog, WriteOnlyCatalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.hub import catalog as hub
from toolhall.dialects.machine import catalog as machine
from toolhall.dialects.mcp.catalog import McpCatalog
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28, REVISIONS
from toolhall.dialects.model_apis import anthropic, function, gemini, openai
from toolhall.dialects.openapi import catalog as openapi
from toolhall.dialects.oxp import catalog as oxp
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
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
WRITE_ONLY_CATALOGS: dict[str, WriteOnlyCatalog] = {
    "openapi": openapi,
    **openai.CATALOGS,
    "anthropic": anthropic,
    "gemini": gemini,
}
ALIASES = {"mcp": f"mcp@{REVISION_2026_07_28.name}"}  # bare `mcp` is the newest revision
READABLE_DIALECTS = (*ALIASES, *CATALOGS)
DIALECTS = (*READABLE_DIALECTS, *WRITE_ONLY_CATALOGS)


def readable_catalog(name: str) -> Catalog:
    """The dialect that documents are read in; Malformed names those there are."""
    found = CATALOGS.get(ALIASES.get(name, name))
    if found is None:
        raise Malformed(f"definitions cannot be read in {name[:32]!r}; use one of {', '.join(READABLE_DIALECTS)}")
    return found


def writable_catalog(name: str) -> Catalog | WriteOnlyCatalog:
    """The dialect that documents are written in; Malformed names those there are."""
    found = WRITE_ONLY_CATALOGS.get(name) or CATALOGS.get(ALIASES.get(name, name))
    if found is None:
        raise Malformed(f"there is no dialect {name[:32]!r}; use one of {', '.join(DIALECTS)}")
    return found


def write_documents(tools: Sequence[Tool], catalog: Catalog) -> list[JsonObject]:
    """The documents of these tools: one for each toolkit where the dialect groups them, else one for each tool."""
    if not catalog.grouped:
        return [lossless.write((tool,), catalog) for tool in tools]
    return [lossless.write(group, catalog) for group in group_by_toolkit(tools)]


def group_by_toolkit(tools: Sequence[Tool]) -> list[tuple[Tool, ...]]:
    """The tools grouped as they ship: by toolkit and version, in the order they come."""
    grouped: dict[tuple[str, str], list[Tool]] = {}
    for tool in tools:
        grouped.setdefault((tool.id.toolkit, tool.id.version), []).append(tool)
    return [tuple(group) for group in grouped.values()]


def detect_dialect(document: Json) -> Catalog:
    """The catalog that a document looks like one of; BadDocument if it looks like none."""
    name = _guess_name(document) if isinstance(document, dict) else None
    if name is None:
        fix = f"this looks like no known definition; say what it is: --from {', '.join(READABLE_DIALECTS)}"
        raise BadDocument([Finding("", "convert/unknown", fix)])
    return readable_catalog(name)


def _guess_name(document: JsonObject) -> str | None:
    if "inputSchema" in document:
        return "mcp"
    if "input_schema" in document or "output_schema" in document:
        return "oxp"
    if isinstance(document.get("capabilities"), list):
        return "machine"
    if isinstance(document.get("tool"), dict) or isinstance(document.get("capabilities"), dict):
        return "hub"
    return "function" if isinstance(document.get("name"), str) or "function" in document else None
