"""Definitions from one dialect to another: what the target cannot say is listed, and carried along.

A document is read, written in the target dialect, read back from there and written in the source dialect again. What
differs from the original is what the target could not say: the list of losses is complete by construction. The same
differences, laid into the target document, are the carrier; applied to what the way back gives, they restore the
original exactly. A change is applied only where it finds what it was made for, so an edited field wins.
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.carrier import VERSION, Carrier, load, placed, unladen, unload
from toolhall.dialects.catalog import Catalog, Loss, Written
from toolhall.dialects.findings import sound
from toolhall.dialects.hub import catalog as hub
from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import Change, apply, changes, pointer
from toolhall.model.tool import Tool

# A document without its tools, and its tools.
Parts = tuple[JsonObject, list[Json]]


class Piece(msgspec.Struct, frozen=True):
    """Some or all tools of an original document, restored from a carrier."""

    source: str
    group: JsonObject
    items: list[JsonObject]
    at: int
    of: int

    def follows(self, other: "Piece") -> bool:
        """Whether this is the next part of the same original."""
        return self.at == other.at + len(other.items) and (self.source, self.of, self.group) == (
            other.source,
            other.of,
            other.group,
        )


def translate(document: JsonObject, source: Catalog, target: Catalog) -> Written:
    """The document in the target dialect, with carriers, and every loss."""
    tools = source.read(sound(document))
    group, items = split(document, source)
    bare = is_bare(document, source)
    place = "".join(f"/{key}" for key in source.place(document))
    documents: list[JsonObject] = []
    losses: list[Loss] = []
    size = len(tools) if target.grouped else 1
    for at in range(0, len(tools), size):
        written = target.write(tools[at : at + size])
        # What somebody laid where the carrier will lie must come back too.
        back = target.read(unladen(written, target.carrier))
        of_group, of_items = _differences(say(back, source, bare=bare), (group, items[at : at + size]))
        kept = {tool.id.tool: changed for tool, changed in zip(back, of_items, strict=True) if changed}
        documents.append(load(written, target, Carrier(VERSION, source.name, of_group, kept, at, len(items), bare)))
        losses += _losses(of_group, group, "", target) if at == 0 else ()
        for index, changed in enumerate(of_items, at):
            losses += _losses(changed, items[index], f"{place}/{index}" if place else "", target)
    return Written(documents, losses)


def restore(document: JsonObject, catalog: Catalog, catalogs: dict[str, Catalog]) -> Piece | None:
    """The original that a document was made from, if it carries one."""
    bare, carrier = unload(document, catalog)
    if carrier is None or carrier.source not in catalogs:
        return None
    source = catalogs[carrier.source]
    tools = catalog.read(sound(bare))
    group, items = say(tools, source, bare=carrier.bare)
    restored = [apply(changed, item) for changed, item in zip(_kept(carrier, tools, catalog), items, strict=True)]
    group = apply(carrier.group, group)
    return Piece(source.name, group, restored, carrier.at, carrier.of) if isinstance(group, dict) else None


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


def _differences(back: Parts, original: Parts) -> tuple[list[Change], list[list[Change]]]:
    """What the way back has wrong: of the whole, and of each tool."""
    of_items = [changes(before, after) for before, after in zip(back[1], original[1], strict=True)]
    return changes(back[0], original[0]), of_items


def _kept(carrier: Carrier, tools: tuple[Tool, ...], catalog: Catalog) -> Sequence[list[Change]]:
    """What was kept of each tool: found by name, because somebody may have added, removed or moved one."""
    if len(tools) == 1 and (carrier.of == 1 or not catalog.grouped):  # the only one is the same by any name
        return [[change for changed in carrier.items.values() for change in changed]]
    return [carrier.items.get(tool.id.tool, []) for tool in tools]


def _losses(changed: Sequence[Change], item: Json, prefix: str, target: Catalog) -> Iterator[Loss]:
    for change in changed:
        if change.value is not msgspec.UNSET:  # else the way back says more than the original did: nothing is lost
            how = "has no place for this" if change.was is None else "says this differently"
            yield Loss(prefix + pointer(change.path, item), f"{target.name} {how}; it is kept in the carrier")
