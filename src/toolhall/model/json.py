"""JSON types, the shared encoder, level-order traversal and JSON Pointer escaping (RFC 6901)."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

# Any is deliberate: JSON from outside has no shape until a schema has been checked.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Json]
encode = msgspec.json.Encoder().encode
_CONTAINERS = (dict, list)
# A bool is an int to Python, so it comes first.
_TYPE_NAMES = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"),
)  # fmt: skip
_PLAIN = {str, int, float, bool, type(None)}


def type_name(value: Json) -> str:
    """What JSON Schema calls the type of a value."""
    return next((name for kinds, name in _TYPE_NAMES if isinstance(value, kinds)), "null")


def walk_levels(value: Json) -> Iterator[list[Json]]:
    """The objects and lists in a value, level by level: a crowded one costs little, a deep one no stack."""
    level = [value] if type(value) in _CONTAINERS else []
    while level:
        yield level
        inner: list[Json] = []
        for part in level:
            parts = part.values() if type(part) is dict else part
            if not _PLAIN.issuperset(map(type, parts)):
                inner.extend([each for each in parts if type(each) in _CONTAINERS])
        level = inner


def escape_pointer(part: str) -> str:
    """One part of a JSON pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


def unescape_pointer(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
