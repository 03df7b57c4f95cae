"""Front matter, the YAML between two lines `---` at the start of a file: `read_front_matter` reads it as JSON.

Only what JSON has is resolved: true, false, null, whole and decimal numbers. Anything else stays text, so that
`2026-07-28` and `yes` mean what their author sees. Aliases are refused, because a few lines of them expand to
gigabytes, and so are tags, which other readers turn into objects; front matter needs neither.
"""

import math
import re
from functools import cache
from typing import Any

from toolhall.model.json import JsonObject

MAX_BYTES = 64 * 1024
MAX_DEPTH = 16
_BLOCK = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,20})?(?:[eE][+-]?[0-9]{1,3})?")
_WORDS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
          "null": None, "Null": None, "NULL": None, "~": None, "": None}  # fmt: skip


class BadFrontMatter(ValueError):
    """Front matter that is missing or cannot be read; the message names the fix."""


def read_front_matter(text: str) -> JsonObject:
    """The members of the front matter of a file; raises BadFrontMatter."""
    found = _BLOCK.match(text[: MAX_BYTES + 16])
    if found is None:
        raise BadFrontMatter(
            "it does not begin with front matter: write a line '---', then 'name: ...' and 'description: ...',"
            f" then a line '---', {MAX_BYTES // 1024} KiB at most"
        )
    events = _Events(f"{found[1]}\n")  # the last line has one, too: a text in several lines ends with it
    value = events.document()
    if not isinstance(value, dict):
        raise BadFrontMatter("its front matter is no mapping; write 'name: ...' and 'description: ...'")
    return value


class _Events:
    """Builds JSON from the events of libyaml's parser, which makes no objects by itself."""

    def __init__(self, text: str) -> None:
        self._yaml = yaml = _yaml()
        # The C loader reads events one by one; Python's own takes its place where libyaml is missing.
        self._events = yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def document(self) -> Any:
        yaml = self._yaml
        try:
            next(self._events)  # the start of the stream
            if isinstance(next(self._events), yaml.StreamEndEvent):
                return None
            value = self._node(next(self._events), 1)
            next(self._events)  # the end of the document
            if not isinstance(next(self._events), yaml.StreamEndEvent):
                raise BadFrontMatter("its front matter has more than one YAML document; leave one")
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = "" if mark is None else f" in line {mark.line + 2}"  # of the file: the text begins in line 2
            raise BadFrontMatter(f"its front matter is no YAML{where}: {_problem(error)}") from None
        except RecursionError:
            raise _too_deep() from None
        return value

    def _node(self, event: Any, depth: int) -> Any:
        yaml = self._yaml
        if depth > MAX_DEPTH:
            raise _too_deep()
        if isinstance(event, yaml.AliasEvent):
            raise self._refused(event, f"has the alias *{event.anchor}; write its value again")
        if event.tag is not None:
            raise self._refused(event, f"has the tag {event.tag}; leave it out")
        if isinstance(event, yaml.ScalarEvent):
            return _scalar(event.value) if event.implicit[0] else event.value
        if isinstance(event, yaml.SequenceStartEvent):
            return list(self._items(yaml.SequenceEndEvent, depth))
        return self._mapping(depth)

    def _items(self, end: type, depth: int) -> Any:
        while not isinstance(event := next(self._events), end):
            yield self._node(event, depth + 1)

    def _mapping(self, depth: int) -> JsonObject:
        members: JsonObject = {}
        while not isinstance(event := next(self._events), self._yaml.MappingEndEvent):
            key = self._key(event)
            if key in members:
                raise self._refused(event, f"has the key {key[:64]!r} twice; leave one")
            members[key] = self._node(next(self._events), depth + 1)
        return members

    def _key(self, event: Any) -> str:
        if not isinstance(event, self._yaml.ScalarEvent) or event.tag is not None:
            raise self._refused(event, "has a key that is no text")
        return str(event.value)

    def _refused(self, event: Any, problem: str) -> BadFrontMatter:
        return BadFrontMatter(f"its front matter {problem} (line {event.start_mark.line + 2})")


def _scalar(text: str) -> str | float | bool | None:
    """The value of a scalar without quotes, by JSON's rules."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _NUMBER.fullmatch(text) and math.isfinite(number := float(text)):
        return number
    return text


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", None) or error).partition("\n")[0]


def _too_deep() -> BadFrontMatter:
    return BadFrontMatter(f"its front matter is nested more than {MAX_DEPTH} levels deep")


@cache
def _yaml() -> Any:
    import yaml  # lazy: only for skills

    return yaml
