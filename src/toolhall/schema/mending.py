"""Mending of JSON Schemas as strangers write them (mend_schema): older drafts, other type names, null for absent.

A schema is mended where it means one thing only, so that it accepts what its author meant. Where the hall cannot check
a part, such as a pattern with look-around, it accepts more: whoever runs the tool checks its arguments again.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from toolhall.model.json import (
    Json,
    JsonChange,
    JsonObject,
    apply_changes,
    escape_pointer,
    short_digest,
    unescape_pointer,
)
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import (
    ANNOTATIONS,
    DRAFTS,
    REFERENCE_KEYWORDS,
    TYPE_ALIASES,
    TYPES,
    ReferenceResolver,
    invalid_keywords,
    is_unique_strings,
)
from toolhall.schema.validator import Validator

NoteMending: TypeAlias = Callable[[str, str, str], None]  # the path, the kind of change, what stands there now
_DRAFT_07 = "http://json-schema.org/draft-07/schema"
# Drafts that no validator here knows; what they have and draft-07 has not is put right below.
_OLDER_DRAFTS = frozenset(
    f"{scheme}://json-schema.org/{path}"
    for scheme in ("http", "https")
    for path in ("schema", "draft-03/schema", "draft-04/schema", "draft-05/schema", "draft-06/schema")
) | {"https://json-schema.org/draft-07/schema"}
_NEWER_BY_HTTP = {stated.replace("https://", "http://"): stated for stated in DRAFTS if stated.startswith("https://")}
_ANY_TYPE = frozenset({"any", "mixed", "unknown"})
_NULL_MEANS_ABSENT = frozenset({
    "title", "description", "$comment", "examples", "format", "pattern", "required", "properties", "patternProperties",
    "items", "prefixItems", "additionalItems", "additionalProperties", "enum", "type", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "allOf", "anyOf", "oneOf", "not", "$ref", "$schema", "$id",
    "$defs", "definitions", "dependencies", "deprecated", "readOnly", "writeOnly", "contentEncoding",
    "contentMediaType",
})  # fmt: skip
_SCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMAS = (
    "items", "additionalItems", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_BAD_PATTERN = "this pattern cannot be used"
_MAX_PATTERNS = 20  # that are left out of one schema
_MAX_DEPTH = 64  # deeper, nothing is mended, and the reader refuses it


def mend_schema(root: JsonObject, note: NoteMending) -> JsonObject:
    """Return the schema in keywords that its draft has; `note` gets the path, the kind and the text of each change."""
    schema = dict(root)
    stated = schema.get("$schema")
    plain = stated.rstrip("#").strip() if isinstance(stated, str) else ""
    if plain in _OLDER_DRAFTS:
        schema["$schema"] = f"{_DRAFT_07}#"
        note("/$schema", "draft", "an older draft; it is read as draft-07")
    elif plain in _NEWER_BY_HTTP:
        schema["$schema"] = _NEWER_BY_HTTP[plain]
        note("/$schema", "draft", f"it is read as {_NEWER_BY_HTTP[plain]}")
    is_new = "$schema" not in schema or schema["$schema"] is None or "draft-07" not in str(schema["$schema"])
    mended = _SchemaMender(note, rewrites=is_new, has_references=_has_references(root)).mend(schema, "", 0)
    return _with_usable_patterns(mended, note)


def _has_references(schema: JsonObject) -> bool:
    pending: list[Json] = [schema]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            if not part.keys().isdisjoint(REFERENCE_KEYWORDS):
                return True
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
    return False


def _are_texts(value: Json) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


class _SchemaMender:
    """Mends every object of one schema; `rewrites`: keywords of older drafts mean nothing in its draft."""

    def __init__(self, note: NoteMending, *, rewrites: bool, has_references: bool) -> None:
        self._note = note
        self._rewrites = rewrites
        self._has_references = has_references

    def mend(self, schema: JsonObject, pointer: str, depth: int) -> JsonObject:
        """One schema object and all within it; the same object if nothing is wrong."""
        if depth > _MAX_DEPTH:
            return schema
        mended = dict(schema)
        for key in [key for key, value in mended.items() if value is None and key in _NULL_MEANS_ABSENT]:
            self._drop(mended, key, pointer, "null", "it is null")
        if depth:
            self._mend_inner_names(mended, pointer)
        self._mend_type(mended, pointer)
        self._mend_required(mended, pointer)
        self._mend_bounds(mended, pointer)
        if self._rewrites:
            self._mend_older(mended, pointer)
        self._mend_annotations(mended, pointer)
        for key, part, put in _children(mended):
            put(self.mend(part, f"{pointer}/{key}", depth + 1))
        return mended

    def _drop(self, schema: JsonObject, key: str, pointer: str, kind: str, why: str) -> None:
        del schema[key]
        self._note(f"{pointer}/{escape_pointer(key)}", kind, f"{why}; it was left out")

    def _mend_inner_names(self, schema: JsonObject, pointer: str) -> None:
        """Names of documents within a document: without references, they say nothing."""
        for key in ("$schema", "$id"):
            if isinstance(schema.get(key), str) and (key == "$schema" or not self._has_references):
                self._drop(schema, key, pointer, "draft", "only the root may state this")

    def _mend_type(self, schema: JsonObject, pointer: str) -> None:
        stated = schema.get("type")
        names = [stated] if isinstance(stated, str) else stated if isinstance(stated, list) else []
        if not names or not all(isinstance(each, str) for each in names) or all(each in TYPES for each in names):
            if isinstance(stated, list) and stated and not is_unique_strings(stated) and _are_texts(stated):
                schema["type"] = list(dict.fromkeys(stated))
                self._note(f"{pointer}/type", "type", "a type was there twice")
            return
        lower = [each.strip().lower() for each in names]
        if any(each in _ANY_TYPE for each in lower):
            self._drop(schema, "type", pointer, "type", f"{lower[0][:32]!r} is no type and means any")
            return
        known = list(dict.fromkeys(TYPE_ALIASES.get(each, each) for each in lower))
        if all(each in TYPES for each in known):
            schema["type"] = known[0] if isinstance(stated, str) else known
            self._note(f"{pointer}/type", "type", f"it is written as {' or '.join(known)}")

    def _mend_required(self, schema: JsonObject, pointer: str) -> None:
        """Doubles in `required`, and `required: true` beside a property's type, as draft-03 had it."""
        required = schema.get("required")
        if isinstance(required, list) and _are_texts(required) and not is_unique_strings(required):
            schema["required"] = list(dict.fromkeys(required))
            self._note(f"{pointer}/required", "required", "a name was there twice")
        properties = schema.get("properties")
        stated = {
            name: part["required"]
            for name, part in (properties.items() if isinstance(properties, dict) else ())
            if isinstance(part, dict) and isinstance(part.get("required"), bool)
        }
        if stated and isinstance(properties, dict) and (required is None or _are_texts(required)):
            schema["properties"] = {
                name: {key: value for key, value in part.items() if key != "required"} if name in stated else part
                for name, part in properties.items()
            }
            names = [*(required or []), *(name for name, needed in stated.items() if needed)]
            if names:
                schema["required"] = list(dict.fromkeys(names))
            for name in stated:
                path = f"{pointer}/properties/{escape_pointer(name)}/required"
                self._note(path, "required", "it was moved into the list of the object")

    def _mend_bounds(self, schema: JsonObject, pointer: str) -> None:
        """`exclusiveMinimum: true` beside `minimum`, as draft-04 had it."""
        for key, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            stated = schema.get(key)
            if not isinstance(stated, bool):
                continue
            limit = schema.get(bound)
            if stated and isinstance(limit, int | float) and not isinstance(limit, bool):
                schema[key] = schema.pop(bound)
                self._note(f"{pointer}/{key}", "draft", f"it is written as the number of {bound}")
            else:
                self._drop(schema, key, pointer, "draft", f"without {bound}, or false, it means nothing")

    def _mend_older(self, schema: JsonObject, pointer: str) -> None:
        """Tuples and dependencies as they were written before 2019-09."""
        items = schema.get("items")
        if isinstance(items, list):
            rest = schema.pop("additionalItems", None)
            del schema["items"]
            if items:
                schema["prefixItems"] = items
            if isinstance(rest, dict | bool):
                schema["items"] = rest
            self._note(f"{pointer}/items", "draft", "a list of schemas is written as prefixItems")
        elif items is not None and "additionalItems" in schema:
            del schema["additionalItems"]  # it never meant anything there
        dependencies = schema.get("dependencies")
        if isinstance(dependencies, dict):
            del schema["dependencies"]
            names = {name: part for name, part in dependencies.items() if isinstance(part, list)}
            schemas = {name: part for name, part in dependencies.items() if isinstance(part, dict | bool)}
            if names:
                schema["dependentRequired"] = names
            if schemas:
                schema["dependentSchemas"] = schemas
            what = "it is written as dependentRequired and dependentSchemas"
            self._note(f"{pointer}/dependencies", "draft", what)

    def _mend_annotations(self, schema: JsonObject, pointer: str) -> None:
        """Words beside a schema that are no words; they decide nothing."""
        if not isinstance(schema.get("examples", []), list):
            schema["examples"] = [schema["examples"]]
            self._note(f"{pointer}/examples", "annotation", "one example is written as a list of one")
        for key in invalid_keywords(schema):
            if key in ANNOTATIONS or key == "$comment":
                self._drop(schema, key, pointer, "annotation", "its value has the wrong type")


def _children(schema: JsonObject) -> Iterator[tuple[str, JsonObject, Callable[[JsonObject], None]]]:
    """Every schema object directly within one, with its pointer, and how to replace it."""
    for key in _SCHEMAS:
        if isinstance(part := schema.get(key), dict):
            yield key, part, _setter(schema, key)
    for key in _SCHEMA_MAPS:
        if isinstance(parts := schema.get(key), dict):
            copied: JsonObject = dict(parts)
            schema[key] = copied
            for name, part in parts.items():
                if isinstance(part, dict):
                    yield f"{key}/{escape_pointer(name)}", part, _setter(copied, name)
    for key in (*_SCHEMA_LISTS, "items"):
        if isinstance(listed := schema.get(key), list):
            again: list[Json] = list(listed)
            schema[key] = again
            for at, part in enumerate(listed):
                if isinstance(part, dict):
                    yield f"{key}/{at}", part, _list_setter(again, at)


def _setter(holder: JsonObject, key: str) -> Callable[[JsonObject], None]:
    def put(value: JsonObject) -> None:
        holder[key] = value

    return put


def _list_setter(holder: list[Json], at: int) -> Callable[[JsonObject], None]:
    def put(value: JsonObject) -> None:
        holder[at] = value

    return put


def _with_usable_patterns(schema: JsonObject, note: NoteMending) -> JsonObject:
    """The schema without patterns that only a backtracking engine can match; the server checks them itself."""
    for _ in range(_MAX_PATTERNS):
        try:
            Validator(schema)
        except BadSchema as bad:
            found = [each.path for each in bad.problems if each.reason.startswith(_BAD_PATTERN)]
            if not found or not found[0].endswith("/pattern"):
                break
            pattern = ReferenceResolver(schema).value_at(tuple(map(unescape_pointer, found[0].split("/")[1:])))
            schema = apply_changes([JsonChange(found[0], short_digest(pattern))], schema)
            note(found[0], "pattern", "look-around or back references cannot be checked here; it was left out")
        else:
            break
    return schema
