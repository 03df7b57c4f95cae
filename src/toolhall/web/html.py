"""HTML rendering: `render` fills Jinja2 templates, and `mark_hidden` makes deceptive characters visible.

A person decides by what a page shows, so no text on a page may hide or disguise a part of itself. Every value that a
template prints is escaped, and characters that print as nothing or pose as others (zero-width, bidirectional, full
width, Cyrillic letters in a Latin-looking word) are written as `<U+XXXX>` inside `<mark>`. Templates need no filter
for that: the environment's `finalize` does it for every text. Only attribute values use the filter `attribute`, which
escapes without marks.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from toolhall.http.call_context import INVISIBLE
from toolhall.model.names import skeleton

if TYPE_CHECKING:
    from jinja2 import Environment

ALLOWED_CONTROLS = "\n"
_BLANK = re.compile(INVISIBLE)
_ACCENT = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")  # on any letter before it
_WORD = re.compile(r"[^\W\d_]+")


class PageLinks(NamedTuple):
    """Paths that every page links, as browsers see them: the hall itself, the style sheet and the script."""

    root: str
    style: str
    script: str


class Page(NamedTuple):
    """A template of `templates/` with the values it prints; `render` adds the links."""

    template: str
    values: dict[str, Any]


def render(page: Page, links: PageLinks) -> bytes:
    """Return the page as UTF-8."""
    template = _environment().get_template(page.template)
    return template.render(page.values, links=links).encode("utf-8", "replace")


def mark_hidden(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text in pieces, each with whether it is a `<U+XXXX>` mark in place of a deceptive character."""
    start = 0
    for position in sorted(set(_hidden_positions(text))):
        if start < position:
            yield text[start:position], False
        yield f"<U+{ord(text[position]):04X}>", True
        start = position + 1
    if start < len(text):
        yield text[start:], False


def name_hidden(text: str) -> list[tuple[str, str]]:
    """Return the mark and the name of each deceptive character in the text, once each, in order."""
    marks = dict.fromkeys(piece for piece, hidden in mark_hidden(text) if hidden)
    letters = [(mark, chr(int(mark.strip("<U+>"), 16))) for mark in marks]
    return [(mark, unicodedata.name(letter, "a character without a name").capitalize()) for mark, letter in letters]


def reveal_hidden(text: str) -> str:
    """Return the text with marks in place of deceptive characters, for a terminal."""
    return text if text.isascii() and text.isprintable() else "".join(piece for piece, _ in mark_hidden(text))


def escape_text(value: str) -> str:
    """Return the text as HTML, with deceptive characters as marks."""
    return "".join(
        f'<mark class="hidden">{escape(piece)}</mark>' if hidden else escape(piece)
        for piece, hidden in mark_hidden(value)
    )


def format_duration(seconds: float) -> str:
    """Return minutes and seconds, such as `4 min 10 s`."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # lazy: only pages need it
    from markupsafe import Markup  # lazy: only pages need it

    def finalize(value: object) -> object:
        if isinstance(value, str) and not isinstance(value, Markup):
            return Markup(escape_text(value))  # noqa: S704 - escaped here
        return value

    environment = Environment(
        loader=PackageLoader("toolhall.web"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    filters: dict[str, Callable[[Any], Any]] = {
        "attribute": lambda value: Markup(escape(value)),  # noqa: S704 - escaped here
        "sentence": lambda message: f"{message[:1].upper()}{message[1:]}.",
        "duration": format_duration,
        "round_seconds": lambda seconds: f"{seconds:.0f}",
        "iso_time": lambda seconds: datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds"),
        "utc_time": lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC",
    }
    environment.filters.update(filters)
    return environment


def _hidden_positions(text: str) -> Iterator[int]:
    if text.isascii() and text.replace(ALLOWED_CONTROLS, "").isprintable():  # most texts
        return
    for position, letter in enumerate(text):
        if letter not in ALLOWED_CONTROLS and (
            not letter.isprintable() or _BLANK.match(letter) or _is_disguised_ascii(letter)
        ):
            yield position
    for word in _WORD.finditer(text):
        yield from (word.start() + position for position in _lookalike_positions(word[0]))


def _is_disguised_ascii(letter: str) -> bool:
    """Whether this is another form of an ASCII character: full width, mathematical, a long dash, a loose accent."""
    if letter.isascii():
        return False
    if _ACCENT.match(letter):
        return True
    plain = skeleton(letter)
    return plain.isascii() and plain != "" and (not letter.isalpha() or _is_compatibility_form(letter))


def _is_compatibility_form(letter: str) -> bool:
    return unicodedata.decomposition(letter).startswith("<")


def _lookalike_positions(word: str) -> Iterator[int]:
    """Letters of another script that look Latin, in a word that could be taken for a Latin one."""
    lookalikes = [position for position, letter in enumerate(word) if _looks_latin(letter)]
    if lookalikes and all(letter.isascii() or _looks_latin(letter) for letter in word):
        yield from lookalikes


def _looks_latin(letter: str) -> bool:
    """Whether a non-Latin letter looks like a Latin one; a Latin letter with a visible accent does not count."""
    if letter.isascii() or unicodedata.decomposition(letter):
        return False
    plain = skeleton(letter)
    return plain.isascii() and len(plain) == 1
