"""Reads and writes documents without loss: tools keep the remainder, what their dialect said beyond the model.

`read` reads a document and writes it again; what differs from the original is the remainder. `write` applies it
only where it finds what it was made for, so a tool that was changed since says what it says now. `split_document`
and `join_document` take a document apart into its toolkit and its tools, and put it together again.
"""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.base import Catalog
from toolhall.dialects.convert.losses import document_pointer
from toolhall.dialects.findings import BadDocument, Finding, checked_json
from toolhall.dialects.hub import catalog as hub
from toolhall.model.json import Json, JsonObject
from toolhall.model.json_diff import apply_changes, diff_json
from toolhall.model.tool import Remainder, Tool
from toolhall.schema.cost import BadSchema
from toolhall.schema.validator import Validator


def without_member(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    """A document without what lies where a carrier may lie, and without a holder that is empty then."""
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
    """A document like this one with a value at a place, however deep; holders are made where there are none."""
    key, *rest = path
    if rest:
        inner = document.get(key)
        value = with_member(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**document, key: value}


# A document without its tools, and its tools.
DocumentParts = tuple[JsonObject, list[Json]]


def split_document(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, list[JsonObject]]:
    """A document without its tools, and its tools."""
    place = catalog.tools_path(document)
    if not place:
        return {}, [document]
    found: Json = document
    for key in place:
        found = found[key]
    return _without_tools(document, place), list(found)


def join_document(group: JsonObject, items: list[JsonObject], catalog: Catalog) -> list[JsonObject]:
    """The opposite of split."""
    place = catalog.tools_path(group)
    return [with_member(group, place, items)] if place else items


def write_parts(tools: tuple[Tool, ...], catalog: Catalog, *, unwrapped: bool) -> DocumentParts:
    """What a dialect says of tools, split; without the wrapper of its documents, if they may stand `bare`."""
    if not catalog.grouped:
        return {}, [catalog.write((tool,)) for tool in tools]
    document = catalog.write(tools)
    place = catalog.tools_path(document)
    return split_document(document[place[0]] if unwrapped and len(place) > 1 else document, catalog)


def is_unwrapped(document: JsonObject, catalog: Catalog) -> bool:
    """Whether a document that might have a wrapper stands without one."""
    return catalog.tools_path(document) == hub.UNWRAPPED_TOOLS_PATH


def _without_tools(document: JsonObject, path: tuple[str, ...]) -> JsonObject:
    key, *rest = path
    if not rest:
        return {name: value for name, value in document.items() if name != key}
    return {**document, key: _without_tools(document[key], tuple(rest))}


def read(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a document, with what the model has no place for; BadDocument with every finding."""
    tools = catalog.read(checked_json(document))
    findings = [each for number, tool in enumerate(tools) for each in _schema_findings(tool, document, catalog, number)]
    if findings:
        raise BadDocument(findings)
    bare = is_unwrapped(document, catalog)
    group, items = split_document(document, catalog)
    said, said_items = write_parts(tools, catalog, unwrapped=bare)
    of_group = tuple(diff_json(said, group))
    of_items = [tuple(diff_json(before, after)) for before, after in zip(said_items, items, strict=True)]
    return tuple(
        msgspec.structs.replace(tool, remainder=Remainder(_dialect_family(catalog), of_group, of_item, bare))
        if of_group or of_item or bare
        else tool
        for tool, of_item in zip(tools, of_items, strict=True)
    )


def write(tools: tuple[Tool, ...], catalog: Catalog) -> JsonObject:
    """One document, as `catalog.write` gives it, with what was kept when the tools were read in this dialect."""
    family = _dialect_family(catalog)
    kept = [tool.remainder if tool.remainder and tool.remainder.dialect == family else None for tool in tools]
    if not any(kept):
        return catalog.write(tools)
    first = kept[0] or Remainder(family)
    group, items = write_parts(tools, catalog, unwrapped=first.bare)
    items = [apply_changes(each.item, item) if each else item for each, item in zip(kept, items, strict=True)]
    (document,) = join_document(apply_changes(first.group, group), items, catalog)
    return document


def _dialect_family(catalog: Catalog) -> str:
    """The dialect; its revisions understand what one of them kept, where they say it alike."""
    return catalog.name.partition("@")[0]


def _schema_findings(tool: Tool, document: JsonObject, catalog: Catalog, number: int) -> Iterator[Finding]:
    """Why the schemas of a tool cannot be used, by where they stand in the document."""
    for place, schema in (("/inputSchema", tool.input), ("/outputSchema", tool.output.schema)):
        try:
            Validator({} if schema is None else schema)
        except BadSchema as bad:
            for problem in bad.problems:
                path = document_pointer(place + problem.path, document, catalog, number)
                yield Finding(path, f"{_dialect_family(catalog)}/schema", problem.reason)
