"""Undoes percent, HTML, backslash and quoted-printable escapes layer by layer, and builds patterns of escaped secrets.

`unescape_layers` decodes a text up to `MAX_ESCAPE_LAYERS` times; `escaped_pattern` is a regular expression for a secret
with any of its characters escaped, made of atomic groups (no backtracking).
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from html import unescape
from html.entities import html5
from itertools import pairwise
from urllib.parse import unquote_to_bytes

MAX_ESCAPE_LAYERS = 3  # nested escapes that are undone
_BACKSLASH_ESCAPE = re.compile(
    r"\\+(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{([0-9a-fA-F]{1,6})\}"
    r"|x([0-9a-fA-F]{2})|0?([0-3][0-7]{2})|([\"/\\bfnrt']))"
)
_QUOTED_PRINTABLE = re.compile(r"=(?:([0-9a-fA-F]{2})|[ \t]*\r?\n)")
_LONG_CHARACTER_REFERENCE = re.compile(r"(?<=&#)[0-9]{16,}")
_SHORT_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
JSON_SHORT_ESCAPES = {'"': '"', "/": "/", "'": "'", "\\": "\\"} | {
    letter: short for short, letter in _SHORT_ESCAPES.items()
}
# Quoted-printable may break a line anywhere.
_SOFT_BREAK = r"(?:=[ \t]*(?:\r?\n|(?:\\{1,8}[nr]){1,2}))?"


def unescape_layers(text: bytes) -> Iterator[bytes]:
    """Yield the text after each layer of unescaping, up to MAX_ESCAPE_LAYERS times."""
    for _ in range(MAX_ESCAPE_LAYERS):
        before = text
        if b"%" in text:
            yield (text := unquote_to_bytes(text))
        if b"&" in text:
            yield (text := as_bytes(unescape(_LONG_CHARACTER_REFERENCE.sub(_shorten_reference, as_text(text)))))
        if b"\\" in text:
            escaped = as_text(text)
            text = as_bytes(_BACKSLASH_ESCAPE.sub(_decode_backslash, escaped))
            if not text.isascii():  # `\\xe4` and `\\344` are a code point in some languages, and a byte in others
                yield as_bytes(_BACKSLASH_ESCAPE.sub(_decode_backslash_bytes, escaped))
            yield text
        if b"=" in text:
            yield (text := as_bytes(_QUOTED_PRINTABLE.sub(_decode_quoted_printable, as_text(text))))
        if text == before:
            return


def _decode_backslash(match: re.Match[str]) -> str:
    code, byte = match[1] or match[2] or match[3], match[4]
    if code or byte:
        number = int(code or byte, 16)
        return chr(number) if number <= sys.maxunicode else match[0]
    return chr(int(match[5], 8)) if match[5] else _SHORT_ESCAPES.get(match[6], match[6])


def _decode_backslash_bytes(match: re.Match[str]) -> str:
    letter = _decode_backslash(match)
    return _surrogate_byte(ord(letter)) if match[4] or match[5] else letter


def _decode_quoted_printable(match: re.Match[str]) -> str:
    return _surrogate_byte(int(match[1], 16)) if match[1] else ""


def _surrogate_byte(code: int) -> str:
    """Return a byte as `as_text` does: a non-ASCII byte as a lone surrogate."""
    return chr(code) if code < 0x80 else chr(0xDC00 + code)


def _shorten_reference(match: re.Match[str]) -> str:
    """Shorten a character reference that is too long to convert: leading zeros aside, it is out of range either way."""
    return match[0].lstrip("0")[:8]


def strip_escapes(text: bytes) -> bytes:
    """Remove all escapes and backslashes, and turn `+` into a blank."""
    for peeled in unescape_layers(text):
        text = peeled
    return text.replace(b"\\", b"").replace(b"+", b" ")


def as_text(data: bytes) -> str:
    """Decode UTF-8; invalid bytes become lone surrogates."""
    return data.decode(errors="surrogateescape")


def as_bytes(text: str) -> bytes:
    """Encode as UTF-8, reversing `as_text`; a pair of surrogates becomes one character."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace").encode()


def escaped_pattern(secret: str) -> str:
    """Return a pattern of the secret with any characters escaped in any way, made of atomic groups."""
    letters = re.sub(r"\\+", r"\\", secret)  # escaping multiplies backslashes
    return _SOFT_BREAK.join(_letter_pattern(letter, before) for before, letter in pairwise(f" {letters}"))


def _letter_pattern(letter: str, before: str) -> str:
    slashes = r"\\{0,16}" if before == "\\" else r"\\{1,16}"  # the pattern before may have consumed them
    data = as_bytes(letter)
    percent = "".join(f"%(?:25){{0,{MAX_ESCAPE_LAYERS}}}{byte:02x}" for byte in data)
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    unicode = "".join(f"{slashes}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    longer = rf"{slashes}u(?:{ord(letter):08x}|\{{0{{0,5}}{ord(letter):x}\}})"
    octal = "".join(f"{slashes}0?{byte:03o}" for byte in data)
    quoted = "".join(f"={byte:02x}" for byte in data)
    ways = [
        percent,
        unicode,
        longer,
        octal,
        quoted,
        f"&(?:amp;){{0,{MAX_ESCAPE_LAYERS}}}(?:{'|'.join(_entity_patterns(letter))});?",
    ]
    if ord(letter) < 0x100:
        ways.append(f"{slashes}x{ord(letter):02x}")
    if not letter.isascii():
        ways.append("".join(f"{slashes}x{byte:02x}" for byte in data))
        ways += [f"{slashes}0?{ord(letter):03o}"] if ord(letter) < 0x100 else []
    if letter == " ":
        ways.append(r"\+")
    if letter == "\\":
        ways.append(r"\\{1,32}")
    elif letter in JSON_SHORT_ESCAPES:
        ways.append(f"{slashes}{JSON_SHORT_ESCAPES[letter]}")
    escaped = f"(?i:{'|'.join(ways)})"
    return f"(?>{escaped}|{re.escape(letter)})"


def _entity_patterns(letter: str) -> list[str]:
    numbers = [f"#0{{0,8}}{ord(letter)}(?![0-9])", f"#x0{{0,8}}{ord(letter):x}(?![0-9a-f])"]
    return [*numbers, *entity_names(letter)]


def entity_names(letter: str) -> list[str]:
    """Return the HTML entity names of a character, for a pattern."""
    return [re.escape(name.rstrip(";")) for name in _entity_names_by_letter().get(letter, ())]


@cache
def _entity_names_by_letter() -> dict[str, list[str]]:
    """Return all HTML entity names by character."""
    named: dict[str, list[str]] = {}
    for name, letter in html5.items():
        named.setdefault(letter, []).append(name)
    return named
