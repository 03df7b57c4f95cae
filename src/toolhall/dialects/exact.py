"""Exact reading: tools keep what their own dialect said beyond the model, and it is written in that dialect again.

A document is read and written again; what differs from the original is the remainder. It is applied only where it
finds what it was made for, so a tool that was changed since says what it says now.
"""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.convert import is_bare, join, say, split
from toolhall.dialects.findings import BadDocument, Finding, sound
from toolhall.dialects.pointers import located
from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import apply, changes
from toolhall.model.tool import Remainder, Tool
from toolhall.schema.bounds import BadSchema
from toolhall.schema.validator import Validator


def read(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a document, with what the model has no place for; BadDocument with every finding."""
    tools = catalog.read(sound(document))
    findings = [each for number, tool in enumerate(tools) for each in _bad_schemas(tool, document, catalog, number)]
    if findings:
        raise BadDocument(findings)
    bare = is_bare(document, catalog)
    group, items = split(document, catalog)
    said, said_items = say(tools, catalog, bare=bare)
    of_group = tuple(changes(said, group))
    of_items = [tuple(changes(before, after)) for before, after in zip(said_items, items, strict=True)]
    return tuple(
        msgspec.structs.replace(tool, remainder=Remainder(_family(catalog), of_group, of_item, bare))
        if of_group or of_item or bare
        else tool
        for tool, of_item in zip(tools, of_items, strict=True)
    )


def write(tools: tuple[Tool, ...], catalog: Catalog) -> JsonObject:
    """One document, as `catalog.write` gives it, with what was kept when the tools were read in this dialect."""
    family = _family(catalog)
    kept = [tool.remainder if tool.remainder and tool.remainder.dialect == family else None for tool in tools]
    if not any(kept):
        return catalog.write(tools)
    first = kept[0] or Remainder(family)
    group, items = say(tools, catalog, bare=first.bare)
    items = [apply(each.item, item) if each else item for each, item in zip(kept, items, strict=True)]
    (document,) = join(apply(first.group, group), items, catalog)
    return document


def _family(catalog: Catalog) -> str:
    """The dialect; its revisions understand what one of them kept, where they say it alike."""
    return catalog.name.partition("@")[0]


def _bad_schemas(tool: Tool, document: JsonObject, catalog: Catalog, number: int) -> Iterator[Finding]:
    """Why the schemas of a tool cannot be used, by where they stand in the document."""
    for place, schema in (("/inputSchema", tool.input), ("/outputSchema", tool.output.schema)):
        try:
            Validator({} if schema is None else schema)
        except BadSchema as bad:
            for problem in bad.problems:
                path = located(place + problem.path, document, catalog, number)
                yield Finding(path, f"{_family(catalog)}/schema", problem.reason)
