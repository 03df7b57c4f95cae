"""Reads definition files: `open_documents`, RawDocument with its line, InvalidJson, LocatedFinding.

JSON lines are never read as a whole; any other layout is remembered, so that a converter can write it again.
"""

import contextlib
import os
import re
import stat
import sys
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeAlias

import msgspec

from toolhall.cli.errors import CommandError, UsageError
from toolhall.cli.output import visible
from toolhall.dialects.catalogs import DIALECTS, READABLE_DIALECTS
from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.strict_json import MAX_DEPTH, decode
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

MAX_DOCUMENT = 16 * 1024 * 1024
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_AT_BYTE = re.compile(r" \(byte (\d+)\)")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}:\[\]]', re.DOTALL)


class RawDocument(msgspec.Struct, frozen=True):
    """The bytes of one document, which one of the file it is, and the line it starts in."""

    index: int
    line: int
    body: bytes


class InvalidJson(BadDocument):
    """Not JSON as everybody reads it alike; `line` is where in the file."""

    def __init__(self, line: int, fix: str) -> None:
        self.line = line
        super().__init__([Finding("", "json/malformed", fix)])


def decode_document(text: RawDocument) -> Json:
    """The value of a document; BadJson says what to change, and in which line."""
    if len(text.body) > MAX_DOCUMENT:
        raise InvalidJson(text.line, f"a document has at most {MAX_DOCUMENT} bytes; split this one")
    try:
        return decode(text.body)
    except Malformed as error:
        raise invalid_json(text.body, error.message, text.line) from None


def invalid_json(body: bytes, parser_message: str, line: int = 1) -> InvalidJson:
    """What a parser said of a text that starts in this line, with the line it means."""
    if body.startswith(_BYTE_ORDER_MARKS):
        return InvalidJson(line, "this starts with a byte-order mark; save it as UTF-8 without one")
    if "same key twice" in parser_message:
        return next(duplicate_keys(body, line), InvalidJson(line, parser_message))
    found = _AT_BYTE.search(parser_message)
    if found:
        at = int(found[1])
        start = body.rfind(b"\n", 0, at) + 1
        plain = _AT_BYTE.sub(f" at byte {at - start + 1} of the line", parser_message)
        hint = "; write one document in each line" if "trailing characters" in parser_message else ""
        return InvalidJson(line + body.count(b"\n", 0, at), plain + hint)
    if "truncated" in parser_message:
        return InvalidJson(
            line + body.rstrip().count(b"\n"), "the JSON ends too early; close every text, list and object"
        )
    return InvalidJson(line, parser_message)


def duplicate_keys(body: bytes, line: int, max_depth: int = MAX_DEPTH) -> Iterator[InvalidJson]:
    """Each key that its object has already; objects on deeper levels are not looked at."""
    above: list[set[str]] = []
    last, at = "", 0
    for token in _TOKEN.finditer(body):
        match token[0]:
            case b"{" | b"[":
                above.append(set())
            case b"}" | b"]":
                above.pop()
            case b":" if len(above) <= max_depth:
                if last in above[-1]:
                    yield InvalidJson(
                        line + body.count(b"\n", 0, at), f"an object has the key {last!r} twice; remove one"
                    )
                above[-1].add(last)
            case b":":
                continue
            case quoted:
                last, at = msgspec.json.decode(quoted, type=str), token.start()


class LocatedFinding(msgspec.Struct, frozen=True):
    """One thing to change in one document of one file."""

    file: str
    line: int
    index: int
    finding: Finding

    def document(self) -> JsonObject:
        """As `--json` shows it."""
        found = self.finding
        return {
            "file": self.file,
            "line": self.line,
            "index": self.index,
            "path": found.path,
            "rule": found.rule,
            "severity": found.severity,
            "fix": found.fix,
        }

    def __str__(self) -> str:
        found = self.finding
        where = f"{self.file}:{self.line}: document {self.index}, {found.path or '/'}"
        return visible(f"{where}: {found.severity}: {found.fix} [{found.rule}]")


MAX_TEXT_BYTES = 256 * 1024 * 1024
# What a list of definitions is wrapped in: an MCP result has `tools`, an OXP list `items` and `tools`.
_LIST_KEYS = ("tools", "items")
# An object with one of these is a definition itself, whatever else it holds.
_DEFINITION_KEYS = frozenset({"inputSchema", "input_schema", "capabilities", "tool", "function", "parameters"})
Raw: TypeAlias = msgspec.Raw
# What is written of the documents that came out, of a dialect: the same layout as they came in.
Layout: TypeAlias = Callable[[list[Raw], str], Json]


class DocumentSet(msgspec.Struct, frozen=True):
    """The documents of a file in their order, and their layout; None for JSON lines, which have no whole."""

    texts: Iterator[RawDocument]
    layout: Layout | None = None


def read_documents(stream: BinaryIO, *, lines: bool = False) -> DocumentSet:
    """The documents of a stream; BadJson where it is neither JSON nor JSON lines."""
    first, number = _next_line(stream, 0)
    if lines:
        return DocumentSet(_read_lines(stream, [(number, first)] if first else []))
    if not first:
        raise InvalidJson(1, "there is nothing here; write a definition, a list of them, or one in each line")
    said = _parser_error(first)
    if "truncated" not in said and not first.lstrip().startswith(b"["):
        second, place = _next_line(stream, number)
        # A text that begins with a broken line is JSON lines all the same if another document follows.
        if second and (not said or second.lstrip().startswith(b"{")):
            return DocumentSet(_read_lines(stream, [(number, first), (place, second)]))
        first += b"\n" * (place - number - 1) + second
    return _read_single_text(first + stream.read(max(MAX_TEXT_BYTES - len(first), 0) + 1), number)


def _next_line(stream: BinaryIO, number: int) -> tuple[bytes, int]:
    """The next line that is not blank, with its number; nothing at the end."""
    while line := stream.readline(MAX_TEXT_BYTES + 1):
        number += 1
        if not line.isspace():
            return line, number
    return b"", number + 1


def _parser_error(body: bytes) -> str:
    """What a parser says of a text; nothing if it is complete."""
    try:
        msgspec.json.decode(body, type=Raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return str(error)
    return ""


def _read_lines(stream: BinaryIO, ahead: list[tuple[int, bytes]]) -> Iterator[RawDocument]:
    number = ahead[-1][0] if ahead else 0
    for index, (line, body) in enumerate(chain(ahead, _further_lines(stream, number))):
        yield RawDocument(index, line, body)


def _further_lines(stream: BinaryIO, number: int) -> Iterator[tuple[int, bytes]]:
    while line := stream.readline(MAX_DOCUMENT + 1):
        number += 1
        if not line.isspace():
            yield number, line
        while len(line) > MAX_DOCUMENT and not line.endswith(b"\n"):  # refused already; its rest is passed over
            line = stream.readline(MAX_DOCUMENT + 1) or b"\n"


def _read_single_text(body: bytes, line: int) -> DocumentSet:
    if len(body) > MAX_TEXT_BYTES:
        raise InvalidJson(
            line, f"JSON in one piece has at most {MAX_TEXT_BYTES} bytes; write JSON lines, which have no limit"
        )
    start = body.lstrip()[:1]
    try:
        # Only the outermost level is looked at; each document is decoded when its turn comes.
        if start == b"[":
            return DocumentSet(_list_elements(body, msgspec.json.decode(body, type=list[Raw]), line), _list_layout)
        if start == b"{":
            return _read_object(body, msgspec.json.decode(body, type=dict[str, Raw]), line)
    except InvalidJson:
        raise
    except RecursionError:
        raise InvalidJson(line, f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    except (msgspec.MsgspecError, Malformed, UnicodeDecodeError) as error:
        raise invalid_json(body, f"this is not valid JSON: {error}", line) from None
    return DocumentSet(iter([RawDocument(0, line, body)]), _single_layout)


def _read_object(body: bytes, members: dict[str, Raw], line: int) -> DocumentSet:
    """One document, the wrapper of a list, or the whole answer of a server that listed its tools."""
    result = bytes(members["result"]) if "jsonrpc" in members and "result" in members else b""
    if result.startswith(b"{"):
        outer = _wrapper(body, members, ["result"], line)
        inner = msgspec.json.decode(result, type=dict[str, Raw])
        found = _read_object(result, inner, line + body[: body.find(result)].count(b"\n"))
        layout = found.layout or _single_layout
        return DocumentSet(found.texts, lambda documents, target: outer | {"result": layout(documents, target)})
    wrapped = [key for key in _LIST_KEYS if key in members and bytes(members[key]).startswith(b"[")]
    if not wrapped or not _DEFINITION_KEYS.isdisjoint(members):
        return DocumentSet(iter([RawDocument(0, line, body)]), _single_layout)
    held = bytes(members[wrapped[0]])
    if any(bytes(members[key]) != held for key in wrapped[1:]):
        raise InvalidJson(line, f"{' and '.join(wrapped)} are two different lists; keep one of them in this file")
    rest = _wrapper(body, members, wrapped, line)
    elements = _list_elements(
        held, msgspec.json.decode(held, type=list[Raw]), line + body[: body.find(held)].count(b"\n")
    )
    return DocumentSet(
        elements, lambda documents, target: _wrapper_for(rest, target) | dict.fromkeys(wrapped, documents)
    )


def _wrapper_for(rest: JsonObject, target: str) -> JsonObject:
    """The wrapper without what would not be true around documents of this dialect: only OXP lists name their schema."""
    return rest if target == "oxp" else {key: value for key, value in rest.items() if key != "$schema"}


def _wrapper(body: bytes, members: dict[str, Raw], wrapped: list[str], line: int) -> JsonObject:
    """The wrapper with empty lists, decoded as strictly as the documents are."""
    # A parser keeps the last of two equal keys, so colons are counted; written as \u003a they would not be.
    held = sum(bytes(value).count(b":") for value in members.values())
    if b"\\u" in body or body.count(b":") != held + len(members) + sum(key.count(":") for key in members):
        for bad in duplicate_keys(body, line, max_depth=1):
            raise bad
    bare = {key: Raw(b"[]") if key in wrapped else value for key, value in members.items()}
    rest: JsonObject = decode(msgspec.json.encode(bare))
    return rest


def _list_elements(body: bytes, elements: list[Raw], line: int) -> Iterator[RawDocument]:
    end = 0
    for index, element in enumerate(elements):
        inner = bytes(element)
        start = body.find(inner, end)  # nothing but blanks and a comma stands before it
        line += body.count(b"\n", end, start)
        yield RawDocument(index, line, inner)
        line += inner.count(b"\n")
        end = start + len(inner)


def _list_layout(documents: list[Raw], target: str) -> Json:  # noqa: ARG001 - the same for every dialect
    """A list stays one, whatever becomes of its documents."""
    return documents


def _single_layout(documents: list[Raw], target: str) -> Json:  # noqa: ARG001
    """One document alone; where it became several (a toolkit's tools), their list."""
    return documents[0] if len(documents) == 1 else documents


STDIN = "-"
_JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")


class OpenedFile(msgspec.Struct, frozen=True):
    """A file that can be read: what to call it, and its size if it has one."""

    name: str
    stream: BinaryIO
    size: int | None

    def documents(self) -> DocumentSet:
        """What is in it; BadJson if that is neither JSON nor JSON lines."""
        return read_documents(self.stream, lines=self.name.lower().endswith(_JSON_LINES_SUFFIXES))


@contextlib.contextmanager
def open_documents(file: str) -> Generator[OpenedFile, None, None]:
    """The file, or the standard input for `-`; one line says why there is none."""
    if file == STDIN:
        if sys.stdin is None:
            raise UsageError("there is no standard input; name a file instead of -")
        yield OpenedFile("<stdin>", sys.stdin.buffer, None)
        return
    check_file(file)
    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(Path(file).open("rb"))
        except OSError as error:
            raise CommandError(f"{file} cannot be read: {error.strerror}") from None
        about = os.fstat(stream.fileno())
        yield OpenedFile(file, stream, about.st_size if stat.S_ISREG(about.st_mode) else None)


@contextlib.contextmanager
def report_io_errors() -> Generator[None, None, None]:
    """A full disk or a file that fails is one line too; a reader that has seen enough is none."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"reading or writing failed: {error.strerror}; mend that and try again") from None


def check_file(file: str) -> None:
    """Refuse a name that cannot be one of a file of definitions."""
    if file == STDIN:
        return
    path = Path(file)
    if file.startswith("-") and not path.exists():
        raise UsageError(f"there is no option {file}; see --help")
    if path.is_dir():
        raise UsageError(f"{file} is a folder; name the files in it")
    if not path.exists():
        raise UsageError(f"there is no file {file}; write - for the standard input")


def check_source_dialect(name: str | None) -> None:
    """Refuse a --from that cannot be read."""
    if name is not None and name not in READABLE_DIALECTS:
        raise UsageError(f"--from {name!r} is no dialect that can be read; use one of {', '.join(READABLE_DIALECTS)}")


def check_target_dialect(name: str) -> None:
    """Refuse a --to that cannot be written."""
    if name not in DIALECTS:
        raise UsageError(f"--to {name!r} is no dialect; use one of {', '.join(DIALECTS)}")
