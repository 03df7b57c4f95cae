"""What one schema accepts and another may refuse (Incompatibility), and how values and types are worded."""

from typing import Literal

import msgspec

from toolhall.model.json import Json, encode

_MAX_LENGTH = 60
_MAX_LISTED = 5
_TYPE_WORDS = {
    "null": "null",
    "boolean": "true and false",
    "string": "texts",
    "array": "lists",
    "object": "objects",
}


class Incompatibility(msgspec.Struct, frozen=True):
    """Values that the source accepts and the target may refuse; `path` points into one of the two documents.

    about: `value` in general; `member`: one that the target does not declare; `refused`: a member that it forbids;
    `undeclared`: members that neither declares, so they were never promised.
    proven: False if it is only not known that there are none; `what` is the reason then.
    """

    path: str
    what: str
    about: Literal["value", "member", "refused", "undeclared"] = "value"
    proven: bool = True


def breaks_promise(gaps: list[Incompatibility]) -> bool:
    """True if any of these concerns declared values."""
    return any(gap.about != "undeclared" for gap in gaps)


def unproven(path: str, reason: str) -> Incompatibility:
    """An incompatibility that could not be ruled out."""
    return Incompatibility(path, reason, proven=False)


def quote_value(value: Json) -> str:
    """A value for a message, shortened if it is long."""
    text = encode(value).decode(errors="replace") if not isinstance(value, str) else f"'{value}'"
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def list_values(values: list[Json]) -> str:
    """A few values for a message."""
    some = [quote_value(value) for value in values[:_MAX_LISTED]]
    more = len(values) - len(some)
    return ", ".join([*some, *([f"{more} more"] if more else [])])


def describe_types(types: frozenset[str]) -> str:
    """Types for a message."""
    words = [word for kind, word in _TYPE_WORDS.items() if kind in types]
    if "integer" in types:
        words.append("numbers" if "number" in types else "whole numbers")
    elif "number" in types:
        words.append("numbers that are not whole")
    return ", ".join(words)
