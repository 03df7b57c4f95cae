"""HTML building blocks with escaping; hidden and look-alike characters are marked as `<U+XXXX>`."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from html import escape

from toolhall.model.names import skeleton

# These print as nothing or as a blank, although Python calls them printable.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
_ACCENT = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]")  # on any letter before it
_WORD = re.compile(r"[^\W\d_]+")
ALLOWED_CONTROLS = "\n"


def mark_hidden(text: str) -> Iterator[tuple[str, bool]]:
    """Pieces of the text in order, each with whether it is a mark in place of a character."""
    hidden = set(_hidden_positions(text))
    start = 0
    for place in sorted(hidden):
        if start < place:
            yield text[start:place], False
        yield f"<U+{ord(text[place]):04X}>", True
        start = place + 1
    if start < len(text):
        yield text[start:], False


def reveal_hidden(text: str) -> str:
    """The same as one text."""
    return text if text.isascii() and text.isprintable() else "".join(piece for piece, _ in mark_hidden(text))


def _hidden_positions(text: str) -> Iterator[int]:
    """Where something must be marked; most texts are ASCII, and need one look."""
    if text.isascii() and text.replace(ALLOWED_CONTROLS, "").isprintable():
        return
    for place, letter in enumerate(text):
        if letter not in ALLOWED_CONTROLS and (
            not letter.isprintable() or _BLANK.match(letter) or _is_disguised_ascii(letter)
        ):
            yield place
    for word in _WORD.finditer(text):
        yield from (word.start() + place for place in _lookalike_positions(word[0]))


def _is_disguised_ascii(letter: str) -> bool:
    """Whether this is another form of a plain character: full width, mathematical, a long dash, a loose accent."""
    if letter.isascii():
        return False
    if _ACCENT.match(letter):
        return True
    other = skeleton(letter)
    return other.isascii() and other != "" and (not letter.isalpha() or _is_compatibility_form(letter))


def _is_compatibility_form(letter: str) -> bool:
    return unicodedata.decomposition(letter).startswith("<")


def _lookalike_positions(word: str) -> Iterator[int]:
    """Letters of another script that look Latin, in a word that could be taken for a Latin one."""
    alike = [place for place, letter in enumerate(word) if _looks_latin(letter)]
    if alike and all(letter.isascii() or _looks_latin(letter) for letter in word):
        yield from alike


def _looks_latin(letter: str) -> bool:
    """As a letter with an accent does not: that is Latin, and can be seen."""
    if letter.isascii() or unicodedata.decomposition(letter):
        return False
    other = skeleton(letter)
    return other.isascii() and len(other) == 1


def escape_text(value: str) -> str:
    """A text as it is; what would not show, or pose as something else, is marked."""
    return "".join(
        f'<mark class="hidden">{escape(piece)}</mark>' if hidden else escape(piece)
        for piece, hidden in mark_hidden(value)
    )


def paragraph(*parts: str, kind: str = "") -> str:
    """Parts that are HTML already."""
    return f"<p{_class_attribute(kind)}>{''.join(parts)}</p>\n"


def alert(message: str) -> str:
    """What went wrong, read out at once."""
    return f'<p class="alert" role="alert">{as_sentence(message)}</p>\n'


def as_sentence(message: str) -> str:
    """An error's words as a sentence of their own."""
    return escape_text(f"{message[:1].upper()}{message[1:]}.")


def definition_list(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, the values being HTML already."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>\n" for name, value in pairs)
    return f"<dl>\n{rows}</dl>\n"


def form(csrf_token: str, action: str, *fields: str, attributes: str = "") -> str:
    """A form of this page; `word` proves that it is one of ours."""
    hidden = f'<input type="hidden" name="word" value="{escape(csrf_token)}">'
    todo = f'<input type="hidden" name="action" value="{escape(action)}">'
    return f'<form method="post"{attributes}>\n{hidden}\n{todo}\n{"".join(fields)}</form>\n'


def button(label: str, kind: str = "") -> str:
    """Sends its form."""
    return f'<button type="submit"{_class_attribute(kind)}>{escape(label)}</button>\n'


def render_page(title: str, *parts: str, hall: str = "Toolhall") -> bytes:
    """The page from its title on; `send_page` puts before it what depends on where it is."""
    body = f'<header><span class="hall">{escape_text(hall)}</span></header>\n<main>\n<h1>{escape_text(title)}</h1>\n'
    page = f"<title>{escape_text(title)}</title>\n</head>\n<body>\n{body}{''.join(parts)}</main>\n</body>\n</html>\n"
    return page.encode("utf-8", "replace")


def _class_attribute(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
