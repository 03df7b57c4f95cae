"""`toolhall diff`: what changed between two definitions, and whether the new version says so."""

import sys
from dataclasses import dataclass
from typing import Annotated, Literal

from cyclopts import Parameter

from toolhall.cli.documents.reader import (
    STDIN,
    InvalidJson,
    LocatedFinding,
    RawDocument,
    check_file,
    check_source_dialect,
    decode_document,
    open_documents,
    report_io_errors,
)
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.output import DIM, RED, YELLOW, note, pluralize, print_json, styled, visible
from toolhall.cli.parameters import File
from toolhall.contracts.release import ReleaseCheck, check_release
from toolhall.contracts.semver import CHANGE_KINDS, ChangeKind
from toolhall.dialects.base import Catalog
from toolhall.dialects.catalogs import CATALOGS, detect_dialect, readable_catalog
from toolhall.dialects.convert import lossless
from toolhall.dialects.convert.translate import restore
from toolhall.dialects.findings import BadDocument
from toolhall.model.json import Json
from toolhall.model.tool import Tool

_COLOURS: dict[ChangeKind, str] = {"breaking": RED, "feature": YELLOW, "fix": DIM}


@dataclass(frozen=True)
class DiffOptions:
    """Options of `toolhall diff`.

    Parameters
    ----------
    behaviour
        Declare that the tool behaves differently beyond what its definition shows.
    source
        The dialect of the definitions: mcp, mcp@REVISION, oxp, hub, machine or function. [default: as each looks]
    json
        Print {"required", "declared", "ok", "changes": [{"kind", "path", "reason"}]}.
    """

    behaviour: Literal["breaking", "feature"] | None = None
    source: Annotated[str | None, Parameter(name="--from")] = None
    json: bool = False


_DEFAULTS = DiffOptions()


def diff(old: File, new: File, /, *, options: Annotated[DiffOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Name what changed breaking, feature or fix; exit 1 if the version of the new definition rises too little.

    Parameters
    ----------
    old
        The definition as it was, or several: a list, "tools" or "items", JSON lines; - is the standard input.
    new
        The definition as it is now; several are matched by their ids without the version.
    """
    check_source_dialect(options.source)
    if old == new == STDIN:
        raise UsageError("only one of the two can be the standard input; name a file for the other")
    for file in (old, new):
        check_file(file)
    with report_io_errors():
        found = check_release(_read_tools(old, options.source), _read_tools(new, options.source), options.behaviour)
    if options.json:
        print_json({"required": found.required, "declared": found.declared, "ok": found.ok, "changes": found.changes})
    else:
        _print_changes(found)
    summary = _summary(found)
    if not found.ok:
        raise CommandError(summary)
    note(summary)


def _print_changes(found: ReleaseCheck) -> None:
    for kind in CHANGE_KINDS:
        changes = [change for change in found.changes if change.kind == kind]
        if changes:
            print(styled(kind, _COLOURS[kind], sys.stdout))
        for change in changes:
            print(visible(f"  {change.path or '/'}: {change.reason}"))


def _summary(found: ReleaseCheck) -> str:
    if not found.changes:
        return "no changes"
    summary = f"{pluralize(len(found.changes), 'change')}: required {found.required}, declared {found.declared}"
    if found.ok:
        return summary
    if found.next is None:
        return f"{summary}; a definition without a version must not break its callers, and none may vanish"
    return f"{summary}; the next version is {found.next} at least"


def _read_tools(file: str, source: str | None) -> list[Tool]:
    """All tools of a file, in the named dialect or the detected one of each document; CommandError with the line."""
    tools: list[Tool] = []
    text = RawDocument(0, 1, b"")
    with open_documents(file) as found:
        try:
            for text in found.documents().texts:
                tools += _tools_of(decode_document(text), source, text.listed_as)
        except BadDocument as bad:
            line = bad.line if isinstance(bad, InvalidJson) else text.line
            first = LocatedFinding(found.name, line, text.index, bad.findings[0])
            raise CommandError(f"{first}; 'toolhall lint' lists all problems") from None
    return tools


def _tools_of(document: Json, source: str | None, listed_as: str) -> tuple[Tool, ...]:
    catalog = detect_dialect(document, listed_as) if source is None else readable_catalog(source)
    carried = restore(document, catalog, CATALOGS) if isinstance(document, dict) else None
    if carried is None:
        return _read_document(document, catalog)
    origin = CATALOGS[carried.source]
    return tuple(tool for each in carried.originals(origin) for tool in _read_document(each, origin))


def _read_document(document: Json, catalog: Catalog) -> tuple[Tool, ...]:
    """The tools of a document with their extensions; a document with an unusable schema can still be compared."""
    try:
        return lossless.read(document, catalog)
    except BadDocument:
        return catalog.read(document)
