"""Explains losses: the pointer into the source document (document_pointer), and why it is lost (LossReasons)."""

import re
from collections.abc import Iterator

import msgspec

from toolhall.dialects.base import Catalog, Loss
from toolhall.dialects.mcp.catalog import ID_KEY, LEVEL_KEY, TAGS_KEY
from toolhall.model.json import Json, JsonChange, JsonObject, encode
from toolhall.model.tool import Kind, Tool
from toolhall.schema.adapt import PLAIN_SCHEMA, adapt_schema
from toolhall.schema.keywords import ANNOTATIONS

# By dialect: pointers of the model's members inside a tool's part of the document (`#`: from the document's root).
_MCP_MEMBERS = {
    "/level": f"/_meta/{LEVEL_KEY.replace('/', '~1')}",
    "/tags": f"/_meta/{TAGS_KEY.replace('/', '~1')}",
    "/version": f"/_meta/{ID_KEY.replace('/', '~1')}",
}
_MEMBERS_BY_DIALECT: dict[str, dict[str, str]] = {
    "machine": {
        "/inputSchema": "/parameters",
        "/outputSchema": "/return/schema",
        "/permissions": "/requiredPermissions",
        "/level": "#/securityLevel",
        "/version": "#/version",
        "/toolkit/title": "#/name",
        "/toolkit": "#",
    },
    "hub": {"/inputSchema": "/params", "/version": "#/tool/version", "/toolkit": "#/tool/capabilities"},
    "oxp": {"/inputSchema": "/input_schema/parameters", "/outputSchema": "/output_schema"},
    "function": {"/inputSchema": "/parameters"},
}
# By source dialect: the subject of each member of a document; the longest matching prefix of a path decides.
_SUBJECTS: dict[str, dict[str, str]] = {
    "": {  # the model itself
        "/toolkit": "toolkit",
        "/name": "name",
        "/version": "version",
        "/inputSchema": "input",
        "/outputSchema": "output",
        "/returns": "returns",
    },
    "machine": {
        "/id": "id",
        "/capabilities/name": "id",
        "/name": "toolkit",
        "/description": "toolkit",
        "/metadata": "toolkit",
        "/version": "version",
        "/capabilities/return": "output",
        "/capabilities/return/description": "returns",
        "/capabilities/parameters": "input",
    },
    "hub": {
        "/name": "id",
        "/capabilities/methods/name": "id",
        "/version": "version",
        "/capabilities/resources": "toolkit",
        "/metadata": "toolkit",
        "/capabilities/methods/params": "input",
    },
    "oxp": {
        "/id": "id",
        "/name": "name",
        "/version": "version",
        "/input_schema": "input",
        "/output_schema": "output",
    },
    "mcp": {"/name": "name", "/inputSchema": "input", "/outputSchema": "output", "/execution": "task"},
    "function": {"/name": "name", "/parameters": "input", "/function/parameters": "input"},
}
# Revisions whose clients get tasks, and dialects whose clients come back for what takes long.
_MCP_WITH_TASKS = frozenset({"mcp", "mcp@2025-11-25", "mcp@2026-07-28"})
_COME_BACK = frozenset({"oxp", "hub", "machine"})
_TOOL_PREFIXES = {"machine": "/capabilities", "hub": "/capabilities/methods"}
# By target dialect: why it cannot express a subject.
_REASONS: dict[str, dict[str, str]] = {
    "mcp": {
        "toolkit": "{} cannot describe a toolkit as a whole",
        "returns": "{} has no description of a result besides its schema",
    },
    "oxp": {
        "toolkit": "{} cannot describe a toolkit as a whole",
        "returns": "{} has this in output_schema/description",
        "version": "{} has versions of three numbers only",
        "id": "{} has ids of letters, digits and _ only",
        "name": "{} has names of 1 to 64 letters, digits, _ and - only",
    },
    "hub": {
        "toolkit": "{} describes nothing of a toolkit but its resources",
        "output": "{} does not describe what a method returns",
        "returns": "{} does not describe what a method returns",
        "name": "{} builds names from the toolkit's and the tool's",
    },
    "machine": {
        "version": "{} has semantic versions only",
        "name": "{} builds names from the toolkit's and the tool's",
    },
    "function": {
        "toolkit": "{} cannot describe a toolkit as a whole",
        "version": "{} has no versions",
        "output": "{} does not describe what a tool returns",
        "returns": "{} does not describe what a tool returns",
        "id": "{} has one name only",
    },
}
_NO_TASKS = "{} does not state whether a tool's calls may become tasks"
_PLAIN_TEXT = "{} states no schema for plain text, which is sent as text"
_WRAPPED = "{} requires an object at the root of an output schema: the value is in its 'result'"
_NO_OUTPUT = "{} cannot express that nothing is returned"
_FLAT_PARAMETERS = "{} expresses only type, description, default and required of a parameter; more is accepted there"
_INLINED = "{} has no references: their targets are inlined"
_RECURSIVE = "{} has no references: their targets are inlined until they recur; beyond that more is accepted"


def kind_losses(tool: Tool, dialect: str, prefix: str = "") -> Iterator[Loss]:
    """The loss of being a resource or a prompt; its document is a tool in name only, so that it can be restored."""
    if not says_kind(tool.kind, dialect):
        reason = f"{dialect} has no {tool.kind}s: this is written as a tool, which nobody can call"
        yield Loss(prefix, f"{reason}; it is kept in the carrier")


def says_kind(kind: Kind, dialect: str) -> bool:
    """Whether a dialect has definitions of this kind."""
    return kind == "tool" or dialect.partition("@")[0] == "mcp"


def task_loss(tool: Tool, dialect: str) -> Loss | None:
    """The loss of being a long call, in a dialect whose clients cannot ask for a task."""
    if tool.task is None or dialect.partition("@")[0] == "openapi" or dialect in _MCP_WITH_TASKS:
        return None
    reason = "a call that takes long" if dialect in _COME_BACK else "a call"
    way = "is answered by its id, once it has ended" if dialect in _COME_BACK else "waits for its end"
    return Loss("/task", f"{dialect} has no tasks: {reason} {way}")


def left_out_reason(tool: Tool, dialect: str) -> str:
    """Why a resource or prompt is left out where nothing can carry it."""
    return f"{dialect} has no {tool.kind}s: it is left out"


def document_pointer(path: str, document: JsonObject, source: Catalog, index: int) -> str:
    """Translate a pointer into the model to one into the document's tool at `index`, as far as that resolves."""
    translated = _translated_prefix(path, _MEMBERS_BY_DIALECT.get(source.name, _MCP_MEMBERS))
    if translated.startswith("#"):
        return _resolvable_prefix(translated[1:], document)
    tools_path = source.tools_path(document)
    prefix = "".join(f"/{key}" for key in (*tools_path, index)) if tools_path else ""
    return _resolvable_prefix(prefix + translated, document)


def _translated_prefix(path: str, table: dict[str, str]) -> str:
    """Replace the longest known prefix of a pointer by the dialect's own spelling."""
    end = len(path)
    while end > 0:
        replacement = table.get(path[:end])
        if replacement is not None:
            return replacement + path[end:]
        end = path.rfind("/", 0, end)
    return path


def _resolvable_prefix(path: str, document: Json) -> str:
    """The longest prefix of a pointer that resolves in the document."""
    resolved = ""
    for part in path.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and re.fullmatch("[0-9]{1,9}", key) and int(key) < len(document):
            document = document[int(key)]
        else:
            break
        resolved += f"/{part}"
    return resolved


class LossReasons(msgspec.Struct, frozen=True):
    """Finds the reason of each loss of one document or tool on its way from one dialect to another."""

    source: str
    target: str
    tool: Tool | None = None  # None: the document as a whole
    cache: dict[str, str] = {}  # reasons that are expensive to find, and equal for all changes of a schema

    def reason_for(self, change: JsonChange) -> str:
        """Why the target dialect cannot express what this change restores."""
        family = self.source.partition("@")[0]
        path = change.path.removeprefix("/tool") if family == "hub" else change.path
        path = _TOOL_PREFIXES.get(family, "") + path if self.tool is not None else path
        subject = _subject_of(path, _SUBJECTS.get(family, {}))
        reason = _REASONS.get(self.target.partition("@")[0], {}).get(subject) or self._schema_reason(subject, change)
        if subject == "task":
            reason = _NO_TASKS
        if reason is None:
            reason = "{} has no place for this" if change.was is None else "{} expresses this differently"
        return reason.format(self.target)

    def _schema_reason(self, subject: str, change: JsonChange) -> str | None:
        if self.tool is None or subject not in ("input", "output"):
            return None
        schema, family = (
            self.tool.input if subject == "input" else self.tool.output.schema,
            self.target.partition("@")[0],
        )
        if family == "oxp" and schema is not None and _restores_reference(change):
            if subject not in self.cache:
                self.cache[subject] = _reference_reason(schema)
            return self.cache[subject]
        if subject == "output":
            return _output_reason(self.tool) if family == "mcp" else None
        flat = family == "machine" and change.path.rpartition("/")[2] not in ANNOTATIONS
        return _FLAT_PARAMETERS if flat else None


def _subject_of(path: str, members: dict[str, str]) -> str:
    while path:
        if path in members:
            return members[path]
        path = path.rpartition("/")[0]
    return ""


def _output_reason(tool: Tool) -> str | None:
    schema = tool.output.schema
    if schema is None:
        return _NO_OUTPUT if tool.output.kind == "none" else None
    if schema == {"type": "string"}:
        return _PLAIN_TEXT
    return _WRAPPED if schema.get("type") != "object" else None


def _restores_reference(change: JsonChange) -> bool:
    """True if a change restores references or definitions."""
    name = change.path.rpartition("/")[2]
    return name in ("$ref", "$defs", "definitions") or _holds_reference(change.value)


def _holds_reference(value: Json) -> bool:
    return isinstance(value, dict | list) and b'"$ref":' in encode(value)


def _reference_reason(schema: JsonObject) -> str:
    """Whether references are inlined exactly, or widened because they recur."""
    return _RECURSIVE if any(loss.widens for loss in adapt_schema(schema, PLAIN_SCHEMA).losses) else _INLINED
