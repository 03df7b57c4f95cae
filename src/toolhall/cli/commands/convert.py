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

from toolhall.cli.documents.reader import (
    STDIN,
    DocumentSet,
    InvalidJson,
    LocatedFinding,
    OpenedFile,
    RawDocument,
    check_source_dialect,
    check_target_dialect,
    decode_document,
    open_documents,
    report_io_errors,
)
from toolhall.cli.documents.writers import (
    AtomicFile,
    ConversionWriter,
    JsonLinesWriter,
    JsonReportWriter,
    LayoutWriter,
    SummaryWriter,
    open_atomic,
)
from toolhall.cli.errors import CommandError
from toolhall.cli.output import pluralize
from toolhall.cli.parameters import File
from toolhall.cli.progress import ProgressDisplay, show_progress
from toolhall.dialects.convert.converter import Converter
from toolhall.dialects.convert.targets import ConversionResult
from toolhall.dialects.findings import BadDocument
from toolhall.model.json import encode


@dataclass(frozen=True)
class ConvertOptions:
    """Options of `toolhall convert`.

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
        A document, a list, an object with a list in "tools", "resources", "prompts" or "items", or JSON lines; - is the
        standard input.
    """
    check_target_dialect(options.to)
    check_source_dialect(options.source)
    gc.freeze()  # the collector need not traverse the imported modules again: a sixth of the time
    out = None if options.out is None or str(options.out) == STDIN else options.out
    with report_io_errors(), open_documents(file) as source, contextlib.ExitStack() as stack:
        new = stack.enter_context(open_atomic(out)) if out else None
        progress = stack.enter_context(show_progress(source.size, output_scrolls=sys.stdout.isatty() and new is None))
        conversion = Conversion(source.name, partial(Converter, options.to, options.source), progress)
        conversion.run(source, _OutputPlan(options.json, options.to, new))
        _finish(conversion, new, file)


@dataclass(frozen=True)
class _OutputPlan:
    """Where the documents are written: a new file, stdout, or both with a report."""

    report: bool
    target: str
    file: AtomicFile | None

    def writers(self, documents: DocumentSet, progress: ProgressDisplay) -> list[ConversionWriter]:
        """The writers for a set of documents."""
        writers: list[ConversionWriter] = [SummaryWriter(progress, losses=not self.report)]
        if self.report:
            writers.append(JsonReportWriter(sys.stdout.buffer))
        if self.file is None and self.report:
            return writers
        stream = sys.stdout.buffer if self.file is None else self.file.stream
        if documents.layout is None:
            return [*writers, JsonLinesWriter(stream, live=self.file is None)]
        return [*writers, LayoutWriter(stream, documents.layout, self.target)]


class Conversion:
    """Converts the documents of one file and passes the results to the writers."""

    def __init__(self, name: str, converter: Callable[..., Converter], progress: ProgressDisplay) -> None:
        self._name = name
        self._new_converter = converter
        self._progress = progress
        self._writers: list[ConversionWriter] = []
        self._lines: dict[int, int] = {}  # first line of each document that may still be reported on
        self.count = self.refused = self.written = 0

    def run(self, source: OpenedFile, destinations: _OutputPlan) -> None:
        """Convert all documents; an invalid one does not stop the others."""
        try:
            documents = source.documents()
        except InvalidJson as bad:
            documents = DocumentSet(iter([]), lambda made, _: made)
            self._writers = destinations.writers(documents, self._progress)
            self._write_problems(0, bad)
        else:
            self._writers = destinations.writers(documents, self._progress)
        converter = self._new_converter(whole=documents.layout is not None)
        for text in documents.texts:
            self._convert_document(text, converter)
            self._progress.advance(len(text.body))
        try:
            self._write_converted(converter.finish())
        except BadDocument as bad:
            self._write_problems(max(self.count - 1, 0), bad)
        for writer in reversed(self._writers):  # the documents first, then the summary
            writer.finish()

    def _convert_document(self, text: RawDocument, converter: Converter) -> None:
        self.count += 1
        if not converter.has_pending:
            self._lines.clear()
        self._lines[text.index] = text.line
        try:
            self._write_converted(converter.feed(decode_document(text), text.index, text.listed_as))
        except BadDocument as bad:
            self._write_problems(text.index, bad)

    def _write_converted(self, converted: Iterable[ConversionResult]) -> None:
        for part in converted:
            for document in part.documents:
                encoded = encode(document)
                self.written += 1
                for writer in self._writers:
                    writer.write_document(encoded)
            if part.refused is not None:
                self._write_problems(part.index, part.refused)
            for loss in part.losses:
                for writer in self._writers:
                    writer.write_loss(part.index, loss)

    def _write_problems(self, index: int, bad: BadDocument) -> None:
        self.refused += 1
        line = bad.line if isinstance(bad, InvalidJson) else self._lines.get(index, 1)
        for finding in bad.findings:
            for writer in self._writers:
                writer.write_problem(LocatedFinding(self._name, line, index, finding))


def _finish(conversion: Conversion, new: AtomicFile | None, file: str) -> None:
    """Commit the new file unless nothing could be converted; raises CommandError if a document was refused."""
    refused = conversion.refused
    left = new is not None and refused and (not conversion.written or new.replaces(file))
    if new is not None and not left:
        new.commit()
    if refused:
        unchanged = "; the file is left as it was" if left else ""
        many = f"{refused:,} of {pluralize(max(conversion.count, refused), 'document')}"
        raise CommandError(f"{many} could not be converted{unchanged}; change what is listed above")
