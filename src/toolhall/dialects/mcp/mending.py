"""Mending of MCP definitions as real servers write them: mend_definition, with a finding for each change that it makes.

Theory of operation. A definition of somebody else cannot be sent back to its author, so what is wrong but means one
thing only is put right before it is read: a missing root type, a keyword of an older draft, `null` where a member is
absent, a type by another system's name. Every change is a Finding of the rule `mended/...` that says what stands there
now. A change never makes a tool accept less than its author wrote, and a hint that cannot be read counts as not
stated, which is the worse case. Whatever means two things is left alone, and the reader of definitions refuses it.

The `_meta` keys of Toolhall and of the protocol are removed: nobody outside may state an id, a level or a deprecation.
"""

from toolhall.dialects.findings import Finding
from toolhall.dialects.mcp.catalog import HINT_NAMES
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.tool import Kind
from toolhall.schema.cost import BadSchema
from toolhall.schema.mending import NoteMending, mend_schema
from toolhall.schema.validator import Validator

_RESERVED_META = ("dev.toolhall/", "io.modelcontextprotocol/")
_PROMPT_MEMBERS = frozenset({"name", "title", "description", "arguments", "icons", "_meta"})
_TEXTS = ("title", "description", "mimeType")


class _Mender:
    """Collects the findings of one definition."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def note(self, path: str, rule: str, what: str) -> None:
        """Record what was changed."""
        self.findings.append(Finding(path, f"mended/{rule}", what, "warning"))

    def schema_note(self, pointer: str) -> NoteMending:
        """What records a change of a schema that stands at a pointer."""
        return lambda path, rule, what: self.note(f"{pointer}{path}", rule, what)

    def drop(self, holder: JsonObject, key: str, path: str, rule: str, why: str) -> None:
        """Remove a member."""
        del holder[key]
        self.note(f"{path}/{escape_pointer(key)}", rule, f"{why}; it was left out")


def mend_definition(document: JsonObject, kind: Kind, *, any_output: bool) -> tuple[JsonObject, tuple[Finding, ...]]:
    """Return the definition of a tool, resource or prompt as it can be read, and what was changed in it.

    `any_output`: the upstream speaks a revision in which an output schema may describe any value.
    """
    mender, mended = _Mender(), dict(document)
    _mend_common(mender, mended)
    match kind:
        case "tool":
            _mend_tool(mender, mended, any_output=any_output)
        case "resource":
            _mend_resource(mender, mended)
        case "prompt":
            _mend_prompt(mender, mended)
    return mended, tuple(mender.findings)


def _mend_common(mender: _Mender, document: JsonObject) -> None:
    """Members that all kinds have."""
    for key in _TEXTS:
        if key in document and not isinstance(document[key], str):
            why = "it is null" if document[key] is None else "it is no text"
            mender.drop(document, key, "", "text", why)
    meta = document.get("_meta")
    if meta is not None and not isinstance(meta, dict):
        mender.drop(document, "_meta", "", "meta", "it is no object")
    elif meta is not None:
        reserved = [key for key in meta if key.startswith(_RESERVED_META)]
        for key in reserved:
            mender.note(f"/_meta/{escape_pointer(key)}", "meta", "only the hall may state this; it was left out")
        rest = {key: value for key, value in meta.items() if key not in reserved}
        document["_meta"] = rest
        if not rest:
            del document["_meta"]
    if "icons" in document and not _are_icons(document["icons"]):
        mender.drop(document, "icons", "", "icons", "it is no list of icons")


def _are_icons(icons: Json) -> bool:
    if not isinstance(icons, list):
        return False
    return all(
        isinstance(icon, dict)
        and isinstance(icon.get("src"), str)
        and bool(icon["src"])
        and all(isinstance(icon.get(key) or "", str) for key in ("mimeType", "theme"))
        and (icon.get("sizes") is None or _are_texts(icon["sizes"]))
        for icon in icons
    )


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _mend_tool(mender: _Mender, document: JsonObject, *, any_output: bool) -> None:
    stated = document.get("inputSchema")
    if stated is None:
        what = "there is no input schema; any object is accepted"
        mender.note("/inputSchema", "input", what)
        document["inputSchema"] = {"type": "object"}
    elif isinstance(stated, dict):
        schema = mend_schema(stated, mender.schema_note("/inputSchema"))
        document["inputSchema"] = _object_at_root(mender, schema)
    if "outputSchema" in document:
        _mend_output(mender, document, any_output=any_output)
    if "annotations" in document:
        _mend_hints(mender, document)
    execution = document.get("execution")
    if execution is not None and not (isinstance(execution, dict) and execution.get("taskSupport") == "required"):
        del document["execution"]  # what can be called without a task is called so


def _object_at_root(mender: _Mender, schema: JsonObject) -> JsonObject:
    """The input schema with the root type `object`, if it states none, or that one among others."""
    kind = schema.get("type")
    if kind is not None and not (isinstance(kind, list) and "object" in kind):
        return schema  # `object`, or what no arguments are
    mender.note("/inputSchema/type", "root", 'arguments are an object; the type "object" was added')
    return {**schema, "type": "object"}


def _mend_output(mender: _Mender, document: JsonObject, *, any_output: bool) -> None:
    """An output schema that cannot be used counts as not stated: results are then passed on without a check."""
    stated = document["outputSchema"]
    if stated is None or not isinstance(stated, dict):
        mender.drop(document, "outputSchema", "", "output", "it is no schema")
        return
    schema = mend_schema(stated, mender.schema_note("/outputSchema"))
    if not any_output and "type" not in schema and "properties" in schema:
        mender.note("/outputSchema/type", "root", 'the type "object" was added')
        schema = {**schema, "type": "object"}
    document["outputSchema"] = schema
    if not any_output and schema.get("type", "object") != "object":
        why = "it is not that of an object, as this revision of MCP requires"
        mender.drop(document, "outputSchema", "", "output", why)
        return
    try:
        Validator(schema)
    except BadSchema as bad:
        problem = bad.problems[0]
        mender.drop(document, "outputSchema", "", "output", f"it cannot be used ({problem})")


def _mend_hints(mender: _Mender, document: JsonObject) -> None:
    stated = document["annotations"]
    if stated is None:
        del document["annotations"]
        return
    if not isinstance(stated, dict):
        mender.drop(document, "annotations", "", "hint", "it is no object")
        return
    hints = document["annotations"] = dict(stated)
    for field, name in HINT_NAMES.items():
        if hints.get(name) is None:
            hints.pop(name, None)
        elif not isinstance(hints[name], str if field == "title" else bool):
            why = "it is no text" if field == "title" else "it is neither true nor false"
            mender.drop(hints, name, "/annotations", "hint", why)


def _mend_resource(mender: _Mender, document: JsonObject) -> None:
    document.pop("inputSchema", None)  # by which a reader would take it for a tool
    template = document.get("uriTemplate")
    if isinstance(template, str) and "{" not in template and "uri" not in document:
        mender.note("/uriTemplate", "template", "it has no variables; it is read as the URI of one resource")
        document["uri"] = document.pop("uriTemplate")
    uri = document.get("uriTemplate", document.get("uri"))
    if not document.get("name") and isinstance(uri, str) and uri:
        mender.note("/name", "name", "there is no name; the URI is taken")
        document["name"] = uri
    size = document.get("size")
    if "size" in document and (type(size) is not int or size < 0):
        mender.drop(document, "size", "", "size", "it is no number of bytes")
    if "annotations" in document and not _are_notes(document["annotations"]):
        mender.drop(document, "annotations", "", "notes", "they cannot be read")


def _are_notes(notes: Json) -> bool:
    if not isinstance(notes, dict):
        return False
    audience, priority = notes.get("audience"), notes.get("priority")
    return (
        (audience is None or (_are_texts(audience) and set(audience) <= {"user", "assistant"}))
        and (priority is None or (isinstance(priority, int | float) and not isinstance(priority, bool)))
        and isinstance(notes.get("lastModified") or "", str)
    )


def _mend_prompt(mender: _Mender, document: JsonObject) -> None:
    for key in document.keys() - _PROMPT_MEMBERS:  # by which a reader would take it for something else
        mender.drop(document, key, "", "unknown", "prompts have no such member")
    arguments = document.get("arguments")
    if isinstance(arguments, list):
        document["arguments"] = [
            _mend_argument(mender, each, f"/arguments/{at}") if isinstance(each, dict) else each
            for at, each in enumerate(arguments)
        ]


def _mend_argument(mender: _Mender, argument: JsonObject, path: str) -> JsonObject:
    mended = dict(argument)
    for key in ("title", "description"):
        if key in mended and not isinstance(mended[key], str):
            mender.drop(mended, key, path, "text", "it is no text")
    if "required" in mended and not isinstance(mended["required"], bool):
        mender.drop(mended, "required", path, "required", "it is neither true nor false")
    return mended
