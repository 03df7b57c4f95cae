"""JSON Schema keywords: allowed values, the type each applies to, and traversal of subschemas."""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from toolhall.model.json import Json, JsonObject

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# What other type systems call them; such a schema compiles nowhere, but everybody knows what is meant.
TYPE_ALIASES = {
    "str": "string", "text": "string", "float": "number", "double": "number", "int": "integer", "long": "integer",
    "bool": "boolean", "list": "array", "tuple": "array", "dict": "object", "map": "object", "none": "null",
}  # fmt: skip
# Where schemas stand inside a schema: one, a list of them, or by name.
SINGLE_SUBSCHEMA = frozenset({
    "not", "if", "then", "else", "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
})  # fmt: skip
SUBSCHEMA_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SUBSCHEMA_MAP = frozenset({"properties", "patternProperties", "dependentSchemas"})
SUBSCHEMA_KEYWORDS = SINGLE_SUBSCHEMA | SUBSCHEMA_LIST | SUBSCHEMA_MAP
# Where `true` and `false` are usual; elsewhere many readers want an object.
BOOLEAN_SUBSCHEMA = frozenset({"additionalProperties", "unevaluatedProperties", "unevaluatedItems"})
# Keywords that say something of a value without judging it.
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
# The one type that a keyword judges; those of numbers judge integers too.
KEYWORD_TYPE = {key: kind for kind, keys in _KEYWORDS_BY_TYPE.items() for key in keys}
_SCHEMA = frozenset({dict, bool})
_NUMBER = frozenset({int, float})
_TEXT = frozenset({str})
_BOOLEAN = frozenset({bool})
_LIST = frozenset({list})
_MAP = frozenset({dict})


def is_count(value: float) -> bool:
    """Whether a number is a whole one, not below zero, that everybody can read."""
    return 0 <= value < 2**63 and value == int(value)


def _is_type(value: Json) -> bool:
    if type(value) is str:
        return value in TYPES
    return bool(value) and all(isinstance(each, str) and each in TYPES for each in value) and _is_unique(value)


def is_unique_strings(value: list[Json]) -> bool:
    """Whether a list holds texts, none of them twice."""
    return all(isinstance(each, str) for each in value) and _is_unique(value)


def _is_map_of_string_lists(value: JsonObject) -> bool:
    return all(isinstance(each, list) and is_unique_strings(each) for each in value.values())


def _is_unique(value: list[str]) -> bool:
    return len(set(value)) == len(value)


def _is_positive(value: float) -> bool:
    return value > 0


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
    **dict.fromkeys(("title", "description", "format", "pattern", "$comment"), (_TEXT, None)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), (_TEXT, None)),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema", "$anchor"), (_TEXT, None)),
}


def invalid_keywords(schema: JsonObject) -> list[str]:
    """The keywords of a schema object whose values JSON Schema does not allow."""
    bad = []
    for key, value in schema.items():
        rule = _RULES.get(key)
        if rule is not None and (type(value) not in rule[0] or (rule[1] is not None and not rule[1](value))):
            bad.append(key)
    return bad


# Keywords whose subschemas judge the very value their parent judges.
_SAME_ONE = ("not", "if", "then", "else")
_SAME_LIST = ("allOf", "anyOf", "oneOf")
_SAME_MAP = ("dependentSchemas", "dependencies")
# Keywords whose subschemas judge a part of that value.
_PART_ONE = (
    "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems", "unevaluatedProperties",
    "additionalItems", "contentSchema",
)  # fmt: skip
_PART_LIST = ("prefixItems", "items")
_PART_MAP = ("properties", "patternProperties")
_DEFINITION_MAP = ("$defs", "definitions")
_ANY_SUBSCHEMA = frozenset(_SAME_ONE + _SAME_LIST + _SAME_MAP + _PART_ONE + _PART_LIST + _PART_MAP + _DEFINITION_MAP)


class Subschema(msgspec.Struct, frozen=True):
    """A subschema, the pointer to it, and the slot of the value it judges (None: the same value)."""

    schema: Json
    pointer: str
    slot: str | None
    applies: bool = True  # False for a mere definition, which judges nothing by itself


def escape_pointer(part: str) -> str:
    """One part of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")


def subschemas(schema: JsonObject, pointer: str) -> Iterator[Subschema]:
    """Every direct subschema of this schema object."""
    if _ANY_SUBSCHEMA.isdisjoint(schema):  # as for most schemas, which are those of plain values
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
    for key in _DEFINITION_MAP:
        for child in _in_map(schema, key, pointer, same=True):
            yield Subschema(child.schema, child.pointer, None, applies=False)


def _in_list(schema: JsonObject, key: str, pointer: str, slot: str | None) -> Iterator[Subschema]:
    found = schema.get(key)
    for index, part in enumerate(found if isinstance(found, list) else ()):
        yield Subschema(part, f"{pointer}/{key}/{index}", slot and f"{slot}/{index}")


def _in_map(schema: JsonObject, key: str, pointer: str, *, same: bool) -> Iterator[Subschema]:
    found = schema.get(key)
    for name, part in found.items() if isinstance(found, dict) else ():
        if isinstance(part, dict | bool):  # `dependencies` may also hold lists of names
            yield Subschema(part, f"{pointer}/{key}/{escape_pointer(name)}", None if same else f"{key}/{name}")
