"""Converts a stream of documents (Converter), holding parts of a split toolkit back until it is complete."""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import CATALOGS, detect_dialect, readable_catalog
from toolhall.dialects.convert.targets import ConversionResult, target_for
from toolhall.dialects.convert.translate import RestoredPart, SourceDocument, read_source, restore
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.json import Json
from toolhall.model.json_diff import short_digest


class Converter:
    """Holds back the parts of an original until all have come, so that a split toolkit becomes whole again.

    With `whole`, everything is held back until the end: parts find each other wherever they stand. Without, only while
    parts of the same original, or tools of the same toolkit, come one after the other, so memory stays small.
    """

    def __init__(self, target: str, source: str | None = None, *, whole: bool = False) -> None:
        self._target = target_for(target, whole=whole)
        self._source = readable_catalog(source) if source else None
        self._whole = whole
        self._pending: list[_PartialOriginal | SourceDocument] = []
        self._partial_runs: dict[tuple[str, int, str], list[_PartialOriginal]] = {}
        self._seen: dict[int, int] = {}  # toolkits by a hash, and where they were: a few bytes for each

    @property
    def has_pending(self) -> bool:
        """Whether something is held back."""
        return bool(self._pending) or self._target.has_pending

    def feed(self, document: Json, index: int) -> Iterator[ConversionResult]:
        """Everything that is whole once this document has come; BadDocument if it cannot be read."""
        source = self._source or detect_dialect(document)
        piece = restore(document, source, CATALOGS) if isinstance(document, dict) else None
        if piece is not None:
            yield from self._collect(piece, index)
            return
        if not self._whole:
            yield from self._release()
        given = read_source(document, source, index)
        if self._whole:
            self._pending.append(given)
        else:
            yield from self._forward(given)

    def finish(self) -> Iterator[ConversionResult]:
        """What was held back, as far as it came."""
        yield from self._release()
        yield from self._target.finish()

    def _collect(self, piece: RestoredPart, index: int) -> Iterator[ConversionResult]:
        key = (piece.source, piece.of, short_digest(piece.group))
        run = next((each for each in self._partial_runs.get(key, ()) if each.is_missing(piece)), None)
        if run is None:
            if not self._whole:
                yield from self._release()
            run = _PartialOriginal()
            self._pending.append(run)
            self._partial_runs.setdefault(key, []).append(run)
        run.add(index, piece)
        if run.count >= piece.of:
            self._partial_runs[key].remove(run)
            if not self._whole:
                yield from self._release()
        if piece.losses:
            yield ConversionResult(index, [], piece.losses)

    def _release(self) -> Iterator[ConversionResult]:
        waiting, self._pending, self._partial_runs = self._pending, [], {}
        for each in waiting:
            if isinstance(each, SourceDocument):
                yield from self._forward_pending(each.document, each.catalog, each.index)
                continue
            catalog = CATALOGS[each.first.source]
            for document in each.complete().originals(catalog):
                yield from self._forward_pending(document, catalog, each.index)

    def _forward_pending(self, document: Json, catalog: Catalog, index: int) -> Iterator[ConversionResult]:
        """One that was held back: what is wrong with it is no fault of the document that comes now."""
        try:
            yield from self._forward(read_source(document, catalog, index))
        except BadDocument as bad:
            yield ConversionResult(index, [], [], bad)

    def _forward(self, original: SourceDocument) -> Iterator[ConversionResult]:
        if original.catalog.grouped:
            known = original.tools[0].id
            first = self._seen.setdefault(hash((known.toolkit.casefold(), known.version.casefold())), original.index)
            if first != original.index:
                fix = f"{known.toolkit} {known.version} is document {first} already; remove one, or raise its version"
                raise BadDocument([Finding("", f"{original.catalog.name}/twice", fix)])
        yield from self._target.convert(original)


class _PartialOriginal:
    """Parts of one original, in any order."""

    def __init__(self) -> None:
        self.index = 0
        self.count = 0
        self._pieces: list[RestoredPart] = []

    @property
    def first(self) -> RestoredPart:
        return self._pieces[0]

    def is_missing(self, piece: RestoredPart) -> bool:
        """Whether this part is still missing."""
        start, end = piece.at, piece.at + len(piece.items)
        return all(end <= other.at or other.at + len(other.items) <= start for other in self._pieces)

    def add(self, index: int, piece: RestoredPart) -> None:
        self.index = min(self.index, index) if self._pieces else index
        self.count += len(piece.items)
        self._pieces.append(piece)

    def complete(self) -> RestoredPart:
        """All parts in the order that they had."""
        items = [item for piece in sorted(self._pieces, key=lambda each: each.at) for item in piece.items]
        return msgspec.structs.replace(self.first, items=items)
