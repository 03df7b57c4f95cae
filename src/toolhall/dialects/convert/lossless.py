"""Reads and writes documents without loss within one dialect; splits documents into toolkit and tools.

The model has no member for everything that a dialect can say. `read` therefore reads a document, writes it again and
keeps the differences from the original in the tool's Remainder. `write` applies them again; a change is applied only
where its old value still matches, so an edited tool is written with its current values. `split_document` separates a
document into its toolkit and its tools, `join_document` reverses it.
"""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.base import Catalog
from toolhall.dialects.convert.loss_reasons import document_pointer
from toolhall.dialects.findings import BadDocument, Finding, checked_json
from toolhall.dialects.hub import catalog as hub
from toolhall.model.json import Json, JsonObject, apply_changes, diff_json
from toolhall.model.tool import Remainder, Tool
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator

DocumentParts = tuple[JsonObject, list[Json]]  # a document without its tools, and its tools


def read(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """Read the tools of a document, each with its Remainder; raises BadDocument with every finding."""
    tools = catalog.read(checked_json(document))
    findings = [each for index, tool in enumerate(tools) for each in _schema_findings(tool, document, catalog, index)]
    if findings:
        raise BadDocument(findings)
    bare = is_unwrapped(document, catalog)
    group, items = split_document(document, catalog)
    written_group, written_items = write_parts(tools, catalog, unwrapped=bare)
    group_changes = tuple(diff_json(written_group, group))
    item_changes = [tuple(diff_json(before, after)) for before, after in zip(written_items, items, strict=True)]
    return tuple(
        msgspec.structs.replace(tool, remainder=Remainder(_dialect_family(catalog), group_changes, changes, bare))
        if group_changes or changes or bare
        else tool
        for tool, changes in zip(tools, item_changes, strict=True)
    )


def write(tools: tuple[Tool, ...], catalog: Catalog) -> JsonObject:
    """Write one document like `catalog.write`, and restore what the tools' remainders of this dialect kept."""
    family = _dialect_family(catalog)
    remainders = [tool.remainder if tool.remainder and tool.remainder.dialect == family else None for tool in tools]
    if not any(remainders):
        return catalog.write(tools)
    first = remainders[0] or Remainder(family)
    group, items = write_parts(tools, catalog, unwrapped=first.bare)
    items = [
        apply_changes(remainder.item, item) if remainder else item
        for remainder, item in zip(remainders, items, strict=True)
    ]
    (document,) = join_document(apply_changes(first.group, group), items, catalog)
    return document


def without_member(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    """The document without the member at this path; parents that become empty are removed too."""
    key, *rest = path
    if key not in document:
        return document
    inner = document[key]
    if rest and (not isinstance(inner, dict) or (inner and rest[0] not in inner)):
        return document
    left = without_member(inner, tuple(rest)) if rest else None
    if left:
        return document if left is inner else {**document, key: left}
    return {name: value for name, value in document.items() if name != key}


def with_member(document: JsonObject, path: tuple[str, ...], value: Json) -> JsonObject:
    """The document with a value at this path; missing parents are created."""
    key, *rest = path
    if rest:
        inner = document.get(key)
        value = with_member(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**document, key: value}


def split_document(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, list[JsonObject]]:
    """The document without its tools, and its tools."""
    path = catalog.tools_path(document)
    if not path:
        return {}, [document]
    tools: Json = document
    for key in path:
        tools = tools[key]
    return _without_tools(document, path), list(tools)


def join_document(group: JsonObject, items: list[JsonObject], catalog: Catalog) -> list[JsonObject]:
    """Reverse split_document."""
    path = catalog.tools_path(group)
    return [with_member(group, path, items)] if path else items


def write_parts(tools: tuple[Tool, ...], catalog: Catalog, *, unwrapped: bool) -> DocumentParts:
    """Write tools and split the document; `unwrapped` leaves out the hub's outer `tool` member."""
    if not catalog.grouped:
        return {}, [catalog.write((tool,)) for tool in tools]
    document = catalog.write(tools)
    path = catalog.tools_path(document)
    return split_document(document[path[0]] if unwrapped and len(path) > 1 else document, catalog)


def is_unwrapped(document: JsonObject, catalog: Catalog) -> bool:
    """True for a hub declaration without its outer `tool` member."""
    return catalog.tools_path(document) == hub.UNWRAPPED_TOOLS_PATH


def _without_tools(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    key, *rest = path
    if not rest:
        return {name: value for name, value in document.items() if name != key}
    return {**document, key: _without_tools(document[key], tuple(rest))}


def _schema_findings(tool: Tool, document: JsonObject, catalog: Catalog, index: int) -> Iterator[Finding]:
    """Problems of the tool's schemas, located in the document."""
    for pointer, schema in (("/inputSchema", tool.input), ("/outputSchema", tool.output.schema)):
        try:
            Validator({} if schema is None else schema)
        except BadSchema as bad:
            for problem in bad.problems:
                path = document_pointer(pointer + problem.path, document, catalog, index)
                yield Finding(path, f"{_dialect_family(catalog)}/schema", problem.reason)


def _dialect_family(catalog: Catalog) -> str:
    """The dialect's name without its revision: a remainder is valid for all revisions of a dialect."""
    return catalog.name.partition("@")[0]
