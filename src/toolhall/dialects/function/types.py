"""Schemas whose types have the names of Python's, as JSON Schema."""

from operator import is_

from toolhall.model.json import Json, JsonObject

_NAMES = {
    "dict": "object",
    "hashmap": "object",
    "float": "number",
    "double": "number",
    "long": "integer",
    "int": "integer",
    "str": "string",
    "char": "string",
    "bool": "boolean",
    "list": "array",
    "tuple": "array",
    "arraylist": "array",
}
_HOLDERS = frozenset({"properties", "items", "additionalProperties"})
_PLAIN = ("object", "number", "integer", "string", "boolean", "array", "null")


def plain_schema(schema: Json) -> JsonObject:
    """The schema with types that JSON Schema knows; a type that stands for anything is left out."""
    if not isinstance(schema, dict):
        return {}
    plain = schema
    for key in _HOLDERS.intersection(schema):
        part = _part(key, schema[key])
        if part is not schema[key]:
            plain = {**plain, key: part}
    kind = schema.get("type")
    if kind in _PLAIN or "type" not in schema:
        return plain
    known = _type(kind)
    return {**plain, "type": known} if known is not None else {key: plain[key] for key in plain if key != "type"}


def _part(key: str, value: Json) -> Json:
    """What a schema holds, itself where nothing in it has to change."""
    if not isinstance(value, dict):
        return value
    if key != "properties":
        return plain_schema(value)
    parts = {name: plain_schema(part) for name, part in value.items()}
    return value if all(map(is_, parts.values(), value.values())) else parts


def _type(kind: Json) -> Json:
    if isinstance(kind, list):
        found = [known for each in kind if (known := _type(each)) is not None]
        return found or None
    known = _NAMES.get(kind.lower(), kind) if isinstance(kind, str) else None
    return known if known in _PLAIN else None
