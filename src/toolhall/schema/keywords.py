"""JSON Schema's keywords: what each may hold, to which types it belongs, where other schemas stand."""

from collections.abc import Callable
from typing import Any

from toolhall.model.json import Json, JsonObject

TYPES = ("string", "number", "integer", "boolean", "array", "object", "null")
# What other type systems call them; such a schema compiles nowhere, but everybody knows what is meant.
MEANT = {
    "str": "string", "text": "string", "float": "number", "double": "number", "int": "integer", "long": "integer",
    "bool": "boolean", "list": "array", "tuple": "array", "dict": "object", "map": "object", "none": "null",
}  # fmt: skip

# Where schemas stand inside a schema: one, a list of them, or by name.
ONE = frozenset({
    "not", "if", "then", "else", "additionalProperties", "items", "contains", "propertyNames", "unevaluatedItems",
    "unevaluatedProperties", "contentSchema",
})  # fmt: skip
LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
MAP = frozenset({"properties", "patternProperties", "dependentSchemas"})
HOLDERS = ONE | LIST | MAP
# Where `true` and `false` are usual; elsewhere many readers want an object.
SWITCHES = frozenset({"additionalProperties", "unevaluatedProperties", "unevaluatedItems"})

# Keywords that say something of a value without judging it.
ANNOTATIONS = frozenset({
    "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "format",
    "contentEncoding", "contentMediaType", "contentSchema",
})  # fmt: skip

_OF_TYPE = {
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
TYPE_OF = {key: kind for kind, keys in _OF_TYPE.items() for key in keys}

_SCHEMA = frozenset({dict, bool})
_NUMBER = frozenset({int, float})
_TEXT = frozenset({str})
_SWITCH = frozenset({bool})
_LIST = frozenset({list})
_MAP = frozenset({dict})


def is_count(value: float) -> bool:
    """Whether a number is a whole one, not below zero, that everybody can read."""
    return 0 <= value < 2**63 and value == int(value)


def _is_type(value: Json) -> bool:
    if type(value) is str:
        return value in TYPES
    return bool(value) and all(isinstance(each, str) and each in TYPES for each in value) and _unique(value)


def is_names(value: list[Json]) -> bool:
    """Whether a list holds texts, none of them twice."""
    return all(isinstance(each, str) for each in value) and _unique(value)


def _is_name_lists(value: JsonObject) -> bool:
    return all(isinstance(each, list) and is_names(each) for each in value.values())


def _unique(value: list[str]) -> bool:
    return len(set(value)) == len(value)


def _is_positive(value: float) -> bool:
    return value > 0


_Rule = tuple[frozenset[type[Any]], Callable[[Any], bool] | None]
_RULES: dict[str, _Rule] = {
    "type": (frozenset({str, list}), _is_type),
    "required": (_LIST, is_names),
    "enum": (_LIST, bool),
    "examples": (_LIST, None),
    "dependentRequired": (_MAP, _is_name_lists),
    "multipleOf": (_NUMBER, _is_positive),
    **dict.fromkeys(ONE, (_SCHEMA, None)),
    **dict.fromkeys(LIST, (_LIST, bool)),
    **dict.fromkeys(MAP, (_MAP, None)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), (_NUMBER, None)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (_NUMBER, is_count)),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), (_NUMBER, is_count)),
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), (_SWITCH, None)),
    **dict.fromkeys(("title", "description", "format", "pattern", "$comment"), (_TEXT, None)),
    **dict.fromkeys(("contentEncoding", "contentMediaType"), (_TEXT, None)),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef", "$id", "$schema", "$anchor"), (_TEXT, None)),
}


def unsound(schema: JsonObject) -> list[str]:
    """The keywords of a schema object whose values JSON Schema does not allow."""
    bad = []
    for key, value in schema.items():
        rule = _RULES.get(key)
        if rule is not None and (type(value) not in rule[0] or (rule[1] is not None and not rule[1](value))):
            bad.append(key)
    return bad
