"""Where a JSON Schema holds other schemas, and which of them look at the same value."""

from collections.abc import Iterator

import msgspec

from toolhall.model.json import Json, JsonObject

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
_NAMED = ("$defs", "definitions")
_HOLDERS = frozenset(_SAME_ONE + _SAME_LIST + _SAME_MAP + _PART_ONE + _PART_LIST + _PART_MAP + _NAMED)


class Child(msgspec.Struct, frozen=True):
    """A subschema, the pointer to it, and the slot of the value it judges (None: the same value)."""

    schema: Json
    pointer: str
    slot: str | None
    applies: bool = True  # False for a mere definition, which judges nothing by itself


def escape(part: str) -> str:
    """One part of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1")


def children(schema: JsonObject, pointer: str) -> Iterator[Child]:
    """Every direct subschema of this schema object."""
    if _HOLDERS.isdisjoint(schema):  # as for most schemas, which are those of plain values
        return
    for key in _SAME_ONE:
        if key in schema:
            yield Child(schema[key], f"{pointer}/{key}", None)
    for key in _SAME_LIST:
        yield from _listed(schema, key, pointer, None)
    for key in _SAME_MAP:
        yield from _mapped(schema, key, pointer, same=True)
    for key in _PART_ONE:
        if isinstance(schema.get(key), dict | bool):
            yield Child(schema[key], f"{pointer}/{key}", key)
    for key in _PART_LIST:
        yield from _listed(schema, key, pointer, "items")
    for key in _PART_MAP:
        yield from _mapped(schema, key, pointer, same=False)
    for key in _NAMED:
        for child in _mapped(schema, key, pointer, same=True):
            yield Child(child.schema, child.pointer, None, applies=False)


def _listed(schema: JsonObject, key: str, pointer: str, slot: str | None) -> Iterator[Child]:
    found = schema.get(key)
    for index, part in enumerate(found if isinstance(found, list) else ()):
        yield Child(part, f"{pointer}/{key}/{index}", slot and f"{slot}/{index}")


def _mapped(schema: JsonObject, key: str, pointer: str, *, same: bool) -> Iterator[Child]:
    found = schema.get(key)
    for name, part in found.items() if isinstance(found, dict) else ():
        if isinstance(part, dict | bool):  # `dependencies` may also hold lists of names
            yield Child(part, f"{pointer}/{key}/{escape(name)}", None if same else f"{key}/{name}")
