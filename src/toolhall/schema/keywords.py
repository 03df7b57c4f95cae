"""JSON Schema keywords: allowed values, types that each applies to, traversal, references and older drafts.

`subschemas` is the only traversal of a schema object. `upgrade` rewrites a schema object of draft-07 or 2019-09 in the
keywords of 2020-12, so that every other module of this package reads one draft only. ReferenceResolver resolves `$ref`,
`$dynamicRef` and anchors inside one schema document, and never reads anything outside of it.
"""

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from toolhall.model.json import Json, JsonObject, encode, escape_pointer, unescape_pointer

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# Names that other type systems use. No validator accepts them, but their meaning is unambiguous.
TYPE_ALIASES = {
    "str": "string", "text": "string", "float": "number", "double": "number", "int": "integer", "long": "integer",
    "bool": "boolean", "list": "array", "tuple": "array", "dict": "object", "map": "object", "none": "null",
}  # fmt: skip
REFERENCE_KEYWORDS = ("$ref", "$dynamicRef", "$recursiveRef")
DEFINITION_KEYWORDS = ("$defs", "definitions")
HEADER_KEYWORD = "x-mcp-header"  # MCP 2026-07-28: clients repeat the parameter in this HTTP header
# Keywords of 2020-12 that hold one subschema, a list of subschemas, or subschemas by name.
SINGLE_SUBSCHEMA = frozenset({
    "not", "if", "then", "else", "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
})  # fmt: skip
SUBSCHEMA_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SUBSCHEMA_MAP = frozenset({"properties", "patternProperties", "dependentSchemas"})
SUBSCHEMA_KEYWORDS = SINGLE_SUBSCHEMA | SUBSCHEMA_LIST | SUBSCHEMA_MAP
# Keywords for which every reader accepts `true` and `false`; elsewhere many readers accept an object only.
BOOLEAN_SUBSCHEMA = frozenset({"additionalProperties", "unevaluatedProperties", "unevaluatedItems"})
# Keywords that describe a value and never reject one.
ANNOTATIONS = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format",
    "contentEncoding", "contentMediaType", "contentSchema",
})  # fmt: skip
_KEYWORDS_BY_TYPE = {
    "string": ("minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": (
        "items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains",
        "unevaluatedItems",
    ),
    "object": (
        "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
    ),
}  # fmt: skip
# The type that a keyword applies to; keywords of "number" apply to integers too.
KEYWORD_TYPE = {key: kind for kind, keys in _KEYWORDS_BY_TYPE.items() for key in keys}

# Traversal, in all drafts. Keywords whose subschemas apply to the same value as their parent:
_SAME_ONE = ("not", "if", "then", "else")
_SAME_LIST = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas", "dependencies")
# Keywords whose subschemas apply to a part of that value:
_PART_ONE = (
    "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
    "additionalItems", "contentSchema",
)  # fmt: skip
_PART_LIST = ("prefixItems", "items")
_PART_MAP = ("properties", "patternProperties")
_ANY_SUBSCHEMA = frozenset(
    _SAME_ONE + _SAME_LIST + _SAME_MAP + _PART_ONE + _PART_LIST + _PART_MAP + DEFINITION_KEYWORDS
)
DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": "2020-12",
    "https://json-schema.org/draft/2019-09/schema": "2019-09",
    "http://json-schema.org/draft-07/schema": "draft-07",
}
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
ReportLoss = Callable[[str, str, bool], None]  # keyword, reason, whether more values are accepted without it
PointerParts = tuple[str, ...]
MISSING = msgspec.UNSET


class Subschema(msgspec.Struct, frozen=True):
    """A subschema, the pointer to it, and the slot of the value it applies to (None: the same value)."""

    schema: Json
    pointer: str
    slot: str | None
    applies: bool = True  # False for a definition, which applies only where it is referenced


def subschemas(schema: JsonObject, pointer: str) -> Iterator[Subschema]:
    """Every direct subschema of this schema object."""
    if _ANY_SUBSCHEMA.isdisjoint(schema):  # the usual case: the schema of a plain value
        return
    for key in _SAME_ONE:
        if key in schema:
            yield Subschema(schema[key], f"{pointer}/{key}", None)
    for key in _SAME_LIST:
        yield from _in_list(schema, key, pointer, None)
    for key in _SAME_MAP:
        yield from _in_map(schema, key, pointer, same=True)
    for key in _PART_ONE:
        if isinstance(schema.get(key), dict | bool):
            yield Subschema(schema[key], f"{pointer}/{key}", key)
    for key in _PART_LIST:
        yield from _in_list(schema, key, pointer, "items")
    for key in _PART_MAP:
        yield from _in_map(schema, key, pointer, same=False)
    for key in DEFINITION_KEYWORDS:
        for child in _in_map(schema, key, pointer, same=True):
            yield Subschema(child.schema, child.pointer, None, applies=False)


def may_contain(schema: JsonObject, keyword: str) -> bool:
    """Whether a keyword could occur anywhere in a schema: a fast check for keywords that most schemas do not use."""
    return keyword.encode() in encode(schema)


def _in_list(schema: JsonObject, key: str, pointer: str, slot: str | None) -> Iterator[Subschema]:
    value = schema.get(key)
    for index, part in enumerate(value if isinstance(value, list) else ()):
        yield Subschema(part, f"{pointer}/{key}/{index}", slot and f"{slot}/{index}")


def _in_map(schema: JsonObject, key: str, pointer: str, *, same: bool) -> Iterator[Subschema]:
    value = schema.get(key)
    for name, part in value.items() if isinstance(value, dict) else ():
        if isinstance(part, dict | bool):  # `dependencies` may also hold lists of names
            yield Subschema(part, f"{pointer}/{key}/{escape_pointer(name)}", None if same else f"{key}/{name}")


def invalid_keywords(schema: JsonObject) -> list[str]:
    """The keywords of a schema object whose values JSON Schema does not allow."""
    invalid = []
    for key, value in schema.items():
        rule = _RULES.get(key)
        if rule is not None and (type(value) not in rule[0] or (rule[1] is not None and not rule[1](value))):
            invalid.append(key)
    return invalid


def is_count(value: float) -> bool:
    """Whether a number is a non-negative integer below 2**63."""
    return 0 <= value < 2**63 and value == int(value)


def is_unique_strings(value: list[Json]) -> bool:
    """Whether a list holds only strings, without duplicates."""
    return all(isinstance(each, str) for each in value) and _is_unique(value)


def _is_type(value: Json) -> bool:
    if type(value) is str:
        return value in TYPES
    return bool(value) and all(isinstance(each, str) and each in TYPES for each in value) and _is_unique(value)


def _is_map_of_string_lists(value: JsonObject) -> bool:
    return all(isinstance(each, list) and is_unique_strings(each) for each in value.values())


def _is_unique(value: list[str]) -> bool:
    return len(set(value)) == len(value)


def _is_positive(value: float) -> bool:
    return value > 0


_SCHEMA = frozenset({dict, bool})
_NUMBER = frozenset({int, float})
_STRING = frozenset({str})
_BOOLEAN = frozenset({bool})
_LIST = frozenset({list})
_MAP = frozenset({dict})
_Rule = tuple[frozenset[type[Any]], Callable[[Any], bool] | None]
_RULES: dict[str, _Rule] = {
    "type": (frozenset({str, list}), _is_type),
    "required": (_LIST, is_unique_strings),
    "enum": (_LIST, bool),
    "examples": (_LIST, None),
    "dependentRequired": (_MAP, _is_map_of_string_lists),
    "multipleOf": (_NUMBER, _is_positive),
    **dict.fromkeys(SINGLE_SUBSCHEMA, (_SCHEMA, None)),
    **dict.fromkeys(SUBSCHEMA_LIST, (_LIST, bool)),
    **dict.fromkeys(SUBSCHEMA_MAP, (_MAP, None)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_NUMBER, None)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (_NUMBER, is_count)),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), (_NUMBER, is_count)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), (_BOOLEAN, None)),
    **dict.fromkeys(("title", "description", "format", "pattern", "$comment"), (_STRING, None)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), (_STRING, None)),
    **dict.fromkeys((*REFERENCE_KEYWORDS, "$id", "$schema", "$anchor"), (_STRING, None)),
}


def declared_draft(root: JsonObject) -> str:
    """The draft that a document declares: 2020-12 if it declares none, draft-07 if it declares an unknown one."""
    declared = root.get("$schema")
    if not isinstance(declared, str):
        return LATEST_DRAFT
    return DRAFTS.get(declared.rstrip("#"), "draft-07")


def is_current(schema: JsonObject, draft: str) -> bool:
    """Whether `upgrade` would leave a schema object unchanged."""
    return (
        not invalid_keywords(schema)
        and _CHANGED_KEYWORDS.isdisjoint(schema)
        and (draft == LATEST_DRAFT or _LATER_KEYWORDS[draft].isdisjoint(schema))
    )


def upgrade(schema: JsonObject, draft: str, report_loss: ReportLoss) -> JsonObject:
    """The same schema object in 2020-12, without anchors and definitions; keywords with invalid values are dropped."""
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
    """Replace an invalid value by the nearest valid one, or drop the keyword."""
    value = schema.pop(key)
    if key == "items" and isinstance(value, list) and value:
        schema["prefixItems"] = value
        return
    repaired: Json = None
    if key == "type":
        repaired = _repaired_type(value)
    elif key == "required" and isinstance(value, list):
        repaired = list(dict.fromkeys(each for each in value if isinstance(each, str))) or None
    if repaired is not None:
        schema[key] = repaired
    nearest = "" if repaired is None else "; the nearest is written"
    report_loss(key, f"the value of {key} is not valid JSON Schema{nearest}", key not in ANNOTATIONS)


def _repaired_type(value: Json) -> Json:
    named = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    types = [TYPE_ALIASES.get(each.lower(), each.lower()) for each in named if isinstance(each, str)]
    known = list(dict.fromkeys(each for each in types if each in TYPES))
    if not known or len(known) != len(set(types)):  # an unknown type may mean anything
        return None
    return known[0] if isinstance(value, str) else known


def _rename(schema: JsonObject, draft: str, report_loss: ReportLoss) -> None:
    for key in _NAMING_KEYWORDS.intersection(schema):
        del schema[key]  # references to these are inlined
    for key in ("$recursiveRef", "$dynamicRef"):
        # In one document without inner ids, the dynamic scope holds nothing but the document itself.
        if key in schema:
            schema.setdefault("$ref", schema.pop(key))
    if "$id" in schema:
        del schema["$id"]
        report_loss("$id", "the schema is no document of its own here", False)
    # A subschema must not change the dialect of the document, nor of a schema that it is merged into.
    if "$schema" in schema and (draft != LATEST_DRAFT or declared_draft(schema) != LATEST_DRAFT):
        del schema["$schema"]
        report_loss("$schema", f"written in JSON Schema {LATEST_DRAFT}", False)


def _replace(schema: JsonObject, draft: str, *, tuple_form: bool) -> None:
    """Replace `additionalItems` and `dependencies` by their successors; where they have no effect, drop them."""
    additional_items = schema.pop("additionalItems", None)
    if tuple_form and isinstance(additional_items, dict | bool):
        schema["items"] = additional_items
    dependencies = schema.pop("dependencies", None)
    if draft != "draft-07" or not isinstance(dependencies, dict):
        return
    lists = {
        name: value for name, value in dependencies.items() if isinstance(value, list) and is_unique_strings(value)
    }
    if lists:
        schema["dependentRequired"] = lists
    schemas = {name: value for name, value in dependencies.items() if isinstance(value, dict | bool)}
    if schemas:
        schema["dependentSchemas"] = schemas


class ReferenceResolver:
    """Resolves references against one root document."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._anchors: dict[str, PointerParts] | None = None

    def resolve(self, reference: str) -> PointerParts | None:
        """The path to the referenced subschema; None if the target is outside the document or does not exist."""
        document, _, fragment = reference.partition("#")
        if document and document != self._root.get("$id"):
            return None
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._resolve_anchor(fragment)
        path = _pointer_parts(fragment)
        return path if isinstance(self.value_at(path), dict | bool) else None

    def value_at(self, path: PointerParts) -> Json:
        """The value at a path, or MISSING."""
        value: Json = self._root
        for part in path:
            value = child_at(value, part)
            if value is MISSING:
                break
        return value

    def _resolve_anchor(self, name: str) -> PointerParts | None:
        if self._anchors is None:
            self._anchors = dict(_find_anchors(self._root))
        return self._anchors.get(name)


def child_at(value: Json, part: str) -> Json:
    """A member of an object or an item of a list, or MISSING."""
    if isinstance(value, dict):
        return value.get(part, MISSING)
    if isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value):
        return value[int(part)]
    return MISSING


def _find_anchors(root: JsonObject) -> list[tuple[str, PointerParts]]:
    anchors: list[tuple[str, PointerParts]] = []
    pending: list[tuple[Json, str]] = [(root, "")]
    while pending:
        schema, pointer = pending.pop()
        if not isinstance(schema, dict):
            continue
        path = _pointer_parts(pointer)
        names = [schema.get("$anchor"), schema.get("$dynamicAnchor"), _draft7_anchor(schema.get("$id"))]
        anchors.extend((name, path) for name in names if isinstance(name, str))
        pending.extend((child.schema, child.pointer) for child in subschemas(schema, pointer))
    return anchors


def _draft7_anchor(identifier: Json) -> str | None:
    """Draft-07 has no keyword for anchors: an `$id` that starts with '#' is one."""
    return identifier[1:] if isinstance(identifier, str) and identifier.startswith("#") else None


def _pointer_parts(pointer: str) -> PointerParts:
    return tuple(map(unescape_pointer, pointer.split("/")[1:]))
