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
STDIN = "-"
_JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")
MAX_TEXT_BYTES = 256 * 1024 * 1024
# Members that hold a list of definitions: of an MCP result the first four, of an OXP list `items` and `tools`.
_LIST_KEYS = ("tools", "resources", "resourceTemplates", "prompts", "items")
# An object with one of these is a definition itself, whatever else it holds.
_DEFINITION_KEYS = frozenset({"inputSchema", "input_schema", "capabilities", "tool", "function", "parameters"})
Raw: TypeAlias = msgspec.Raw
# Builds the output from converted documents and the target dialect, in the layout of the input.
Layout: TypeAlias = Callable[[list[Raw], str], Json]
_BYTE_ORDER_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_AT_BYTE = re.compile(r" \(byte (\d+)\)")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}:\[\]]', re.DOTALL)


class RawDocument(msgspec.Struct, frozen=True):
    """The bytes of one document of a file, with its index and its first line."""

    index: int
    line: int
    body: bytes
    listed_as: str = ""  # the member that holds the list, if there is one


class InvalidJson(BadDocument):
    """A text that is not strict JSON; `line` is the line in the file."""

    def __init__(self, line: int, fix: str) -> None:
        self.line = line
        super().__init__([Finding("", "json/malformed", fix)])


def decode_document(text: RawDocument) -> Json:
    """Decode a document; raises InvalidJson with the line and the fix."""
    if len(text.body) > MAX_DOCUMENT:
        raise InvalidJson(text.line, f"a document has at most {MAX_DOCUMENT} bytes; split this one")
    try:
        return decode(text.body)
    except Malformed as error:
        raise invalid_json(text.body, error.message, text.line) from None


def invalid_json(body: bytes, parser_message: str, line: int = 1) -> InvalidJson:
    """The InvalidJson for a parser's message on a text that starts in this line."""
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
    """Yield an InvalidJson for each duplicate key, down to `max_depth`."""
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
    """A finding with the file, line and document that it is about."""

    file: str
    line: int
    index: int
    finding: Finding

    def document(self) -> JsonObject:
        """The members that `--json` prints."""
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


class DocumentSet(msgspec.Struct, frozen=True):
    """The documents of a file in order, and their layout; None for JSON lines, which are read one by one."""

    texts: Iterator[RawDocument]
    layout: Layout | None = None


def read_documents(stream: BinaryIO, *, lines: bool = False) -> DocumentSet:
    """The documents of a stream; raises InvalidJson if it is neither JSON nor JSON lines."""
    first, number = _next_line(stream, 0)
    if lines:
        return DocumentSet(_read_lines(stream, [(number, first)] if first else []))
    if not first:
        raise InvalidJson(1, "there is nothing here; write a definition, a list of them, or one in each line")
    error = _parser_error(first)
    if "truncated" not in error and not first.lstrip().startswith(b"["):
        second, second_number = _next_line(stream, number)
        # A text with an invalid first line is JSON lines if another document follows.
        if second and (not error or second.lstrip().startswith(b"{")):
            return DocumentSet(_read_lines(stream, [(number, first), (second_number, second)]))
        first += b"\n" * (second_number - number - 1) + second
    return _read_single_text(first + stream.read(max(MAX_TEXT_BYTES - len(first), 0) + 1), number)


def _next_line(stream: BinaryIO, number: int) -> tuple[bytes, int]:
    """The next line that is not blank, with its number; empty at the end."""
    while line := stream.readline(MAX_TEXT_BYTES + 1):
        number += 1
        if not line.isspace():
            return line, number
    return b"", number + 1


def _parser_error(body: bytes) -> str:
    """The parser's error message on a text; empty if it is valid."""
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
        while len(line) > MAX_DOCUMENT and not line.endswith(b"\n"):  # the rest of a line that is too long
            line = stream.readline(MAX_DOCUMENT + 1) or b"\n"


def _read_single_text(body: bytes, line: int) -> DocumentSet:
    if len(body) > MAX_TEXT_BYTES:
        raise InvalidJson(
            line, f"JSON in one piece has at most {MAX_TEXT_BYTES} bytes; write JSON lines, which have no limit"
        )
    start = body.lstrip()[:1]
    try:
        # Only the outermost level is decoded here; each document when it is read.
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
    """The documents of an object: itself, the list in it, or those of a JSON-RPC response to a list request."""
    result = bytes(members["result"]) if "jsonrpc" in members and "result" in members else b""
    if result.startswith(b"{"):
        outer = _wrapper(body, members, ["result"], line)
        inner = msgspec.json.decode(result, type=dict[str, Raw])
        documents = _read_object(result, inner, line + body[: body.find(result)].count(b"\n"))
        layout = documents.layout or _single_layout
        return DocumentSet(documents.texts, lambda converted, target: outer | {"result": layout(converted, target)})
    wrapped = [key for key in _LIST_KEYS if key in members and bytes(members[key]).startswith(b"[")]
    if not wrapped or not _DEFINITION_KEYS.isdisjoint(members):
        return DocumentSet(iter([RawDocument(0, line, body)]), _single_layout)
    held = bytes(members[wrapped[0]])
    if any(bytes(members[key]) != held for key in wrapped[1:]):
        raise InvalidJson(line, f"{' and '.join(wrapped)} are two different lists; keep one of them in this file")
    rest = _wrapper(body, members, wrapped, line)
    elements = _list_elements(
        held,
        msgspec.json.decode(held, type=list[Raw]),
        line + body[: body.find(held)].count(b"\n"),
        wrapped[0],
    )
    return DocumentSet(
        elements, lambda documents, target: _wrapper_for(rest, target) | dict.fromkeys(wrapped, documents)
    )


def _wrapper_for(rest: JsonObject, target: str) -> JsonObject:
    """The wrapper for documents of this dialect: only an OXP list keeps its `$schema`."""
    return rest if target == "oxp" else {key: value for key, value in rest.items() if key != "$schema"}


def _wrapper(body: bytes, members: dict[str, Raw], wrapped: list[str], line: int) -> JsonObject:
    """The wrapping object with empty lists, decoded as strictly as the documents."""
    # msgspec keeps the last of two equal keys, so colons are counted to find duplicates; \u003a would hide one.
    held = sum(bytes(value).count(b":") for value in members.values())
    if b"\\u" in body or body.count(b":") != held + len(members) + sum(key.count(":") for key in members):
        for bad in duplicate_keys(body, line, max_depth=1):
            raise bad
    bare = {key: Raw(b"[]") if key in wrapped else value for key, value in members.items()}
    rest: JsonObject = decode(msgspec.json.encode(bare))
    return rest


def _list_elements(body: bytes, elements: list[Raw], line: int, listed_as: str = "") -> Iterator[RawDocument]:
    end = 0
    for index, element in enumerate(elements):
        inner = bytes(element)
        start = body.find(inner, end)  # only whitespace and a comma are between
        line += body.count(b"\n", end, start)
        yield RawDocument(index, line, inner, listed_as)
        line += inner.count(b"\n")
        end = start + len(inner)


def _list_layout(documents: list[Raw], target: str) -> Json:  # noqa: ARG001 - the same for every dialect
    """A list of documents stays a list."""
    return documents


def _single_layout(documents: list[Raw], target: str) -> Json:  # noqa: ARG001
    """A single document stays one; if it became several (the tools of a toolkit), a list of them."""
    return documents[0] if len(documents) == 1 else documents


class OpenedFile(msgspec.Struct, frozen=True):
    """An open file with its name for messages, and its size if it is a regular file."""

    name: str
    stream: BinaryIO
    size: int | None

    def documents(self) -> DocumentSet:
        """Its documents; raises InvalidJson if it is neither JSON nor JSON lines."""
        return read_documents(self.stream, lines=self.name.lower().endswith(_JSON_LINES_SUFFIXES))


@contextlib.contextmanager
def open_documents(file: str) -> Generator[OpenedFile, None, None]:
    """Open a file, or stdin for `-`; raises UsageError or CommandError if it cannot be read."""
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
    """Context that turns an OSError into a CommandError; BrokenPipeError passes."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CommandError(f"reading or writing failed: {error.strerror}; mend that and try again") from None


def check_file(file: str) -> None:
    """Raise UsageError unless this is `-` or an existing file."""
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
    """Raise UsageError for a --from dialect that cannot be read."""
    if name is not None and name not in READABLE_DIALECTS:
        raise UsageError(f"--from {name!r} is no dialect that can be read; use one of {', '.join(READABLE_DIALECTS)}")


def check_target_dialect(name: str) -> None:
    """Raise UsageError for a --to dialect that cannot be written."""
    if name not in DIALECTS:
        raise UsageError(f"--to {name!r} is no dialect; use one of {', '.join(DIALECTS)}")
