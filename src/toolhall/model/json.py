"""The type of a JSON value, and the one encoder that every layer shares."""

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


def levels(value: Json) -> Iterator[list[Json]]:
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
