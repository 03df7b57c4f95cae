"""Lint rules about several tools (CrossToolChecker): duplicate ids and names, mentions of other tools."""

import re
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

import msgspec

from toolhall.dialects.findings import Finding
from toolhall.dialects.lint.metadata_rules import parameters_of
from toolhall.dialects.lint.rule import LintedTool, Rule
from toolhall.dialects.mcp.catalog import id_from_name
from toolhall.model.names import ToolId
from toolhall.model.tool import Tool
from toolhall.model.uri_expansion import BadUriTemplate
from toolhall.model.uri_template import UriTemplate

Where = TypeVar("Where")
# Only identifiers count as mentions: "search" may be the name of a tool, or just what a tool does.
_IDENTIFIER = re.compile(
    r"\b[A-Za-z][A-Za-z0-9]{0,63}(?:[_.-][A-Za-z0-9]{1,63}){1,8}\b|\b[a-z]{1,32}(?:[A-Z][a-z0-9]{1,32}){1,8}\b"
)
_MAX_WORDS = 100
_MAX_TEXT = 20_000
DUPLICATE_ID = Rule(
    id="tool/id-twice",
    summary="Two tools have the same id; letter case does not tell them apart.",
    fix="remove one of the two, or raise its version",
    severity="error",
)
DUPLICATE_TOOLKIT = Rule(
    id="toolkit/twice",
    summary="Two documents are the same version of the same toolkit; letter case does not tell them apart.",
    fix="put all tools into one of the two, or raise its version",
    severity="error",
)
NAME_TAKEN = Rule(
    id="tool/name-taken",
    summary="Two tools would be published under the same name; letter case does not tell them apart.",
    fix="rename one of the two",
    severity="error",
)
DUPLICATE_URI = Rule(
    id="resource/uri-twice",
    summary="Two resources have the same URI, or templates that differ only in the names of their variables.",
    fix="change one of the two; no URI could tell them apart",
    severity="error",
)
OTHER_TOOL_MENTIONED = Rule(
    id="poison/other-tool",
    summary="A description mentions another tool.",
    fix="describe only the tool itself; a description that steers the use of other tools may be an attack on them",
)
CROSS_TOOL_RULES = (DUPLICATE_ID, DUPLICATE_TOOLKIT, NAME_TAKEN, DUPLICATE_URI, OTHER_TOOL_MENTIONED)


class _SeenTool(msgspec.Struct, frozen=True, gc=False):
    id: ToolId
    document_name: str


class CrossToolChecker(Generic[Where]):
    """Compares tools of all documents: remembers names, ids and the identifiers in descriptions."""

    def __init__(self) -> None:
        self._ids: dict[str, _SeenTool] = {}
        self._toolkits: dict[tuple[str, str], str] = {}
        self._names: dict[str, _SeenTool] = {}
        self._prompt_names: dict[str, _SeenTool] = {}
        self._uris: dict[str, _SeenTool] = {}
        self._identifiers: list[tuple[Where, str, tuple[str, ...]]] = []

    def add_toolkit(self, tool_id: ToolId, document_name: str) -> Iterator[Finding]:
        """Add a document that is a toolkit; yields duplicates."""
        key = (tool_id.toolkit.casefold(), tool_id.version.casefold())
        if key in self._toolkits:
            detail = f"{tool_id.toolkit} {tool_id.version} is also in {self._toolkits[key]}"
            yield DUPLICATE_TOOLKIT.finding("", detail)
        self._toolkits.setdefault(key, document_name)

    def add(self, subject: LintedTool, document_name: str, where: Where, path: str) -> Iterator[Finding]:
        """Add a tool; `where` identifies its document, `path` points to it. Yields conflicts with earlier tools."""
        tool, seen = subject.tool, _SeenTool(subject.tool.id, document_name)
        identifiers = _mentioned_identifiers(subject)
        if identifiers:
            self._identifiers.append((where, f"{path}/description", identifiers))
        first = self._ids.setdefault(str(tool.id).casefold(), seen) if _has_id(tool) else seen
        if first is not seen:
            yield DUPLICATE_ID.finding(path, f"{tool.id} is also in {first.document_name}")
            return
        if tool.resource is not None:
            first = self._uris.setdefault(_uri_claim(tool.resource.uri), seen)
            if first is not seen and not _is_other_version(first.id, tool.id):
                yield DUPLICATE_URI.finding(path, f"{tool.resource.uri}, {first.id} in {first.document_name}")
            return
        names = self._names if tool.prompt is None else self._prompt_names
        first = names.setdefault(tool.name.casefold(), seen)
        if first is not seen and not _is_other_version(first.id, tool.id):
            yield NAME_TAKEN.finding(path, f"{tool.id} and {first.id} in {first.document_name} are both {tool.name}")

    def mentions(self, other_names: Collection[str] = ()) -> Iterator[tuple[Where, Finding]]:
        """Every description that names another tool, of these or of `other_names` (in lower case)."""
        for where, path, identifiers in self._identifiers:
            names = [
                identifier
                for identifier in identifiers
                if identifier.casefold() in self._names or identifier.casefold() in other_names
            ]
            if names:
                yield where, OTHER_TOOL_MENTIONED.finding(path, ", ".join(names[:5]))


def _has_id(tool: Tool) -> bool:
    """Whether its id is its own: MCP resources and prompts that state none may have the name of anything else."""
    return tool.kind == "tool" or tool.id != id_from_name(tool.name)


def _uri_claim(uri: str) -> str:
    try:
        return UriTemplate(uri).shape
    except BadUriTemplate:
        return uri


def _is_other_version(one: ToolId, other: ToolId) -> bool:
    return (one.toolkit, one.tool) == (other.toolkit, other.tool) and one.version != other.version


def _mentioned_identifiers(subject: LintedTool) -> tuple[str, ...]:
    tool = subject.tool
    own = {tool.name.casefold(), subject.written_name.casefold(), tool.id.tool.casefold()}
    texts = [tool.description or ""]
    for name, _, schema in parameters_of(subject):
        own.add(name.casefold())
        if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
            texts.append(text)
    identifiers = _IDENTIFIER.findall("\n".join(texts)[:_MAX_TEXT])
    return tuple(dict.fromkeys(identifier for identifier in identifiers if identifier.casefold() not in own))[
        :_MAX_WORDS
    ]
