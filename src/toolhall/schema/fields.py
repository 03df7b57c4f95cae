"""What authors say of the fields of their classes in ways that msgspec does not read: descriptions, bounds, formats."""

import dataclasses
import datetime
from collections.abc import Iterator
from typing import Annotated, Any, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from toolhall.model.json import JsonObject

_KEYWORDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
}
_LENGTHS = {"min_length": ("minLength", "minItems"), "max_length": ("maxLength", "maxItems")}


def annotate_fields(hints: list[Any], definitions: JsonObject) -> None:
    """Add what annotations say to the definitions of the classes that these types lead to."""
    for kind in _classes(hints):
        properties = definitions.get(kind.__name__, {}).get("properties", {})
        for name, hint in get_type_hints(kind, include_extras=True).items():
            found = properties.get(_wire_name(kind, name))
            if isinstance(found, dict):
                for keyword, value in _said(hint, found).items():
                    found.setdefault(keyword, value)


def _classes(hints: list[Any]) -> list[type]:
    """Every class with fields that is reached from these types."""
    found: dict[type, None] = {}
    pending = list(hints)
    while pending:
        hint = pending.pop()
        pending.extend(get_args(hint))
        if isinstance(hint, type) and hint not in found and has_fields(hint):
            found[hint] = None
            pending.extend(get_type_hints(hint, include_extras=True).values())
    return list(found)


def has_fields(hint: type) -> bool:
    """Whether it is a dataclass, a TypedDict or a msgspec Struct."""
    return dataclasses.is_dataclass(hint) or is_typeddict(hint) or issubclass(hint, msgspec.Struct)


def field_hints(kind: type) -> dict[str, Any]:
    """The types of a class's fields, by the names that they have in JSON."""
    return {_wire_name(kind, name): hint for name, hint in get_type_hints(kind, include_extras=True).items()}


def _wire_name(kind: type, name: str) -> str:
    if not issubclass(kind, msgspec.Struct):
        return name
    return dict(zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)).get(name, name)


def _said(hint: Any, schema: JsonObject) -> JsonObject:
    """The keywords that a field's notes stand for."""
    said: JsonObject = {}
    base, notes = (get_args(hint)[0], get_args(hint)[1:]) if get_origin(hint) is Annotated else (hint, ())
    if base is datetime.datetime:
        said["format"] = "date-time"
    for note in _flat(notes):
        if isinstance(note, str):
            said["description"] = note
            continue
        for attribute, keyword in _KEYWORDS.items():
            value = getattr(note, attribute, None)
            if isinstance(value, int | float | str) and not callable(value):
                said[keyword] = value
        for attribute, keywords in _LENGTHS.items():
            if isinstance(value := getattr(note, attribute, None), int):
                said[keywords[schema.get("type") == "array"]] = value
    return said


def _flat(notes: tuple[Any, ...]) -> Iterator[Any]:
    """Every note, and those that a pydantic Field holds; msgspec has read its own."""
    for note in notes:
        if isinstance(note, msgspec.Meta):
            continue
        yield note
        yield from getattr(note, "metadata", ())
