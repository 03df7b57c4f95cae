"""Rules about descriptions: a model chooses a tool by what is said of it, and fills in what is said of a parameter."""

import re
import unicodedata
from collections.abc import Callable, Iterator

from toolhall.dialects.lint.rule import Spot, Subject, ToolRule
from toolhall.model.json import Json
from toolhall.schema.walk import escape

SHORTEST_OF_TOOL, LONGEST_OF_TOOL = 10, 2_000
SHORTEST_OF_PARAMETER, LONGEST_OF_PARAMETER = 3, 1_000
_WIDE = 3  # a Chinese character says about as much as three letters


def parameters(subject: Subject) -> Iterator[tuple[str, str, Json]]:
    """Every parameter: its name, the pointer to it, its schema."""
    properties = subject.tool.input.get("properties")
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        yield name, f"/inputSchema/properties/{escape(name)}", schema


def _described(subject: Subject) -> Iterator[tuple[str, str, str]]:
    """Every parameter that has a description: its name, the pointer to it, and the description."""
    for name, path, schema in parameters(subject):
        text = schema.get("description") if isinstance(schema, dict) else None
        if isinstance(text, str) and text.strip():
            yield name, f"{path}/description", text


def _text(subject: Subject) -> str:
    return (subject.tool.description or "").strip()


def _length(text: str) -> int:
    return sum(_WIDE if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def _missing(subject: Subject) -> Iterator[Spot]:
    if not _text(subject):
        yield Spot("/description")


def _short(subject: Subject) -> Iterator[Spot]:
    if 0 < _length(_text(subject)[:SHORTEST_OF_TOOL]) < SHORTEST_OF_TOOL:
        yield Spot("/description")


def _long(subject: Subject) -> Iterator[Spot]:
    if len(_text(subject)) > LONGEST_OF_TOOL:
        yield Spot("/description", f"it has {len(_text(subject)):,}")


def _is_name(subject: Subject) -> Iterator[Spot]:
    names = {_bare(subject.stated), _bare(subject.tool.id.tool)}
    if _text(subject) and len(_text(subject)) <= LONGEST_OF_TOOL and _bare(_text(subject)) in names:
        yield Spot("/description")


def _parameter_missing(subject: Subject) -> Iterator[Spot]:
    described = {path for _, path, _ in _described(subject)}
    for _, path, _ in parameters(subject):
        if f"{path}/description" not in described:
            yield Spot(path)


def _parameter_short(subject: Subject) -> Iterator[Spot]:
    for _, path, text in _described(subject):
        if _length(text.strip()[:SHORTEST_OF_PARAMETER]) < SHORTEST_OF_PARAMETER:
            yield Spot(path)


def _parameter_long(subject: Subject) -> Iterator[Spot]:
    for _, path, text in _described(subject):
        if len(text) > LONGEST_OF_PARAMETER:
            yield Spot(path, f"it has {len(text):,}")


def _parameter_is_name(subject: Subject) -> Iterator[Spot]:
    for name, path, text in _described(subject):
        if len(text) <= LONGEST_OF_PARAMETER and _bare(text) == _bare(name):
            yield Spot(path)


def _rule(name: str, check: Callable[[Subject], Iterator[Spot]], says: str, fix: str) -> ToolRule:
    return ToolRule(id=name, says=says, fix=fix, check=check)


RULES = (
    _rule(
        "tool/description-missing",
        _missing,
        "A tool has no description.",
        "say in a sentence what the tool does and when to use it",
    ),
    _rule(
        "tool/description-short",
        _short,
        f"A tool's description has fewer than {SHORTEST_OF_TOOL} letters.",
        "say what the tool does and when to use it",
    ),
    _rule(
        "tool/description-long",
        _long,
        f"A tool's description has more than {LONGEST_OF_TOOL:,} characters.",
        f"shorten the description to {LONGEST_OF_TOOL:,} characters: every call pays for it, and much hides in it",
    ),
    _rule(
        "tool/description-is-name",
        _is_name,
        "A tool's description only repeats its name.",
        "say what the name does not",
    ),
    _rule(
        "parameter/description-missing",
        _parameter_missing,
        "A parameter has no description.",
        "say what to give here, with the unit or format if it has one",
    ),
    _rule(
        "parameter/description-short",
        _parameter_short,
        f"A parameter's description has fewer than {SHORTEST_OF_PARAMETER} letters.",
        "say what to give here",
    ),
    _rule(
        "parameter/description-long",
        _parameter_long,
        f"A parameter's description has more than {LONGEST_OF_PARAMETER:,} characters.",
        f"shorten the description to {LONGEST_OF_PARAMETER:,} characters",
    ),
    _rule(
        "parameter/description-is-name",
        _parameter_is_name,
        "A parameter's description only repeats its name.",
        "say what the name does not: meaning, unit, format, example",
    ),
)
