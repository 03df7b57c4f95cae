"""JSON with comments and trailing commas, parsed into nodes that know where they stand: parse_commented_json.

What it cannot read raises BadClientText, whose message names line and column and never quotes the text. Nothing here is
recursive beyond MAX_DEPTH levels, and no member is read twice.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

# Possessive, or a fullmatch of many blanks before anything else would take exponential time.
WHITESPACE_AND_COMMENTS = re.compile(r"(?:[ \t\r\n\ufeff]++|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*+"')
_SCALAR = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_MAX_NUMBER = 400  # characters; a longer one is no number that anything here needs
MAX_DEPTH = 200


class BadClientText(ValueError):
    """A text that is not JSON with comments, or not TOML; the message names the line."""


@dataclass
class JsonMember:
    """A member of an object: its key, where the key begins, and its value."""

    key: str
    start: int
    value: "JsonNode"
    comma: int | None = None  # position of the comma after it


@dataclass
class JsonNode:
    """A value with its first and last position; `members` of an object, `items` of an array."""

    start: int
    end: int = 0
    scalar: Any = None
    members: list[JsonMember] | None = None  # of an object
    items: list["JsonNode"] | None = None  # of an array

    @property
    def value(self) -> Any:
        """The plain value; of members with one key the last."""
        if self.members is not None:
            return {each.key: each.value.value for each in self.members}
        return [each.value for each in self.items] if self.items is not None else self.scalar


def parse_commented_json(text: str) -> JsonNode:
    """The root of a text; raises BadClientText unless it is one value and nothing else."""
    parser = _Parser(text)
    node = parser.value(parser.skip(0), 0)
    if parser.skip(node.end) != len(text):
        raise parser.error(parser.skip(node.end), "the end was expected")
    return node


def line_and_column(text: str, position: int) -> tuple[int, int]:
    """The line and the column of a position, both counted from 1."""
    return text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)


class _Parser:
    """A recursive-descent parser; each method takes the position to start at."""

    def __init__(self, text: str) -> None:
        self._text = text

    def error(self, start: int, what: str) -> BadClientText:
        line, column = line_and_column(self._text, start)
        return BadClientText(f"line {line}, column {column}: {what}")

    def skip(self, start: int) -> int:
        found = WHITESPACE_AND_COMMENTS.match(self._text, start)
        return found.end() if found else start

    def value(self, start: int, depth: int) -> JsonNode:
        if depth > MAX_DEPTH:
            raise self.error(start, "it is nested too deeply")
        letter = self._text[start : start + 1]
        if letter == "{":
            return self._object(start, depth)
        if letter == "[":
            return self._array(start, depth)
        found = (_STRING if letter == '"' else _SCALAR).match(self._text, start)
        if found is None or (letter != '"' and found.end() - start > _MAX_NUMBER):
            raise self.error(start, "this is not JSON")
        return JsonNode(start, found.end(), self._decoded(start, found.group()))

    def _decoded(self, start: int, written: str) -> Any:
        try:
            return json.loads(written)
        except ValueError:
            raise self.error(start, "this is not JSON") from None

    def _object(self, start: int, depth: int) -> JsonNode:
        node, members = JsonNode(start), list[JsonMember]()
        node.members = members
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "}":
            if members and members[-1].comma is None:
                raise self.error(at, "a comma or a closing brace was expected")
            found = _STRING.match(self._text, at)
            if found is None:
                raise self.error(at, "the name of a member was expected")
            colon = self.skip(found.end())
            if self._text[colon : colon + 1] != ":":
                raise self.error(colon, "a colon was expected")
            member = JsonMember(self._decoded(at, found.group()), at, self.value(self.skip(colon + 1), depth + 1))
            members.append(member)
            at = self.skip(member.value.end)
            if self._text[at : at + 1] == ",":
                member.comma = at
                at = self.skip(at + 1)
        node.end = at + 1
        return node

    def _array(self, start: int, depth: int) -> JsonNode:
        items = list[JsonNode]()
        node = JsonNode(start, items=items)
        at, comma = self.skip(start + 1), True
        while self._text[at : at + 1] != "]":
            if not comma:
                raise self.error(at, "a comma or a closing bracket was expected")
            items.append(self.value(at, depth + 1))
            at = self.skip(items[-1].end)
            comma = self._text[at : at + 1] == ","
            at = self.skip(at + 1) if comma else at
        node.end = at + 1
        return node
