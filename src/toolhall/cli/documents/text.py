"""One document of a file before it is decoded, and what is wrong with it as JSON, by line."""

import re
from collections.abc import Iterator

import msgspec

from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.strict import MAX_DEPTH, decode
from toolhall.model.errors import Malformed
from toolhall.model.json import Json

MAX_DOCUMENT = 16 * 1024 * 1024
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_AT_BYTE = re.compile(r" \(byte (\d+)\)")
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}:\[\]]', re.DOTALL)


class Text(msgspec.Struct, frozen=True):
    """The bytes of one document, which one of the file it is, and the line it starts in."""

    index: int
    line: int
    body: bytes


class BadJson(BadDocument):
    """Not JSON as everybody reads it alike; `line` is where in the file."""

    def __init__(self, line: int, fix: str) -> None:
        self.line = line
        super().__init__([Finding("", "json/malformed", fix)])


def decoded(text: Text) -> Json:
    """The value of a document; BadJson says what to change, and in which line."""
    if len(text.body) > MAX_DOCUMENT:
        raise BadJson(text.line, f"a document has at most {MAX_DOCUMENT} bytes; split this one")
    try:
        return decode(text.body)
    except Malformed as error:
        raise bad_json(text.body, error.message, text.line) from None


def bad_json(body: bytes, said: str, line: int = 1) -> BadJson:
    """What a parser said of a text that starts in this line, with the line it means."""
    if body.startswith(_MARKS):
        return BadJson(line, "this starts with a byte-order mark; save it as UTF-8 without one")
    if "same key twice" in said:
        return next(twice(body, line), BadJson(line, said))
    found = _AT_BYTE.search(said)
    if found:
        at = int(found[1])
        start = body.rfind(b"\n", 0, at) + 1
        plain = _AT_BYTE.sub(f" at byte {at - start + 1} of the line", said)
        hint = "; write one document in each line" if "trailing characters" in said else ""
        return BadJson(line + body.count(b"\n", 0, at), plain + hint)
    if "truncated" in said:
        return BadJson(line + body.rstrip().count(b"\n"), "the JSON ends too early; close every text, list and object")
    return BadJson(line, said)


def twice(body: bytes, line: int, most_levels: int = MAX_DEPTH) -> Iterator[BadJson]:
    """Each key that its object has already; objects on deeper levels are not looked at."""
    above: list[set[str]] = []
    last, at = "", 0
    for token in _TOKEN.finditer(body):
        match token[0]:
            case b"{" | b"[":
                above.append(set())
            case b"}" | b"]":
                above.pop()
            case b":" if len(above) <= most_levels:
                if last in above[-1]:
                    yield BadJson(line + body.count(b"\n", 0, at), f"an object has the key {last!r} twice; remove one")
                above[-1].add(last)
            case b":":
                continue
            case quoted:
                last, at = msgspec.json.decode(quoted, type=str), token.start()
