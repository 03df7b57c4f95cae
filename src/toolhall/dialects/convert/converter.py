"""Converts a stream of documents (Converter), reassembling toolkits that an earlier conversion split.

A document that carries a loss record is restored first, then converted like any other. The record says how many tools
the original had and which of them are here, so parts of one original find each other.
"""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import CATALOGS, detect_dialect, readable_catalog
from toolhall.dialects.convert.targets import ConversionResult, target_for
from toolhall.dialects.convert.translate import RestoredPart, SourceDocument, read_source, restore
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.json import Json, short_digest


class Converter:
    """Converts documents one after the other; holds back parts of an original until all of them are there.

    With `whole`, everything is held back until the end, so parts are joined wherever they are in the input. Without it,
    only consecutive parts of one original, or consecutive tools of one toolkit, are joined, so memory stays small.
    """

    def __init__(self, target: str, source: str | None = None, *, whole: bool = False) -> None:
        self._target = target_for(target, whole=whole)
        self._source = readable_catalog(source) if source else None
        self._whole = whole
        self._pending: list[_PartialOriginal | SourceDocument] = []
        self._partial_runs: dict[tuple[str, int, str], list[_PartialOriginal]] = {}
        self._seen: dict[int, int] = {}  # hash of toolkit and version → index; hashes, to spend only a few bytes each

    @property
    def has_pending(self) -> bool:
        """True if documents are held back."""
        return bool(self._pending) or self._target.has_pending

    def feed(self, document: Json, index: int, listed_as: str = "") -> Iterator[ConversionResult]:
        """Convert one document, and yield every result that is now complete; raises BadDocument if it is unreadable.

        `listed_as` is the member of a result that listed the document, see detect_dialect.
        """
        source = self._source or detect_dialect(document, listed_as)
        part = restore(document, source, CATALOGS) if isinstance(document, dict) else None
        if part is not None:
            yield from self._collect(part, index)
            return
        if not self._whole:
            yield from self._release()
        original = read_source(document, source, index)
        if self._whole:
            self._pending.append(original)
        else:
            yield from self._forward(original)

    def finish(self) -> Iterator[ConversionResult]:
        """Yield what was held back, complete or not."""
        yield from self._release()
        yield from self._target.finish()

    def _collect(self, part: RestoredPart, index: int) -> Iterator[ConversionResult]:
        key = (part.source, part.of, short_digest(part.group))
        partial = next((each for each in self._partial_runs.get(key, ()) if each.is_missing(part)), None)
        if partial is None:
            if not self._whole:
                yield from self._release()
            partial = _PartialOriginal()
            self._pending.append(partial)
            self._partial_runs.setdefault(key, []).append(partial)
        partial.add(index, part)
        if partial.count >= part.of:
            self._partial_runs[key].remove(partial)
            if not self._whole:
                yield from self._release()
        if part.losses:
            yield ConversionResult(index, [], part.losses)

    def _release(self) -> Iterator[ConversionResult]:
        waiting, self._pending, self._partial_runs = self._pending, [], {}
        for each in waiting:
            if isinstance(each, SourceDocument):
                yield from self._forward_pending(each.document, each.catalog, each.index)
                continue
            catalog = CATALOGS[each.first.source]
            for document in each.join().originals(catalog):
                yield from self._forward_pending(document, catalog, each.index)

    def _forward_pending(self, document: Json, catalog: Catalog, index: int) -> Iterator[ConversionResult]:
        """Convert a document that was held back; its findings must not be blamed on the current document."""
        try:
            yield from self._forward(read_source(document, catalog, index))
        except BadDocument as bad:
            yield ConversionResult(index, [], [], bad)

    def _forward(self, original: SourceDocument) -> Iterator[ConversionResult]:
        if original.catalog.grouped:
            tool_id = original.tools[0].id
            first = self._seen.setdefault(
                hash((tool_id.toolkit.casefold(), tool_id.version.casefold())), original.index
            )
            if first != original.index:
                fix = (
                    f"{tool_id.toolkit} {tool_id.version} is document {first} already; remove one, or raise its version"
                )
                raise BadDocument([Finding("", f"{original.catalog.name}/twice", fix)])
        yield from self._target.convert(original)


class _PartialOriginal:
    """The parts of one original that were read so far, in any order."""

    def __init__(self) -> None:
        self.index = 0
        self.count = 0
        self._parts: list[RestoredPart] = []

    @property
    def first(self) -> RestoredPart:
        return self._parts[0]

    def is_missing(self, part: RestoredPart) -> bool:
        """True if this part overlaps none of the parts so far."""
        start, end = part.at, part.at + len(part.items)
        return all(end <= other.at or other.at + len(other.items) <= start for other in self._parts)

    def add(self, index: int, part: RestoredPart) -> None:
        self.index = min(self.index, index) if self._parts else index
        self.count += len(part.items)
        self._parts.append(part)

    def join(self) -> RestoredPart:
        """All parts so far, in their original order."""
        items = [item for part in sorted(self._parts, key=lambda part: part.at) for item in part.items]
        return msgspec.structs.replace(self.first, items=items)
