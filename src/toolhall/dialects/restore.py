"""The originals that documents were made from, restored from their carriers; what was edited since wins."""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.carrier import Carrier, unload
from toolhall.dialects.catalog import Catalog, Loss
from toolhall.dialects.convert import join, say
from toolhall.dialects.findings import BadDocument, sound
from toolhall.model.json import JsonObject
from toolhall.model.names import renamed
from toolhall.model.patch import Change, apply, changes, pointer
from toolhall.model.tool import Tool


class Piece(msgspec.Struct, frozen=True):
    """Some or all tools of an original document, restored from a carrier."""

    source: str
    group: JsonObject
    items: list[JsonObject]
    at: int
    of: int
    losses: list[Loss] = []  # what was edited where the original has no place for it

    def originals(self, catalog: Catalog) -> list[JsonObject]:
        """The documents that this is the whole of, or a part."""
        return join(self.group, self.items, catalog)


def restore(document: JsonObject, catalog: Catalog, catalogs: dict[str, Catalog]) -> Piece | None:
    """The original that a document was made from, if it carries one."""
    bare, carrier = unload(document, catalog)
    if carrier is None or carrier.source not in catalogs:
        return None
    source = catalogs[carrier.source]
    tools = catalog.read(sound(bare))
    piece = _restored(tools, carrier, source, catalog)
    again = None if piece is None else _again(piece, source, catalog)
    if piece is None or again is None:
        return piece
    if source.grouped and not catalog.grouped and again.get("name") != bare.get("name"):
        # The original's dialect has no names but those that ids are made of: the new one has to be such.
        tools = tuple(msgspec.structs.replace(tool, id=renamed(tool.id, tool.name)) for tool in tools)
        piece = _restored(tools, carrier, source, catalog) or piece
        again = _again(piece, source, catalog) or again
    said = catalog.write(tools)
    return msgspec.structs.replace(piece, losses=list(_dropped(again, said, bare, source)))


def _restored(tools: tuple[Tool, ...], carrier: Carrier, source: Catalog, catalog: Catalog) -> Piece | None:
    group, items = say(tools, source, bare=carrier.bare)
    restored = [apply(changed, item) for changed, item in zip(_kept(carrier, tools, catalog), items, strict=True)]
    group = apply(carrier.group, group)
    return Piece(source.name, group, restored, carrier.at, carrier.of) if isinstance(group, dict) else None


def _kept(carrier: Carrier, tools: tuple[Tool, ...], catalog: Catalog) -> Sequence[list[Change]]:
    """What was kept of each tool: found by name, because somebody may have added, removed or moved one."""
    if len(tools) == 1 and (carrier.of == 1 or not catalog.grouped):  # the only one is the same by any name
        return [[change for changed in carrier.items.values() for change in changed]]
    return [carrier.items.get(tool.id.tool, []) for tool in tools]


def _again(piece: Piece, source: Catalog, catalog: Catalog) -> JsonObject | None:
    """What the restored original says in the dialect that it comes from; None if it cannot be read any more."""
    try:
        tools = tuple(tool for each in piece.originals(source) for tool in source.read(each))
    except BadDocument:  # said once it is converted
        return None
    return catalog.write(tools) if catalog.grouped or len(tools) == 1 else None


def _dropped(again: JsonObject, said: JsonObject, given: JsonObject, source: Catalog) -> Iterator[Loss]:
    """Edits that did not arrive: nothing is dropped in silence."""
    wrong = {change.path for change in changes(again, said)}
    # What is written otherwise than it was understood arrived as it was understood: an id that a new name overrules.
    understood = {change.path for change in changes(said, given) if change.was is not None} - wrong
    for change in changes(again, given):
        if change.value is not msgspec.UNSET and change.path not in understood:
            how = "has no place for this" if change.was is None else "says this differently"
            yield Loss(pointer(change.path, given), f"{source.name}, which this was made from, {how}")
