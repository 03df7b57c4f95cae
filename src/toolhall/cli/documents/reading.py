"""Finds the documents in a file and how they are laid out; JSON lines are never read as a whole."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import BinaryIO, TypeAlias

import msgspec

from toolhall.cli.documents.text import MAX_DOCUMENT, BadJson, Text, bad_json, twice
from toolhall.dialects.strict import MAX_DEPTH, decode
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

MAX_WHOLE = 256 * 1024 * 1024
# What a list of definitions is wrapped in: an MCP result has `tools`, an OXP list `items` and `tools`.
_LISTS = ("tools", "items")
# An object with one of these is a definition itself, whatever else it holds.
_OWN = frozenset({"inputSchema", "input_schema", "capabilities", "tool", "function", "parameters"})

Raw: TypeAlias = msgspec.Raw
# What is written of the documents that came out, of a dialect: the same layout as they came in.
Layout: TypeAlias = Callable[[list[Raw], str], Json]


class Documents(msgspec.Struct, frozen=True):
    """The documents of a file in their order, and their layout; None for JSON lines, which have no whole."""

    texts: Iterator[Text]
    layout: Layout | None = None


def read_documents(stream: BinaryIO, *, lines: bool = False) -> Documents:
    """The documents of a stream; BadJson where it is neither JSON nor JSON lines."""
    first, number = _next_line(stream, 0)
    if lines:
        return Documents(_lines(stream, [(number, first)] if first else []))
    if not first:
        raise BadJson(1, "there is nothing here; write a definition, a list of them, or one in each line")
    said = _complaint(first)
    if "truncated" not in said and not first.lstrip().startswith(b"["):
        second, place = _next_line(stream, number)
        # A text that begins with a broken line is JSON lines all the same if another document follows.
        if second and (not said or second.lstrip().startswith(b"{")):
            return Documents(_lines(stream, [(number, first), (place, second)]))
        first += b"\n" * (place - number - 1) + second
    return _whole(first + stream.read(max(MAX_WHOLE - len(first), 0) + 1), number)


def _next_line(stream: BinaryIO, number: int) -> tuple[bytes, int]:
    """The next line that is not blank, with its number; nothing at the end."""
    while line := stream.readline(MAX_WHOLE + 1):
        number += 1
        if not line.isspace():
            return line, number
    return b"", number + 1


def _complaint(body: bytes) -> str:
    """What a parser says of a text; nothing if it is complete."""
    try:
        msgspec.json.decode(body, type=Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
    return ""


def _lines(stream: BinaryIO, ahead: list[tuple[int, bytes]]) -> Iterator[Text]:
    number = ahead[-1][0] if ahead else 0
    for index, (line, body) in enumerate(chain(ahead, _further_lines(stream, number))):
        yield Text(index, line, body)


def _further_lines(stream: BinaryIO, number: int) -> Iterator[tuple[int, bytes]]:
    while line := stream.readline(MAX_DOCUMENT + 1):
        number += 1
        if not line.isspace():
            yield number, line
        while len(line) > MAX_DOCUMENT and not line.endswith(b"\n"):  # refused already; its rest is passed over
            line = stream.readline(MAX_DOCUMENT + 1) or b"\n"


def _whole(body: bytes, line: int) -> Documents:
    if len(body) > MAX_WHOLE:
        raise BadJson(line, f"JSON in one piece has at most {MAX_WHOLE} bytes; write JSON lines, which have no limit")
    start = body.lstrip()[:1]
    try:
        # Only the outermost level is looked at; each document is decoded when its turn comes.
        if start == b"[":
            return Documents(_elements(body, msgspec.json.decode(body, type=list[Raw]), line), _list)
        if start == b"{":
            return _object(body, msgspec.json.decode(body, type=dict[str, Raw]), line)
    except BadJson:
        raise
    except RecursionError:
        raise BadJson(line, f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    except (msgspec.MsgspecError, Malformed, UnicodeDecodeError) as error:
        raise bad_json(body, f"this is not valid JSON: {error}", line) from None
    return Documents(iter([Text(0, line, body)]), _single)


def _object(body: bytes, members: dict[str, Raw], line: int) -> Documents:
    """One document, the wrapper of a list, or the whole answer of a server that listed its tools."""
    result = bytes(members["result"]) if "jsonrpc" in members and "result" in members else b""
    if result.startswith(b"{"):
        outer = _rest(body, members, ["result"], line)
        inner = msgspec.json.decode(result, type=dict[str, Raw])
        found = _object(result, inner, line + body[: body.find(result)].count(b"\n"))
        layout = found.layout or _single
        return Documents(found.texts, lambda documents, target: outer | {"result": layout(documents, target)})
    wrapped = [key for key in _LISTS if key in members and bytes(members[key]).startswith(b"[")]
    if not wrapped or not _OWN.isdisjoint(members):
        return Documents(iter([Text(0, line, body)]), _single)
    held = bytes(members[wrapped[0]])
    if any(bytes(members[key]) != held for key in wrapped[1:]):
        raise BadJson(line, f"{' and '.join(wrapped)} are two different lists; keep one of them in this file")
    rest = _rest(body, members, wrapped, line)
    elements = _elements(held, msgspec.json.decode(held, type=list[Raw]), line + body[: body.find(held)].count(b"\n"))
    return Documents(elements, lambda documents, target: _fitting(rest, target) | dict.fromkeys(wrapped, documents))


def _fitting(rest: JsonObject, target: str) -> JsonObject:
    """The wrapper without what would not be true around documents of this dialect: only OXP lists name their schema."""
    return rest if target == "oxp" else {key: value for key, value in rest.items() if key != "$schema"}


def _rest(body: bytes, members: dict[str, Raw], wrapped: list[str], line: int) -> JsonObject:
    """The wrapper with empty lists, decoded as strictly as the documents are."""
    # A parser keeps the last of two equal keys, so colons are counted; written as \u003a they would not be.
    held = sum(bytes(value).count(b":") for value in members.values())
    if b"\\u" in body or body.count(b":") != held + len(members) + sum(key.count(":") for key in members):
        for bad in twice(body, line, most_levels=1):
            raise bad
    bare = {key: Raw(b"[]") if key in wrapped else value for key, value in members.items()}
    rest: JsonObject = decode(msgspec.json.encode(bare))
    return rest


def _elements(body: bytes, elements: list[Raw], line: int) -> Iterator[Text]:
    end = 0
    for index, element in enumerate(elements):
        inner = bytes(element)
        start = body.find(inner, end)  # nothing but blanks and a comma stands before it
        line += body.count(b"\n", end, start)
        yield Text(index, line, inner)
        line += inner.count(b"\n")
        end = start + len(inner)


def _list(documents: list[Raw], target: str) -> Json:  # noqa: ARG001 - the same for every dialect
    """A list stays one, whatever becomes of its documents."""
    return documents


def _single(documents: list[Raw], target: str) -> Json:  # noqa: ARG001
    """One document alone; where it became several (a toolkit's tools), their list."""
    return documents[0] if len(documents) == 1 else documents
