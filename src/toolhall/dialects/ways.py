"""The ways from a document to a target dialect: translated, assembled, written tool by tool, or gathered into one."""

from collections.abc import Iterator
from typing import Protocol

import msgspec

from toolhall.dialects.assembly import Assembly
from toolhall.dialects.catalog import Catalog, Loss, Writer
from toolhall.dialects.catalogs import WRITERS, readable
from toolhall.dialects.convert import Original, translate
from toolhall.dialects.converted import Converted
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.functions import by_tool
from toolhall.dialects.pointers import located
from toolhall.model.json import JsonObject
from toolhall.model.tool import Tool


class Way(Protocol):
    """Takes one document after the other."""

    @property
    def waits(self) -> bool:
        """Whether some have come of which nothing was said yet."""
        ...

    def convert(self, given: Original) -> Iterator[Converted]:
        """What this document becomes, if it can be said already."""
        ...

    def finish(self) -> Iterator[Converted]:
        """What can only be said once all documents have come."""
        ...


def way_to(target: str, *, whole: bool = False) -> Way:
    """The way to a dialect; Malformed if there is none of that name. `whole`: all documents are known at once."""
    writer = WRITERS.get(target)
    if writer is None:
        catalog = readable(target)
        return Assembly(catalog, whole=whole) if catalog.grouped else Translation(catalog)
    return Gathering(writer) if writer.grouped else ToolByTool(writer)


class Translation:
    """To a dialect that can be read back, and whose documents are a tool each: with carriers."""

    waits = False

    def __init__(self, target: Catalog) -> None:
        self._target = target

    def convert(self, given: Original) -> Iterator[Converted]:
        """One that is in the target dialect already was only checked."""
        if given.catalog is self._target:
            yield Converted(given.index, [given.document], [])
        else:
            written = translate(given, self._target)
            yield Converted(given.index, written.documents, written.losses)

    def finish(self) -> Iterator[Converted]:
        """Nothing is held back."""
        yield from ()


class ToolByTool:
    """To a model API's functions."""

    waits = False

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def convert(self, given: Original) -> Iterator[Converted]:
        """A function for each tool; what all tools of a toolkit lose is said once."""
        document, source = given.document, given.catalog
        documents: list[JsonObject] = []
        losses: dict[Loss, None] = {}
        refused: list[Finding] = []
        for number, tool in enumerate(given.tools):
            try:
                written = self._writer.write((tool,))
            except BadDocument as bad:
                refused.extend(
                    msgspec.structs.replace(finding, path=located(finding.path, document, source, number))
                    for finding in bad.findings
                )
                continue
            documents.extend(written.documents)
            for loss in written.losses:
                losses[Loss(located(loss.path, document, source, number), loss.reason)] = None
        if refused:
            raise BadDocument(refused)
        yield Converted(given.index, documents, list(losses))

    def finish(self) -> Iterator[Converted]:
        """Nothing is held back."""
        yield from ()


class Gathering:
    """To a dialect whose one document holds all tools."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._tools: list[Tool] = []
        self._origins: list[tuple[Original, int]] = []

    @property
    def waits(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._tools)

    def convert(self, given: Original) -> Iterator[Converted]:
        """Keep the tools until all have come."""
        self._tools.extend(given.tools)
        self._origins.extend((given, number) for number in range(len(given.tools)))
        yield from ()

    def finish(self) -> Iterator[Converted]:
        """The one document, then the losses of each document that came in."""
        if not self._tools:
            return
        written = self._writer.write(tuple(self._tools))
        lost: dict[int, dict[Loss, None]] = {given.index: {} for given, _ in self._origins}
        for number, loss in by_tool(written.losses, len(self._tools)):
            given, place = self._origins[number]
            lost[given.index][Loss(located(loss.path, given.document, given.catalog, place), loss.reason)] = None
        documents = written.documents
        for index, losses in lost.items():
            yield Converted(index, documents, list(losses))
            documents = []
