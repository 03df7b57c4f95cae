"""The forms in which a secret may turn up in a text, and how each is found.

There are nine: as it is; base64 and base64url, anywhere in a longer text (three alignments each), padded or not, in one
line or several; hex in lower case, in upper or mixed case, and in pairs set apart as dumps are; percent-encoded,
JSON-escaped and HTML-escaped, in whole or in part, also twice. A secret shorter than six characters is looked for as it
is only: in the other forms it would be found where it is not. Time is linear in the text and in the secret: what a
clean text costs is a few searches for a substring. No pattern is made of a long secret; of another one when it was
found in a form that has more than one spelling, or, if it looks escaped itself, in a text with escapes of its letters.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import cached_property

from toolhall.model.json import encode
from toolhall.model.text import clean_text
from toolhall.runners.peeling import JSON_SHORT, as_bytes, as_text, layers, stripped
from toolhall.runners.spellings import BASE64, dump, lines, names_of, spelling

SHORTEST_DISGUISED = 6
LONGEST_SPELLED = 128  # letters; to make a pattern of more holds up the hall, so the whole text is hidden instead
BEGINNING = 4  # characters of a secret that are worth hiding when a text breaks off after them
_LONG_SIGN = 12
_MOST_PER_LETTER = 12
_MOST_HELD = 16 * 1024
_MOST_TRIES = 64

_NOT_HEX = bytes(set(range(256)) - set(b"0123456789abcdefABCDEF"))
_LOWER = bytes(range(256)).lower()
_BLANKS = b" \t\r\n\f\v\\"
_CUT_OFF = re.compile(r"(?:%(?:25)*[0-9a-fA-F]?|&[#\w]{0,32}|(?<!\\)\\++(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?)\Z")
_ESCAPED_END = re.compile(rb"(?<!\\)\\++[nr]")
_RUN = re.compile(rb"\\+")
_BEFORE = re.compile(rf"(?<!\\){BASE64}")
_AFTER = re.compile(rf"{BASE64}?={{0,2}}")


class Disguises:
    """All forms of one secret; made once, and kept with it."""

    def __init__(self, secret: str) -> None:
        spellings = {secret, clean_text(secret)}  # a text that was cleaned holds it clean
        self._spellings = [each for each in spellings if each]
        self._whole = [as_bytes(each) for each in self._spellings]
        quoted = {encode(each.encode(errors="replace").decode())[1:-1] for each in self._spellings}
        self._peeled = list(dict.fromkeys([*self._whole, *(_RUN.sub(rb"\\", each) for each in self._whole)]))
        self._escaped_itself = any(letter in secret for letter in "%&\\")
        self.short = len(secret) < SHORTEST_DISGUISED
        self._long = max(map(len, self._spellings)) > LONGEST_SPELLED
        self._cores = [] if self.short else list({core: None for each in self._whole for core in _cores(each)})
        self._core_signs = list(dict.fromkeys(map(_sign, self._cores)))
        self._hex = [] if self.short else [each.hex().encode() for each in self._whole]
        self._literals = list(dict.fromkeys([*self._whole, *quoted, *self._cores]))
        self._plain = [
            *self._spellings,
            *(each.decode() for each in (*quoted, *self._hex, *map(bytes.upper, self._hex))),
        ]
        letters = set(secret) & JSON_SHORT.keys()
        self._escapes = [b"\\u", b"\\x", *(as_bytes("\\" + JSON_SHORT[each]) for each in letters)]
        self._shortest = min(map(len, self._whole))
        self._signs = list(dict.fromkeys([*self._whole, *quoted, *self._core_signs]))
        self.reach = min(_MOST_HELD, _MOST_PER_LETTER * max(map(len, self._whole)) + 64)

    def holds(self, text: bytes) -> bool:
        """Whether the secret is in it, in any form."""
        if len(text) < self._shortest:  # no form is shorter than the secret itself
            return False
        for sign in self._signs:
            if sign in text and any(literal in text for literal in self._literals):
                return True
        if self.short:
            return False
        if _has_lines(text):
            line = _one_line(text)
            for sign in self._core_signs:
                if sign in line and any(core in line for core in self._cores):
                    return True
        digits = text.translate(_LOWER, _NOT_HEX)
        for each in self._hex:
            if each in digits and (self._long or each in text.lower() or self._dumped.search(as_text(text))):
                return True
        return self._may_be_escaped(text) and self._holds_peeled(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it stands; everything, where it is but cannot be told apart from what stands around it."""
        found, rest = list[tuple[int, int]](), text
        for each in self._plain:
            found += _places(text, each)
            rest = rest.replace(each, "")
        for core in map(as_text, self._cores):
            found += [_with_neighbours(text, *place) for place in _places(text, core)]
            rest = rest.replace(core, "")
        patterns = self._patterns(as_bytes(text))
        while not found or self.holds(as_bytes(rest)):
            pattern = next(patterns, None)
            if pattern is None:
                return [(0, len(text))]
            found += [match.span() for match in pattern.finditer(text)]
            rest = pattern.sub("", rest)
        return found

    def begun(self, text: str) -> int:
        """How many letters at the end of the text look like the beginning of the secret, in any form."""
        data = as_bytes(text)
        literal = max(_overlap(data, each, BEGINNING) for each in self._literals)
        if literal:
            return len(data[-literal:].decode(errors="replace"))
        if self.short:
            return 0
        if _has_lines(data):
            line = _one_line(data)
            if any(_overlap(line, each, BEGINNING) for each in self._cores):
                return len(text)
        digits = data.translate(_LOWER, _NOT_HEX)
        if any(_overlap(digits, each, 2 * BEGINNING) for each in self._hex):
            return len(text)
        if self._may_be_escaped(data):
            for peeled in layers(as_bytes(_CUT_OFF.sub("", text))):
                if any(_overlap(peeled, each, BEGINNING) for each in self._peeled):
                    return len(text)
        return 0

    def _may_be_escaped(self, text: bytes) -> bool:
        """Most texts have an escape somewhere, of a letter that is not in the secret."""
        if b"%" in text and (self._long or self._percent.search(text)):
            return True
        if b"&" in text and (self._long or self._entity.search(text)):
            return True
        if b"\\" in text:
            for escape in self._escapes:
                if escape in text:
                    return True
        return False

    def _holds_peeled(self, text: bytes) -> bool:
        for peeled in layers(text):
            spaced = peeled.replace(b"+", b" ")
            if any(each in peeled or (b" " in each and each in spaced) for each in self._peeled):
                return True
        if not self._escaped_itself:
            return False
        # One that looks escaped itself is read in more ways than one.
        if not self._long:
            return bool(self._spelled.search(as_text(text)))
        bare = stripped(text)
        return any(each in bare for each in self._bare)

    def _patterns(self, text: bytes) -> Iterator[re.Pattern[str]]:
        """For the forms that have more than one spelling, as far as they may be in the text."""
        if self.short or self._long:
            return
        digits, line = text.translate(_LOWER, _NOT_HEX), _one_line(text)
        if any(each in digits for each in self._hex):
            yield self._dumped
        if any(core in line for core in self._cores):
            yield self._lined
        yield self._spelled

    @cached_property
    def _bare(self) -> list[bytes]:
        return [bare for bare in map(stripped, self._whole) if len(bare) >= SHORTEST_DISGUISED]

    @cached_property
    def _percent(self) -> re.Pattern[bytes]:
        letters = {f"{byte:02x}" for byte in b"".join(self._whole)}
        return re.compile(f"%(?:25)*(?:{'|'.join(letters)})".encode(), re.IGNORECASE)

    @cached_property
    def _entity(self) -> re.Pattern[bytes]:
        names = {name for each in self._spellings for letter in each for name in names_of(letter)}
        return re.compile(f"&(?:amp;)*(?:{'|'.join(['#', *names])})".encode())

    @cached_property
    def _dumped(self) -> re.Pattern[str]:
        return re.compile("|".join(map(dump, self._whole)), re.IGNORECASE)

    @cached_property
    def _lined(self) -> re.Pattern[str]:
        written = "|".join(dict.fromkeys(map(lines, self._cores)))
        return re.compile(rf"(?:(?<!\\){BASE64})?(?:{written}){BASE64}?={{0,2}}")

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        return re.compile("|".join(map(spelling, self._spellings)))


def _cores(secret: bytes) -> list[bytes]:
    """What base64 makes of it at each of the three alignments, without the letters that its neighbours share."""
    return [
        write(bytes(ahead) + secret)[-(-8 * ahead // 6) : 8 * (ahead + len(secret)) // 6]
        for ahead in range(3)
        for write in (b64encode, urlsafe_b64encode)
    ]


def _sign(core: bytes) -> bytes:
    """A part that both alphabets write alike, if there is a long one: half as many searches find it."""
    longest = max(re.split(rb"[+/_-]", core), key=len)
    return longest if len(longest) >= _LONG_SIGN else core


def _has_lines(text: bytes) -> bool:
    return b"\n" in text or b"\\" in text or b"\r" in text


def _one_line(text: bytes) -> bytes:
    """The text without the ends of its lines, written as they are or escaped."""
    if b"\\" in text:
        text = _ESCAPED_END.sub(b"", text)
    return text.translate(None, _BLANKS)


def _places(text: str, part: str) -> Iterator[tuple[int, int]]:
    at = text.find(part)
    while at >= 0:
        yield at, at + len(part)
        at = text.find(part, at + len(part))


def _with_neighbours(text: str, start: int, end: int) -> tuple[int, int]:
    """With the letters of base64 that tell of what was beside it and of its own ends."""
    after = _AFTER.match(text, end)
    return start - bool(start and _BEFORE.match(text, start - 1)), after.end() if after else end


def _overlap(text: bytes, form: bytes, least: int) -> int:
    """The longest end of the text that is a beginning of the form, if it is long enough to matter."""
    start, at = form[:least], max(len(text) - len(form) + 1, 0) - 1
    for _ in range(_MOST_TRIES):
        at = text.find(start, at + 1)
        if at < 0:
            return 0
        if form.startswith(text[at:]):
            break
    return len(text) - at  # also of one that begins too often to try them all
