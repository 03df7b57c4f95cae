"""Edits one entry of a TOML or YAML text by whole lines, and leaves every other line as it is.

Neither format has a parser here that keeps comments, so both editors only understand the shapes that clients write
themselves, and raise UneditableFile for every other one. TOML is parsed again with tomllib after each edit. Of YAML
only the outline is read: the keys of the top level, and below `extensions` the keys of its entries.
"""

import contextlib
import json
import re
import tomllib
from collections.abc import Sequence
from typing import Any, NamedTuple

from toolhall.cli.install.json_edit import UneditableFile
from toolhall.model.json import JsonObject

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_TOP_KEY = re.compile(r"""(?:[A-Za-z0-9_.-]+|"[^"\\]*"|'[^']*')[ ]*:(?:[ ]|$)""")
_CHILD_KEY = re.compile(r"""([A-Za-z0-9_][A-Za-z0-9_. /@-]*?|"[^"\\]*"|'[^']*')[ ]*:(?:[ ]|$)""")
_SPECIAL = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")
_KEEP_BLOCK_SCALAR = re.compile(r"[|>][1-9]?\+[1-9]?(?:[ ]+#.*)?$")
_EMPTY_FLOW = re.compile(r"[ ]*(?:\{[ ]*\}|~|null)?[ ]*(?:#.*)?")


def read_toml(text: str) -> JsonObject:
    """The value of a TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UneditableFile(str(error)) from None


def set_toml_table(text: str, path: Sequence[str], value: JsonObject) -> str:
    """The text with this table; an existing one is replaced in place."""
    table, name = path
    wanted = read_toml(text)
    if not isinstance(wanted.get(table, {}), dict):
        raise UneditableFile(f"its {table} is not a table")
    lines = text.splitlines(keepends=True)
    _reject_inline_table(lines, table)
    newline = "\r\n" if "\r\n" in text else "\n"
    new = [f"{line}{newline}" for line in render_toml_table(path, value).split("\n")[:-1]]
    if name in wanted.get(table, {}):
        spans = _toml_spans(lines, (table, name))
        first = spans[0].start
        for span in reversed(spans):
            del lines[span.start : span.stop]
        lines[first:first] = new
    else:
        if lines and not lines[-1].endswith("\n"):
            lines[-1] += newline
        lines += [newline, *new] if lines and lines[-1].strip() else new
    wanted.setdefault(table, {})[name] = value
    return _check_toml_result("".join(lines), wanted)


def remove_toml_table(text: str, path: Sequence[str]) -> str:
    """The text without the table; raises UneditableFile if there is none."""
    table, name = path
    wanted = read_toml(text)
    lines = text.splitlines(keepends=True)
    _reject_inline_table(lines, table)
    for span in reversed(_toml_spans(lines, (table, name))):
        del lines[span.start : span.stop]
        at = span.start
        if at and not lines[at - 1].strip() and (at == len(lines) or not lines[at].strip()):
            del lines[at - 1]
    after = "".join(lines)
    del wanted[table][name]
    if not wanted[table] and table not in read_toml(after):  # it has no header of its own
        del wanted[table]
    return _check_toml_result(after, wanted)


def _reject_inline_table(lines: list[str], table: str) -> None:
    """Raise UneditableFile for `table = {...}`: an inline table cannot be extended elsewhere."""
    assigned = re.compile(rf"""[ \t]*["']?{re.escape(table)}["']?[ \t]*=""")
    for number, line in enumerate(lines):
        if _toml_header_path(lines, number, line):
            return
        if assigned.match(line) and _is_toml("".join(lines[:number])):  # not inside a multi-line string
            raise UneditableFile(
                f"its {table} is written inline ({table} = {{...}}), so it has to be edited by hand: write each server"
                f" as a table of its own ([{table}.NAME]), or add the entry between the braces"
            )


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def render_toml_table(path: Sequence[str], value: JsonObject) -> str:
    """The text of one table."""
    head = ".".join(_toml_key(part) for part in path)
    return "".join([f"[{head}]\n", *(f"{_toml_key(key)} = {_toml_value(part)}\n" for key, part in value.items())])


class _Span(NamedTuple):
    start: int
    stop: int


def _toml_spans(lines: list[str], path: tuple[str, str]) -> list[_Span]:
    """The lines of a table and its subtables, each without trailing blank lines and comments."""
    heads = [(number, found) for number, line in enumerate(lines) if (found := _toml_header_path(lines, number, line))]
    spans: list[_Span] = []
    for index, (number, found) in enumerate(heads):
        stop = heads[index + 1][0] if index + 1 < len(heads) else len(lines)
        while stop > number + 1 and (not (line := lines[stop - 1].strip()) or line.startswith("#")):
            stop -= 1
        if found[:2] == path:
            spans.append(_Span(number, stop))
    if not spans:
        name = ".".join(path)
        raise UneditableFile(f"{name} has no header of its own ([{name}]), so it can only be changed by hand")
    return spans


def _toml_header_path(lines: list[str], number: int, line: str) -> tuple[str, ...] | None:
    """The path of a table header; None for any other line, also inside a string or array."""
    if not line.lstrip().startswith("["):
        return None
    try:
        found: Any = tomllib.loads(line)
        tomllib.loads("".join(lines[:number]))  # fails inside a string or an array of several lines
    except tomllib.TOMLDecodeError:
        return None
    path: list[str] = []
    while isinstance(found, dict) and found:
        ((key, found),) = found.items()
        path.append(key)
    return tuple(path)


def _toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml_text(key)


def _toml_text(text: str) -> str:
    return _escaped(json.dumps(text, ensure_ascii=False))


def _escaped(written: str) -> str:
    """JSON in which characters that TOML or YAML take for controls or line ends are escaped, too."""
    return _SPECIAL.sub(lambda found: f"\\u{ord(found.group()):04x}", written)


def _toml_value(value: Any) -> str:
    match value:
        case str():
            return _toml_text(value)
        case bool() | int() | float():
            return json.dumps(value)
        case list():
            return f"[{', '.join(map(_toml_value, value))}]"
        case dict():
            return f"{{ {', '.join(f'{_toml_key(key)} = {_toml_value(part)}' for key, part in value.items())} }}"
        case _:
            raise UneditableFile(f"it holds a {type(value).__name__}, which can only be changed by hand")


def _check_toml_result(text: str, wanted: JsonObject) -> str:
    if read_toml(text) != wanted:
        raise UneditableFile("the change would alter more than this entry")
    return text


class _Outline(NamedTuple):
    """The line numbers of the entries below one top-level key; `head` is None if the text has no such key."""

    head: int | None
    stop: int  # after the last line of the block with content
    indent: str
    entries: dict[str, _Span]


def yaml_entry_names(text: str, key: str) -> list[str]:
    """The names of the entries below a top-level key."""
    return list(_outline(text.splitlines(keepends=True), key).entries)


def read_yaml_entry(text: str, path: Sequence[str]) -> JsonObject | None:
    """The members of an entry whose value is JSON in one line; None if there is no such entry."""
    key, name = path
    lines = text.splitlines()
    span = _outline(lines, key).entries.get(name)
    if span is None:
        return None
    members: JsonObject = {}
    for line in lines[span.start + 1 : span.stop]:
        member, _, value = line.partition(":")
        with contextlib.suppress(ValueError):
            members[member.strip()] = json.loads(value)
    return members


def remove_empty_yaml_key(text: str, key: str) -> str | None:
    """The text without this top-level key; None unless it exists without entries."""
    lines = text.splitlines(keepends=True)
    found = _outline(lines, key)
    if found.head is None or found.entries:
        return None
    del lines[found.head]
    return "".join(lines)


def set_yaml_entry(text: str, path: Sequence[str], value: JsonObject) -> str:
    """The text with this entry; an existing one is replaced in place."""
    key, name = path
    lines = text.splitlines(keepends=True)
    newline = "\r\n" if "\r\n" in text else "\n"
    found = _outline(lines, key)
    new = [f"{line}{newline}" for line in _render_yaml_lines(name, value, found.indent)]
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    if found.head is None:
        lines += [f"{key}:{newline}", *new]
    elif name in found.entries:
        span = _reject_anchor(lines, found.entries[name])
        lines[span.start : span.stop] = new
    else:
        if not found.entries:
            lines[found.head] = re.sub(r"(:)[ ]*(?:\{[ ]*\}|~|null)", r"\1", lines[found.head], count=1)
        lines[found.stop : found.stop] = new
    after = "".join(lines)
    if set(yaml_entry_names(after, key)) != {*found.entries, name}:
        raise UneditableFile("the change would alter more than this entry")
    return after


def remove_yaml_entry(text: str, path: Sequence[str]) -> str:
    """The text without the entry; raises UneditableFile if there is none."""
    key, name = path
    lines = text.splitlines(keepends=True)
    found = _outline(lines, key)
    if name not in found.entries or found.head is None:
        raise UneditableFile(f"it has no entry {name!r} below {key!r}")
    span = _reject_anchor(lines, found.entries[name])
    del lines[span.start : span.stop]
    if len(found.entries) == 1:  # a key without a value would be null, which is no mapping
        lines[found.head] = lines[found.head].replace(":", ": {}", 1)
    after = "".join(lines)
    if set(yaml_entry_names(after, key)) != {*found.entries} - {name}:
        raise UneditableFile("the change would alter more than this entry")
    return after


def render_yaml_entry(path: Sequence[str], value: JsonObject) -> str:
    """One entry below its top-level key."""
    return "".join(f"{line}\n" for line in (f"{path[0]}:", *_render_yaml_lines(path[1], value, "  ")))


def _render_yaml_lines(name: str, value: JsonObject, indent: str) -> list[str]:
    """The lines of an entry; its values are written as JSON, which is valid YAML."""
    inner = [f"{indent * 2}{key}: {_escaped(json.dumps(part, ensure_ascii=False))}" for key, part in value.items()]
    return [f"{indent}{name}:", *inner]


def _outline(lines: list[str], key: str) -> _Outline:
    head: int | None = None
    inside: list[int] = []  # the lines of the block with content
    open_ = keyed = False
    for number, line in enumerate(lines):
        text = line.rstrip("\r\n")
        if not text.strip() or (text == "---" and not any(map(_has_content, lines[:number]))):
            continue
        if text.lstrip().startswith("#") and not (open_ and inside and _depth(text) > _depth(lines[inside[0]])):
            continue  # a comment; deeper in an entry it may be a line of a text, and stays with that
        if text[0] in " \t":
            if open_:
                inside.append(number)
            continue
        if keyed and not open_ and text.startswith("- "):
            continue  # a list need not be indented below its key
        keyed = _TOP_KEY.match(text) is not None
        if not keyed:
            raise UneditableFile(f"line {number + 1} is YAML of a kind that is not edited here")
        open_ = text.partition(":")[0].strip().strip("\"'") == key
        if open_:
            if head is not None:
                raise UneditableFile(f"it has the key {key!r} twice")
            if not _EMPTY_FLOW.fullmatch(text.partition(":")[2]):
                raise UneditableFile(f"its {key!r} is not a block of entries, so it can only be changed by hand")
            head = number
    if any(_KEEP_BLOCK_SCALAR.search(lines[number].rstrip()) for number in inside):
        raise UneditableFile("it has a text that keeps empty lines at its end (|+), so it can only be changed by hand")
    return _outline_entries(lines, head, inside)


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _has_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _outline_entries(lines: list[str], head: int | None, inside: list[int]) -> _Outline:
    if not inside:
        return _Outline(head, len(lines) if head is None else head + 1, "  ", {})
    first = lines[inside[0]]
    indent = first[: _depth(first)]
    names: list[tuple[str, int]] = []
    for number in inside:
        text = lines[number].rstrip("\r\n")
        depth = _depth(text)
        if "\t" in text[:depth] or depth < len(indent):
            raise UneditableFile(f"line {number + 1} is indented in a way that is not edited here")
        if depth == len(indent):
            found = _CHILD_KEY.match(text, depth)
            if found is None:
                raise UneditableFile(f"line {number + 1} is YAML of a kind that is not edited here")
            names.append((found.group(1).strip("\"'"), number))
    if len({name for name, _ in names}) != len(names):
        raise UneditableFile("it has two entries of one name")
    ends = [*(number for _, number in names[1:]), inside[-1] + 1]
    spans = {
        name: _Span(start, max(number for number in inside if number < end) + 1)
        for (name, start), end in zip(names, ends, strict=True)
    }
    return _Outline(head, inside[-1] + 1, indent, spans)


def _reject_anchor(lines: list[str], span: _Span) -> _Span:
    if any(re.search(r":[ ]+&\S", line) for line in lines[span.start : span.stop]):
        raise UneditableFile("the entry has an anchor (&), which others may use, so it can only be changed by hand")
    return span
