"""JSON Schema's keywords: what each may hold, to which types it belongs, where other schemas stand."""

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

_OBJECT_OR_SWITCH = frozenset({dict, bool})
_NUMBER = frozenset({int, float})
_KINDS: dict[str, frozenset[type[Any]]] = {
    "type": frozenset({str, list}),
    **dict.fromkeys((*ONE,), _OBJECT_OR_SWITCH),
    **dict.fromkeys((*MAP, "dependentRequired"), frozenset({dict})),
    **dict.fromkeys((*LIST, "required", "enum", "examples"), frozenset({list})),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), _NUMBER),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains"), _NUMBER
    ),
    "maxContains": _NUMBER,
    **dict.fromkeys(("uniqueItems", "deprecated", "readOnly", "writeOnly"), frozenset({bool})),
    **dict.fromkeys(
        ("title", "description", "format", "pattern", "$comment", "$ref", "$id", "$schema", "$anchor"), frozenset({str})
    ),
    **dict.fromkeys(("contentEncoding", "contentMediaType", "$dynamicRef", "$recursiveRef"), frozenset({str})),
}


def unsound(schema: JsonObject) -> list[str]:
    """The keywords of a schema object whose values JSON Schema does not allow."""
    bad = []
    for key, value in schema.items():
        kinds = _KINDS.get(key)
        if kinds is not None and (type(value) not in kinds or (key in _CHECKS and not _CHECKS[key](value))):
            bad.append(key)
    return bad


def is_count(value: float) -> bool:
    """Whether a number is a whole one, not below zero, that everybody can read."""
    return 0 <= value < 2**63 and value == int(value)


def _is_type(value: Json) -> bool:
    if isinstance(value, str):
        return value in TYPES
    return bool(value) and all(isinstance(each, str) and each in TYPES for each in value) and _unique(value)


def _is_names(value: list[Json]) -> bool:
    return all(isinstance(each, str) for each in value) and _unique(value)


def _unique(value: list[str]) -> bool:
    return len(set(value)) == len(value)


_CHECKS: dict[str, Any] = {
    "type": _is_type,
    "required": _is_names,
    "enum": bool,
    **dict.fromkeys(LIST, bool),
    "multipleOf": lambda value: value > 0,
    "dependentRequired": lambda value: all(isinstance(each, list) and _is_names(each) for each in value.values()),
    **dict.fromkeys(
        (
            "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
            "maxContains",
        ),
        is_count,
    ),
}  # fmt: skip
