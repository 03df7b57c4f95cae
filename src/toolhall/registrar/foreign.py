"""Reads definitions from outside: without icons that could do harm, and none that breaks the rules of headers."""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects import exact
from toolhall.dialects.catalog import Catalog
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.lint.icons import is_safe
from toolhall.dialects.pointers import located
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import HeaderParameter, Tool
from toolhall.schema.bounds import BadSchema
from toolhall.schema.headers import has_headers, header_parameters

RULE = "header/refused"
_OURS = "/_meta/dev.toolhall~1"


def read(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a document, as far as they may be served one day; BadDocument with every finding."""
    tools = exact.read(document, catalog)
    findings = [each for number, tool in enumerate(tools) for each in _bad_headers(tool, document, catalog, number)]
    if findings:
        raise BadDocument(findings)
    if not all(is_safe(icon) for tool in tools for icon in tool.icons):
        # Read again without them: what is kept beside the model would bring them back.
        tools = exact.read(_without_unsafe_icons(document, tools), catalog)
    return tuple(_foreign(tool) for tool in tools)


def _foreign(tool: Tool) -> Tool:
    """Marked as what it is; what only the hall says (its id, whether it will go) is not kept as the document had it."""
    kept = tool.remainder
    if kept is not None:
        item = tuple(change for change in kept.item if not change.path.startswith(_OURS) and change.path != "/_meta")
        kept = msgspec.structs.replace(kept, item=item)
    return msgspec.structs.replace(
        tool, foreign=True, deprecation=None, header_parameters=_headers(tool), remainder=kept
    )


def _headers(tool: Tool) -> tuple[HeaderParameter, ...]:
    return header_parameters(tool.input) if has_headers(tool.input) else ()


def _bad_headers(tool: Tool, document: JsonObject, catalog: Catalog, number: int) -> Iterator[Finding]:
    try:
        _headers(tool)
    except BadSchema as bad:
        for problem in bad.problems:
            yield Finding(located(f"/inputSchema{problem.path}", document, catalog, number), RULE, problem.reason)


def _without_unsafe_icons(document: JsonObject, tools: Sequence[Tool]) -> JsonObject:
    """A definition of MCP, the only dialect that has icons: it is one tool."""
    (tool,) = tools
    safe = [stated for stated, icon in zip(document["icons"], tool.icons, strict=True) if is_safe(icon)]
    rest = {key: value for key, value in document.items() if key != "icons"}
    return {**rest, "icons": safe} if safe else rest


def lost_icons(document: bytes, tools: Sequence[Tool]) -> int:
    """How many icons of a definition are not served, because they could do harm."""
    stated = msgspec.json.decode(document) if len(tools) == 1 else None
    icons = stated.get("icons") if isinstance(stated, dict) else None
    return len(icons) - len(tools[0].icons) if isinstance(icons, list) else 0
