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


def read(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a document, as far as they may be served one day; BadDocument with every finding."""
    tools = exact.read(document, catalog)
    findings = [each for number, tool in enumerate(tools) for each in _bad_headers(tool, document, catalog, number)]
    if findings:
        raise BadDocument(findings)
    if not all(is_safe(icon) for tool in tools for icon in tool.icons):
        # Read again without them: what is kept beside the model would bring them back.
        tools = exact.read(_without_unsafe_icons(document, tools), catalog)
    # Whether a tool will go is for who runs the hall to say.
    return tuple(
        msgspec.structs.replace(tool, foreign=True, deprecation=None, header_parameters=_headers(tool))
        for tool in tools
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
