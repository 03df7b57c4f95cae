"""Translates a document to another dialect (translate) and back (restore), with a LossRecord in the result.

Theory of operation. Losses are not predicted by rules, they are measured. A document is read into the model, written in
the target dialect, read back from there, and written in the source dialect again. Every difference between the original
and the result of this round trip is something that the target could not express, so the list of losses is complete by
construction: it does not depend on a table of what each dialect supports. (losses.py has such tables, but only to word
the reasons.)

The same differences, as JsonChanges with their old and new values, are stored in an open member of the target document:
the loss record, called the carrier on the wire (`dev.toolhall/carrier`), in the documentation and in messages.
`restore` repeats the way back and applies the recorded changes to its result, which gives the original exactly, byte
for byte of its JSON value. A change is applied only where the document still has the old value it was made for. If
somebody edited a member of the translated document, its recorded change no longer matches and the edit wins.

A toolkit document may become several documents, one per tool. Each carries the changes of the toolkit (`group`), of its
own tools (`items`), how many tools the original had (`of`) and the index of its first one (`at`), so that Converter can
join the parts again.

A resource or prompt, which only MCP has, goes the same way: it is written as a tool of its name, nothing but the holder
of its record, and that is the first of its losses.

Last, edits must not vanish: `restore` writes the restored original in the edited document's dialect once more, and
reports every edit that is not in it as a loss (`_dropped_edits`).
"""

from collections.abc import Iterator, Sequence

import msgspec

from toolhall.dialects.base import Catalog, Loss, WriteResult
from toolhall.dialects.convert.loss_reasons import LossReasons, kind_losses
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
from toolhall.model.json import Json, JsonChange, JsonObject, apply_changes, change_pointer, diff_json
from toolhall.model.names import with_published_name
from toolhall.model.tool import Tool

LOSS_RECORD_VERSION = 2


class LossRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename={"source": "from"}):
    """Changes that turn a document that was translated back into the original: of the toolkit, and of each tool."""

    v: int
    source: str
    group: list[JsonChange] = []
    items: dict[str, list[JsonChange]] = {}  # by the tool's name in this document's toolkit
    at: int = 0  # index, in the original, of the first tool of this document
    of: int = 1  # number of tools in the original
    bare: bool = False  # the original was a hub declaration without its outer `tool` member


class SourceDocument(msgspec.Struct, frozen=True):
    """A document that was read, and its index in the input."""

    catalog: Catalog
    document: JsonObject
    tools: tuple[Tool, ...]
    index: int = 0


class ConvertedDocument(msgspec.Struct, frozen=True):
    """A document with its loss record, and the recorded changes of the toolkit and of each tool."""

    document: JsonObject
    group_changes: list[JsonChange]
    item_changes: list[list[JsonChange]]


class RestoredPart(msgspec.Struct, frozen=True):
    """Some or all tools of an original document, restored from a loss record."""

    source: str
    group: JsonObject
    items: list[JsonObject]
    at: int
    of: int
    losses: list[Loss] = []  # edits that the original's dialect cannot express

    def originals(self, catalog: Catalog) -> list[JsonObject]:
        """The documents that this part is, or is a part of."""
        return join_document(self.group, self.items, catalog)


def read_source(document: Json, catalog: Catalog, index: int = 0) -> SourceDocument:
    """Read a document; raises BadDocument with every finding."""
    return SourceDocument(catalog, document, catalog.read(checked_json(document)), index)


def translate(original: SourceDocument, target: Catalog) -> WriteResult:
    """The document in the target dialect, with loss records, and every loss."""
    source, tools = original.catalog, original.tools
    group, items = split_document(original.document, source)
    tools_pointer = "".join(f"/{key}" for key in source.tools_path(original.document))
    blank = LossRecord(LOSS_RECORD_VERSION, source.name, of=len(items), bare=is_unwrapped(original.document, source))
    documents: list[JsonObject] = []
    losses: list[Loss] = []
    # An ordered set: documents of one toolkit may lose different members of it, for example where a name hides it.
    group_losses: dict[Loss, None] = {}
    size = len(tools) if target.grouped else 1
    for at in range(0, len(tools), size):
        record = msgspec.structs.replace(blank, at=at)
        converted = _convert(tools[at : at + size], (group, items[at : at + size]), source, target, record)
        documents.append(converted.document)
        group_losses |= dict.fromkeys(
            _find_losses(converted.group_changes, group, "", LossReasons(source.name, target.name))
        )
        for index, changes in enumerate(converted.item_changes, at):
            reasons = LossReasons(source.name, target.name, tools[index])
            prefix = f"{tools_pointer}/{index}" if tools_pointer else ""
            losses += kind_losses(tools[index], target.name, prefix)
            losses += _find_losses(changes, items[index], prefix, reasons)
    return WriteResult(documents, [*group_losses, *losses])


def translate_tools(originals: Sequence[SourceDocument], target: Catalog) -> tuple[JsonObject, list[list[Loss]]]:
    """One toolkit document for several documents of one tool each, and the losses of each of them."""
    source = originals[0].catalog
    tools = tuple(tool for each in originals for tool in each.tools)
    items = [each.document for each in originals]
    converted = _convert(
        tools, ({}, items), source, target, LossRecord(LOSS_RECORD_VERSION, source.name, of=len(items))
    )
    losses = [
        [
            *kind_losses(tool, target.name),
            *_find_losses(changes, item, "", LossReasons(source.name, target.name, tool)),
        ]
        for changes, item, tool in zip(converted.item_changes, items, tools, strict=True)
    ]
    return converted.document, losses


def _convert(
    tools: tuple[Tool, ...], parts: DocumentParts, source: Catalog, target: Catalog, blank: LossRecord
) -> ConvertedDocument:
    """Write the tools as one document of the target, and record every difference of the round trip."""
    written = target.write(tools)
    # A member of the author's own at the record's path counts as lost, so that it is recorded and comes back.
    read_back = target.read(without_member(written, target.loss_record_path))
    group, items = write_parts(read_back, source, unwrapped=blank.bare)
    group_changes = diff_json(group, parts[0])
    item_changes = [diff_json(before, after) for before, after in zip(items, parts[1], strict=True)]
    changes_by_tool = {tool.id.tool: changes for tool, changes in zip(read_back, item_changes, strict=True) if changes}
    record = msgspec.structs.replace(blank, group=group_changes, items=changes_by_tool)
    return ConvertedDocument(attach_loss_record(written, target, record), group_changes, item_changes)


def _find_losses(changes: Sequence[JsonChange], item: Json, prefix: str, reasons: LossReasons) -> Iterator[Loss]:
    for change in changes:
        if change.value is not msgspec.UNSET:  # UNSET: the round trip added a member, nothing is lost
            yield Loss(
                prefix + change_pointer(change.path, item), f"{reasons.reason_for(change)}; it is kept in the carrier"
            )


def restore(document: JsonObject, catalog: Catalog, catalogs: dict[str, Catalog]) -> RestoredPart | None:
    """Restore the original from a document's loss record; None if it has no record that can be used."""
    bare, record = detach_loss_record(document, catalog)
    if record is None or record.source not in catalogs:
        return None
    source = catalogs[record.source]
    tools = catalog.read(checked_json(bare))
    part = _apply_record(tools, record, source, catalog)
    rewritten = None if part is None else _written_again(part, source, catalog)
    if part is None or rewritten is None:
        return part
    if source.grouped and not catalog.grouped and rewritten.get("name") != bare.get("name"):
        # The tool was renamed, and the original's dialect makes names from ids: derive the id from the new name.
        tools = tuple(msgspec.structs.replace(tool, id=with_published_name(tool.id, tool.name)) for tool in tools)
        part = _apply_record(tools, record, source, catalog) or part
        rewritten = _written_again(part, source, catalog) or rewritten
    expected = catalog.write(tools)
    return msgspec.structs.replace(part, losses=list(_dropped_edits(rewritten, expected, bare, source)))


def _apply_record(
    tools: tuple[Tool, ...], record: LossRecord, source: Catalog, catalog: Catalog
) -> RestoredPart | None:
    """Write the tools in the original's dialect, and apply the recorded changes."""
    group, items = write_parts(tools, source, unwrapped=record.bare)
    restored = [
        apply_changes(changed, item)
        for changed, item in zip(_recorded_changes(record, tools, catalog), items, strict=True)
    ]
    group = apply_changes(record.group, group)
    return RestoredPart(source.name, group, restored, record.at, record.of) if isinstance(group, dict) else None


def _recorded_changes(record: LossRecord, tools: tuple[Tool, ...], catalog: Catalog) -> Sequence[list[JsonChange]]:
    """The recorded changes of each tool, found by name: tools may have been added, removed or reordered."""
    if len(tools) == 1 and (record.of == 1 or not catalog.grouped):  # a single tool is the same one after a rename
        return [[change for changed in record.items.values() for change in changed]]
    return [record.items.get(tool.id.tool, []) for tool in tools]


def _written_again(part: RestoredPart, source: Catalog, catalog: Catalog) -> JsonObject | None:
    """The restored original, written in the translated document's dialect; None if it cannot be read."""
    try:
        tools = tuple(tool for original in part.originals(source) for tool in source.read(original))
    except BadDocument:  # the findings are reported when the restored document is converted
        return None
    return catalog.write(tools) if catalog.grouped or len(tools) == 1 else None


def _dropped_edits(rewritten: JsonObject, expected: JsonObject, edited: JsonObject, source: Catalog) -> Iterator[Loss]:
    """Losses for edits of the translated document that are not in the restored original."""
    missing = {change.path for change in diff_json(rewritten, expected)}
    # Members whose edited value the reader overruled (an id that a new name overrides) arrived as they were understood.
    understood = {change.path for change in diff_json(expected, edited) if change.was is not None} - missing
    for change in diff_json(rewritten, edited):
        if change.value is not msgspec.UNSET and change.path not in understood:
            how = "has no place for this" if change.was is None else "expresses this differently"
            yield Loss(change_pointer(change.path, edited), f"{source.name}, which this was made from, {how}")


def attach_loss_record(document: JsonObject, catalog: Catalog, record: LossRecord) -> JsonObject:
    """The document with the record in its place; unchanged if there is nothing to record."""
    if not (record.group or record.items or record.of > 1 or record.bare):
        return document
    return with_member(document, catalog.loss_record_path, msgspec.to_builtins(record))


def detach_loss_record(document: JsonObject, catalog: Catalog) -> tuple[JsonObject, LossRecord | None]:
    """The document without its loss record, and the record; None if it has none of this version."""
    value: Json = document
    for key in catalog.loss_record_path:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return document, None
    try:
        record = msgspec.convert(value, LossRecord)
    except msgspec.ValidationError:
        return document, None
    return (
        (document, None)
        if record.v != LOSS_RECORD_VERSION
        else (without_member(document, catalog.loss_record_path), record)
    )
