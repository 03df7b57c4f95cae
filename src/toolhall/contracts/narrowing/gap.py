"""What one schema accepts and another one does not, and how it is put into words."""

from typing import Literal

import msgspec

from toolhall.model.json import Json, encode

_LONGEST = 60
_MOST_SHOWN = 5
_WORDS = {
    "null": "null",
    "boolean": "true and false",
    "string": "texts",
    "array": "lists",
    "object": "objects",
}


class Gap(msgspec.Struct, frozen=True):
    """Values that the source accepts and the target may refuse; `path` is in one of the two documents.

    about: `value` in general; `member`: one that the target does not speak of; `refused`: a member that it forbids;
    `undeclared`: members of which neither speaks, so nobody promised anything.
    proven: False where it is only not known that there are none; `what` is the reason then.
    """

    path: str
    what: str
    about: Literal["value", "member", "refused", "undeclared"] = "value"
    proven: bool = True


def serious(gaps: list[Gap]) -> bool:
    """Whether there is a gap in what was promised."""
    return any(gap.about != "undeclared" for gap in gaps)


def unproven(path: str, reason: str) -> Gap:
    """A gap that may be none."""
    return Gap(path, reason, proven=False)


def shown(value: Json) -> str:
    """A value in a sentence, cut where it is long."""
    text = encode(value).decode(errors="replace") if not isinstance(value, str) else f"'{value}'"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def listed(values: list[Json]) -> str:
    """A few values in a sentence."""
    some = [shown(value) for value in values[:_MOST_SHOWN]]
    more = len(values) - len(some)
    return ", ".join([*some, *([f"{more} more"] if more else [])])


def kinds(types: frozenset[str]) -> str:
    """Types in a sentence."""
    words = [word for kind, word in _WORDS.items() if kind in types]
    if "integer" in types:
        words.append("numbers" if "number" in types else "whole numbers")
    elif "number" in types:
        words.append("numbers that are not whole")
    return ", ".join(words)
