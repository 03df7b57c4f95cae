r"""`SecretForms`: every encoding in which one secret may occur in a text, and how each of them is found.

Theory of operation. A tool, a library or a model may encode a secret before it prints it, so a secret is searched in
nine kinds of forms:

- As it is; from `MIN_ANY_CASE_LENGTH` characters on also in upper, lower or mixed case, and every run of `RUN_LENGTH`
  or more characters of a longer one (RunMatcher).
- Base64 and base64url, of UTF-8 and of UTF-16 in both orders, and base32: anywhere in something longer (each
  alignment), padded or not, in one piece or with whitespace and line ends in it.
- Hex of the same bytes, in any case, in one piece or in pairs set apart; lists of bytes or of code points, decimal or
  `0x..`.
- Percent-encoded, JSON-escaped (also `\\U........`, `\\x..` and octal), HTML-escaped and quoted-printable, in whole or
  in part, also twice.

A secret shorter than `MIN_ENCODED_LENGTH` characters is searched as it is only: its encodings would occur by chance.

The search has two stages, because nearly every text is clean. `occurs_in` only decides whether the secret is there, by
substring searches (`bytes.find`, which is linear and fast). The encodings do not depend on the text, so they are
computed once. An encoding with separators in it (hex pairs, wrapped base64, lists of numbers) is searched in a view of
the text without the separators (`text_views`), and escaped texts are unescaped first, layer by layer (`escapes`). Cheap
probes skip a view or a decoding that cannot contain the secret: a fragment that both base64 alphabets share, the
numbers of a list as words, an escape of one of the secret's characters. A clean text costs a few dozen searches.

`find_spans` then locates the secret: views map their positions back to the text, and escaped forms are matched by a
regular expression of atomic groups, which never backtracks. What is left of the text is tested again, and if the secret
is still there, the whole text is the span. Time is linear in the text and in the secret. No regular expression is made
of a secret longer than `MAX_PATTERN_LENGTH`, because compiling it would block the event loop; of a shorter one only
when it was found escaped, or, if it looks escaped itself, in a text with escapes of its characters.
"""

import re
from base64 import b32encode, b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

from toolhall.model.json import encode
from toolhall.model.text import clean_text
from toolhall.redaction import text_views
from toolhall.redaction.escapes import (
    JSON_SHORT_ESCAPES,
    as_bytes,
    as_text,
    entity_names,
    escaped_pattern,
    strip_escapes,
    unescape_layers,
)
from toolhall.redaction.text_views import RUN_LENGTH, RunMatcher, TextView, find_all, fold, trailing_overlap

MIN_ENCODED_LENGTH = 6
MIN_ANY_CASE_LENGTH = 8  # also the minimum for a secret that is spread over several texts
MAX_PATTERN_LENGTH = 128  # compiling a longer pattern blocks the event loop; the whole text is replaced instead
MIN_PREFIX_LENGTH = 4  # at the end of a piece, a shorter beginning of a secret is not replaced
_MIN_SHARED_FRAGMENT = 12
_MAX_ENCODED_EXPANSION = 12
_MAX_TAIL_LENGTH = 16 * 1024
_INCOMPLETE_ESCAPE = re.compile(
    r"(?:%(?:25)*[0-9a-fA-F]?|&[#\w]{0,32}|=[0-9a-fA-F]?"
    r"|(?<!\\)\\++(?:u[0-9a-fA-F]{0,3}|U[0-9a-fA-F]{0,7}|x[0-9a-fA-F]?|[0-7]{0,3})?)\Z"
)
_OCTAL_ESCAPE = re.compile(rb"\\0?[0-3][0-7][0-7]")
_OCTAL_PREFIXES = (b"\\0", b"\\1", b"\\2", b"\\3")
_RUN_OF_BACKSLASHES = re.compile(rb"\\+")
_BASE64_CHARACTER = re.compile(r"[A-Za-z0-9+/_-]")
_BASE64_PADDING = re.compile(r"={0,6}")
_QUOTED_PRINTABLE = re.compile(rb"=(?:[0-9a-fA-F]{2}|[ \t]*(?:\r?\n|\\+[nr]))")
_ENCODING_PREFIX = re.compile(r"(?:\\{1,8}(?:[xuU]|u\{)|0[xX]|%|=|&#[xX]?)\Z")
_MAX_ENCODING_PREFIX = 12
_MAX_NUMBER_PROBES = 24
_DIGITS = frozenset("0123456789-")


class AlignedEncoding(NamedTuple):
    """An encoded secret at one alignment, without the characters at its ends that also encode neighbouring bytes."""

    text: str
    partial_before: bool  # the character before it encodes some of its first bits
    partial_after: bool


class SecretForms:
    """The encodings of one secret, and the searches for them; computed once and cached with the secret."""

    def __init__(self, secret: str) -> None:
        # Sanitized texts contain the sanitized secret.
        self._variants = [each for each in {secret, clean_text(secret)} if each]
        self._variant_bytes = [as_bytes(each) for each in self._variants]
        quoted = {encode(each.encode(errors="replace").decode())[1:-1] for each in self._variants}
        self._unescaped_variants = list(
            dict.fromkeys(
                [*self._variant_bytes, *(_RUN_OF_BACKSLASHES.sub(rb"\\", each) for each in self._variant_bytes)]
            )
        )
        self._looks_escaped = any(letter in secret for letter in "%&\\") or bool(
            _QUOTED_PRINTABLE.search(self._variant_bytes[0])
        )
        self.is_short = len(secret) < MIN_ENCODED_LENGTH
        self.matches_any_case = len(secret) >= MIN_ANY_CASE_LENGTH
        self._is_long = max(map(len, self._variants)) > MAX_PATTERN_LENGTH
        self._literals = list(dict.fromkeys([*self._variant_bytes, *quoted]))
        self._plain_forms = [*self._variants, *(each.decode() for each in quoted)]
        wide = [each.encode(order, "surrogatepass") for each in self._variants for order in ("utf-16-be", "utf-16-le")]
        if not self.is_short:  # as Python's repr shows UTF-16; of ASCII without the last byte, both byte orders agree
            shown = {repr(each[:-1] if secret.isascii() else each)[2:-1] for each in wide[1::2]}
            shown |= set() if secret.isascii() else {repr(each)[2:-1] for each in wide[::2]}
            self._plain_forms += shown
            self._literals += map(as_bytes, shown)
        folded = [fold(write(each)) for each in self._variants for write in (str, str.upper)]
        self._folded_forms = list(dict.fromkeys(folded)) if self.matches_any_case else []
        self._run_matchers = [runs for each in self._folded_forms if (runs := RunMatcher(each)).runs]
        # Of ASCII, both byte orders share all but one byte at the end.
        payloads = [*self._variant_bytes, *([each[:-1] for each in wide[1::2]] if secret.isascii() else wide)]
        payloads = [] if self.is_short else list(dict.fromkeys(payloads))
        self._base64_forms = list(dict.fromkeys(core for each in payloads for core in _base64_encodings(each)))
        self._base64_probes = list(dict.fromkeys(_search_probe(core.text) for core in self._base64_forms))
        encodable = [] if self.is_short else self._variant_bytes
        self._base32_forms = [core for each in encodable for core in _base32_encodings(each)]
        self._base32_probes = [as_bytes(core.text) for core in self._base32_forms]
        self._hex_forms = list(dict.fromkeys(each.hex() for each in (*encodable, *wide) if encodable))
        self._hex_probes = [each.encode() for each in self._hex_forms]
        lists = [*self._variants, *(each.decode("latin-1") for each in payloads)]
        self._number_forms = [] if self.is_short else list(dict.fromkeys(lists))
        self._number_probes = list({_number_probes(each) for each in self._number_forms})
        self._decimal_forms = list(
            dict.fromkeys(each for codes in self._number_forms for each in _decimal_texts(codes))
        )
        self._first_number_probes = list({str(ord(each[0])).encode() for each in self._number_forms})
        written = [
            *self._plain_forms,
            *self._hex_forms,
            *(core.text for core in (*self._base64_forms, *self._base32_forms)),
        ]
        # Half, because a few escapes are shorter than what they stand for (`&nGt;`).
        self._min_whole_length = min(map(len, (*self._unescaped_variants, *written))) // 2
        written += [run for runs in self._run_matchers for run in runs.runs]
        self._has_digit_form = any(_DIGITS.issuperset(each) for each in written)
        letters = set(secret) & JSON_SHORT_ESCAPES.keys()
        self._escape_probes = [b"\\u", b"\\U", b"\\x", *(as_bytes("\\" + JSON_SHORT_ESCAPES[each]) for each in letters)]
        self._min_length = min(*map(len, self._variant_bytes), RUN_LENGTH)
        # A line with fewer characters contains no form of the secret; 0 where it is not enough to search lines.
        self.min_line_length = self._min_length if self.matches_any_case and _is_ascii_line(secret) else 0
        self.max_form_length = _MAX_ENCODED_EXPANSION * max(map(len, self._variant_bytes)) + 64  # in characters
        self.tail_length = min(_MAX_TAIL_LENGTH, self.max_form_length)

    def occurs_in(self, text: bytes) -> bool:
        """True if the text contains the secret, or a run of it, in any form."""
        if len(text) < self._min_length:
            return False
        return (len(text) >= self._min_whole_length and self.occurs_whole_in(text)) or self._occurs_as_run(text)

    def occurs_in_joined(self, text: str) -> bool:
        """True if a text that was joined from several contains the secret; a short secret could occur by chance."""
        return self.matches_any_case and bool(text) and self.occurs_in(as_bytes(text))

    def occurs_whole_in(self, text: bytes) -> bool:
        """True if the text contains the whole secret, not only a run of it."""
        for literal in self._literals:
            if literal in text:
                return True
        if self.is_short:
            return False
        return (
            self._occurs_in_base64_or_base32(text)
            or self._occurs_as_hex(text)
            or self._occurs_folded(text)
            or (self._may_hold_numbers(text) and self._occurs_as_numbers(text))
            or (self._may_hold_escapes(text) and self._occurs_escaped(text))
        )

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Locate the secret; the whole text if it is there but its position cannot be determined."""
        found = [place for each in self._plain_forms for place in find_all(text, each)]
        if self.is_short:
            return found
        found += self._encoded_spans(text, as_bytes(text))
        if self.occurs_whole_in(as_bytes(remove_spans(text, found))):
            if not self._is_long:
                found += [match.span() for match in self._escaped_pattern.finditer(text)]
            if self._is_long or self.occurs_whole_in(as_bytes(remove_spans(text, found))):
                return [(0, len(text))]
        folded = fold(text)
        return found + [place for runs in self._run_matchers for place in runs.find_spans(folded)]

    def trailing_prefix_length(self, text: str) -> int:
        """Return how many characters at the end of the text may be the beginning of the secret, in any form."""
        data = as_bytes(text)
        literal = _longest_overlap(data, self._literals)
        if literal:
            return len(data[-literal:].decode(errors="replace"))
        if self.is_short:
            return 0
        folded = fold(text)
        begun = max((trailing_overlap(folded, each, MIN_PREFIX_LENGTH) for each in self._folded_forms), default=0)
        return begun or self._trailing_prefix_in_views(text, data)

    def _trailing_prefix_in_views(self, text: str, data: bytes) -> int:
        """Return the same for forms with separators, by views of the text."""
        line, digits = as_text(text_views.without_whitespace_bytes(data)), as_text(text_views.hex_digits_bytes(data))
        lower = fold(line)
        letters = max(
            *(
                trailing_overlap(line, core.text, MIN_PREFIX_LENGTH) + core.partial_before
                for core in self._base64_forms
            ),
            *(
                trailing_overlap(lower, core.text, MIN_PREFIX_LENGTH + 2) + core.partial_before
                for core in self._base32_forms
            ),
        )
        if letters > 1:
            return _source_length(text, text_views.without_whitespace(text), letters)
        pairs = max(trailing_overlap(digits, each, 2 * MIN_PREFIX_LENGTH) for each in self._hex_forms)
        if pairs:
            return _source_length(text, text_views.hex_digits(text), pairs)
        if any(sign in data for sign in (*self._first_number_probes, b"0x", b"0X")):
            seen = text_views.numbers(text)
            cut_off = bool(seen.ends) and seen.ends[-1] == len(text)
            for codes in (seen.text, seen.text[:-1]) if cut_off else (seen.text,):
                count = max(trailing_overlap(codes, each, MIN_PREFIX_LENGTH) for each in self._number_forms)
                if count:
                    return _source_length(text, seen, count + len(seen.text) - len(codes))
        if self._may_hold_escapes(data):
            for peeled in unescape_layers(as_bytes(_INCOMPLETE_ESCAPE.sub("", text))):
                if _longest_overlap(peeled, self._unescaped_variants):
                    return len(text)
        return 0

    def _encoded_spans(self, text: str, data: bytes) -> Iterator[tuple[int, int]]:
        """Locate forms whose positions are known: folded, base64, base32, hex and numbers."""
        folded = fold(text)
        for each in self._folded_forms:
            yield from find_all(folded, each)
        if self._occurs_in_base64_or_base32(data):
            view = text_views.without_whitespace(text)
            for core in self._base64_forms:
                yield from _aligned_spans(view, view.text, core)
            lower = fold(view.text)
            for core in self._base32_forms:
                yield from _aligned_spans(view, lower, core)
        if self._occurs_as_hex(data):
            view = text_views.hex_digits(text)
            for each in self._hex_forms:
                yield from (_with_encoding_prefix(text, *place) for place in view.find_spans(each))
        if self._may_hold_numbers(data):
            view = text_views.numbers(text)
            for each in self._number_forms:
                yield from (_with_encoding_prefix(text, *place) for place in view.find_spans(each))

    def _occurs_folded(self, text: bytes) -> bool:
        if not self._folded_forms:
            return False
        folded = fold(as_text(text))
        return any([each in folded for each in self._folded_forms])  # noqa: C419 - a generator costs more than a miss

    def _occurs_as_run(self, text: bytes) -> bool:
        if not self._run_matchers:
            return False
        folded = fold(as_text(text))
        return any([runs.occurs_in(folded) for runs in self._run_matchers])  # noqa: C419 - a generator costs more than a miss

    def _occurs_in_base64_or_base32(self, text: bytes) -> bool:
        line = text_views.without_whitespace_bytes(text)
        for sign in self._base64_probes:
            if sign in line and any(as_bytes(core.text) in line for core in self._base64_forms):
                return True
        lower = line.lower()
        return any([sign in lower for sign in self._base32_probes])  # noqa: C419 - a generator costs more than a miss

    def _occurs_as_hex(self, text: bytes) -> bool:
        digits = text_views.hex_digits_bytes(text)
        return any([sign in digits for sign in self._hex_probes])  # noqa: C419 - a generator costs more than a miss

    def _may_hold_numbers(self, text: bytes) -> bool:
        """True if the text has all numbers of a form somewhere; most texts do not, so decoding is skipped."""
        words = text_views.words_bytes(text)
        for signs in self._number_probes:
            for decimal, digits in signs:
                if decimal not in words and digits not in words:
                    break
            else:
                return True
        return False

    def occurs_in_number_list(self, text: bytes) -> bool:
        """True if a text of nothing but whole numbers, commas and brackets contains the secret."""
        if self._has_digit_form:
            return self.occurs_in(text) or self.occurs_in(text.translate(None, b",[] "))
        return not self.is_short and self._may_hold_numbers(text) and self._occurs_as_numbers(text)

    def _occurs_as_numbers(self, text: bytes) -> bool:
        seen = text_views.numbers_bytes(text)
        return any([written in seen for written in self._decimal_forms])  # noqa: C419 - as above

    def _may_hold_escapes(self, text: bytes) -> bool:
        """True if the text has an escape of a character of the secret; most texts have other escapes only."""
        if b"%" in text and (self._is_long or self._percent_pattern.search(text)):
            return True
        if (
            b"=" in text
            and _QUOTED_PRINTABLE.search(text)
            and (self._is_long or self._quoted_printable_pattern.search(text))
        ):
            return True
        if b"&" in text and (self._is_long or self._entity_pattern.search(text)):
            return True
        if b"\\" in text:
            for escape in self._escape_probes:
                if escape in text:
                    return True
            return any(sign in text for sign in _OCTAL_PREFIXES) and bool(_OCTAL_ESCAPE.search(text))
        return False

    def _occurs_escaped(self, text: bytes) -> bool:
        for peeled in unescape_layers(text):
            spaced = peeled.replace(b"+", b" ")
            if any(each in peeled or (b" " in each and each in spaced) for each in self._unescaped_variants):
                return True
        if not self._looks_escaped:
            return False
        # A secret that looks escaped itself can be unescaped in several ways.
        if not self._is_long:
            return bool(self._escaped_pattern.search(as_text(text)))
        bare = strip_escapes(text)
        return any(each in bare for each in self._stripped_variants)

    @cached_property
    def _stripped_variants(self) -> list[bytes]:
        return [bare for bare in map(strip_escapes, self._variant_bytes) if len(bare) >= MIN_ENCODED_LENGTH]

    @cached_property
    def _percent_pattern(self) -> re.Pattern[bytes]:
        return re.compile(f"%(?:25)*(?:{self._hex_byte_alternatives})".encode(), re.IGNORECASE)

    @cached_property
    def _quoted_printable_pattern(self) -> re.Pattern[bytes]:
        return re.compile(rf"=(?:{self._hex_byte_alternatives}|[ \t]*(?:\r?\n|\\+[nr]))".encode(), re.IGNORECASE)

    @property
    def _hex_byte_alternatives(self) -> str:
        return "|".join({f"{byte:02x}" for byte in b"".join(self._variant_bytes)})

    @cached_property
    def _entity_pattern(self) -> re.Pattern[bytes]:
        names = {name for each in self._variants for letter in each for name in entity_names(letter)}
        return re.compile(f"&(?:amp;)*(?:{'|'.join(['#', *names])})".encode())

    @cached_property
    def _escaped_pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(escaped_pattern, self._variants)))


def _is_ascii_line(secret: str) -> bool:
    return secret.isascii() and "\n" not in secret


def _base64_encodings(payload: bytes) -> Iterator[AlignedEncoding]:
    """Yield base64 in both alphabets, at each of the three alignments."""
    for ahead in range(3):
        for write in (b64encode, urlsafe_b64encode):
            yield _aligned_encoding(write(bytes(ahead) + payload), ahead, len(payload), 6)


def _base32_encodings(payload: bytes) -> Iterator[AlignedEncoding]:
    """Yield base32 in lower case, at each of the five alignments."""
    for ahead in range(5):
        yield _aligned_encoding(b32encode(bytes(ahead) + payload).lower(), ahead, len(payload), 5)


def _aligned_encoding(written: bytes, ahead: int, size: int, bits: int) -> AlignedEncoding:
    start, end = 8 * ahead, 8 * (ahead + size)
    return AlignedEncoding(written[-(-start // bits) : end // bits].decode(), bool(start % bits), bool(end % bits))


def _search_probe(encoding: str) -> bytes:
    """Return a fragment that both base64 alphabets share, if it is long enough: it halves the searches."""
    longest = max(re.split(r"[+/_-]", encoding), key=len)
    return (longest if len(longest) >= _MIN_SHARED_FRAGMENT else encoding).encode()


def _number_probes(codes: str) -> tuple[tuple[bytes, bytes], ...]:
    """The numbers of a list of bytes as words, decimal and hexadecimal, the largest first: few other texts have them.

    Only ASCII codes count, because larger bytes may be written as negative numbers.
    """
    small = sorted({code for code in map(ord, codes) if code < 0x80}, reverse=True)[:_MAX_NUMBER_PROBES]
    return tuple((b" %d " % code, b" 0x%x " % code) for code in small)


def _decimal_texts(codes: str) -> Iterator[bytes]:
    """A list of numbers as `text_views.numbers_bytes` shows it, of bytes also with a sign."""
    yield f" {' '.join(str(ord(each)) for each in codes)} ".encode()
    if max(codes) > "\x7f":
        signed = (code - 0x100 if 0x7F < code < 0x100 else code for code in map(ord, codes))
        yield f" {' '.join(map(str, signed))} ".encode()


def _aligned_spans(view: TextView, searched: str, encoding: AlignedEncoding) -> Iterator[tuple[int, int]]:
    """Yield spans with the adjacent characters that encode the secret's ends, and with padding."""
    for start, end in find_all(searched, encoding.text):
        joined = start > 0 and (encoding.partial_before or view.ends[start - 1] == view.starts[start])
        first = start - (joined and bool(_BASE64_CHARACTER.match(searched, start - 1)))
        joined = end < len(searched) and (encoding.partial_after or view.ends[end - 1] == view.starts[end])
        last = end + (joined and bool(_BASE64_CHARACTER.match(searched, end)))
        padded = _BASE64_PADDING.match(searched, last)
        yield view.starts[first], view.ends[(padded.end() if padded else last) - 1]


def _with_encoding_prefix(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span by the prefix of its first number or pair (`0x`, `%`, `&#x`) and the end of the last."""
    mark = _ENCODING_PREFIX.search(text, max(0, start - _MAX_ENCODING_PREFIX), start)
    if mark is None:
        return start, end
    closing = {"&": ";", "{": "}"}.get(mark[0][0] if mark[0][0] == "&" else mark[0][-1], "")
    return mark.start(), end + (bool(closing) and text.startswith(closing, end))


def _longest_overlap(data: bytes, forms: list[bytes]) -> int:
    text = data.decode("latin-1")
    return max(trailing_overlap(text, form.decode("latin-1"), MIN_PREFIX_LENGTH) for form in forms)


def _source_length(text: str, view: TextView, count: int) -> int:
    """Return how many characters of the text the last `count` characters of a view cover."""
    start, _ = _with_encoding_prefix(text, view.starts[max(0, len(view.starts) - count)], len(text))
    return len(text) - start


def remove_spans(text: str, spans: list[tuple[int, int]]) -> str:
    """Return the text with each span replaced by a NUL."""
    parts, at = list[str](), 0
    for start, end in sorted(spans):
        if start >= at:
            parts.append(text[at:start])
        at = max(at, end)
    return "\0".join([*parts, text[at:]])
