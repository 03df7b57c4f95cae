"""Looks up the catalog of a dialect by name (readable_catalog, writable_catalog) or by a document (detect_dialect)."""

from collections.abc import Sequence

from toolhall.dialects.base import Catalog, WriteOnlyCatalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.hub import catalog as hub
from toolhall.dialects.machine import catalog as machine
from toolhall.dialects.mcp.definitions import McpCatalog
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
# Dialects that are only written, for model APIs and REST clients.
WRITE_ONLY_CATALOGS: dict[str, WriteOnlyCatalog] = {
    "openapi": openapi,
    **openai.CATALOGS,
    "anthropic": anthropic,
    "gemini": gemini,
}
ALIASES = {"mcp": f"mcp@{REVISION_2026_07_28.name}"}  # bare `mcp` is the newest revision
_FUNCTION_MEMBERS = frozenset({"function", "parameters", "input_schema", "output_schema", "capabilities", "tool"})
_TYPED_ARGUMENT_MEMBERS = frozenset({"type", "desc"})
READABLE_DIALECTS = (*ALIASES, *CATALOGS)
DIALECTS = (*READABLE_DIALECTS, *WRITE_ONLY_CATALOGS)


def readable_catalog(name: str) -> Catalog:
    """The catalog that reads a dialect; raises Malformed that lists the readable dialects."""
    catalog = CATALOGS.get(ALIASES.get(name, name))
    if catalog is None:
        raise Malformed(f"definitions cannot be read in {name[:32]!r}; use one of {', '.join(READABLE_DIALECTS)}")
    return catalog


def writable_catalog(name: str) -> Catalog | WriteOnlyCatalog:
    """The catalog that writes a dialect; raises Malformed that lists all dialects."""
    catalog = WRITE_ONLY_CATALOGS.get(name) or CATALOGS.get(ALIASES.get(name, name))
    if catalog is None:
        raise Malformed(f"there is no dialect {name[:32]!r}; use one of {', '.join(DIALECTS)}")
    return catalog


def write_documents(tools: Sequence[Tool], catalog: Catalog) -> list[JsonObject]:
    """Write the tools without loss: one document per toolkit if the dialect is grouped, else one per tool."""
    if not catalog.grouped:
        return [lossless.write((tool,), catalog) for tool in tools]
    return [lossless.write(group, catalog) for group in group_by_toolkit(tools)]


def group_by_toolkit(tools: Sequence[Tool]) -> list[tuple[Tool, ...]]:
    """Group tools by toolkit and version, in order of first appearance."""
    groups: dict[tuple[str, str], list[Tool]] = {}
    for tool in tools:
        groups.setdefault((tool.id.toolkit, tool.id.version), []).append(tool)
    return [tuple(group) for group in groups.values()]


def detect_dialect(document: Json, listed_as: str = "") -> Catalog:
    """Guess the dialect of a document by its members; raises BadDocument if it looks like no known definition.

    `listed_as` is the member that held the list with the document: a prompt may look like a function.
    """
    name = _guess_name(document) if isinstance(document, dict) else None
    if name == "function" and listed_as == "prompts" and "parameters" not in document:
        name = "mcp"
    if name is None:
        fix = f"this looks like no known definition; say what it is: --from {', '.join(READABLE_DIALECTS)}"
        raise BadDocument([Finding("", "convert/unknown", fix)])
    return readable_catalog(name)


def _guess_name(document: JsonObject) -> str | None:
    if "inputSchema" in document or _is_resource_or_prompt(document):
        return "mcp"
    if "input_schema" in document or "output_schema" in document:
        return "oxp"
    if isinstance(document.get("capabilities"), list):
        return "machine"
    if isinstance(document.get("tool"), dict) or isinstance(document.get("capabilities"), dict):
        return "hub"
    return "function" if isinstance(document.get("name"), str) or "function" in document else None


def _is_resource_or_prompt(document: JsonObject) -> bool:
    """True for an MCP resource, and for a prompt that has arguments; those of functions have types."""
    if not isinstance(document.get("name"), str) or not _FUNCTION_MEMBERS.isdisjoint(document):
        return False
    if isinstance(document.get("uri"), str) or isinstance(document.get("uriTemplate"), str):
        return True
    arguments = document.get("arguments")
    return (
        isinstance(arguments, list)
        and bool(arguments)
        and all(isinstance(each, dict) and _TYPED_ARGUMENT_MEMBERS.isdisjoint(each) for each in arguments)
    )
