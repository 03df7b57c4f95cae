"""Conversion targets (ConversionTarget, target_for): translate, reassemble toolkits, write per tool, or as one document."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

import msgspec

from toolhall.dialects.base import Catalog, Loss, WriteOnlyCatalog
from toolhall.dialects.catalogs import WRITE_ONLY_CATALOGS, readable_catalog
from toolhall.dialects.convert.losses import document_pointer
from toolhall.dialects.convert.translate import SourceDocument, translate, translate_tools
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.model_apis.function import losses_by_tool
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


class ConversionResult(msgspec.Struct, frozen=True):
    """What became of one or more documents; `index` is the first one's place in the input."""

    index: int
    documents: list[JsonObject]
    losses: list[Loss]
    refused: BadDocument | None = None  # why one that had been held back makes no document


# A dialect, a toolkit and its version.
_Toolkit: TypeAlias = tuple[str, str, str]
_DUPLICATE_REASON = "a document before this one has the same id, toolkit and version; rename one, or raise its version"


class ToolkitTarget:
    """Tools of one toolkit and version that come one after the other become one document; with `whole`, all of them."""

    def __init__(self, target: Catalog, *, whole: bool) -> None:
        self._target = target
        self._whole = whole
        # Of tools with one and the same name, the second starts another document, the third one more.
        self._groups: dict[tuple[_Toolkit, int], list[SourceDocument]] = {}
        self._occurrences: Counter[tuple[_Toolkit, str]] = Counter()

    @property
    def has_pending(self) -> bool:
        """Whether a toolkit may still get more tools."""
        return bool(self._groups)

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """What is known to be complete now; a toolkit that comes as one document is complete itself."""
        known = original.tools[0].id
        toolkit = (original.catalog.name, known.toolkit, known.version)
        if original.catalog.grouped:
            toolkit = ("", str(original.index), "")
        if not self._whole and any(held != toolkit for held, _ in self._groups):
            yield from self.finish()
        number = self._occurrences[toolkit, known.tool]
        self._occurrences[toolkit, known.tool] += 1
        self._groups.setdefault((toolkit, number), []).append(original)
        if original.catalog.grouped and not self._whole:
            yield from self.finish()

    def finish(self) -> Iterator[ConversionResult]:
        """A document for each toolkit that was held back."""
        groups, self._groups = self._groups, {}
        self._occurrences.clear()
        for (_, number), group in groups.items():
            yield from self._convert_group(group, [Loss("", _DUPLICATE_REASON)] if number else [])

    def _convert_group(self, group: Sequence[SourceDocument], extra_losses: list[Loss]) -> Iterator[ConversionResult]:
        if len(group) > 1:
            try:
                document, lost = translate_tools(group, self._target)
            except BadDocument:  # together they make none: whose fault it is, each shows alone
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


class ConversionTarget(Protocol):
    """Takes one document after the other."""

    @property
    def has_pending(self) -> bool:
        """Whether some have come of which nothing was said yet."""
        ...

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """What this document becomes, if it can be said already."""
        ...

    def finish(self) -> Iterator[ConversionResult]:
        """What can only be said once all documents have come."""
        ...


def target_for(target: str, *, whole: bool = False) -> ConversionTarget:
    """The way to a dialect; Malformed if there is none of that name. `whole`: all documents are known at once."""
    writer = WRITE_ONLY_CATALOGS.get(target)
    if writer is None:
        catalog = readable_catalog(target)
        return ToolkitTarget(catalog, whole=whole) if catalog.grouped else TranslationTarget(catalog)
    return SingleDocumentTarget(writer) if writer.grouped else PerToolTarget(writer)


class TranslationTarget:
    """To a dialect that can be read back, and whose documents are a tool each: with carriers."""

    has_pending = False

    def __init__(self, target: Catalog) -> None:
        self._target = target

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """One that is in the target dialect already was only checked."""
        if original.catalog is self._target:
            yield ConversionResult(original.index, [original.document], [])
        else:
            written = translate(original, self._target)
            yield ConversionResult(original.index, written.documents, written.losses)

    def finish(self) -> Iterator[ConversionResult]:
        """Nothing is held back."""
        yield from ()


class PerToolTarget:
    """To a model API's functions."""

    has_pending = False

    def __init__(self, writer: WriteOnlyCatalog) -> None:
        self._writer = writer

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """A function for each tool; what all tools of a toolkit lose is said once."""
        document, source = original.document, original.catalog
        documents: list[JsonObject] = []
        losses: dict[Loss, None] = {}
        refused: list[Finding] = []
        for number, tool in enumerate(original.tools):
            try:
                written = self._writer.write((tool,))
            except BadDocument as bad:
                refused.extend(
                    msgspec.structs.replace(finding, path=document_pointer(finding.path, document, source, number))
                    for finding in bad.findings
                )
                continue
            documents.extend(written.documents)
            for loss in written.losses:
                losses[Loss(document_pointer(loss.path, document, source, number), loss.reason)] = None
        if refused:
            raise BadDocument(refused)
        yield ConversionResult(original.index, documents, list(losses))

    def finish(self) -> Iterator[ConversionResult]:
        """Nothing is held back."""
        yield from ()


class SingleDocumentTarget:
    """To a dialect whose one document holds all tools."""

    def __init__(self, writer: WriteOnlyCatalog) -> None:
        self._writer = writer
        self._tools: list[Tool] = []
        self._origins: list[tuple[SourceDocument, int]] = []

    @property
    def has_pending(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._tools)

    def convert(self, original: SourceDocument) -> Iterator[ConversionResult]:
        """Keep the tools until all have come."""
        self._tools.extend(original.tools)
        self._origins.extend((original, number) for number in range(len(original.tools)))
        yield from ()

    def finish(self) -> Iterator[ConversionResult]:
        """The one document, then the losses of each document that came in."""
        if not self._tools:
            return
        written = self._writer.write(tuple(self._tools))
        lost: dict[int, dict[Loss, None]] = {given.index: {} for given, _ in self._origins}
        for number, loss in losses_by_tool(written.losses, len(self._tools)):
            given, place = self._origins[number]
            lost[given.index][Loss(document_pointer(loss.path, given.document, given.catalog, place), loss.reason)] = (
                None
            )
        documents = written.documents
        for index, losses in lost.items():
            yield ConversionResult(index, documents, list(losses))
            documents = []
