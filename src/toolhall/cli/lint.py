"""`toolhall lint`: every problem of definitions in files, with its place, its rule and its fix."""

import gc
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeAlias

from cyclopts import Parameter

from toolhall.cli.documents.naming import check_readable
from toolhall.cli.documents.opening import File, Opened, check_file, failing_in_words, opened
from toolhall.cli.documents.spotted import Spotted
from toolhall.cli.documents.text import BadJson, Text, decoded
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.progress import Progress, counted, progress
from toolhall.cli.screen import RED, YELLOW, note, styled
from toolhall.dialects.lint.linter import Linter
from toolhall.model.json import encode

# The file, the line and which document of the file: what a tool is remembered by.
_Place: TypeAlias = tuple[str, int, int]
_COLOURS = {"error": RED, "warning": YELLOW}


@dataclass(frozen=True)
class LintOptions:
    """What `toolhall lint` takes besides the files.

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
        Documents, lists, objects with a list in "tools" or "items", or JSON lines; - is the standard input.
    """
    if not files:
        raise WrongUsage("lint needs a file; write - for the standard input")
    check_readable(options.source)
    for file in files:
        check_file(file)
        if file.endswith(".py"):
            raise WrongUsage(
                f"{file} is Python, and lint reads definitions; write"
                f" 'toolhall list {file} --dialect mcp | toolhall lint -'"
            )
    gc.freeze()  # what was imported need not be looked through again
    listing: _Listing = _Items() if options.json else _Lines()
    linting = Linting(Linter(options.source), listing)
    with failing_in_words():
        for file in files:
            with opened(file) as source, progress(source.size, scrolls=sys.stdout.isatty()) as shown:
                linting.run(source, shown)
        linting.finish()
        sys.stdout.flush()
    said = linting.summary()
    if linting.counts["error"]:
        raise CommandFailed(said)
    note(said)


class _Listing(Protocol):
    """How problems are printed."""

    def add(self, spotted: Spotted) -> None:
        """One more."""
        ...

    def end(self) -> None:
        """All have come."""
        ...


class Linting:
    """Lints one file after the other and counts."""

    def __init__(self, linter: Linter[_Place], listing: _Listing) -> None:
        self._linter = linter
        self._listing = listing
        self._documents = 0
        self.counts = {"error": 0, "warning": 0}

    def run(self, source: Opened, shown: Progress) -> None:
        """All documents of a file."""
        try:
            documents = source.documents()
        except BadJson as bad:
            self._documents += 1  # whatever it was to be
            self._add(_bad(source.name, Text(0, bad.line, b""), bad))
            return
        for text in documents.texts:
            self._documents += 1
            self._add(self._lint(source.name, text))
            shown.step(len(text.body))

    def finish(self) -> None:
        """What can be said once all tools are known."""
        for (file, line, index), finding in self._linter.finish():
            self._add(iter([Spotted(file, line, index, finding)]))
        self._listing.end()

    def summary(self) -> str:
        """How much was found."""
        errors, warnings = self.counts["error"], self.counts["warning"]
        found = f"{counted(errors, 'error')} and {counted(warnings, 'warning')}"
        return f"{found} in {counted(self._documents, 'document')}"

    def _lint(self, file: str, text: Text) -> Iterator[Spotted]:
        try:
            document = decoded(text)
        except BadJson as bad:
            yield from _bad(file, text, bad)
            return
        where = (file, text.line, text.index)
        for finding in self._linter.lint(document, f"{file}:{text.line}", where):
            yield Spotted(*where, finding)

    def _add(self, found: Iterator[Spotted]) -> None:
        for spotted in found:
            self.counts[spotted.finding.severity] += 1
            self._listing.add(spotted)


def _bad(file: str, text: Text, bad: BadJson) -> Iterator[Spotted]:
    return (Spotted(file, bad.line, text.index, finding) for finding in bad.findings)


class _Lines:
    """A line for each problem."""

    def add(self, spotted: Spotted) -> None:
        """Print it."""
        severity = spotted.finding.severity
        coloured = styled(f" {severity}: ", _COLOURS[severity], sys.stdout)
        print(str(spotted).replace(f" {severity}: ", coloured, 1))

    def end(self) -> None:
        """Nothing follows."""


class _Items:
    """One JSON list, printed as it grows."""

    def __init__(self) -> None:
        self._before = b"["

    def add(self, spotted: Spotted) -> None:
        """Print it."""
        sys.stdout.buffer.write(self._before + encode(spotted.document()))
        self._before = b","

    def end(self) -> None:
        """Close the list."""
        sys.stdout.buffer.write(b"[]\n" if self._before == b"[" else b"]\n")
        sys.stdout.buffer.flush()
