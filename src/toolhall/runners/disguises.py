"""The forms in which a secret may turn up in a text, and how each is found.

- As it is; from eight characters on also in upper, lower or mixed case, and every run of twelve or more characters of
  a longer one.
- Base64 and base64url, of UTF-8 and of UTF-16 in both orders, and base32: anywhere in something longer (each
  alignment), padded or not, in one piece or with blanks and line ends in it.
- Hex of the same bytes, in any case, in one piece or in pairs set apart; lists of bytes or of code points, decimal or
  `0x..`.
- Percent-encoded, JSON-escaped (also `\\U........`, `\\x..` and octal), HTML-escaped and quoted-printable, in whole or
  in part, also twice.

A secret shorter than six characters is looked for as it is only: in the other forms it would be found where it is not.
Time is linear in the text and in the secret: what a clean text costs is a few dozen searches for a substring. A form
that may be set apart is looked for in a view of the text without what sets it apart (`views`). No pattern is made of a
long secret; of another one when it was found escaped, or, if it looks escaped itself, in a text with escapes of its
letters.
"""

import re
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from toolhall.model.json import encode
from toolhall.model.text import clean_text
from toolhall.runners import views
from toolhall.runners.peeling import JSON_SHORT, as_bytes, as_text, layers, stripped
from toolhall.runners.spellings import names_of, spelling
from toolhall.runners.views import RUN, Runs, View, fold, overlap, places

SHORTEST_DISGUISED = 6
SHORTEST_ANY_CASE = 8  # also of one that is spread over several texts
LONGEST_SPELLED = 128  # letters; to make a pattern of more holds up the hall, so the whole text is hidden instead
BEGINNING = 4  # characters of a secret that are worth hiding when a text breaks off after them
_LONG_SIGN = 12
_MOST_PER_LETTER = 12
_MOST_HELD = 16 * 1024

_CUT_OFF = re.compile(
    r"(?:%(?:25)*[0-9a-fA-F]?|&[#\w]{0,32}|=[0-9a-fA-F]?"
    r"|(?<!\\)\\++(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?|[0-7]{0,3})?)\Z"
)
_OCTAL = re.compile(rb"\\0?[0-3][0-7][0-7]")
_OCTAL_SIGNS = (b"\\0", b"\\1", b"\\2", b"\\3")
_RUN_OF_BACKSLASHES = re.compile(rb"\\+")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]")
_PADDING = re.compile(r"={0,6}")
_QUOTED = re.compile(rb"=(?:[0-9a-fA-F]{2}|[ \t]*(?:\r?\n|\\+[nr]))")
_MARK = re.compile(r"(?:\\{1,8}(?:[xuU]|u\{)|0[xX]|%|=|&#[xX]?)\Z")
_MOST_MARK = 12
_MOST_SIGNS = 24
_DIGITS = frozenset("0123456789-")


class Core(NamedTuple):
    """What an encoding makes of a secret at one alignment, without the letters that its neighbours share."""

    text: str
    before: bool  # whether the letter before it tells of its beginning
    after: bool


class Disguises:
    """All forms of one secret; made once, and kept with it."""

    def __init__(self, secret: str) -> None:
        spellings = {secret, clean_text(secret)}  # a text that was cleaned holds it clean
        self._spellings = [each for each in spellings if each]
        self._whole = [as_bytes(each) for each in self._spellings]
        quoted = {encode(each.encode(errors="replace").decode())[1:-1] for each in self._spellings}
        self._peeled = list(
            dict.fromkeys([*self._whole, *(_RUN_OF_BACKSLASHES.sub(rb"\\", each) for each in self._whole)])
        )
        self._escaped_itself = any(letter in secret for letter in "%&\\") or bool(_QUOTED.search(self._whole[0]))
        self.short = len(secret) < SHORTEST_DISGUISED
        self.any_case = len(secret) >= SHORTEST_ANY_CASE
        self._long = max(map(len, self._spellings)) > LONGEST_SPELLED
        self._literals = list(dict.fromkeys([*self._whole, *quoted]))
        self._plain = [*self._spellings, *(each.decode() for each in quoted)]
        wide = [each.encode(order, "surrogatepass") for each in self._spellings for order in ("utf-16-be", "utf-16-le")]
        if not self.short:  # as Python shows UTF-16; the byte at the end, of ASCII, is that of one order only
            shown = {repr(each[:-1] if secret.isascii() else each)[2:-1] for each in wide[1::2]}
            shown |= set() if secret.isascii() else {repr(each)[2:-1] for each in wide[::2]}
            self._plain += shown
            self._literals += map(as_bytes, shown)
        folded = [fold(write(each)) for each in self._spellings for write in (str, str.upper)]
        self._folded = list(dict.fromkeys(folded)) if self.any_case else []
        self._runs = [runs for each in self._folded if (runs := Runs(each)).texts]
        # Of ASCII, both orders have all but the byte at one end in common.
        payloads = [*self._whole, *([each[:-1] for each in wide[1::2]] if secret.isascii() else wide)]
        payloads = [] if self.short else list(dict.fromkeys(payloads))
        self._cores = list(dict.fromkeys(core for each in payloads for core in _base64(each)))
        self._core_signs = list(dict.fromkeys(_sign(core.text) for core in self._cores))
        self._base32 = [] if self.short else [core for each in self._whole for core in _base32(each)]
        self._base32_signs = [as_bytes(core.text) for core in self._base32]
        self._hex = [] if self.short else list(dict.fromkeys(each.hex() for each in (*self._whole, *wide)))
        self._hex_signs = [each.encode() for each in self._hex]
        lists = [*self._spellings, *(each.decode("latin-1") for each in payloads)]
        self._numbers = [] if self.short else list(dict.fromkeys(lists))
        self._number_signs = list({_number_signs(each) for each in self._numbers})
        self._written_numbers = list(dict.fromkeys(each for codes in self._numbers for each in _written(codes)))
        self._first_signs = list({str(ord(each[0])).encode() for each in self._numbers})
        written = [*self._plain, *self._hex, *(core.text for core in (*self._cores, *self._base32))]
        written += [run for runs in self._runs for run in runs.texts]
        self._all_digits = any(_DIGITS.issuperset(each) for each in written)
        letters = set(secret) & JSON_SHORT.keys()
        self._escapes = [b"\\u", b"\\U", b"\\x", *(as_bytes("\\" + JSON_SHORT[each]) for each in letters)]
        self._shortest = min(*map(len, self._whole), RUN)
        self.longest = _MOST_PER_LETTER * max(map(len, self._whole)) + 64  # characters that a form of it may take
        self.reach = min(_MOST_HELD, self.longest)

    def holds(self, text: bytes) -> bool:
        """Whether the secret is in it, in any form."""
        return len(text) >= self._shortest and (self.holds_whole(text) or self._holds_run(text))

    def joins(self, text: str) -> bool:
        """Whether it is in a text that was put together of several; a short one could be there by chance."""
        return self.any_case and bool(text) and self.holds(as_bytes(text))

    def holds_whole(self, text: bytes) -> bool:
        """Whether all of it is there, and not only a run."""
        for literal in self._literals:
            if literal in text:
                return True
        if self.short:
            return False
        return (
            self._holds_cores(text)
            or self._holds_hex(text)
            or self._holds_folded(text)
            or (self._may_be_numbers(text) and self._holds_numbers(text))
            or (self._may_be_escaped(text) and self._holds_peeled(text))
        )

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it stands; everything, where it is but cannot be told apart from what stands around it."""
        found = [place for each in self._plain for place in places(text, each)]
        if self.short:
            return found
        found += self._encoded(text, as_bytes(text))
        if self.holds_whole(as_bytes(without(text, found))):
            if not self._long:
                found += [match.span() for match in self._spelled.finditer(text)]
            if self._long or self.holds_whole(as_bytes(without(text, found))):
                return [(0, len(text))]
        folded = fold(text)
        return found + [place for runs in self._runs for place in runs.spans(folded)]

    def begun(self, text: str) -> int:
        """How many letters at the end of the text look like the beginning of the secret, in any form."""
        data = as_bytes(text)
        literal = _overlap(data, self._literals)
        if literal:
            return len(data[-literal:].decode(errors="replace"))
        if self.short:
            return 0
        folded = fold(text)
        begun = max((overlap(folded, each, BEGINNING) for each in self._folded), default=0)
        return begun or self._begun_apart(text, data)

    def _begun_apart(self, text: str, data: bytes) -> int:
        """In a form whose parts may be set apart."""
        line, digits = as_text(views.unbroken_bytes(data)), as_text(views.hex_digits_bytes(data))
        lower = fold(line)
        letters = max(
            *(overlap(line, core.text, BEGINNING) + core.before for core in self._cores),
            *(overlap(lower, core.text, BEGINNING + 2) + core.before for core in self._base32),
        )
        if letters > 1:
            return _back(text, views.unbroken(text), letters)
        pairs = max(overlap(digits, each, 2 * BEGINNING) for each in self._hex)
        if pairs:
            return _back(text, views.hex_digits(text), pairs)
        if any(sign in data for sign in (*self._first_signs, b"0x", b"0X")):
            seen = views.numbers(text)
            cut_off = bool(seen.ends) and seen.ends[-1] == len(text)
            for codes in (seen.text, seen.text[:-1]) if cut_off else (seen.text,):
                count = max(overlap(codes, each, BEGINNING) for each in self._numbers)
                if count:
                    return _back(text, seen, count + len(seen.text) - len(codes))
        if self._may_be_escaped(data):
            for peeled in layers(as_bytes(_CUT_OFF.sub("", text))):
                if _overlap(peeled, self._peeled):
                    return len(text)
        return 0

    def _encoded(self, text: str, data: bytes) -> Iterator[tuple[int, int]]:
        """Where it stands in a form that can be told apart."""
        folded = fold(text)
        for each in self._folded:
            yield from places(folded, each)
        if self._holds_cores(data):
            view = views.unbroken(text)
            for core in self._cores:
                yield from _cored(view, view.text, core)
            lower = fold(view.text)
            for core in self._base32:
                yield from _cored(view, lower, core)
        if self._holds_hex(data):
            view = views.hex_digits(text)
            for each in self._hex:
                yield from (_marked(text, *place) for place in view.places(each))
        if self._may_be_numbers(data):
            view = views.numbers(text)
            for each in self._numbers:
                yield from (_marked(text, *place) for place in view.places(each))

    def _holds_folded(self, text: bytes) -> bool:
        if not self._folded:
            return False
        folded = fold(as_text(text))
        return any([each in folded for each in self._folded])  # noqa: C419 - a generator costs more than a miss

    def _holds_run(self, text: bytes) -> bool:
        if not self._runs:
            return False
        folded = fold(as_text(text))
        return any([runs.inside(folded) for runs in self._runs])  # noqa: C419 - a generator costs more than a miss

    def _holds_cores(self, text: bytes) -> bool:
        line = views.unbroken_bytes(text)
        for sign in self._core_signs:
            if sign in line and any(as_bytes(core.text) in line for core in self._cores):
                return True
        lower = line.lower()
        return any([sign in lower for sign in self._base32_signs])  # noqa: C419 - a generator costs more than a miss

    def _holds_hex(self, text: bytes) -> bool:
        digits = views.hex_digits_bytes(text)
        return any([sign in digits for sign in self._hex_signs])  # noqa: C419 - a generator costs more than a miss

    def _may_be_numbers(self, text: bytes) -> bool:
        """Most texts do not have all the numbers that are looked for."""
        words = views.words_bytes(text)
        for signs in self._number_signs:
            for decimal, digits in signs:
                if decimal not in words and digits not in words:
                    break
            else:
                return True
        return False

    def holds_list(self, text: bytes) -> bool:
        """Whether it is in a text of nothing but whole numbers, commas and brackets."""
        if self._all_digits:
            return self.holds(text) or self.holds(text.translate(None, b",[] "))
        return not self.short and self._may_be_numbers(text) and self._holds_numbers(text)

    def _holds_numbers(self, text: bytes) -> bool:
        seen = views.numbers_bytes(text)
        return any([written in seen for written in self._written_numbers])  # noqa: C419 - as above

    def _may_be_escaped(self, text: bytes) -> bool:
        """Most texts have an escape somewhere, of a letter that is not in the secret."""
        if b"%" in text and (self._long or self._percent.search(text)):
            return True
        if b"=" in text and _QUOTED.search(text) and (self._long or self._quoted.search(text)):
            return True
        if b"&" in text and (self._long or self._entity.search(text)):
            return True
        if b"\\" in text:
            for escape in self._escapes:
                if escape in text:
                    return True
            return any(sign in text for sign in _OCTAL_SIGNS) and bool(_OCTAL.search(text))
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

    @cached_property
    def _bare(self) -> list[bytes]:
        return [bare for bare in map(stripped, self._whole) if len(bare) >= SHORTEST_DISGUISED]

    @cached_property
    def _percent(self) -> re.Pattern[bytes]:
        return re.compile(f"%(?:25)*(?:{self._bytes_in_hex})".encode(), re.IGNORECASE)

    @cached_property
    def _quoted(self) -> re.Pattern[bytes]:
        return re.compile(rf"=(?:{self._bytes_in_hex}|[ \t]*(?:\r?\n|\\+[nr]))".encode(), re.IGNORECASE)

    @property
    def _bytes_in_hex(self) -> str:
        return "|".join({f"{byte:02x}" for byte in b"".join(self._whole)})

    @cached_property
    def _entity(self) -> re.Pattern[bytes]:
        names = {name for each in self._spellings for letter in each for name in names_of(letter)}
        return re.compile(f"&(?:amp;)*(?:{'|'.join(['#', *names])})".encode())

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        return re.compile("|".join(map(spelling, self._spellings)))


def _base64(payload: bytes) -> Iterator[Core]:
    """In both alphabets, at each of the three alignments."""
    for ahead in range(3):
        for write in (b64encode, urlsafe_b64encode):
            yield _core(write(bytes(ahead) + payload), ahead, len(payload), 6)


def _base32(payload: bytes) -> Iterator[Core]:
    """In lower case, at each of the five alignments."""
    for ahead in range(5):
        yield _core(b32encode(bytes(ahead) + payload).lower(), ahead, len(payload), 5)


def _core(written: bytes, ahead: int, size: int, bits: int) -> Core:
    start, end = 8 * ahead, 8 * (ahead + size)
    return Core(written[-(-start // bits) : end // bits].decode(), bool(start % bits), bool(end % bits))


def _sign(core: str) -> bytes:
    """A part that both alphabets write alike, if there is a long one: half as many searches find it."""
    longest = max(re.split(r"[+/_-]", core), key=len)
    return (longest if len(longest) >= _LONG_SIGN else core).encode()


def _number_signs(codes: str) -> tuple[tuple[bytes, bytes], ...]:
    """The numbers of a list of bytes as words, decimal and hexadecimal, the largest first: few other texts have them.

    What is larger than a character of ASCII may be written negative.
    """
    small = sorted({code for code in map(ord, codes) if code < 0x80}, reverse=True)[:_MOST_SIGNS]
    return tuple((b" %d " % code, b" 0x%x " % code) for code in small)


def _written(codes: str) -> Iterator[bytes]:
    """A list of numbers as `views.numbers_bytes` shows it, of bytes also with a sign."""
    yield f" {' '.join(str(ord(each)) for each in codes)} ".encode()
    if max(codes) > "\x7f":
        signed = (code - 0x100 if 0x7F < code < 0x100 else code for code in map(ord, codes))
        yield f" {' '.join(map(str, signed))} ".encode()


def _cored(view: View, seen: str, core: Core) -> Iterator[tuple[int, int]]:
    """With the letters beside it, which tell of its ends, and with what fills it up."""
    for start, end in places(seen, core.text):
        joined = start > 0 and (core.before or view.ends[start - 1] == view.starts[start])
        first = start - (joined and bool(_BASE64.match(seen, start - 1)))
        joined = end < len(seen) and (core.after or view.ends[end - 1] == view.starts[end])
        last = end + (joined and bool(_BASE64.match(seen, end)))
        padded = _PADDING.match(seen, last)
        yield view.starts[first], view.ends[(padded.end() if padded else last) - 1]


def _marked(text: str, start: int, end: int) -> tuple[int, int]:
    """With what says that the first pair is one, and what ends the last one."""
    mark = _MARK.search(text, max(0, start - _MOST_MARK), start)
    if mark is None:
        return start, end
    closing = {"&": ";", "{": "}"}.get(mark[0][0] if mark[0][0] == "&" else mark[0][-1], "")
    return mark.start(), end + (bool(closing) and text.startswith(closing, end))


def _overlap(data: bytes, forms: list[bytes]) -> int:
    text = data.decode("latin-1")
    return max(overlap(text, form.decode("latin-1"), BEGINNING) for form in forms)


def _back(text: str, view: View, count: int) -> int:
    """How many letters of the text the last ones of a view take."""
    start, _ = _marked(text, view.starts[max(0, len(view.starts) - count)], len(text))
    return len(text) - start


def without(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without these parts; a NUL stands for each."""
    parts, at = list[str](), 0
    for start, end in sorted(spans):
        if start >= at:
            parts.append(text[at:start])
        at = max(at, end)
    return "\0".join([*parts, text[at:]])
