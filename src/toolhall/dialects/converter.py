"""Converts documents one after the other, each as soon as it is whole; or all of them together, where all are known."""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.catalog import Catalog
from toolhall.dialects.catalogs import CATALOGS, readable
from toolhall.dialects.convert import Original, original
from toolhall.dialects.converted import Converted
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.restore import Piece, restore
from toolhall.dialects.ways import way_to
from toolhall.model.json import Json
from toolhall.model.patch import digest


class Converter:
    """Holds back the parts of an original until all have come, so that a split toolkit becomes whole again.

    With `whole`, everything is held back until the end: parts find each other wherever they stand. Without, only while
    parts of the same original, or tools of the same toolkit, come one after the other, so memory stays small.
    """

    def __init__(self, target: str, source: str | None = None, *, whole: bool = False) -> None:
        self._way = way_to(target, whole=whole)
        self._source = readable(source) if source else None
        self._whole = whole
        self._waiting: list[_Run | Original] = []
        self._runs: dict[tuple[str, int, str], list[_Run]] = {}
        self._seen: dict[int, int] = {}  # toolkits by a hash, and where they were: a few bytes for each

    @property
    def waits(self) -> bool:
        """Whether something is held back."""
        return bool(self._waiting) or self._way.waits

    def feed(self, document: Json, index: int) -> Iterator[Converted]:
        """Everything that is whole once this document has come; BadDocument if it cannot be read."""
        source = self._source or detected(document)
        piece = restore(document, source, CATALOGS) if isinstance(document, dict) else None
        if piece is not None:
            yield from self._collect(piece, index)
            return
        if not self._whole:
            yield from self._release()
        given = original(document, source, index)
        if self._whole:
            self._waiting.append(given)
        else:
            yield from self._hand_on(given)

    def finish(self) -> Iterator[Converted]:
        """What was held back, as far as it came."""
        yield from self._release()
        yield from self._way.finish()

    def _collect(self, piece: Piece, index: int) -> Iterator[Converted]:
        key = (piece.source, piece.of, digest(piece.group))
        run = next((each for each in self._runs.get(key, ()) if each.takes(piece)), None)
        if run is None:
            if not self._whole:
                yield from self._release()
            run = _Run()
            self._waiting.append(run)
            self._runs.setdefault(key, []).append(run)
        run.add(index, piece)
        if run.count >= piece.of:
            self._runs[key].remove(run)
            if not self._whole:
                yield from self._release()
        if piece.losses:
            yield Converted(index, [], piece.losses)

    def _release(self) -> Iterator[Converted]:
        waiting, self._waiting, self._runs = self._waiting, [], {}
        for each in waiting:
            if isinstance(each, Original):
                yield from self._try(each.document, each.catalog, each.index)
                continue
            catalog = CATALOGS[each.first.source]
            for document in each.joined().originals(catalog):
                yield from self._try(document, catalog, each.index)

    def _try(self, document: Json, catalog: Catalog, index: int) -> Iterator[Converted]:
        """One that was held back: what is wrong with it is no fault of the document that comes now."""
        try:
            yield from self._hand_on(original(document, catalog, index))
        except BadDocument as bad:
            yield Converted(index, [], [], bad)

    def _hand_on(self, given: Original) -> Iterator[Converted]:
        if given.catalog.grouped:
            known = given.tools[0].id
            first = self._seen.setdefault(hash((known.toolkit.casefold(), known.version.casefold())), given.index)
            if first != given.index:
                fix = f"{known.toolkit} {known.version} is document {first} already; remove one, or raise its version"
                raise BadDocument([Finding("", f"{given.catalog.name}/twice", fix)])
        yield from self._way.convert(given)


class _Run:
    """Parts of one original, in any order."""

    def __init__(self) -> None:
        self.index = 0
        self.count = 0
        self._pieces: list[Piece] = []

    @property
    def first(self) -> Piece:
        return self._pieces[0]

    def takes(self, piece: Piece) -> bool:
        """Whether this part is still missing."""
        start, end = piece.at, piece.at + len(piece.items)
        return all(end <= other.at or other.at + len(other.items) <= start for other in self._pieces)

    def add(self, index: int, piece: Piece) -> None:
        self.index = min(self.index, index) if self._pieces else index
        self.count += len(piece.items)
        self._pieces.append(piece)

    def joined(self) -> Piece:
        """All parts in the order that they had."""
        items = [item for piece in sorted(self._pieces, key=lambda each: each.at) for item in piece.items]
        return msgspec.structs.replace(self.first, items=items)
