"""`toolhall convert`: definitions to another dialect, in the layout they came in; JSON lines in constant memory."""

import contextlib
import gc
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from toolhall.cli.documents.naming import check_readable, check_writable
from toolhall.cli.documents.opening import STANDARD, File, Opened, failing_in_words, opened
from toolhall.cli.documents.reading import Documents
from toolhall.cli.documents.replacing import NewFile, new_file
from toolhall.cli.documents.sinks import Lines, Report, Sink, Whole
from toolhall.cli.documents.spotted import Spotted
from toolhall.cli.documents.telling import Telling
from toolhall.cli.documents.text import BadJson, Text, decoded
from toolhall.cli.failure import CommandFailed
from toolhall.cli.progress import Progress, counted, progress
from toolhall.dialects.converted import Converted
from toolhall.dialects.converter import Converter
from toolhall.dialects.findings import BadDocument
from toolhall.model.json import encode


@dataclass(frozen=True)
class ConvertOptions:
    """What `toolhall convert` takes besides the file.

    Parameters
    ----------
    to
        The dialect to write, such as oxp, mcp@2025-06-18 or openai@strict; a wrong one lists them all.
    source
        The dialect to read: mcp, mcp@REVISION, oxp, hub, machine or function. [default: as each document looks]
    out
        The file to write, replaced once everything is converted. [default: the standard output]
    json
        Print {"documents": [...], "losses": [{"index", "path", "reason"}]}.
    """

    to: str
    source: Annotated[str | None, Parameter(name="--from")] = None
    out: Annotated[Path | None, Parameter(alias="-o")] = None
    json: bool = False


def convert(file: File, /, *, options: Annotated[ConvertOptions, Parameter(name="*")]) -> None:
    """Convert definitions to another dialect; what it cannot say is listed, and carried along where there is a place.

    Parameters
    ----------
    file
        A document, a list, an object with a list in "tools" or "items", or JSON lines; - is the standard input.
    """
    check_writable(options.to)
    check_readable(options.source)
    gc.freeze()  # what was imported need not be looked through again: a sixth of the time
    out = None if options.out is None or str(options.out) == STANDARD else options.out
    with failing_in_words(), opened(file) as source, contextlib.ExitStack() as stack:
        new = stack.enter_context(new_file(out)) if out else None
        shown = stack.enter_context(progress(source.size, scrolls=sys.stdout.isatty() and new is None))
        conversion = Conversion(source.name, partial(Converter, options.to, options.source), shown)
        conversion.run(source, _Destinations(options.json, options.to, new))
        _end(conversion, new, file)


@dataclass(frozen=True)
class _Destinations:
    """Where the documents go: to a new file, to the standard output, or with a report both."""

    report: bool
    target: str
    new: NewFile | None

    def sinks(self, documents: Documents, shown: Progress) -> list[Sink]:
        """One for each."""
        sinks: list[Sink] = [Telling(shown, losses=not self.report)]
        if self.report:
            sinks.append(Report(sys.stdout.buffer))
        if self.new is None and self.report:
            return sinks
        stream = sys.stdout.buffer if self.new is None else self.new.stream
        if documents.layout is None:
            return [*sinks, Lines(stream, live=self.new is None)]
        return [*sinks, Whole(stream, documents.layout, self.target)]


class Conversion:
    """Feeds a converter with the documents of one file and hands on what comes out."""

    def __init__(self, name: str, converter: Callable[..., Converter], shown: Progress) -> None:
        self._name = name
        self._make = converter
        self._progress = shown
        self._sinks: list[Sink] = []
        self._lines: dict[int, int] = {}  # where the documents start that something is still to be said of
        self.count = self.refused = self.made = 0

    def run(self, source: Opened, destinations: _Destinations) -> None:
        """Everything, one document after the other; a bad one does not keep the others back."""
        try:
            documents = source.documents()
        except BadJson as bad:
            documents = Documents(iter([]), lambda made, _: made)
            self._sinks = destinations.sinks(documents, self._progress)
            self._refuse(0, bad)
        else:
            self._sinks = destinations.sinks(documents, self._progress)
        converter = self._make(whole=documents.layout is not None)
        for text in documents.texts:
            self._take(text, converter)
            self._progress.step(len(text.body))
        try:
            self._hand_on(converter.finish())
        except BadDocument as bad:
            self._refuse(max(self.count - 1, 0), bad)
        for sink in reversed(self._sinks):  # first the result, then what is told about it
            sink.finish()

    def _take(self, text: Text, converter: Converter) -> None:
        self.count += 1
        if not converter.waits:
            self._lines.clear()
        self._lines[text.index] = text.line
        try:
            self._hand_on(converter.feed(decoded(text), text.index))
        except BadDocument as bad:
            self._refuse(text.index, bad)

    def _hand_on(self, converted: Iterable[Converted]) -> None:
        for part in converted:
            for document in part.documents:
                encoded = encode(document)
                self.made += 1
                for sink in self._sinks:
                    sink.document(encoded)
            if part.refused is not None:
                self._refuse(part.index, part.refused)
            for loss in part.losses:
                for sink in self._sinks:
                    sink.loss(part.index, loss)

    def _refuse(self, index: int, bad: BadDocument) -> None:
        self.refused += 1
        line = bad.line if isinstance(bad, BadJson) else self._lines.get(index, 1)
        for finding in bad.findings:
            for sink in self._sinks:
                sink.problem(Spotted(self._name, line, index, finding))


def _end(conversion: Conversion, new: NewFile | None, file: str) -> None:
    """Put the new file in its place if there is something in it; fail if a document was refused."""
    refused = conversion.refused
    left = new is not None and refused and (not conversion.made or new.is_same(file))
    if new is not None and not left:
        new.keep()
    if refused:
        kept = "; the file is left as it was" if left else ""
        many = f"{refused:,} of {counted(max(conversion.count, refused), 'document')}"
        raise CommandFailed(f"{many} could not be converted{kept}; change what is listed above")
