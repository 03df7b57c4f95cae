"""Definitions from one dialect to another: what the target cannot say is listed, and carried along.

A document is read, written in the target dialect, read back from there and written in the source dialect again. What
differs from the original is what the target could not say: the list of losses is complete by construction. The same
differences, laid into the target document, are the carrier; applied to what the way back gives, they restore the
original exactly. A change is applied only where it finds what it was made for, so an edited field wins.
"""

import copy

import msgspec

from toolhall.dialects.carrier import Carrier, load, unload
from toolhall.dialects.catalog import Catalog, Loss, Written
from toolhall.dialects.patch import Change, apply, changes
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool


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
    tools = source.read(document)
    group, items = split(document, source)
    parts = [tools] if target.grouped else [(tool,) for tool in tools]
    documents: list[JsonObject] = []
    losses: list[Loss] = []
    at = 0
    for part in parts:
        written = target.write(part)
        carrier = _carrier(written, source, target, (group, items[at : at + len(part)]))
        carrier = msgspec.structs.replace(carrier, at=at, of=len(items))
        losses.extend(_losses(carrier, source.place(document), target))
        load(written, target, carrier)
        documents.append(written)
        at += len(part)
    return Written(documents, losses)


def restore(document: JsonObject, catalog: Catalog, catalogs: dict[str, Catalog]) -> Piece | None:
    """The original that a document was made from, if it carries one."""
    bare, carrier = unload(document, catalog)
    if carrier is None or carrier.source not in catalogs:
        return None
    source = catalogs[carrier.source]
    group, items = _way_back(bare, source, catalog)
    changed = [*carrier.items, *([] for _ in items)]  # an item that somebody added has nothing to restore
    restored = [apply(of_item, item) for of_item, item in zip(changed, items, strict=False)]
    return Piece(source.name, apply(carrier.group, group), restored, carrier.at, carrier.of)


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
    if not place:
        return items
    document = copy.deepcopy(group)
    holder = document
    for key in place[:-1]:
        holder = holder.setdefault(key, {})
    holder[place[-1]] = items
    return [document]


def _without(document: JsonObject, place: tuple[str, ...]) -> JsonObject:
    key, *rest = place
    if not rest:
        return {name: value for name, value in document.items() if name != key}
    return {name: _without(value, tuple(rest)) if name == key else value for name, value in document.items()}


def _way_back(document: JsonObject, source: Catalog, target: Catalog) -> tuple[JsonObject, list[JsonObject]]:
    """What the source dialect would say of a target document."""
    tools: tuple[Tool, ...] = target.read(document)
    return split(copy.deepcopy(source.write(tools)), source)


def _carrier(
    written: JsonObject, source: Catalog, target: Catalog, original: tuple[JsonObject, list[JsonObject]]
) -> Carrier:
    group, items = _way_back(written, source, target)
    of_items = [list(changes(back, item)) for back, item in zip(items, original[1], strict=True)]
    return Carrier(source.name, list(changes(group, original[0])), of_items)


def _losses(carrier: Carrier, place: tuple[str, ...], target: Catalog) -> list[Loss]:
    found = [_loss(change, "", target) for change in carrier.group if carrier.at == 0]
    for index, changed in enumerate(carrier.items, carrier.at):
        prefix = "".join(f"/{key}" for key in (*place, index)) if place else ""
        found.extend(_loss(change, prefix, target) for change in changed)
    return [loss for loss in found if loss]


def _loss(change: Change, prefix: str, target: Catalog) -> Loss | None:
    if change.value is msgspec.UNSET:
        return None  # the way back says more than the original did: nothing of it is lost
    how = "has no place for this" if change.was is None else "says this differently"
    return Loss(prefix + change.path, f"{target.name} {how}; it is kept in the carrier")
