"""`toolhall tool add`: registers the definitions of files and folders; each is quarantined until it is activated."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from toolhall.cli.definitions import SUFFIXES
from toolhall.cli.documents import opening
from toolhall.cli.documents.naming import check_readable
from toolhall.cli.documents.opening import STANDARD, File, Opened, check_file, failing_in_words
from toolhall.cli.documents.spotted import Spotted
from toolhall.cli.documents.text import BadJson, Text, decoded
from toolhall.cli.failure import CommandFailed, WrongUsage
from toolhall.cli.logs import start_logging
from toolhall.cli.progress import counted
from toolhall.cli.screen import note, visible
from toolhall.cli.tools.desk import Desk, HallOptions, Refused, opened
from toolhall.cli.tools.telling import one_line, print_answer
from toolhall.dialects.findings import Finding
from toolhall.model.json import JsonObject

# What is wrong with one document says nothing of the next; everything else does.
_OF_ONE_DOCUMENT = (400, 409, 413)


@dataclass(frozen=True)
class AddOptions(HallOptions):
    """What `toolhall tool add` takes besides the files.

    Parameters
    ----------
    source
        The dialect of the definitions: mcp, mcp@REVISION, oxp, hub, machine or function. [default: as each looks]
    behaviour
        The tools behave differently, beyond what their definitions show: their versions must say so, too.
    """

    source: Annotated[str | None, Parameter(name="--from")] = None
    behaviour: Literal["breaking", "feature"] | None = None


_DEFAULTS = AddOptions()


def add(*files: File, options: Annotated[AddOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Register definitions; one that is refused does not stop the others.

    Parameters
    ----------
    files
        Documents, lists, objects with a list in "tools" or "items", JSON lines, or folders of such files; - is the
        standard input.
    """
    start_logging(None)
    if not files:
        raise WrongUsage("add needs a file or a folder; write - for the standard input")
    check_readable(options.source)
    named = [each for file in files for each in _files(file)]
    adding = Adding(options)
    try:
        with failing_in_words(), opened(options, changing=True, founding=True) as desk:
            for file in named:
                with opening.opened(file) as source:
                    adding.run(desk, source)
    finally:
        adding.report()
    adding.finish()


class Adding:
    """Adds one document after the other, and remembers what came of each."""

    def __init__(self, options: AddOptions) -> None:
        self._options = options
        self._tools: list[JsonObject] = []
        self._findings: list[JsonObject] = []
        self._refused: list[JsonObject] = []

    def run(self, desk: Desk, source: Opened) -> None:
        """All documents of a file."""
        desk.bringing(source.name)
        try:
            documents = source.documents()
        except BadJson as bad:
            self._refuse(source.name, Text(0, bad.line, b""), bad.message, list(bad.findings))
            return
        for text in documents.texts:
            self._add(desk, source.name, text)

    def report(self) -> None:
        """With --json, print everything so far, also where the rest could not be added."""
        if self._options.json:
            print_answer({"tools": self._tools, "findings": self._findings, "refused": self._refused})

    def finish(self) -> None:
        """Say how much it was; CommandFailed if something was refused."""
        said = f"registered {counted(len(self._tools), 'tool')}, {counted(len(self._findings), 'finding')}"
        if self._refused:
            raise CommandFailed(f"{said}; {counted(len(self._refused), 'document')} refused, for the reasons above")
        waiting = any(tool["state"] == "quarantined" for tool in self._tools)
        note(f"{said}{'; look at each, then serve it with toolhall tool activate ID' if waiting else ''}")

    def _add(self, desk: Desk, file: str, text: Text) -> None:
        try:
            told = desk.ask(
                "POST",
                body=decoded(text),
                query={"dialect": self._options.source, "behaviour": self._options.behaviour},
            )
        except BadJson as bad:
            self._refuse(file, Text(text.index, bad.line, b""), bad.message, list(bad.findings))
        except Refused as refused:
            if refused.status not in _OF_ONE_DOCUMENT:
                raise
            self._refuse(file, text, refused.message, [_finding(each) for each in refused.problems])
        else:
            self._keep(file, text, told)

    def _keep(self, file: str, text: Text, told: JsonObject) -> None:
        place = {"file": file, "line": text.line, "index": text.index}
        self._tools += [{**place, **tool} for tool in told["tools"]]
        found = [Spotted(file, text.line, text.index, _finding(each)) for each in told["findings"]]
        self._findings += [spotted.document() for spotted in found]
        if not self._options.json:
            lines = [one_line(each, running=self._options.running) for each in told["tools"]]
            print("\n".join([*lines, *(f"  {spotted}" for spotted in found)]))

    def _refuse(self, file: str, text: Text, reason: str, findings: list[Finding]) -> None:
        found = [Spotted(file, text.line, text.index, each) for each in findings]
        place = {"file": file, "line": text.line, "index": text.index}
        self._refused.append({**place, "reason": reason, "problems": [spotted.document() for spotted in found]})
        if not self._options.json:
            print(
                "\n".join(map(str, found)) or visible(f"{file}:{text.line}: document {text.index}: refused: {reason}")
            )


def _finding(said: JsonObject) -> Finding:
    return msgspec.convert({"severity": "error", **said}, Finding)


def _files(given: str) -> Iterator[str]:
    """The file itself, or the definitions files of a folder."""
    if given == STANDARD or not Path(given).is_dir():
        check_file(given)
        yield given
        return
    found = sorted(str(each) for each in Path(given).iterdir() if each.name.lower().endswith(SUFFIXES))
    if not found:
        raise WrongUsage(f"the folder {given} holds no file of definitions ({', '.join(SUFFIXES)})")
    yield from found
