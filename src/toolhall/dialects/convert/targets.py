"""Conversion targets by kind of dialect: target_for chooses between translation, toolkits, per tool, one document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from toolhall.dialects.base import Catalog, Loss, WriteOnlyCatalog
from toolhall.dialects.catalogs import WRITE_ONLY_CATALOGS, readable_catalog
from toolhall.dialects.convert.loss_reasons import document_pointer, left_out_reason, says_kind
from toolhall.dialects.convert.translate import SourceDocument, translate, translate_tools
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.model_apis.function import losses_by_tool
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool

_Toolkit: TypeAlias = tuple[str, str, str]  # dialect, toolkit, version
_DUPLICATE_REASON = "a document before this one has the same id, toolkit and version; rename one, or raise its version"


class ConversionResult(msgspec.Struct, frozen=True):
    """The outcome for one or more input documents; `index` is that of the first one."""

    index: int
    documents: list[JsonObject]
    losses: list[Loss]
    refused: BadDocument | None = None  # why a document that was held back cannot be converted


class ConversionTarget(Protocol):
    """Receives source documents one after the other, and yields converted ones."""

    @property
    def has_pending(self) -> bool:
        """True if documents were received whose results are still to come."""
        ...

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """Take one document, and yield the results that are known now."""
        ...

    def finish(self) -> Iterator[ConversionResult]:
        """Yield the results that had to wait for the last document."""
        ...


def target_for(target: str, *, whole: bool = False) -> ConversionTarget:
    """The target for a dialect; raises Malformed for an unknown name. `whole`: hold back until all documents came."""
    writer = WRITE_ONLY_CATALOGS.get(target)
    if writer is None:
        catalog = readable_catalog(target)
        return ToolkitTarget(catalog, whole=whole) if catalog.grouped else TranslationTarget(catalog)
    return SingleDocumentTarget(writer) if writer.grouped else PerToolTarget(writer)


class TranslationTarget:
    """A readable dialect with one tool per document; documents carry loss records."""

    has_pending = False

    def __init__(self, target: Catalog) -> None:
        self._target = target

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """Translate the document; one in the target dialect already passes unchanged."""
        if original.catalog is self._target:
            yield ConversionResult(original.index, [original.document], [])
        else:
            written = translate(original, self._target)
            yield ConversionResult(original.index, written.documents, written.losses)

    def finish(self) -> Iterator[ConversionResult]:
        """Yield nothing: every result was immediate."""
        yield from ()


class ToolkitTarget:
    """A readable dialect with one document per toolkit.

    Consecutive tools of one toolkit and version become one document; with `whole`, all tools of it, wherever they are
    in the input.
    """

    def __init__(self, target: Catalog, *, whole: bool) -> None:
        self._target = target
        self._whole = whole
        # The n-th tool of one name in a toolkit goes to the toolkit's n-th document: names are unique in a document.
        self._groups: dict[tuple[_Toolkit, int], list[SourceDocument]] = {}
        self._occurrences: Counter[tuple[_Toolkit, str]] = Counter()

    @property
    def has_pending(self) -> bool:
        """True if a toolkit may still receive tools."""
        return bool(self._groups)

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """Collect the tool, and yield toolkits that are complete now; a document of a whole toolkit is complete."""
        tool_id = original.tools[0].id
        toolkit = (original.catalog.name, tool_id.toolkit, tool_id.version)
        if original.catalog.grouped:
            toolkit = ("", str(original.index), "")
        if not self._whole and any(other != toolkit for other, _ in self._groups):
            yield from self.finish()
        occurrence = self._occurrences[toolkit, tool_id.tool]
        self._occurrences[toolkit, tool_id.tool] += 1
        self._groups.setdefault((toolkit, occurrence), []).append(original)
        if original.catalog.grouped and not self._whole:
            yield from self.finish()

    def finish(self) -> Iterator[ConversionResult]:
        """Yield a document for each toolkit that was held back."""
        groups, self._groups = self._groups, {}
        self._occurrences.clear()
        for (_, occurrence), group in groups.items():
            yield from self._convert_group(group, [Loss("", _DUPLICATE_REASON)] if occurrence else [])

    def _convert_group(self, group: Sequence[SourceDocument], extra_losses: list[Loss]) -> Iterator[ConversionResult]:
        if len(group) > 1:
            try:
                document, lost = translate_tools(group, self._target)
            except BadDocument:  # convert them one by one, to find out which of them is at fault
                pass
            else:
                yield ConversionResult(group[0].index, [document], [*extra_losses, *lost[0]])
                yield from (ConversionResult(each.index, [], lost[at]) for at, each in enumerate(group) if at)
                return
        for each in group:
            yield self._convert_single(each, extra_losses)

    def _convert_single(self, original: SourceDocument, extra_losses: list[Loss]) -> ConversionResult:
        if original.catalog is self._target:
            return ConversionResult(original.index, [original.document], [])
        try:
            written = translate(original, self._target)
        except BadDocument as bad:
            return ConversionResult(original.index, [], [], bad)
        return ConversionResult(original.index, written.documents, [*extra_losses, *written.losses])


class PerToolTarget:
    """A model API: writes one function per tool."""

    has_pending = False

    def __init__(self, writer: WriteOnlyCatalog) -> None:
        self._writer = writer

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """Write a function per tool; a loss that all tools of a toolkit share is reported once."""
        document, source = original.document, original.catalog
        documents: list[JsonObject] = []
        losses: dict[Loss, None] = {}
        refused: list[Finding] = []
        for index, tool in enumerate(original.tools):
            if not says_kind(tool.kind, self._writer.name):
                pointer = document_pointer("", document, source, index)
                losses[Loss(pointer, left_out_reason(tool, self._writer.name))] = None
                continue
            try:
                written = self._writer.write((tool,))
            except BadDocument as bad:
                refused.extend(
                    msgspec.structs.replace(finding, path=document_pointer(finding.path, document, source, index))
                    for finding in bad.findings
                )
                continue
            documents.extend(written.documents)
            for loss in written.losses:
                losses[Loss(document_pointer(loss.path, document, source, index), loss.reason)] = None
        if refused:
            raise BadDocument(refused)
        yield ConversionResult(original.index, documents, list(losses))

    def finish(self) -> Iterator[ConversionResult]:
        """Yield nothing: every result was immediate."""
        yield from ()


class SingleDocumentTarget:
    """A dialect whose one document holds all tools."""

    def __init__(self, writer: WriteOnlyCatalog) -> None:
        self._writer = writer
        self._tools: list[Tool] = []
        self._origins: list[tuple[SourceDocument, int]] = []

    @property
    def has_pending(self) -> bool:
        """True if any tool is waiting to be written."""
        return bool(self._tools)

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """Collect the tools until `finish`; what the dialect has no place for is a loss at once."""
        for index, tool in enumerate(original.tools):
            if says_kind(tool.kind, self._writer.name):
                self._tools.append(tool)
                self._origins.append((original, index))
            else:
                pointer = document_pointer("", original.document, original.catalog, index)
                loss = Loss(pointer, left_out_reason(tool, self._writer.name))
                yield ConversionResult(original.index, [], [loss])

    def finish(self) -> Iterator[ConversionResult]:
        """Yield the document, with the losses of the first input, then the losses of each other input."""
        if not self._tools:
            return
        written = self._writer.write(tuple(self._tools))
        losses_by_input: dict[int, dict[Loss, None]] = {original.index: {} for original, _ in self._origins}
        for index, loss in losses_by_tool(written.losses, len(self._tools)):
            original, tool_index = self._origins[index]
            losses_by_input[original.index][
                Loss(document_pointer(loss.path, original.document, original.catalog, tool_index), loss.reason)
            ] = None
        documents = written.documents
        for index, losses in losses_by_input.items():
            yield ConversionResult(index, documents, list(losses))
            documents = []
