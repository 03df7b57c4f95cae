"""Edits one member of a JSON text with comments and trailing commas, and leaves every other byte as it is.

The text is parsed into nodes that know their start and end. An edit replaces or inserts characters there; `set_member`
and `remove_member` parse the result again and raise UneditableFile unless it has exactly the intended value.
"""

import json
import re
from collections.abc import Sequence
from typing import Any

from toolhall.dialects.client_files.commented_json import (
    WHITESPACE_AND_COMMENTS,
    BadClientText,
    JsonMember,
    JsonNode,
    parse_commented_json,
)
from toolhall.model.json import JsonObject

_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


class UneditableFile(Exception):
    """A text that cannot be parsed, or in which the entry cannot be edited; the message says what is wrong."""


def read_json(text: str) -> JsonObject:
    """The value of a text; a text of comments alone is an empty object."""
    if WHITESPACE_AND_COMMENTS.fullmatch(text):
        return {}
    value: JsonObject = _root(text).value
    return value


def set_member(text: str, path: Sequence[str], value: JsonObject) -> str:
    """The text with this value at this path; raises UneditableFile."""
    before = read_json(text)
    if WHITESPACE_AND_COMMENTS.fullmatch(text):
        text = f"{text.rstrip()}{_newline(text)}{{}}{_newline(text)}" if text.strip() else "{}\n"
    node, rest = _root(text), list(path)
    while len(rest) > 1 and (found := _member(node, rest[0])) is not None:
        if found.value.members is None:
            raise UneditableFile(f"its member {rest[0]!r} is not an object")
        node = found.value
        rest.pop(0)
    existing = _member(node, rest[0])
    new: Any = value
    for key in reversed(rest[1:]):
        new = {key: new}
    after = _replace_value(text, existing, new) if existing is not None else _insert_member(text, node, rest[0], new)
    parent = before
    for key in path[:-1]:
        parent = parent.setdefault(key, {})
    parent[path[-1]] = value
    return _check_result(after, before)


def remove_member(text: str, path: Sequence[str]) -> str:
    """The text without the member at this path; raises UneditableFile if there is none."""
    before = read_json(text)
    node, parent = _root(text), before
    for key in path[:-1]:
        found = _member(node, key)
        if found is None or found.value.members is None:
            raise UneditableFile(f"it has no object {key!r}")
        node, parent = found.value, parent[key]
    member = _member(node, path[-1])
    if member is None:
        raise UneditableFile(f"it has no member {path[-1]!r}")
    after = _cut_member(text, node, member)
    del parent[path[-1]]
    return _check_result(after, before)


def _check_result(text: str, expected: JsonObject) -> str:
    if read_json(text) != expected:
        raise UneditableFile("the change would alter more than this entry")
    return text


def _replace_value(text: str, member: JsonMember, value: Any) -> str:
    indent = _indent_at(text, member.start)
    return text[: member.value.start] + _render(text, value, indent) + text[member.value.end :]


def _insert_member(text: str, node: JsonNode, key: str, value: Any) -> str:
    newline, members = _newline(text), node.members or []
    outer = _indent_at(text, node.start)
    close = node.end - 1
    if not members:
        inner, head, comma = outer + _indent_unit(text), text[:close].rstrip(" \t\r\n"), ""
    else:
        last = members[-1]
        inner = _indent_at(text, last.start) if _begins_line(text, last.start) else outer + _indent_unit(text)
        between = text[last.value.end : close].rstrip(" \t\r\n")
        head = text[: last.value.end] + ("" if last.comma is not None else ",") + between
        comma = "," if last.comma is not None else ""
    member = f"{json.dumps(key, ensure_ascii=False)}: {_render(text, value, inner)}{comma}"
    return f"{head}{newline}{inner}{member}{newline}{outer}{text[close:]}"


def _cut_member(text: str, node: JsonNode, member: JsonMember) -> str:
    members = node.members or []
    index = members.index(member)
    start, end = member.start, member.value.end if member.comma is None else member.comma + 1
    line_start = text.rfind("\n", 0, start) + 1
    if not text[line_start:start].strip():
        rest = re.compile(r"[ \t]*\r?\n").match(text, end)
        if rest:  # the member has these lines to itself
            start, end = line_start, rest.end()
    cut = text[:start] + text[end:]
    before = members[index - 1].comma if index and member.comma is None else None
    return cut if before is None else cut[:before] + cut[before + 1 :]


def _render(text: str, value: Any, indent: str) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_indent_unit(text)).split("\n")
    return f"{_newline(text)}{indent}".join(lines)


def _indent_unit(text: str) -> str:
    """The indentation of one level in this text."""
    found = _INDENT.search(text)
    return found.group(1) if found else "  "


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _begins_line(text: str, position: int) -> bool:
    return not text[text.rfind("\n", 0, position) + 1 : position].strip()


def _indent_at(text: str, position: int) -> str:
    """The indentation of the line at this position."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _root(text: str) -> JsonNode:
    try:
        node = parse_commented_json(text)
    except BadClientText as bad:
        raise UneditableFile(str(bad)) from None
    if node.members is None:
        raise UneditableFile("it holds no JSON object")
    return node


def _member(node: JsonNode, key: str) -> JsonMember | None:
    found = [each for each in node.members or () if each.key == key]
    if len(found) > 1:
        raise UneditableFile(f"it has the member {key!r} twice")
    return found[0] if found else None
