"""Texts without their escapes: percent signs, HTML, backslashes and quoted-printable, one inside the other."""

import re
import sys
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote_to_bytes

ROUNDS = 3  # of escaping, one inside the other
_BACKSLASHED = re.compile(
    r"\\+(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|u\{([0-9a-fA-F]{1,6})\}"
    r"|x([0-9a-fA-F]{2})|0?([0-3][0-7]{2})|([\"/\\bfnrt']))"
)
_QUOTED = re.compile(r"=(?:([0-9a-fA-F]{2})|[ \t]*\r?\n)")
_LONG_NUMBER = re.compile(r"(?<=&#)[0-9]{16,}")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
JSON_SHORT = {'"': '"', "/": "/", "'": "'", "\\": "\\"} | {letter: short for short, letter in _SHORT.items()}


def layers(text: bytes) -> Iterator[bytes]:
    """The text without its escapes, layer by layer, as long as there is another."""
    for _ in range(ROUNDS):
        before = text
        if b"%" in text:
            yield (text := unquote_to_bytes(text))
        if b"&" in text:
            yield (text := as_bytes(unescape(_LONG_NUMBER.sub(_shortened, as_text(text)))))
        if b"\\" in text:
            escaped = as_text(text)
            text = as_bytes(_BACKSLASHED.sub(_unescaped, escaped))
            if not text.isascii():  # `\\xe4` and `\\344` are a letter for some, and a byte of one for others
                yield as_bytes(_BACKSLASHED.sub(_unescaped_bytes, escaped))
            yield text
        if b"=" in text:
            yield (text := as_bytes(_QUOTED.sub(_unquoted, as_text(text))))
        if text == before:
            return


def _unescaped(match: re.Match[str]) -> str:
    code, byte = match[1] or match[2] or match[3], match[4]
    if code or byte:
        number = int(code or byte, 16)
        return chr(number) if number <= sys.maxunicode else match[0]
    return chr(int(match[5], 8)) if match[5] else _SHORT.get(match[6], match[6])


def _unescaped_bytes(match: re.Match[str]) -> str:
    letter = _unescaped(match)
    return _byte(ord(letter)) if match[4] or match[5] else letter


def _unquoted(match: re.Match[str]) -> str:
    return _byte(int(match[1], 16)) if match[1] else ""


def _byte(code: int) -> str:
    """As `as_text` writes a byte that is no letter by itself."""
    return chr(code) if code < 0x80 else chr(0xDC00 + code)


def _shortened(match: re.Match[str]) -> str:
    """Too long to be read as a number, which only zeros may make it: as short as one that is no letter either."""
    return match[0].lstrip("0")[:8]


def stripped(text: bytes) -> bytes:
    """Without all that escaping adds, and without what it may take with it."""
    for peeled in layers(text):
        text = peeled
    return text.replace(b"\\", b"").replace(b"+", b" ")


def as_text(data: bytes) -> str:
    """The other way round, also of what is no text."""
    return data.decode(errors="surrogateescape")


def as_bytes(text: str) -> bytes:
    """As UTF-8; what was no text stays what it was, and what was escaped as two halves becomes one letter."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace").encode()
