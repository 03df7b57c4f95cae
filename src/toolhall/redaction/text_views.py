"""Normalized views of a text (`TextView`) with a map back to its positions, and `RunMatcher` for parts of a secret.

A view leaves out separators of an encoding: whitespace, all but hex digits, all but numbers. An encoded secret is
contiguous in a view, so a substring search finds it. The `*_bytes` variants have no positions and are faster.
`RunMatcher` finds every run of `RUN_LENGTH` or more characters of a secret in time linear in the text.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

RUN_LENGTH = 12  # consecutive characters of a secret that are replaced anywhere
_BLOCK_LENGTH = RUN_LENGTH // 2  # every run contains a whole block of this length, whatever the block boundaries
_ANCHOR_LENGTH = 4  # characters of a run that are searched
_ANCHOR_STRIDE = RUN_LENGTH - _ANCHOR_LENGTH + 1  # with anchors this far apart, every run contains a whole one
_MIN_DISTINCT_CHARACTERS = 5  # a run with fewer is ordinary text, such as dashes or zeros
_MAX_OVERLAP_TRIES = 64
_MAX_LEADING_ZEROS = 5  # `_NUMBER` has at most six digits
_MAX_ANCHORS = 64  # searches of a text; beyond that, the text's blocks are looked up in a set instead
_NUMBER = re.compile(r"(?<![0-9a-zA-Z])(?:0[xX]([0-9a-fA-F]{1,6})|(-?[0-9]{1,7}))(?![0-9a-zA-Z]|\\{0,8}\"\s{0,3}:)")
_HEX_NUMBER = re.compile(rb"0[xX]([0-9a-fA-F]{1,6})(?![0-9a-zA-Z])")
_WORD_TABLE = bytes(ord(chr(byte).lower()) if byte < 0x80 and chr(byte).isalnum() else 32 for byte in range(256))
_NUMERIC_KEY = re.compile(rb'"[0-9]+\\{0,8}"\s{0,3}:')
_NUMBER_TABLE = bytes(byte if chr(byte) in "-0123456789" else 32 for byte in range(256))
_WHITESPACE = re.compile(r"(?<!\\)\\++[nrt]|[ \t\r\n\f\v\\]")
_WHITESPACE_BYTES = b" \t\r\n\f\v\\"
_ESCAPED_LINE_END = re.compile(rb"(?<!\\)\\++[nrt]")
_NOT_HEX = bytes(set(range(256)) - set(b"0123456789abcdefABCDEF"))
_LOWER = bytes(range(256)).lower()
# Public parts of a secret: PEM boundaries; scheme and host of a URL, and what follows the password in it; the header of
# a JWT, which tokens of one issuer share; the id in an API key of the hall, which lists of keys show.
_PUBLIC_PART = re.compile(
    r"-----(?:begin|end) [a-z0-9 ]{1,64}-----"
    r"|\A[a-z][a-z0-9+.-]{1,15}://(?:[^\s/?#@]{1,256}(?=[/?#]))?"
    r"|\Aeyj[a-z0-9_-]{1,4096}\.(?=[a-z0-9_-]{1,65536}\.)"
    r"|\Atk_[0-9a-z]{12}_(?=[0-9a-z_-]{43}_[0-9a-z]{6}\Z)"
)
_AFTER_URL_PASSWORD = re.compile(r"\A[a-z][a-z0-9+.-]{1,15}://[^\s/?#@:]{0,256}:[^\s/?#]{1,256}@(.*)\Z", re.DOTALL)


def _public_spans(secret: str) -> list[tuple[int, int]]:
    behind = _AFTER_URL_PASSWORD.match(secret)
    return [match.span() for match in _PUBLIC_PART.finditer(secret)] + ([behind.span(1)] if behind else [])


class TextView(NamedTuple):
    """A normalized text, and for each of its characters the start and end in the original."""

    text: str
    starts: list[int]
    ends: list[int]

    def find_spans(self, part: str) -> Iterator[tuple[int, int]]:
        """Yield the spans in the original text of a part of the view."""
        for start, end in find_all(self.text, part):
            yield self.starts[start], self.ends[end - 1]


def find_all(text: str, part: str) -> Iterator[tuple[int, int]]:
    """Yield the non-overlapping spans of a part in a text."""
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))


def without_whitespace(text: str) -> TextView:
    """View without whitespace and line ends, plain or escaped."""
    starts, at = list[int](), 0
    for match in _WHITESPACE.finditer(text):
        starts += range(at, match.start())
        at = match.end()
    starts += range(at, len(text))
    return TextView("".join([text[each] for each in starts]), starts, [each + 1 for each in starts])


def without_whitespace_bytes(text: bytes) -> bytes:
    """The same as bytes, without positions."""
    if b"\\" in text:
        text = _ESCAPED_LINE_END.sub(b"", text)
    return text.translate(None, _WHITESPACE_BYTES)


def hex_digits(text: str) -> TextView:
    """View of the hex digits only, in lower case."""
    starts = [match.start() for match in re.finditer("[0-9a-fA-F]", text)]
    return TextView("".join([text[each] for each in starts]).lower(), starts, [each + 1 for each in starts])


def hex_digits_bytes(text: bytes) -> bytes:
    """The same as bytes, without positions."""
    return text.translate(_LOWER, _NOT_HEX)


def numbers(text: str) -> TextView:
    """View of the numbers, decimal or hexadecimal, each as the character with that code; member names are left out."""
    matches = list(_NUMBER.finditer(text))
    codes = [int(match[2]) if match[2] else int(match[1], 16) for match in matches]
    letters = [chr(code & 0xFF if code < 0 else code) if -0x80 <= code <= 0x10FFFF else "\0" for code in codes]
    return TextView("".join(letters), [match.start() for match in matches], [match.end() for match in matches])


def numbers_bytes(text: bytes) -> bytes:
    """The same as bytes, without positions: the numbers in decimal, each between two blanks."""
    if b"0x" in text or b"0X" in text:
        parts = _HEX_NUMBER.split(text)
        decimal = {digits: b"%d" % int(digits, 16) for digits in set(parts[1::2])}
        parts[1::2] = map(decimal.__getitem__, parts[1::2])
        text = b"".join(parts)
    if b'"' in text:
        text = _NUMERIC_KEY.sub(b" ", text)
    text = b" %s " % text.translate(_NUMBER_TABLE)
    while b"  " in text:
        text = text.replace(b"  ", b" ")
    return text


def words_bytes(text: bytes) -> bytes:
    """Return letters and digits in lower case, blanks in place of all else, and no zeros behind `0x`."""
    words = b" %s " % text.translate(_WORD_TABLE)
    for _ in range(_MAX_LEADING_ZEROS):
        if b" 0x0" not in words:
            break
        words = words.replace(b" 0x0", b" 0x")
    return words


def fold(text: str) -> str:
    """Fold the text's case, keeping its length."""
    if text.isascii():
        return text.lower()
    upper = text.upper()
    if len(upper) == len(text):
        lower = upper.lower()
        if len(lower) == len(text):
            return lower.replace("\u03c2", "\u03c3")  # a sigma at the end of a word
    return "".join(map(_fold_letter, text))


def _fold_letter(letter: str) -> str:
    lower = letter.upper().lower()
    if len(lower) != 1:
        lower = letter.lower()
    return lower if len(lower) == 1 else letter


class RunMatcher:
    """Finds every run of twelve or more characters of a secret in a text; both are folded.

    Time is linear in any text: a short block is searched first, then each run that may contain it. Runs with few
    different characters and runs in public parts are ignored.
    """

    def __init__(self, secret: str) -> None:
        public = _public_spans(secret)
        runs = {
            at: secret[at : at + RUN_LENGTH]
            for at in range(len(secret) - RUN_LENGTH + 1)
            if len(set(secret[at : at + RUN_LENGTH])) >= _MIN_DISTINCT_CHARACTERS
            and not any(min(end, at + RUN_LENGTH) - max(start, at) >= _BLOCK_LENGTH for start, end in public)
        }
        self.runs = frozenset(runs.values())
        anchors = {
            secret[block : block + _ANCHOR_LENGTH]
            for at in runs
            for block in (-(-at // _ANCHOR_STRIDE) * _ANCHOR_STRIDE,)
        }
        self._anchors = list(anchors) if len(anchors) <= _MAX_ANCHORS else []
        # A run around an anchor has at least an anchor's length of characters before or after it.
        near = 2 * _ANCHOR_LENGTH
        self._anchor_contexts = frozenset(
            run[at : at + near] for run in runs.values() for at in range(RUN_LENGTH - near + 1)
        )
        few = not runs or bool(self._anchors)
        self._blocks = (
            frozenset[str]()
            if few
            else frozenset(
                secret[block : block + _BLOCK_LENGTH]
                for at in runs
                for block in range(at, at + RUN_LENGTH - _BLOCK_LENGTH + 1)
            )
        )

    def occurs_in(self, text: str) -> bool:
        """True if the text contains a run."""
        if not self._blocks:
            for anchor in self._anchors:
                if anchor in text:
                    break
            else:
                return False
        return next(self.find_spans(text), None) is not None

    def find_spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield spans, one per block, that together cover each run."""
        size = _ANCHOR_LENGTH if self._anchors else _BLOCK_LENGTH
        for hits in self._candidate_positions(text):
            past = 0  # the end of the last run
            for block in hits:
                if block + size <= past or not (size == _BLOCK_LENGTH or self._is_in_context(text, block)):
                    continue
                for start in range(max(0, block + size - RUN_LENGTH), block + 1):
                    if text[start : start + RUN_LENGTH] in self.runs:
                        past = start + RUN_LENGTH
                        limit = block + RUN_LENGTH + _ANCHOR_STRIDE  # from there on, the next block finds the run
                        while past < limit and text[past - RUN_LENGTH + 1 : past + 1] in self.runs:
                            past += 1
                        yield start, past
                        break

    def _is_in_context(self, text: str, anchor: int) -> bool:
        before, after = max(0, anchor - _ANCHOR_LENGTH), anchor + 2 * _ANCHOR_LENGTH
        return (
            text[anchor:after] in self._anchor_contexts
            or text[before : anchor + _ANCHOR_LENGTH] in self._anchor_contexts
        )

    def _candidate_positions(self, text: str) -> Iterator[Iterator[int]]:
        """Yield the positions of blocks, for each anchor in order."""
        for anchor in self._anchors:
            yield _all_positions(text, anchor)
        if self._blocks:
            blocks = self._blocks
            yield iter([at for at in range(0, len(text), _BLOCK_LENGTH) if text[at : at + _BLOCK_LENGTH] in blocks])


def _all_positions(text: str, part: str) -> Iterator[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def trailing_overlap(text: str, form: str, min_length: int) -> int:
    """Return the length of the longest end of the text that begins the form; 0 if shorter than `min_length`."""
    start, at = form[:min_length], max(len(text) - len(form) + 1, 0) - 1
    for _ in range(_MAX_OVERLAP_TRIES):
        at = text.find(start, at + 1)
        if at < 0:
            return 0
        if form.startswith(text[at:]):
            break
    return len(text) - at  # also if there are too many candidates to try
