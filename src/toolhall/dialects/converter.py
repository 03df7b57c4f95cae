"""Converts documents one after the other, each as soon as it is whole."""

from collections.abc import Iterator

import msgspec

from toolhall.dialects.catalog import Catalog, Loss, Written
from toolhall.dialects.catalogs import ALIASES, CATALOGS, catalog_named
from toolhall.dialects.convert import Piece, join, restore, translate
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.json import Json, JsonObject


class Converted(msgspec.Struct, frozen=True):
    """What became of one or more documents; `index` is the first one's place in the input."""

    index: int
    documents: list[JsonObject]
    losses: list[Loss]


class Converter:
    """Holds back the parts of one original until all have come, so that a split toolkit becomes whole again."""

    def __init__(self, target: Catalog, source: Catalog | None = None) -> None:
        self._target = target
        self._source = source
        self._held: tuple[int, Piece] | None = None

    def feed(self, document: Json, index: int) -> Iterator[Converted]:
        """Everything that is whole once this document has come; BadDocument if it cannot be read."""
        source = self._source or detected(document)
        piece = restore(document, source, CATALOGS) if isinstance(document, dict) else None
        if piece is None:
            yield from self.finish()
            written = (
                _as_it_is(document, source) if source is self._target else translate(document, source, self._target)
            )
            yield Converted(index, written.documents, written.losses)
            return
        if self._held is not None and piece.follows(self._held[1]):
            first, held = self._held
            piece, index = msgspec.structs.replace(held, items=[*held.items, *piece.items]), first
        else:
            yield from self.finish()
        self._held = (index, piece)
        if piece.at + len(piece.items) >= piece.of:
            yield from self.finish()

    def finish(self) -> Iterator[Converted]:
        """What was held back, as far as it came."""
        if self._held is None:
            return
        (index, piece), self._held = self._held, None
        original = CATALOGS[piece.source]
        for document in join(piece.group, piece.items, original):
            same = original is self._target
            written = _as_it_is(document, original) if same else translate(document, original, self._target)
            yield Converted(index, written.documents, written.losses)


def detected(document: Json) -> Catalog:
    """The catalog that a document looks like one of."""
    name = _look(document) if isinstance(document, dict) else None
    if name is None:
        known = ", ".join([*ALIASES, *CATALOGS])
        raise BadDocument(
            [Finding("", "convert/unknown", f"this looks like no known definition; say which of {known}")]
        )
    catalog = catalog_named(name)
    assert catalog is not None  # noqa: S101 - _look names only what is there
    return catalog


def _look(document: JsonObject) -> str | None:
    if "inputSchema" in document:
        return "mcp"
    if "input_schema" in document or "output_schema" in document:
        return "oxp"
    if isinstance(document.get("capabilities"), list):
        return "machine"
    if isinstance(document.get("tool"), dict) or isinstance(document.get("capabilities"), dict):
        return "hub"
    return "function" if isinstance(document.get("name"), str) or "function" in document else None


def _as_it_is(document: JsonObject, catalog: Catalog) -> Written:
    """A document that is in the target dialect already is only checked."""
    catalog.read(document)
    return Written([document], [])
