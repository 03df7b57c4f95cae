"""Resolves `$ref`, `$dynamicRef` and anchors inside one schema document (ReferenceResolver).

Nothing outside the document is ever looked at.
"""

from collections.abc import Callable
from urllib.parse import unquote

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import (
    ANNOTATIONS,
    TYPE_ALIASES,
    TYPES,
    invalid_keywords,
    is_unique_strings,
    subschemas,
)

PointerParts = tuple[str, ...]
MISSING = msgspec.UNSET


def child_at(found: Json, part: str) -> Json:
    """A member of an object or an item of a list, else MISSING."""
    if isinstance(found, dict):
        return found.get(part, MISSING)
    if isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
        return found[int(part)]
    return MISSING


REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITION_KEYWORDS = ("$defs", "definitions")


class ReferenceResolver:
    """The document that references are resolved in; nothing outside of it is ever looked at."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._anchors: dict[str, PointerParts] | None = None

    def resolve(self, reference: str) -> PointerParts | None:
        """The path to what a reference means; None where it leads outside, or nowhere."""
        whole, _, fragment = reference.partition("#")
        if whole and whole != self._root.get("$id"):
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._resolve_anchor(fragment)
        path = tuple(part.replace("~1", "/").replace("~0", "~") for part in fragment.split("/")[1:])
        return path if isinstance(self.value_at(path), dict | bool) else None

    def value_at(self, path: PointerParts) -> Json:
        """What stands at a path, else MISSING."""
        found: Json = self._root
        for part in path:
            found = child_at(found, part)
            if found is MISSING:
                break
        return found

    def _resolve_anchor(self, name: str) -> PointerParts | None:
        if self._anchors is None:
            self._anchors = dict(_find_anchors(self._root))
        return self._anchors.get(name)


def _find_anchors(root: JsonObject) -> list[tuple[str, PointerParts]]:
    found: list[tuple[str, PointerParts]] = []
    pending: list[tuple[Json, str]] = [(root, "")]
    while pending:
        schema, pointer = pending.pop()
        if not isinstance(schema, dict):
            continue
        path = tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
        # Draft-07 has no keyword of its own for a plain name: it is an $id that starts with '#'.
        named = [schema.get("$anchor"), schema.get("$dynamicAnchor"), _draft7_anchor(schema.get("$id"))]
        found.extend((name, path) for name in named if isinstance(name, str))
        pending.extend((child.schema, child.pointer) for child in subschemas(schema, pointer))
    return found


def _draft7_anchor(identifier: Json) -> str | None:
    return identifier[1:] if isinstance(identifier, str) and identifier.startswith("#") else None


DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
    "http://json-schema.org/draft-07/schema": "draft-07",
}
ReportLoss = Callable[[str, str, bool], None]  # keyword, reason, whether more values are accepted without it
LATEST_DRAFT = "2020-12"
_NAMING_KEYWORDS = frozenset({"$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", *DEFINITION_KEYWORDS})
_RENAMED_KEYWORDS = frozenset({"$dynamicRef", "$recursiveRef", "$id", "$schema"})
_REMOVED_KEYWORDS = frozenset({"dependencies", "additionalItems"})
_CHANGED_KEYWORDS = _NAMING_KEYWORDS | _RENAMED_KEYWORDS | _REMOVED_KEYWORDS
_SINCE_2020 = frozenset({"prefixItems"})
_SINCE_2019 = frozenset({
    "dependentRequired", "dependentSchemas", "unevaluatedItems", "unevaluatedProperties", "minContains", "maxContains",
})  # fmt: skip
_LATER_KEYWORDS = {"draft-07": _SINCE_2019 | _SINCE_2020, "2019-09": _SINCE_2020}


def declared_draft(root: JsonObject) -> str:
    """The draft that a document is written in; what is older than we know is read as the oldest we know."""
    declared = root.get("$schema")
    if not isinstance(declared, str):
        return LATEST_DRAFT
    return DRAFTS.get(declared.rstrip("#"), "draft-07")


def is_current(schema: JsonObject, draft: str) -> bool:
    """Whether a schema object needs no renewal."""
    return (
        not invalid_keywords(schema)
        and _CHANGED_KEYWORDS.isdisjoint(schema)
        and (draft == LATEST_DRAFT or _LATER_KEYWORDS[draft].isdisjoint(schema))
    )


def upgrade(schema: JsonObject, draft: str, report_loss: ReportLoss) -> JsonObject:
    """The same schema object in 2020-12, without what only references need; keywords with impossible values go."""
    schema = dict(schema)
    tuple_form = isinstance(schema.get("items"), list) and bool(schema["items"])
    if draft != LATEST_DRAFT:
        for key in _LATER_KEYWORDS[draft].intersection(schema):
            del schema[key]
            report_loss(key, f"{key} means nothing in {draft}", False)
    for key in invalid_keywords(schema):
        _repair(schema, key, report_loss)
    if not _CHANGED_KEYWORDS.isdisjoint(schema):
        _rename(schema, draft, report_loss)
        _replace(schema, draft, tuple_form=tuple_form)
    return schema


def _repair(schema: JsonObject, key: str, report_loss: ReportLoss) -> None:
    """Take what can be meant from a value that JSON Schema does not allow."""
    value = schema.pop(key)
    if key == "items" and isinstance(value, list) and value:
        schema["prefixItems"] = value
        return
    mended: Json = None
    if key == "type":
        mended = _repaired_type(value)
    elif key == "required" and isinstance(value, list):
        mended = list(dict.fromkeys(each for each in value if isinstance(each, str))) or None
    if mended is not None:
        schema[key] = mended
    nearest = "" if mended is None else "; the nearest is written"
    report_loss(key, f"the value of {key} is not valid JSON Schema{nearest}", key not in ANNOTATIONS)


def _repaired_type(value: Json) -> Json:
    named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    known = [TYPE_ALIASES.get(each.lower(), each.lower()) for each in named if isinstance(each, str)]
    kept = list(dict.fromkeys(each for each in known if each in TYPES))
    if not kept or len(kept) != len(set(known)):  # one of them may mean anything
        return None
    return kept[0] if isinstance(value, str) else kept


def _rename(schema: JsonObject, draft: str, report_loss: ReportLoss) -> None:
    for key in _NAMING_KEYWORDS.intersection(schema):
        del schema[key]  # what they name is written where it is used
    for key in ("$recursiveRef", "$dynamicRef"):
        # In one document without inner ids, the dynamic scope holds nothing but the document itself.
        if key in schema:
            schema.setdefault("$ref", schema.pop(key))
    if "$id" in schema:
        del schema["$id"]
        report_loss("$id", "the schema is no document of its own here", False)
    # A part that names another dialect than the whole has no say in it, and must not speak for the whole when merged.
    if "$schema" in schema and (draft != LATEST_DRAFT or declared_draft(schema) != LATEST_DRAFT):
        del schema["$schema"]
        report_loss("$schema", f"written in JSON Schema {LATEST_DRAFT}", False)


def _replace(schema: JsonObject, draft: str, *, tuple_form: bool) -> None:
    """Keywords that later drafts gave another name; where they mean nothing, they go."""
    rest = schema.pop("additionalItems", None)
    if tuple_form and isinstance(rest, dict | bool):
        schema["items"] = rest
    needed = schema.pop("dependencies", None)
    if draft != "draft-07" or not isinstance(needed, dict):
        return
    lists = {name: value for name, value in needed.items() if isinstance(value, list) and is_unique_strings(value)}
    if lists:
        schema["dependentRequired"] = lists
    schemas = {name: value for name, value in needed.items() if isinstance(value, dict | bool)}
    if schemas:
        schema["dependentSchemas"] = schemas
