"""Translates a document to another dialect (translate) and back (restore), with a LossRecord in the result.

A document is read, written in the target dialect, read back from there and written in the source dialect again.
What differs from the original is what the target could not express: the list of losses is complete by construction.
The same differences, stored in an open member of the target document, are the loss record (`dev.toolhall/carrier`
on the wire); applied to what the way back gives, they restore the original exactly. A change is applied only where
it finds what it was made for, so an edited field wins.
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.base import Catalog, Loss, WriteResult
from toolhall.dialects.convert.losses import LossReasons
from toolhall.dialects.convert.lossless import (
    DocumentParts,
    is_unwrapped,
    join_document,
    split_document,
    with_member,
    without_member,
    write_parts,
)
from toolhall.dialects.findings import BadDocument, checked_json
from toolhall.model.json import Json, JsonObject
from toolhall.model.json_diff import JsonChange, apply_changes, change_pointer, diff_json
from toolhall.model.names import with_published_name
from toolhall.model.tool import Tool

LOSS_RECORD_VERSION = 2


class LossRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename={"source": "from"}):
    """The changes that turn the way back into the original: of the whole, and of each tool in this document."""

    v: int
    source: str
    group: list[JsonChange] = []
    items: dict[str, list[JsonChange]] = {}  # by the name that the tool has in this document's toolkit
    at: int = 0  # which of the original's tools is the first one here
    of: int = 1  # how many the original had
    bare: bool = False  # the original had no wrapper around it


def attach_loss_record(document: JsonObject, catalog: Catalog, record: LossRecord) -> JsonObject:
    """The document with a carrier in it, if that has anything to say."""
    if not (record.group or record.items or record.of > 1 or record.bare):
        return document
    return with_member(document, catalog.loss_record_path, msgspec.to_builtins(record))


def detach_loss_record(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, LossRecord | None]:
    """The document without its carrier, and the carrier, if there is one that we can read."""
    found: Json = document
    for key in catalog.loss_record_path:
        found = found.get(key) if isinstance(found, dict) else None
    if not isinstance(found, dict):
        return document, None
    try:
        carrier = msgspec.convert(found, LossRecord)
    except msgspec.ValidationError:
        return document, None
    return (
        (document, None)
        if carrier.v != LOSS_RECORD_VERSION
        else (without_member(document, catalog.loss_record_path), carrier)
    )


class SourceDocument(msgspec.Struct, frozen=True):
    """A document that was read, and its place in the input."""

    catalog: Catalog
    document: JsonObject
    tools: tuple[Tool, ...]
    index: int = 0


class ConvertedDocument(msgspec.Struct, frozen=True):
    """A document with its carrier, and what that has to change: of the whole, and of each tool."""

    document: JsonObject
    group_changes: list[JsonChange]
    item_changes: list[list[JsonChange]]


def read_source(document: Json, catalog: Catalog, index: int = 0) -> SourceDocument:
    """What was read of a document; BadDocument with every finding."""
    return SourceDocument(catalog, document, catalog.read(checked_json(document)), index)


def translate(original: SourceDocument, target: Catalog) -> WriteResult:
    """The document in the target dialect, with carriers, and every loss."""
    source, tools = original.catalog, original.tools
    group, items = split_document(original.document, source)
    place = "".join(f"/{key}" for key in source.tools_path(original.document))
    blank = LossRecord(LOSS_RECORD_VERSION, source.name, of=len(items), bare=is_unwrapped(original.document, source))
    documents: list[JsonObject] = []
    losses: list[Loss] = []
    of_group: dict[Loss, None] = {}  # the parts may differ in what they say of the whole: an odd name hides its toolkit
    size = len(tools) if target.grouped else 1
    for at in range(0, len(tools), size):
        carrier = msgspec.structs.replace(blank, at=at)
        laden = _convert(tools[at : at + size], (group, items[at : at + size]), source, target, carrier)
        documents.append(laden.document)
        of_group |= dict.fromkeys(_find_losses(laden.group_changes, group, "", LossReasons(source.name, target.name)))
        for index, changed in enumerate(laden.item_changes, at):
            reasons = LossReasons(source.name, target.name, tools[index])
            losses += _find_losses(changed, items[index], f"{place}/{index}" if place else "", reasons)
    return WriteResult(documents, [*of_group, *losses])


def translate_tools(originals: Sequence[SourceDocument], target: Catalog) -> tuple[JsonObject, list[list[Loss]]]:
    """One document of a toolkit for documents that are a tool of it each, and what is lost of each of them."""
    source = originals[0].catalog
    tools = tuple(tool for each in originals for tool in each.tools)
    items = [each.document for each in originals]
    laden = _convert(tools, ({}, items), source, target, LossRecord(LOSS_RECORD_VERSION, source.name, of=len(items)))
    lost = [
        list(_find_losses(changed, item, "", LossReasons(source.name, target.name, tool)))
        for changed, item, tool in zip(laden.item_changes, items, tools, strict=True)
    ]
    return laden.document, lost


def _convert(
    tools: tuple[Tool, ...], parts: DocumentParts, source: Catalog, target: Catalog, blank: LossRecord
) -> ConvertedDocument:
    """These tools in one document of the target, with what the way back has wrong in its carrier."""
    written = target.write(tools)
    # What somebody laid where the carrier will lie must come back too.
    back = target.read(without_member(written, target.loss_record_path))
    said, said_items = write_parts(back, source, unwrapped=blank.bare)
    of_group = diff_json(said, parts[0])
    of_items = [diff_json(before, after) for before, after in zip(said_items, parts[1], strict=True)]
    kept = {tool.id.tool: changed for tool, changed in zip(back, of_items, strict=True) if changed}
    carrier = msgspec.structs.replace(blank, group=of_group, items=kept)
    return ConvertedDocument(attach_loss_record(written, target, carrier), of_group, of_items)


def _find_losses(changed: Sequence[JsonChange], item: Json, prefix: str, reasons: LossReasons) -> Iterator[Loss]:
    for change in changed:
        if change.value is not msgspec.UNSET:  # else the way back says more than the original did: nothing is lost
            yield Loss(
                prefix + change_pointer(change.path, item), f"{reasons.reason_for(change)}; it is kept in the carrier"
            )


class RestoredPart(msgspec.Struct, frozen=True):
    """Some or all tools of an original document, restored from a carrier."""

    source: str
    group: JsonObject
    items: list[JsonObject]
    at: int
    of: int
    losses: list[Loss] = []  # what was edited where the original has no place for it

    def originals(self, catalog: Catalog) -> list[JsonObject]:
        """The documents that this is the whole of, or a part."""
        return join_document(self.group, self.items, catalog)


def restore(document: JsonObject, catalog: Catalog, catalogs: dict[str, Catalog]) -> RestoredPart | None:
    """The original that a document was made from, if it carries one."""
    bare, carrier = detach_loss_record(document, catalog)
    if carrier is None or carrier.source not in catalogs:
        return None
    source = catalogs[carrier.source]
    tools = catalog.read(checked_json(bare))
    piece = _apply_record(tools, carrier, source, catalog)
    again = None if piece is None else _written_again(piece, source, catalog)
    if piece is None or again is None:
        return piece
    if source.grouped and not catalog.grouped and again.get("name") != bare.get("name"):
        # The original's dialect has no names but those that ids are made of: the new one has to be such.
        tools = tuple(msgspec.structs.replace(tool, id=with_published_name(tool.id, tool.name)) for tool in tools)
        piece = _apply_record(tools, carrier, source, catalog) or piece
        again = _written_again(piece, source, catalog) or again
    said = catalog.write(tools)
    return msgspec.structs.replace(piece, losses=list(_dropped_edits(again, said, bare, source)))


def _apply_record(
    tools: tuple[Tool, ...], record: LossRecord, source: Catalog, catalog: Catalog
) -> RestoredPart | None:
    group, items = write_parts(tools, source, unwrapped=record.bare)
    restored = [
        apply_changes(changed, item)
        for changed, item in zip(_recorded_changes(record, tools, catalog), items, strict=True)
    ]
    group = apply_changes(record.group, group)
    return RestoredPart(source.name, group, restored, record.at, record.of) if isinstance(group, dict) else None


def _recorded_changes(record: LossRecord, tools: tuple[Tool, ...], catalog: Catalog) -> Sequence[list[JsonChange]]:
    """What was kept of each tool: found by name, because somebody may have added, removed or moved one."""
    if len(tools) == 1 and (record.of == 1 or not catalog.grouped):  # the only one is the same by any name
        return [[change for changed in record.items.values() for change in changed]]
    return [record.items.get(tool.id.tool, []) for tool in tools]


def _written_again(piece: RestoredPart, source: Catalog, catalog: Catalog) -> JsonObject | None:
    """What the restored original says in the dialect that it comes from; None if it cannot be read any more."""
    try:
        tools = tuple(tool for each in piece.originals(source) for tool in source.read(each))
    except BadDocument:  # said once it is converted
        return None
    return catalog.write(tools) if catalog.grouped or len(tools) == 1 else None


def _dropped_edits(again: JsonObject, said: JsonObject, given: JsonObject, source: Catalog) -> Iterator[Loss]:
    """Edits that did not arrive: nothing is dropped in silence."""
    wrong = {change.path for change in diff_json(again, said)}
    # What is written otherwise than it was understood arrived as it was understood: an id that a new name overrules.
    understood = {change.path for change in diff_json(said, given) if change.was is not None} - wrong
    for change in diff_json(again, given):
        if change.value is not msgspec.UNSET and change.path not in understood:
            how = "has no place for this" if change.was is None else "says this differently"
            yield Loss(change_pointer(change.path, given), f"{source.name}, which this was made from, {how}")
