"""`toolhall lint`: every problem of definition files, with its line, rule and fix."""

import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol, TypeAlias

from cyclopts import Parameter

from toolhall.cli.documents.reader import (
    InvalidJson,
    LocatedFinding,
    OpenedFile,
    RawDocument,
    check_file,
    check_source_dialect,
    decode_document,
    open_documents,
    report_io_errors,
)
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.output import RED, YELLOW, note, pluralize, styled
from toolhall.cli.parameters import File
from toolhall.cli.progress import ProgressDisplay, show_progress
from toolhall.cli.upstream_files import lint_upstream_file
from toolhall.dialects.findings import Finding
from toolhall.dialects.lint.linter import Linter
from toolhall.model.json import encode

_Location: TypeAlias = tuple[str, int, int]  # file, line, index of the document
_COLOURS = {"error": RED, "warning": YELLOW}


@dataclass(frozen=True)
class LintOptions:
    """Options of `toolhall lint`.

    Parameters
    ----------
    source
        The dialect of the definitions: mcp, mcp@REVISION, oxp, hub, machine or function. [default: as each looks]
    json
        Print a list of {"file", "line", "index", "path", "rule", "severity", "fix"}.
    """

    source: Annotated[str | None, Parameter(name="--from")] = None
    json: bool = False


_DEFAULTS = LintOptions()


def lint(*files: File, options: Annotated[LintOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Check definitions: errors are what would be refused, warnings what should be written better or looks hostile.

    Parameters
    ----------
    files
        Documents, lists, objects with a list in "tools", "resources", "prompts" or "items", or JSON lines; files of
        MCP clients that list servers; - is the standard input.
    """
    if not files:
        raise UsageError("lint needs a file; write - for the standard input")
    check_source_dialect(options.source)
    for file in files:
        check_file(file)
        if file.endswith(".py"):
            raise UsageError(
                f"{file} is Python, and lint reads definitions; write"
                f" 'toolhall list {file} --dialect mcp | toolhall lint -'"
            )
    gc.freeze()  # the collector need not traverse the imported modules again
    listing: _FindingPrinter = _JsonPrinter() if options.json else _TextPrinter()
    linting = LintRun(Linter(options.source), listing)
    with report_io_errors():
        for file in files:
            servers = lint_upstream_file(Path(file))
            if servers is not None:
                linting.add_servers(file, servers)
                continue
            with (
                open_documents(file) as source,
                show_progress(source.size, output_scrolls=sys.stdout.isatty()) as shown,
            ):
                linting.run(source, shown)
        linting.finish()
        sys.stdout.flush()
    summary = linting.summary()
    if linting.counts["error"]:
        raise CommandError(summary)
    note(summary)


class _FindingPrinter(Protocol):
    """Prints findings."""

    def add(self, finding: LocatedFinding) -> None:
        """Print a finding."""
        ...

    def end(self) -> None:
        """Print the end."""
        ...


class LintRun:
    """Lints files, prints findings and counts them by severity."""

    def __init__(self, linter: Linter[_Location], printer: _FindingPrinter) -> None:
        self._linter = linter
        self._printer = printer
        self._documents = 0
        self.counts = {"error": 0, "warning": 0}

    def run(self, source: OpenedFile, shown: ProgressDisplay) -> None:
        """Lint all documents of a file."""
        try:
            documents = source.documents()
        except InvalidJson as bad:
            self._documents += 1
            self._add(_json_findings(source.name, RawDocument(0, bad.line, b""), bad))
            return
        for text in documents.texts:
            self._documents += 1
            self._add(self._lint(source.name, text))
            shown.advance(len(text.body))

    def add_servers(self, file: str, found: Sequence[tuple[int, Finding]]) -> None:
        """Print the findings of a file that lists MCP servers."""
        self._documents += 1
        self._add(LocatedFinding(file, line, 0, finding) for line, finding in found)

    def finish(self) -> None:
        """Print the findings that concern several tools."""
        for (file, line, index), finding in self._linter.finish():
            self._add(iter([LocatedFinding(file, line, index, finding)]))
        self._printer.end()

    def summary(self) -> str:
        """The number of errors, warnings and documents."""
        errors, warnings = self.counts["error"], self.counts["warning"]
        found = f"{pluralize(errors, 'error')} and {pluralize(warnings, 'warning')}"
        return f"{found} in {pluralize(self._documents, 'document')}"

    def _lint(self, file: str, text: RawDocument) -> Iterator[LocatedFinding]:
        try:
            document = decode_document(text)
        except InvalidJson as bad:
            yield from _json_findings(file, text, bad)
            return
        where = (file, text.line, text.index)
        for finding in self._linter.lint(document, f"{file}:{text.line}", where, text.listed_as):
            yield LocatedFinding(*where, finding)

    def _add(self, found: Iterator[LocatedFinding]) -> None:
        for spotted in found:
            self.counts[spotted.finding.severity] += 1
            self._printer.add(spotted)


def _json_findings(file: str, text: RawDocument, bad: InvalidJson) -> Iterator[LocatedFinding]:
    return (LocatedFinding(file, bad.line, text.index, finding) for finding in bad.findings)


class _TextPrinter:
    """Prints each finding on a line."""

    def add(self, finding: LocatedFinding) -> None:
        """Print it."""
        severity = finding.finding.severity
        coloured = styled(f" {severity}: ", _COLOURS[severity], sys.stdout)
        print(str(finding).replace(f" {severity}: ", coloured, 1))

    def end(self) -> None:
        """Nothing."""


class _JsonPrinter:
    """Prints the findings as one JSON list."""

    def __init__(self) -> None:
        self._before = b"["

    def add(self, finding: LocatedFinding) -> None:
        """Print it."""
        sys.stdout.buffer.write(self._before + encode(finding.document()))
        self._before = b","

    def end(self) -> None:
        """Close the list."""
        sys.stdout.buffer.write(b"[]\n" if self._before == b"[" else b"]\n")
        sys.stdout.buffer.flush()
