"""Definitions from one dialect to another: what the target cannot say is listed, and carried along.

A document is read, written in the target dialect, read back from there and written in the source dialect again. What
differs from the original is what the target could not say: the list of losses is complete by construction. The same
differences, laid into the target document, are the carrier; applied to what the way back gives, they restore the
original exactly. A change is applied only where it finds what it was made for, so an edited field wins.
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.carrier import VERSION, Carrier, load, placed, unladen
from toolhall.dialects.catalog import Catalog, Loss, Written
from toolhall.dialects.findings import sound
from toolhall.dialects.hub import catalog as hub
from toolhall.dialects.reasons import Reasons
from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import Change, changes, pointer
from toolhall.model.tool import Tool

# A document without its tools, and its tools.
Parts = tuple[JsonObject, list[Json]]


class Original(msgspec.Struct, frozen=True):
    """A document that was read, and its place in the input."""

    catalog: Catalog
    document: JsonObject
    tools: tuple[Tool, ...]
    index: int = 0


class Laden(msgspec.Struct, frozen=True):
    """A document with its carrier, and what that has to change: of the whole, and of each tool."""

    document: JsonObject
    of_group: list[Change]
    of_items: list[list[Change]]


def original(document: Json, catalog: Catalog, index: int = 0) -> Original:
    """What was read of a document; BadDocument with every finding."""
    return Original(catalog, document, catalog.read(sound(document)), index)


def translate(given: Original, target: Catalog) -> Written:
    """The document in the target dialect, with carriers, and every loss."""
    source, tools = given.catalog, given.tools
    group, items = split(given.document, source)
    place = "".join(f"/{key}" for key in source.place(given.document))
    blank = Carrier(VERSION, source.name, of=len(items), bare=is_bare(given.document, source))
    documents: list[JsonObject] = []
    losses: list[Loss] = []
    of_group: dict[Loss, None] = {}  # the parts may differ in what they say of the whole: an odd name hides its toolkit
    size = len(tools) if target.grouped else 1
    for at in range(0, len(tools), size):
        carrier = msgspec.structs.replace(blank, at=at)
        laden = _laden(tools[at : at + size], (group, items[at : at + size]), source, target, carrier)
        documents.append(laden.document)
        of_group |= dict.fromkeys(_losses(laden.of_group, group, "", Reasons(source.name, target.name)))
        for index, changed in enumerate(laden.of_items, at):
            reasons = Reasons(source.name, target.name, tools[index])
            losses += _losses(changed, items[index], f"{place}/{index}" if place else "", reasons)
    return Written(documents, [*of_group, *losses])


def gather(given: Sequence[Original], target: Catalog) -> tuple[JsonObject, list[list[Loss]]]:
    """One document of a toolkit for documents that are a tool of it each, and what is lost of each of them."""
    source = given[0].catalog
    tools = tuple(tool for each in given for tool in each.tools)
    items = [each.document for each in given]
    laden = _laden(tools, ({}, items), source, target, Carrier(VERSION, source.name, of=len(items)))
    lost = [
        list(_losses(changed, item, "", Reasons(source.name, target.name, tool)))
        for changed, item, tool in zip(laden.of_items, items, tools, strict=True)
    ]
    return laden.document, lost


def split(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, list[JsonObject]]:
    """A document without its tools, and its tools."""
    place = catalog.place(document)
    if not place:
        return {}, [document]
    found: Json = document
    for key in place:
        found = found[key]
    return _without(document, place), list(found)


def join(group: JsonObject, items: list[JsonObject], catalog: Catalog) -> list[JsonObject]:
    """The opposite of split."""
    place = catalog.place(group)
    return [placed(group, place, items)] if place else items


def say(tools: tuple[Tool, ...], catalog: Catalog, *, bare: bool) -> Parts:
    """What a dialect says of tools, split; without the wrapper of its documents, if they may stand `bare`."""
    if not catalog.grouped:
        return {}, [catalog.write((tool,)) for tool in tools]
    document = catalog.write(tools)
    place = catalog.place(document)
    return split(document[place[0]] if bare and len(place) > 1 else document, catalog)


def is_bare(document: JsonObject, catalog: Catalog) -> bool:
    """Whether a document that might have a wrapper stands without one."""
    return catalog.place(document) == hub.BARE_PLACE


def _without(document: JsonObject, place: tuple[str, ...]) -> JsonObject:
    key, *rest = place
    if not rest:
        return {name: value for name, value in document.items() if name != key}
    return {**document, key: _without(document[key], tuple(rest))}


def _laden(tools: tuple[Tool, ...], parts: Parts, source: Catalog, target: Catalog, blank: Carrier) -> Laden:
    """These tools in one document of the target, with what the way back has wrong in its carrier."""
    written = target.write(tools)
    # What somebody laid where the carrier will lie must come back too.
    back = target.read(unladen(written, target.carrier))
    said, said_items = say(back, source, bare=blank.bare)
    of_group = changes(said, parts[0])
    of_items = [changes(before, after) for before, after in zip(said_items, parts[1], strict=True)]
    kept = {tool.id.tool: changed for tool, changed in zip(back, of_items, strict=True) if changed}
    carrier = msgspec.structs.replace(blank, group=of_group, items=kept)
    return Laden(load(written, target, carrier), of_group, of_items)


def _losses(changed: Sequence[Change], item: Json, prefix: str, reasons: Reasons) -> Iterator[Loss]:
    for change in changed:
        if change.value is not msgspec.UNSET:  # else the way back says more than the original did: nothing is lost
            yield Loss(prefix + pointer(change.path, item), f"{reasons.of(change)}; it is kept in the carrier")
