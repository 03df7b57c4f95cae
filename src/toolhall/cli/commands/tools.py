"""The command group `toolhall tool`: add, list, show, activate, deprecate, roll back and remove registered tools."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal, TextIO

import msgspec
from cyclopts import Parameter

from toolhall.cli.clients.management import ManagementClient, ManagementRefused, open_management
from toolhall.cli.documents import reader
from toolhall.cli.documents.reader import (
    STDIN,
    InvalidJson,
    LocatedFinding,
    OpenedFile,
    RawDocument,
    check_file,
    check_source_dialect,
    decode_document,
    report_io_errors,
)
from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.hall_options import ConfirmOptions, HallOptions
from toolhall.cli.logs import start_logging
from toolhall.cli.output import (
    BOLD,
    DIM,
    GREEN,
    RED,
    YELLOW,
    note,
    pluralize,
    pretty_json,
    print_answer_json,
    print_rows,
    styled,
    visible,
    visible_json,
)
from toolhall.cli.parameters import File
from toolhall.cli.prompts import confirm
from toolhall.cli.target_names import DEFINITION_SUFFIXES
from toolhall.dialects.findings import Finding
from toolhall.model.json import JsonObject

_COLOURS = {"error": RED, "warning": YELLOW}
_DOCUMENT_ERRORS = (400, 409, 413)  # statuses that concern one document, so that the next is tried
_MAX_EVENTS = 1_000
_COLUMNS = ("id", "state", "from", "by", "changed", "")
_STYLES = {"active": GREEN, "active, not served": YELLOW, "quarantined": YELLOW, "inactive": DIM, "withheld": YELLOW}


def state_of(tool: JsonObject, *, running: bool) -> str:
    """The state of a tool; of a running hall also whether an active tool is not served."""
    # A data folder does not hold the operator's own code, so it does not tell what will be served.
    idle = running and tool["state"] == "active" and tool.get("served") is False
    return f"{tool['state']}, not served" if idle else str(tool["state"])


def one_line(tool: JsonObject, *, running: bool) -> str:
    """A tool's id and its state in one sentence."""
    return visible(f"{tool['id']} is {_state_text(tool, running=running)}")


def _state_text(tool: JsonObject, *, running: bool) -> str:
    state, deprecation = state_of(tool, running=running), deprecation_text(tool)
    return f"{state} ({deprecation})" if deprecation else state


def deprecation_text(tool: JsonObject) -> str:
    """The deprecation of a tool with sunset and successor; empty if it is not deprecated."""
    if tool.get("deprecatedAt") is None:
        return ""
    day = f", gone from {tool['sunset']} on" if tool["sunset"] else ""
    return f"deprecated{day}{', use ' + tool['successor'] if tool['successor'] else ''}"


def tool_details(tool: JsonObject, stream: TextIO, *, running: bool) -> Iterator[str]:
    """The lines about a tool: facts, findings, and its document as registered."""
    yield styled(visible(tool["id"]), BOLD, stream)
    facts = {
        "published as": tool["name"],
        "title": tool["title"] or "not stated",
        "state": _state_text(tool, running=running),
        "registered": f"{tool['registeredAt']} by {tool['by']}, from {tool['origin']} {tool['originDetail']}".rstrip(),
        "changed": tool["changedAt"],
        "versions": ", ".join(f"{each['id']} ({each['state']})" for each in tool["versions"]),
        "document": f"{tool['dialect']}, {tool['digests']['document']}",
    }
    for name, value in facts.items():
        yield visible(f"  {name:<14}{value}")
    findings = tool["findings"]
    yield f"{pluralize(len(findings), 'finding')} in the document{':' if findings else ''}"
    for each in findings:
        severity = styled(visible(each["severity"]), _COLOURS.get(each["severity"], RED), stream)
        yield f"  {severity}: " + visible(f"{each['path'] or '/'}: {each['fix']} [{each['rule']}]")
    yield "the document as it came, with what would not show written as <U+XXXX>:"
    yield pretty_json(tool["document"])


@dataclass(frozen=True)
class ToolListOptions(HallOptions):
    """Options of `toolhall tool list`.

    Parameters
    ----------
    state
        Only tools in this state.
    toolkit
        Only tools of this toolkit.
    """

    state: Literal["registered", "quarantined", "active", "inactive", "withheld"] | None = None
    toolkit: str | None = None


@dataclass(frozen=True)
class HistoryOptions(HallOptions):
    """Options of `toolhall tool history`.

    Parameters
    ----------
    limit
        How many events, the newest first.
    """

    limit: int = 100


_LIST_DEFAULTS = ToolListOptions()
_DEFAULTS = HallOptions()
_HISTORY_DEFAULTS = HistoryOptions()


def list_tools(*, options: Annotated[ToolListOptions, Parameter(name="*")] = _LIST_DEFAULTS) -> None:
    """List everything that is registered, in whatever state."""
    start_logging(None)
    with open_management(options) as client:
        tools = list(client.list_tools({"state": options.state, "toolkit": options.toolkit}))
        if options.json:
            print_answer_json(tools)
        elif tools:
            print_rows(_COLUMNS, (_row(each, options) for each in tools), _STYLES)
        else:
            note("nothing is registered; add definitions with 'toolhall tool add FILE'")


def show(tool: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show a tool with its document as registered, all its findings, and its other versions.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with open_management(options) as client:
        found = client.request_tool("GET", tool)
        if options.json:
            print_answer_json(found)
        else:
            print("\n".join(tool_details(found, sys.stdout, running=options.running)))


def history(
    tool: str | None = None, /, *, options: Annotated[HistoryOptions, Parameter(name="*")] = _HISTORY_DEFAULTS
) -> None:
    """Show the history of a tool, or of all of them, the newest first; also of removed ones.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for all versions; all tools when left out.
    """
    start_logging(None)
    if not 1 <= options.limit <= _MAX_EVENTS:
        raise UsageError(f"--limit is a number from 1 to {_MAX_EVENTS}")
    with open_management(options) as client:
        events = client.history(tool, options.limit)
        if options.json:
            print_answer_json(events)
            return
        rows = [(each["at"], each["what"], each["id"], each["by"], _detail_text(each["detail"])) for each in events]
        print_rows(("when", "what", "id", "by", ""), rows)


def callers(tool: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Show who called a tool, how often, when last, and in which versions and dialects, from the record of calls.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for all versions.
    """
    start_logging(None)
    with open_management(options) as client:
        answer = client.request_tool("GET", tool, "callers")
        if options.json:
            print_answer_json(answer)
        elif answer["callers"]:
            rows = [
                (
                    each["caller"],
                    str(each["calls"]),
                    each["last"],
                    ", ".join(each["versions"]),
                    ", ".join(each["dialects"]),
                )
                for each in answer["callers"]
            ]
            print_rows(("caller", "calls", "last", "versions", "dialects"), rows)
            if answer["others"]:
                note(f"and {answer['others']:,} calls of callers that are not named here")
        else:
            note("nobody has called it")


def _row(tool: JsonObject, options: HallOptions) -> tuple[str, ...]:
    state = state_of(tool, running=options.running)
    return tool["id"], state, tool["origin"], tool["by"], tool["changedAt"], deprecation_text(tool)


def _detail_text(detail: dict[str, object]) -> str:
    stated = {name: value for name, value in detail.items() if value is not None}
    return visible_json(stated) if stated else ""


@dataclass(frozen=True)
class DeprecateOptions(HallOptions):
    """Options of `toolhall tool deprecate`.

    Parameters
    ----------
    sunset
        The first day without the tool (UTC), such as 2027-01-31; today removes it at once.
    successor
        The id of what to call instead.
    """

    sunset: str | None = None
    successor: str | None = None


_CONFIRM_DEFAULTS = ConfirmOptions()
_DEPRECATE_DEFAULTS = DeprecateOptions()


def activate(tool: str, /, *, options: Annotated[ConfirmOptions, Parameter(name="*")] = _CONFIRM_DEFAULTS) -> None:
    """Serve a tool; a quarantined one is shown first, with all its findings.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        found = client.request_tool("GET", tool)
        if found["state"] == "quarantined":
            note("\n".join(tool_details(found, sys.stderr, running=options.running)))
            confirm(f"Serve {visible(found['id'])} with this text?", yes=options.yes)
        # With the digest of the document that was shown: the hall refuses if it has changed since.
        _print_tool(
            client.request_tool("POST", found["id"], "activate", body={"seen": found["digests"]["document"]}), options
        )


def deactivate(tool: str, /, *, options: Annotated[HallOptions, Parameter(name="*")] = _DEFAULTS) -> None:
    """Stop serving a tool; it can be activated again.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        _print_tool(client.request_tool("POST", tool, "deactivate"), options)


def deprecate(tool: str, /, *, options: Annotated[DeprecateOptions, Parameter(name="*")] = _DEPRECATE_DEFAULTS) -> None:
    """Mark a tool as deprecated, with its last day and its successor; activating it undoes that.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    body: JsonObject = {}
    if options.sunset is not None:
        body["sunset"] = _parse_date(options.sunset)
    if options.successor is not None:
        body["successor"] = options.successor
    with open_management(options, write=True) as client:
        _print_tool(client.request_tool("POST", tool, "deprecate", body=body), options)


def rollback(tool: str, /, *, options: Annotated[ConfirmOptions, Parameter(name="*")] = _CONFIRM_DEFAULTS) -> None:
    """Serve the previous version again, and stop serving the newer ones.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        found = client.request_tool("GET", tool)
        confirm(
            f"Serve the version before {visible(_newest_active(found))} again, and that one no longer?", yes=options.yes
        )
        answer = client.request_tool("POST", found["id"], "rollback")
        if options.json:
            print_answer_json(answer["tools"])
        else:
            print("\n".join(one_line(each, running=options.running) for each in answer["tools"]))


def remove(tool: str, /, *, options: Annotated[ConfirmOptions, Parameter(name="*")] = _CONFIRM_DEFAULTS) -> None:
    """Remove a tool; its history stays.

    Parameters
    ----------
    tool
        Its id, or Toolkit.tool for the newest version.
    """
    start_logging(None)
    with open_management(options, write=True) as client:
        found = client.request_tool("GET", tool)
        confirm(f"Remove {visible(found['id'])}, which is {found['state']}?", yes=options.yes)
        answer = client.request_tool("DELETE", found["id"])
        if options.json:
            print_answer_json(answer)
        else:
            print(f"{visible(answer['removed'])} is removed")


def _newest_active(tool: JsonObject) -> str:
    """The newest active version, which is rolled back."""
    return str(next((each["id"] for each in tool["versions"] if each["state"] == "active"), tool["id"]))


def _print_tool(tool: JsonObject, options: HallOptions) -> None:
    if options.json:
        print_answer_json(tool)
    else:
        print(one_line(tool, running=options.running))


def _parse_date(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise UsageError(f"--sunset {text!r} is no date; write it like 2027-01-31") from None


@dataclass(frozen=True)
class ToolAddOptions(HallOptions):
    """Options of `toolhall tool add`.

    Parameters
    ----------
    source
        The dialect of the definitions: mcp, mcp@REVISION, oxp, hub, machine or function. [default: as each looks]
    behaviour
        The tools behave differently, beyond what their definitions show: their versions must say so, too.
    """

    source: Annotated[str | None, Parameter(name="--from")] = None
    behaviour: Literal["breaking", "feature"] | None = None


_ADD_DEFAULTS = ToolAddOptions()


def add(*files: File, options: Annotated[ToolAddOptions, Parameter(name="*")] = _ADD_DEFAULTS) -> None:
    """Register definitions; one that is refused does not stop the others.

    Parameters
    ----------
    files
        Documents, lists, objects with a list in "tools" or "items", JSON lines, or folders of such files; - is the
        standard input.
    """
    start_logging(None)
    if not files:
        raise UsageError("add needs a file or a folder; write - for the standard input")
    check_source_dialect(options.source)
    named = [each for file in files for each in _definition_files(file)]
    registration = ToolRegistration(options)
    try:
        with report_io_errors(), open_management(options, write=True, create=True) as client:
            for file in named:
                with reader.open_documents(file) as source:
                    registration.run(client, source)
    finally:
        registration.report()
    registration.finish()


class ToolRegistration:
    """Registers documents one by one and collects tools, findings and refusals."""

    def __init__(self, options: ToolAddOptions) -> None:
        self._options = options
        self._tools: list[JsonObject] = []
        self._findings: list[JsonObject] = []
        self._refused: list[JsonObject] = []

    def run(self, client: ManagementClient, source: OpenedFile) -> None:
        """Register all documents of a file."""
        client.set_origin_detail(source.name)
        try:
            documents = source.documents()
        except InvalidJson as bad:
            self._record_refused(source.name, RawDocument(0, bad.line, b""), bad.message, list(bad.findings))
            return
        for text in documents.texts:
            self._add_document(client, source.name, text)

    def report(self) -> None:
        """With --json, print what was collected, also after an error."""
        if self._options.json:
            print_answer_json({"tools": self._tools, "findings": self._findings, "refused": self._refused})

    def finish(self) -> None:
        """Print the summary; raises CommandError if a document was refused."""
        summary = f"registered {pluralize(len(self._tools), 'tool')}, {pluralize(len(self._findings), 'finding')}"
        if self._refused:
            raise CommandError(f"{summary}; {pluralize(len(self._refused), 'document')} refused, for the reasons above")
        waiting = any(tool["state"] == "quarantined" for tool in self._tools)
        note(f"{summary}{'; look at each, then serve it with toolhall tool activate ID' if waiting else ''}")

    def _add_document(self, client: ManagementClient, file: str, text: RawDocument) -> None:
        is_prompt = text.listed_as == "prompts"
        try:
            answer = client.request_tool(
                "POST",
                body=decode_document(text),
                query={
                    "dialect": self._options.source or ("mcp" if is_prompt else None),
                    "behaviour": self._options.behaviour,
                },
            )
        except InvalidJson as bad:
            self._record_refused(file, RawDocument(text.index, bad.line, b""), bad.message, list(bad.findings))
        except ManagementRefused as refused:
            if refused.status not in _DOCUMENT_ERRORS:
                raise
            self._record_refused(file, text, refused.message, [_read_finding(each) for each in refused.problems])
        else:
            self._record_added(file, text, answer)

    def _record_added(self, file: str, text: RawDocument, answer: JsonObject) -> None:
        place = {"file": file, "line": text.line, "index": text.index}
        self._tools += [{**place, **tool} for tool in answer["tools"]]
        found = [LocatedFinding(file, text.line, text.index, _read_finding(each)) for each in answer["findings"]]
        self._findings += [spotted.document() for spotted in found]
        if not self._options.json:
            lines = [one_line(each, running=self._options.running) for each in answer["tools"]]
            print("\n".join([*lines, *(f"  {spotted}" for spotted in found)]))

    def _record_refused(self, file: str, text: RawDocument, reason: str, findings: list[Finding]) -> None:
        found = [LocatedFinding(file, text.line, text.index, each) for each in findings]
        place = {"file": file, "line": text.line, "index": text.index}
        self._refused.append({**place, "reason": reason, "problems": [spotted.document() for spotted in found]})
        if not self._options.json:
            print(
                "\n".join(map(str, found)) or visible(f"{file}:{text.line}: document {text.index}: refused: {reason}")
            )


def _read_finding(document: JsonObject) -> Finding:
    return msgspec.convert({"severity": "error", **document}, Finding)


def _definition_files(given: str) -> Iterator[str]:
    """The file itself, or the definition files of a folder."""
    if given == STDIN or not Path(given).is_dir():
        check_file(given)
        yield given
        return
    found = sorted(str(each) for each in Path(given).iterdir() if each.name.lower().endswith(DEFINITION_SUFFIXES))
    if not found:
        raise UsageError(f"the folder {given} holds no file of definitions ({', '.join(DEFINITION_SUFFIXES)})")
    yield from found
