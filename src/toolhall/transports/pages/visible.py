"""Text in which nothing hides: what cannot be seen, or looks like something else, is written as <U+XXXX>."""

import re
import unicodedata
from collections.abc import Iterator

from toolhall.model.lookalikes import look

# These print as nothing or as a blank, although Python calls them printable.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_ACCENT = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")  # on any letter before it
_WORD = re.compile(r"[^\W\d_]+")
KEPT = "\n"


def marked(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces of the text in order, each with whether it is a mark in place of a character."""
    hidden = set(_hidden(text))
    start = 0
    for place in sorted(hidden):
        if start < place:
            yield text[start:place], False
        yield f"<U+{ord(text[place]):04X}>", True
        start = place + 1
    if start < len(text):
        yield text[start:], False


def visible(text: str) -> str:
    """The same as one text."""
    return text if text.isascii() and text.isprintable() else "".join(piece for piece, _ in marked(text))


def _hidden(text: str) -> Iterator[int]:
    """Where something must be marked; most texts are ASCII, and need one look."""
    if text.isascii() and text.replace(KEPT, "").isprintable():
        return
    for place, letter in enumerate(text):
        if letter not in KEPT and (not letter.isprintable() or _BLANK.match(letter) or _poses(letter)):
            yield place
    for word in _WORD.finditer(text):
        yield from (word.start() + place for place in _foreign(word[0]))


def _poses(letter: str) -> bool:
    """Whether this is another form of a plain character: full width, mathematical, a long dash, a loose accent."""
    if letter.isascii():
        return False
    if _ACCENT.match(letter):
        return True
    other = look(letter)
    return other.isascii() and other != "" and (not letter.isalpha() or _is_form(letter))


def _is_form(letter: str) -> bool:
    return unicodedata.decomposition(letter).startswith("<")


def _foreign(word: str) -> Iterator[int]:
    """Letters of another script that look Latin, in a word that could be taken for a Latin one."""
    alike = [place for place, letter in enumerate(word) if _looks_latin(letter)]
    if alike and all(letter.isascii() or _looks_latin(letter) for letter in word):
        yield from alike


def _looks_latin(letter: str) -> bool:
    """As a letter with an accent does not: that is Latin, and can be seen."""
    if letter.isascii() or unicodedata.decomposition(letter):
        return False
    other = look(letter)
    return other.isascii() and len(other) == 1
