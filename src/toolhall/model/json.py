"""JSON types, the shared encoder, level-order traversal and JSON Pointer escaping (RFC 6901)."""

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

# Any is deliberate: JSON from outside has no known type until it has been validated.
Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Json]
encode = msgspec.json.Encoder().encode
_CONTAINERS = (dict, list)
# A bool is an int to Python, so it comes first.
_TYPE_NAMES = (
    (bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"), (dict, "object"),
)  # fmt: skip
_SCALARS = {str, int, float, bool, type(None)}


def type_name(value: Json) -> str:
    """The JSON Schema type of a value."""
    return next((name for kinds, name in _TYPE_NAMES if isinstance(value, kinds)), "null")


def walk_levels(value: Json) -> Iterator[list[Json]]:
    """The objects and lists in a value, level by level, without recursion and fast for wide values."""
    level = [value] if type(value) in _CONTAINERS else []
    while level:
        yield level
        inner: list[Json] = []
        for part in level:
            children = part.values() if type(part) is dict else part
            if not _SCALARS.issuperset(map(type, children)):
                inner.extend([each for each in children if type(each) in _CONTAINERS])
        level = inner


def escape_pointer(part: str) -> str:
    """Escape one reference token of a JSON Pointer (RFC 6901)."""
    return part.replace("~", "~0").replace("/", "~1") if "~" in part or "/" in part else part


def unescape_pointer(part: str) -> str:
    """Reverse `escape_pointer`."""
    return part.replace("~1", "/").replace("~0", "~")
