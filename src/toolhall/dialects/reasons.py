"""Why something is lost: in words about the member and the target where these are known."""

import msgspec

from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.patch import Change
from toolhall.model.tool import Tool
from toolhall.schema.keywords import ANNOTATIONS
from toolhall.schema.reshape import PLAIN, reshape

# By dialect: what a member of a document is about. The longest beginning of a path counts.
_MEMBERS: dict[str, dict[str, str]] = {
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
    "mcp": {"/name": "name", "/inputSchema": "input", "/outputSchema": "output"},
    "function": {"/name": "name", "/parameters": "input", "/function/parameters": "input"},
}
_ITEMS = {"machine": "/capabilities", "hub": "/capabilities/methods"}
_UNSAID: dict[str, dict[str, str]] = {
    "mcp": {
        "toolkit": "{} says nothing of a toolkit as a whole",
        "returns": "{} describes no result beside its schema",
    },
    "oxp": {
        "toolkit": "{} says nothing of a toolkit as a whole",
        "returns": "{} says this in output_schema/description",
        "version": "{} has versions of three numbers only",
        "id": "{} has ids of letters, digits and _ only",
        "name": "{} has names of 1 to 64 letters, digits, _ and - only",
    },
    "hub": {
        "toolkit": "{} says nothing of a toolkit but its resources",
        "output": "{} does not say what a method returns",
        "returns": "{} does not say what a method returns",
        "name": "{} makes names of the toolkit's and the tool's",
    },
    "machine": {"version": "{} has semantic versions only", "name": "{} makes names of the toolkit's and the tool's"},
    "function": {
        "toolkit": "{} says nothing of a toolkit as a whole",
        "version": "{} has no versions",
        "output": "{} does not say what a tool returns",
        "returns": "{} does not say what a tool returns",
        "id": "{} has one name only",
    },
}
_TEXT = "{} states no schema for plain text, which goes out as text"
_WRAPPED = "{} wants an object at the root of an output schema: the value stands in its 'result'"
_NOTHING = "{} does not say that nothing is returned"
_FLAT = "{} says of a parameter its type, description, default and whether it is required; more is accepted there"
_INLINED = "{} has no references: what they lead to is written in their place"
_RECURS = "{} has no references: written in their place as far as they do not recur; beyond that more is accepted"


class Reasons(msgspec.Struct, frozen=True):
    """Of one document or tool on its way from one dialect to another."""

    source: str
    target: str
    tool: Tool | None = None  # None: the document as a whole
    known: dict[str, str] = {}  # what took long to find out, and holds for every change of the same schema

    def of(self, change: Change) -> str:
        """Why this change is needed on the way back."""
        family = self.source.partition("@")[0]
        path = change.path.removeprefix("/tool") if family == "hub" else change.path
        path = _ITEMS.get(family, "") + path if self.tool is not None else path
        about = _about(path, _MEMBERS.get(family, {}))
        found = _UNSAID.get(self.target.partition("@")[0], {}).get(about) or self._of_schema(about, change)
        if found is None:
            found = "{} has no place for this" if change.was is None else "{} says this differently"
        return found.format(self.target)

    def _of_schema(self, about: str, change: Change) -> str | None:
        if self.tool is None or about not in ("input", "output"):
            return None
        schema, family = self.tool.input if about == "input" else self.tool.output.schema, self.target.partition("@")[0]
        if family == "oxp" and schema is not None and _refers(change):
            if about not in self.known:
                self.known[about] = _references(schema)
            return self.known[about]
        if about == "output":
            return _of_output(self.tool) if family == "mcp" else None
        flat = family == "machine" and change.path.rpartition("/")[2] not in ANNOTATIONS
        return _FLAT if flat else None


def _about(path: str, members: dict[str, str]) -> str:
    while path:
        if path in members:
            return members[path]
        path = path.rpartition("/")[0]
    return ""


def _of_output(tool: Tool) -> str | None:
    schema = tool.output.schema
    if schema is None:
        return _NOTHING if tool.output.kind == "none" else None
    if schema == {"type": "string"}:
        return _TEXT
    return _WRAPPED if schema.get("type") != "object" else None


def _refers(change: Change) -> bool:
    """Whether a change brings back references or definitions."""
    name = change.path.rpartition("/")[2]
    return name in ("$ref", "$defs", "definitions") or _holds_reference(change.value)


def _holds_reference(value: Json) -> bool:
    return isinstance(value, dict | list) and b'"$ref":' in encode(value)


def _references(schema: JsonObject) -> str:
    """Inlined exactly, or loosened where they recur."""
    return _RECURS if any(lost.widens for lost in reshape(schema, PLAIN).lost) else _INLINED
