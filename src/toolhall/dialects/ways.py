"""The three ways from a document to a target dialect: translated, written tool by tool, or gathered into one."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from toolhall.dialects.catalog import Catalog, Loss, Writer
from toolhall.dialects.catalogs import WRITERS, readable
from toolhall.dialects.convert import translate
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.functions import by_tool
from toolhall.dialects.pointers import located
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import Tool


class Converted(msgspec.Struct, frozen=True):
    """What became of one or more documents; `index` is the first one's place in the input."""

    index: int
    documents: list[JsonObject]
    losses: list[Loss]
    refused: BadDocument | None = None  # why parts that had been held back make no document


class Way(Protocol):
    """Takes one document after the other."""

    def convert(self, document: Json, source: Catalog, index: int) -> Iterator[Converted]:
        """What this document becomes, if it can be said already."""
        ...

    def finish(self) -> Iterator[Converted]:
        """What can only be said once all documents have come."""
        ...


def way_to(target: str) -> Way:
    """The way to a dialect; Malformed if there is none of that name."""
    writer = WRITERS.get(target)
    if writer is None:
        return Translation(readable(target))
    return Gathering(writer) if writer.grouped else ToolByTool(writer)


class Translation:
    """To a dialect that can be read back: with carriers."""

    def __init__(self, target: Catalog) -> None:
        self._target = target

    def convert(self, document: Json, source: Catalog, index: int) -> Iterator[Converted]:
        """One that is in the target dialect already is only checked."""
        if source is self._target:
            source.read(document)
            yield Converted(index, [document], [])
        else:
            written = translate(document, source, self._target)
            yield Converted(index, written.documents, written.losses)

    def finish(self) -> Iterator[Converted]:
        """Nothing is held back."""
        yield from ()


class ToolByTool:
    """To a model API's functions."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def convert(self, document: Json, source: Catalog, index: int) -> Iterator[Converted]:
        """A function for each tool."""
        documents: list[JsonObject] = []
        losses: list[Loss] = []
        refused: list[Finding] = []
        for number, tool in enumerate(source.read(document)):
            try:
                written = self._writer.write((tool,))
            except BadDocument as bad:
                refused.extend(
                    msgspec.structs.replace(finding, path=located(finding.path, document, source, number))
                    for finding in bad.findings
                )
                continue
            documents.extend(written.documents)
            losses.extend(Loss(located(loss.path, document, source, number), loss.reason) for loss in written.losses)
        if refused:
            raise BadDocument(refused)
        yield Converted(index, documents, losses)

    def finish(self) -> Iterator[Converted]:
        """Nothing is held back."""
        yield from ()


class Gathering:
    """To a dialect whose one document holds all tools."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._tools: list[Tool] = []
        self._origins: list[tuple[int, JsonObject, Catalog, int]] = []

    def convert(self, document: Json, source: Catalog, index: int) -> Iterator[Converted]:
        """Keep the tools until all have come."""
        for number, tool in enumerate(source.read(document)):
            self._tools.append(tool)
            self._origins.append((index, document, source, number))
        yield from ()

    def finish(self) -> Iterator[Converted]:
        """The one document, then the losses of each document that came in."""
        if not self._tools:
            return
        written = self._writer.write(tuple(self._tools))
        lost: dict[int, list[Loss]] = {index: [] for index, *_ in self._origins}
        for number, loss in by_tool(written.losses, len(self._tools)):
            index, document, source, place = self._origins[number]
            lost[index].append(Loss(located(loss.path, document, source, place), loss.reason))
        documents = written.documents
        for index, losses in lost.items():
            yield Converted(index, documents, losses)
            documents = []
