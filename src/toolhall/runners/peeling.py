"""Texts without their escapes: percent signs, HTML and backslashes, one inside the other."""

import re
from collections.abc import Iterator
from html import unescape
from urllib.parse import unquote_to_bytes

ROUNDS = 3  # of escaping, one inside the other
_BACKSLASHED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"/\\bfnrt']))")
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
            yield (text := as_bytes(_BACKSLASHED.sub(_unescaped, as_text(text))))
        if text == before:
            return


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _SHORT.get(match[3], match[3])


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
