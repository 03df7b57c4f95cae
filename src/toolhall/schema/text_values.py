"""Reads texts as the JSON values that a schema wants: variables of URIs and arguments of prompts are texts on the wire.

A property that accepts any string gets the text as it came. Otherwise the text is one of the values that the schema
lists (`enum`, `const`), or JSON if the caller allows it, or a number, `true` or `false`. What is none of these stays a
text, so that the validator reports it. URIs have one text for each value: `07` and `7.0` are no integers there.

What a schema accepts is computed once, as types and listed values; what is too deep or too large counts as any type.
"""

import math
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from toolhall.model.json import Json, JsonObject, encode, type_name, walk_levels
from toolhall.schema.keywords import TYPES, ReferenceResolver

TextValue: TypeAlias = str | list[str]
ReadTexts: TypeAlias = Callable[[Mapping[str, TextValue]], JsonObject]
_ReadText: TypeAlias = Callable[[str], Json]
MAX_STEPS = 2_000  # subschemas looked at for one input schema
MAX_DEPTH = 50
MAX_DIGITS = 20  # this and the next three are as in messages (dialects/strict_json.py)
MAX_JSON_DEPTH = 64
MAX_JSON_MEMBERS = 10_000
_REFUSED_IN_MESSAGES = re.compile(rf"[0-9]{{{MAX_DIGITS + 1}}}|\\u0000")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {"true": True, "false": False}
_decode = msgspec.json.Decoder().decode


class Accepted(msgspec.Struct, frozen=True):
    """What a schema accepts: any value of these types, and the listed values, by their JSON text."""

    types: frozenset[str]
    listed: dict[str, Json] = {}

    def accepts(self, value: Json) -> bool:
        """Whether this value is accepted; 1, 1.0 and true differ."""
        return type_name(value) in self.types or _json_text(value) in self.listed

    def __or__(self, other: "Accepted") -> "Accepted":
        return Accepted(self.types | other.types, self.listed | other.listed)

    def __and__(self, other: "Accepted") -> "Accepted":
        either = self.listed | other.listed
        both = {text: each for text, each in either.items() if self.accepts(each) and other.accepts(each)}
        return Accepted(self.types & other.types, both)


def _listing(values: list[Json]) -> Accepted:
    return Accepted(frozenset(), {_json_text(each): each for each in values})


def _json_text(value: Json) -> str:
    return encode(value).decode()


_ANYTHING = Accepted(frozenset(TYPES))
_NOTHING = Accepted(frozenset())
_BOOLEAN_OR_NULL = frozenset({"boolean", "null"})


def text_reader(schema: JsonObject, *, json: bool) -> ReadTexts:
    """A function that reads all texts of a call; `json` for the arguments of a prompt, where a text may be JSON.

    A list is the value of an exploded URI variable. A text that the schema does not name stays as it is.
    """
    inspector = _SchemaInspector(schema)
    readers: dict[str, _ReadText] = {}
    item_readers: dict[str, _ReadText] = {}
    for name, part in _members(schema, "properties").items():
        if (read := _reader_of(inspector.accepted(part), json=json)) is not None:
            readers[name] = read
        if (read := _reader_of(inspector.accepted_items(part), json=json)) is not None:
            item_readers[name] = read
    if not readers and not item_readers:  # the usual case: every property accepts a text
        return dict

    def read_all(texts: Mapping[str, TextValue]) -> JsonObject:
        values: JsonObject = dict(texts)
        for name, text in texts.items():
            if isinstance(text, str):
                if name in readers:
                    values[name] = readers[name](text)
            elif name in item_readers:
                values[name] = [item_readers[name](each) for each in text]
        return values

    return read_all


def text_choices(schema: JsonObject) -> dict[str, tuple[str, ...]]:
    """The texts of all values of each property that accepts only listed values, or true and false."""
    inspector = _SchemaInspector(schema)
    accepted = {name: inspector.accepted(part) for name, part in _members(schema, "properties").items()}
    return {name: _choices(each) for name, each in accepted.items() if each.types <= _BOOLEAN_OR_NULL}


def _choices(accepted: Accepted) -> tuple[str, ...]:
    listed = [each for each in accepted.listed.values() if each is not None]
    texts = [each if isinstance(each, str) else _json_text(each) for each in listed]
    return (*texts, *(_BOOLEANS if "boolean" in accepted.types else ()))


def _reader_of(accepted: Accepted, *, json: bool) -> _ReadText | None:
    """The function that reads one text; None if a text is taken as it came."""
    types = accepted.types
    if "string" in types or not (types or accepted.listed):
        return None
    # A string comes before a number: of "1" and 1, the text means "1".
    strings = {each: each for each in accepted.listed.values() if isinstance(each, str)}
    listed = {text: each for text, each in accepted.listed.items() if not isinstance(each, str)} | strings

    def read(text: str) -> Json:
        if text in listed:
            return listed[text]
        value = _json_value(text) if json else text
        if value is not text and not isinstance(value, str) and accepted.accepts(value):
            return value
        if "boolean" in types and text in _BOOLEANS:
            return _BOOLEANS[text]
        if "integer" in types or "number" in types:
            return _number(text, whole="number" not in types)
        return text

    return read


def _json_value(text: str) -> Json:
    """The text as JSON; the text itself if it is no JSON, or has what messages are refused for."""
    if _REFUSED_IN_MESSAGES.search(text):
        return text
    try:
        value = _decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return text
    for depth, level in enumerate(walk_levels(value), 1):
        if depth > MAX_JSON_DEPTH or sum(map(len, level)) > MAX_JSON_MEMBERS:
            return text
    return value


def _number(text: str, *, whole: bool) -> Json:
    """The text as a number, or the text itself if it is none."""
    if _INTEGER.fullmatch(text):
        return int(text) if len(text.lstrip("-")) <= MAX_DIGITS else text
    if whole or not _NUMBER.fullmatch(text):
        return text
    number = float(text)
    return number if math.isfinite(number) else text


def _members(schema: Json, keyword: str) -> JsonObject:
    members = schema.get(keyword) if isinstance(schema, dict) else None
    return members if isinstance(members, dict) else {}


class _SchemaInspector:
    """Computes what the parts of one input schema accept."""

    def __init__(self, root: JsonObject) -> None:
        self._references = ReferenceResolver(root)
        self._steps = 0

    def accepted(self, schema: Json, depth: int = 0) -> Accepted:
        """What a schema accepts, by its types, listed values, alternatives and references."""
        self._steps += 1
        if schema is False:
            return _NOTHING
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._steps > MAX_STEPS:
            return _ANYTHING
        accepted = _by_own_keywords(schema)
        for part in self._also_applied(schema):
            accepted &= self.accepted(part, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            if isinstance(branches, list):
                either = _NOTHING
                for branch in branches:
                    either |= self.accepted(branch, depth + 1)
                accepted &= either
        return accepted

    def accepted_items(self, schema: Json, depth: int = 0) -> Accepted:
        """What the items of a list may be."""
        self._steps += 1
        if not isinstance(schema, dict) or depth > MAX_DEPTH or self._steps > MAX_STEPS:
            return _ANYTHING
        items = self.accepted(schema["items"], depth + 1) if "items" in schema else _ANYTHING
        for part in self._also_applied(schema):
            items &= self.accepted_items(part, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            branches = schema.get(keyword)
            lists = [each for each in branches if "array" in self.accepted(each, depth + 1).types] if branches else []
            if lists:
                either = _NOTHING
                for branch in lists:
                    either |= self.accepted_items(branch, depth + 1)
                items &= either
        return items

    def _also_applied(self, schema: JsonObject) -> list[Json]:
        """The schemas that apply to the same value: the target of `$ref`, and `allOf`."""
        parts: list[Json] = []
        reference = schema.get("$ref")
        if isinstance(reference, str) and (path := self._references.resolve(reference)) is not None:
            parts.append(self._references.value_at(path))
        every = schema.get("allOf")
        return parts + every if isinstance(every, list) else parts


def _by_own_keywords(schema: JsonObject) -> Accepted:
    accepted = _ANYTHING
    if "type" in schema:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        named = {each for each in types if isinstance(each, str)}
        accepted &= Accepted(frozenset(named | {"integer"} if "number" in named else named))
    if isinstance(schema.get("enum"), list):
        accepted &= _listing(schema["enum"])
    if "const" in schema:
        accepted &= _listing([schema["const"]])
    return accepted
