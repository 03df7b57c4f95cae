"""Text sanitizing (TextSanitizer): removes control sequences, invisible characters and excess combining marks.

It keeps tab, newline and carriage return; emoji with their joiners and variation selectors, and the flags of England,
Scotland and Wales; and joiners between letters of scripts that need them. The result is in NFC, with at most 8
combining marks per letter.
"""

import re
import unicodedata
from functools import cache, lru_cache
from itertools import pairwise

import msgspec

from toolhall.model.json import Json, encode

MAX_COMBINING_MARKS = 8
_TERMINAL_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x9b[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL_BYTES = bytes([*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F])
# Characters that are letters, marks or symbols by category, but are displayed as nothing or as a blank.
_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef"
_BLANK_PATTERN = re.compile(f"[{_BLANK}]")
# All combining marks are in these ranges, which contain letters too.
_MARK_RANGES = (
    (0x0300, 0x036F), (0x0483, 0x0489), (0x0591, 0x1DFF), (0x20D0, 0x20F0), (0x2CEF, 0x2CF1), (0x2D7F, 0x2D7F),
    (0x2DE0, 0x2DFF), (0x302A, 0x302D), (0x3099, 0x309A), (0xA66F, 0xABED), (0xFB1E, 0xFB1E), (0xFE20, 0xFE2F),
)  # fmt: skip
_RARE_MARK_RANGES = (
    (0x101FD, 0x1037A), (0x10A01, 0x10F85), (0x11000, 0x11FFF), (0x16AF0, 0x16FE4), (0x1BC9D, 0x1BC9E),
    (0x1CF00, 0x1D244), (0x1DA00, 0x1E94A),
)  # fmt: skip
_RARE_MARKS = "\U000101fd-\U0001e94a"
# Blocks of emoji; new ones are assigned every year, so unassigned code points in them are kept.
_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff\U0001f000-\U0001faff"
_EMOJI_WITH_STYLE = f"{_EMOJI}\u00a9\u00ae\u203c\u2049\u2122\u2139\u24c2\u3030\u303d\u3297\u3299"
_ARABIC = "\u0620-\u065f\u066e-\u06d3\u06d5-\u06dc\u06df-\u06ef\u06fa-\u06ff\u0710-\u077f\u08a0-\u08e1\u08e3-\u08ff"
_INDIC = "\u0900-\u0963\u0971-\u09e3\u0a01-\u0a65\u0a70-\u0ae3\u0b01-\u0be5\u0c00-\u0c65\u0c80-\u0d65\u0d81-\u0df3"
_FLAGS = "|".join(
    "(?<=\U0001f3f4)" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
_CONTEXTUAL = "\u200c\u200d\ufe0f\U000e007f"  # characters that are kept in some contexts only
# Visible although of category Cf: the Arabic number signs.
_VISIBLE_FORMAT_CHARS = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u0890\u0891\u08e2")
_HARMLESS_SPACES = "\n\t\r\u3000\u00a0"  # common in clean texts, but not printable by str.isprintable


def clean_text(text: str) -> str:
    """The text without control sequences and invisible characters; the same object if there are none."""
    return TextSanitizer().clean(text)


def clean_line(text: str, most: int) -> str:
    """The text as one line of at most so many characters, cleaned: for logs, terminals and reasons."""
    return " ".join(clean_text(text[: 2 * most]).split())[:most]


def clean_json(encoded: bytes) -> bytes:
    """The JSON with all strings sanitized."""
    return TextSanitizer().clean_json(encoded)


def visible_text(text: str) -> str:
    """The text with every character that cannot be seen as its code point: `<U+200B>`; line ends and tabs stay."""
    return "\n".join(map(_visible_line, text.split("\n")))


def _visible_line(line: str) -> str:
    if line.isascii() and line.isprintable():
        return line
    return "".join(f"<U+{ord(letter):04X}>" if letter != "\t" and _is_invisible(letter) else letter for letter in line)


class TextSanitizer:
    """Sanitizes several texts, and counts the characters that it removes."""

    __slots__ = ("removed",)

    def __init__(self) -> None:
        self.removed = 0

    def clean(self, text: str) -> str:
        """The sanitized text."""
        return self._sanitize(text) if _is_suspect(text) else text

    def clean_json(self, encoded: bytes) -> bytes:
        """The JSON with sanitized strings; the same bytes if all are clean already."""
        if is_clean_json(encoded):
            return encoded
        return encode(self.clean_value(msgspec.json.decode(encoded)))

    def clean_value(self, value: Json) -> Json:
        """The value with sanitized strings, also in its keys."""
        match value:
            case str():
                return self.clean(value)
            case dict():
                return {self.clean(key): self.clean_value(part) for key, part in value.items()}
            case list():
                return [self.clean_value(part) for part in value]
            case _:
                return value

    def _sanitize(self, text: str) -> str:
        """Cap marks last: removing characters and composing changes which marks follow each other."""
        stripped = _strip_invisible(_TERMINAL_ESCAPES.sub("", text))
        composed = unicodedata.normalize("NFC", stripped)
        capped = _excess_marks(composed).sub(r"\1", composed)
        self.removed += len(text) - len(stripped) + len(composed) - len(capped)
        return capped


def _is_suspect(text: str) -> bool:
    """Whether a text may need sanitizing; fast, without a Python loop over its characters."""
    if text.isascii():
        return not text.isprintable() and _has_controls(text.encode())
    for space in _HARMLESS_SPACES:
        if space in text:
            text = text.replace(space, "")
    return not text.isprintable() or _needs_normalizing(text)


def is_clean_text(text: str) -> bool:
    """Whether a text needs no sanitizing."""
    return (text.isprintable() and text.isascii()) or not _is_suspect(text)


def is_clean_json(encoded: bytes) -> bool:
    """Whether all strings in the JSON are clean; JSON escapes C0 controls as \\u00XX, \\b or \\f."""
    if b"\\" in encoded and (b"\\u00" in encoded or b"\\b" in encoded or b"\\f" in encoded):
        return False
    if encoded.isascii():
        return b"\x7f" not in encoded
    return not _is_suspect(encoded.decode())


def _has_controls(text: bytes) -> bool:
    return len(text.translate(None, _CONTROL_BYTES)) != len(text)


def _needs_normalizing(text: str) -> bool:
    """Whether a text that Python calls printable still needs sanitizing."""
    if not unicodedata.is_normalized("NFC", text):
        return True
    return bool(_suspicious_pattern().search(text)) and bool(
        _BLANK_PATTERN.search(text) or _excess_marks(text).search(text)
    )


def _strip_invisible(text: str) -> str:
    """Remove invisible characters, except joiners and variation selectors in their proper context."""
    invisible = [letter for letter in set(text) if _is_invisible(letter)]
    if not invisible:
        return text
    table = dict.fromkeys(map(ord, invisible))
    if any(letter in _CONTEXTUAL for letter in invisible):
        parts = _allowed_invisible_pattern().split(text)  # every second part is one to keep
        return "".join(part if index % 2 else part.translate(table) for index, part in enumerate(parts))
    return text.translate(table)


@lru_cache(maxsize=4096)
def _is_invisible(letter: str) -> bool:
    if letter.isprintable():
        return bool(_BLANK_PATTERN.match(letter))
    if letter in _VISIBLE_FORMAT_CHARS or letter in "\t\n\r":
        return False
    category = unicodedata.category(letter)
    if category == "Cn":
        return not _may_be_assigned_later(ord(letter))
    return category[0] == "C"


def _may_be_assigned_later(code: int) -> bool:
    """Whether a code point may become an emoji or ideograph; the last two of each plane never will."""
    return 0x1F000 <= code <= 0x1FAFF or (0x20000 <= code <= 0x3FFFF and code & 0xFFFF < 0xFFFE)


# The patterns below are compiled for the first non-ASCII text: many commands never see one.
@cache
def _allowed_invisible_pattern() -> re.Pattern[str]:
    """Matches invisible characters in a context where they are kept."""
    return re.compile(
        f"((?:(?<=[{_EMOJI}])|(?<=[{_EMOJI_WITH_STYLE}]\ufe0f))\u200d(?=[{_EMOJI}])|(?<=[{_EMOJI_WITH_STYLE}])\ufe0f|(?<=[0-9#*])\ufe0f(?=\u20e3)|{_FLAGS}"
        f"|(?<=[{_ARABIC}])[\u200c\u200d](?=[{_ARABIC}])|(?<=[{_INDIC}])[\u200c\u200d](?=[{_INDIC}]))"
    )


@cache
def _suspicious_pattern() -> re.Pattern[str]:
    """Matches blanks and possible combining marks; few texts have any."""
    return re.compile(f"[{_BLANK}{''.join(f'{chr(first)}-{chr(last)}' for first, last in _MARK_RANGES)}{_RARE_MARKS}]")


def _excess_marks(text: str) -> re.Pattern[str]:
    """Matches excess combining marks; rare ranges only if needed, because they make the search ten times slower."""
    return _excess_marks_pattern(
        (*_MARK_RANGES, *_RARE_MARK_RANGES) if re.search(f"[{_RARE_MARKS}]", text) else _MARK_RANGES
    )


@cache
def _excess_marks_pattern(ranges: tuple[tuple[int, int], ...]) -> re.Pattern[str]:
    codes = [code for first, last in ranges for code in range(first, last + 1) if _is_mark(chr(code))]
    starts = [code for before, code in pairwise([-1, *codes]) if code != before + 1]
    ends = [code for code, after in pairwise([*codes, 0]) if after != code + 1]
    marks = "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))
    return re.compile(f"([{marks}][{marks}]{{{MAX_COMBINING_MARKS - 1}}})[{marks}]+")


def _is_mark(letter: str) -> bool:
    return unicodedata.category(letter) in ("Mn", "Me")
