"""Schemas whose types have the names of Python's, as JSON Schema."""

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
_PLAIN = ("object", "number", "integer", "string", "boolean", "array", "null")


def plain_schema(schema: Json) -> JsonObject:
    """The schema with types that JSON Schema knows; a type that stands for anything is left out."""
    if not isinstance(schema, dict):
        return {}
    plain: JsonObject = {key: _part(key, value) for key, value in schema.items() if key != "type"}
    kind = _type(schema.get("type"))
    return {"type": kind, **plain} if kind is not None else plain


def _part(key: str, value: Json) -> Json:
    if key == "properties" and isinstance(value, dict):
        return {name: plain_schema(part) for name, part in value.items()}
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return plain_schema(value)
    return value


def _type(kind: Json) -> Json:
    if isinstance(kind, list):
        found = [known for each in kind if (known := _type(each)) is not None]
        return found or None
    known = _NAMES.get(kind.lower(), kind) if isinstance(kind, str) else None
    return known if known in _PLAIN else None
