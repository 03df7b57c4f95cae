"""Converts documents one after the other, each as soon as it is whole."""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.catalogs import CATALOGS, readable
from toolhall.dialects.convert import Piece, join, restore
from toolhall.dialects.detect import detected
from toolhall.dialects.findings import BadDocument
from toolhall.dialects.ways import Converted, way_to
from toolhall.model.json import Json


class Converter:
    """Holds back the parts of one original until all have come, so that a split toolkit becomes whole again."""

    def __init__(self, target: str, source: str | None = None) -> None:
        self._way = way_to(target)
        self._source = readable(source) if source else None
        self._held: tuple[int, Piece] | None = None

    def feed(self, document: Json, index: int) -> Iterator[Converted]:
        """Everything that is whole once this document has come; BadDocument if it cannot be read."""
        source = self._source or detected(document)
        piece = restore(document, source, CATALOGS) if isinstance(document, dict) else None
        if piece is None:
            yield from self._release()
            yield from self._way.convert(document, source, index)
            return
        if self._held is not None and piece.follows(self._held[1]):
            first, held = self._held
            piece, index = msgspec.structs.replace(held, items=[*held.items, *piece.items]), first
        else:
            yield from self._release()
        self._held = (index, piece)
        if piece.at + len(piece.items) >= piece.of:
            yield from self._release()

    def finish(self) -> Iterator[Converted]:
        """What was held back, as far as it came."""
        yield from self._release()
        yield from self._way.finish()

    def _release(self) -> Iterator[Converted]:
        if self._held is None:
            return
        (index, piece), self._held = self._held, None
        original = CATALOGS[piece.source]
        try:
            for document in join(piece.group, piece.items, original):
                yield from self._way.convert(document, original, index)
        except BadDocument as bad:  # it is no fault of the document that comes now
            yield Converted(index, [], [], bad)
