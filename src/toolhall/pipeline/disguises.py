"""The forms in which a secret may turn up in a text, and how each is found.

There are nine: as it is; base64 and base64url, anywhere in a longer text (three alignments each), padded or not, in one
line or several; hex in lower case, in upper or mixed case, and in pairs set apart as dumps are; percent-encoded,
JSON-escaped and HTML-escaped, in whole or in part, also twice. A secret shorter than six characters is looked for as it
is only: in the other forms it would be found where it is not. Time is linear in the text and in the secret: what a
clean text costs is a few searches for a substring. A pattern is made only of a secret that is not long, and only when a
search found it in a form that has more than one spelling.
"""

import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from functools import cache, cached_property
from html import unescape
from html.entities import html5
from itertools import pairwise
from urllib.parse import unquote_to_bytes

from toolhall.model.json import encode
from toolhall.model.text import clean_text

SHORTEST_DISGUISED = 6
LONGEST_SPELLED = 128  # letters; to make a pattern of more holds up the hall, so the whole text is hidden instead
BEGINNING = 4  # characters of a secret that are worth hiding when a text breaks off after them
_LONG_SIGN = 12
_ROUNDS = 3  # of escaping, one inside the other
_MOST_PER_LETTER = 12
_MOST_HELD = 16 * 1024
_MOST_TRIES = 64

_NOT_HEX = bytes(set(range(256)) - set(b"0123456789abcdefABCDEF"))
_LOWER = bytes(range(256)).lower()
_BLANKS = b" \t\r\n\f\v\\"
_LINE_END = r"(?:\s|\\{1,8}[nr]){0,80}+"
_APART = r"(?:\\{1,8}[nrtx]|0x|[ :,;._%-]|\s){0,3}+"
_MARK = r"(?:\\{1,8}x|0x|%)?"
_BACKSLASHED = re.compile(r"\\+(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([\"/\\bfnrt']))")
_CUT_OFF = re.compile(r"(?:%(?:25)*[0-9a-fA-F]?|&[#\w]{0,32}|(?<!\\)\\++(?:u[0-9a-fA-F]{0,3}|x[0-9a-fA-F]?)?)\Z")
_ESCAPED_END = re.compile(rb"(?<!\\)\\++[nr]")
_RUN = re.compile(rb"\\+")
_SHORT = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_JSON_SHORT = {'"': '"', "/": "/", "'": "'", "\\": "\\"} | {letter: short for short, letter in _SHORT.items()}
_BASE64 = "[A-Za-z0-9+/_-]"
_BEFORE = re.compile(rf"(?<!\\){_BASE64}")
_AFTER = re.compile(rf"{_BASE64}?={{0,2}}")
_LONG_NUMBER = re.compile(r"(?<=&#)[0-9]{16,}")


class Disguises:
    """All forms of one secret; made once, and kept with it."""

    def __init__(self, secret: str) -> None:
        spellings = {secret, clean_text(secret)}  # a text that was cleaned holds it clean
        self._spellings = [each for each in spellings if each]
        self._whole = [_bytes(each) for each in self._spellings]
        quoted = {encode(each.encode(errors="replace").decode())[1:-1] for each in self._spellings}
        self._peeled = list(dict.fromkeys([*self._whole, *(_RUN.sub(rb"\\", each) for each in self._whole)]))
        self._escaped_itself = any(letter in secret for letter in "%&\\")
        self.short = len(secret) < SHORTEST_DISGUISED
        self._long = max(map(len, self._spellings)) > LONGEST_SPELLED
        self._cores = [] if self.short else list({core: None for each in self._whole for core in _cores(each)})
        self._core_signs = list(dict.fromkeys(map(_sign, self._cores)))
        self._hex = [] if self.short else [each.hex().encode() for each in self._whole]
        self._literals = list(dict.fromkeys([*self._whole, *quoted, *self._cores]))
        self._plain = [*self._spellings, *(each.decode() for each in (*quoted, *self._hex, *map(bytes.upper, self._hex)))]
        letters = set(secret) & _JSON_SHORT.keys()
        self._escapes = [b"\\u", b"\\x", *(_bytes("\\" + _JSON_SHORT[each]) for each in letters)]
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
            if each in digits and (self._long or each in text.lower() or self._dumped.search(_text(text))):
                return True
        return self._may_be_escaped(text) and self._holds_peeled(text)

    def spans(self, text: str) -> list[tuple[int, int]]:
        """Where it stands; everything, where it is but cannot be told apart from what stands around it."""
        found, rest = list[tuple[int, int]](), text
        for each in self._plain:
            found += _places(text, each)
            rest = rest.replace(each, "")
        for core in map(_text, self._cores):
            found += [_with_neighbours(text, *place) for place in _places(text, core)]
            rest = rest.replace(core, "")
        patterns = self._patterns()
        while not found or self.holds(_bytes(rest)):
            pattern = next(patterns, None)
            if pattern is None:
                return [(0, len(text))]
            found += [match.span() for match in pattern.finditer(text)]
            rest = pattern.sub("", rest)
        return found

    def begun(self, text: str) -> int:
        """How many letters at the end of the text look like the beginning of the secret, in any form."""
        data = _bytes(text)
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
            for peeled in _peeled(_bytes(_CUT_OFF.sub("", text))):
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
        for peeled in _peeled(text):
            spaced = peeled.replace(b"+", b" ")
            if any(each in peeled or (b" " in each and each in spaced) for each in self._peeled):
                return True
        if not self._escaped_itself:
            return False
        # One that looks escaped itself is read in more ways than one.
        if not self._long:
            return bool(self._spelled.search(_text(text)))
        bare = _bare(text)
        return any(each in bare for each in self._bare)

    def _patterns(self) -> Iterator[re.Pattern[str]]:
        """For the forms that have more than one spelling; each is made when those before it were not enough."""
        if not self.short and not self._long:
            yield self._dumped
            yield self._lined
            yield self._spelled

    @cached_property
    def _bare(self) -> list[bytes]:
        return [bare for bare in map(_bare, self._whole) if len(bare) >= SHORTEST_DISGUISED]

    @cached_property
    def _percent(self) -> re.Pattern[bytes]:
        letters = {f"{byte:02x}" for byte in b"".join(self._whole)}
        return re.compile(f"%(?:25)*(?:{'|'.join(letters)})".encode(), re.IGNORECASE)

    @cached_property
    def _entity(self) -> re.Pattern[bytes]:
        names = {name for each in self._spellings for letter in each for name in _names(letter)}
        return re.compile(f"&(?:amp;)*(?:{'|'.join(['#', *names])})".encode())

    @cached_property
    def _dumped(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_dump, self._whole)), re.IGNORECASE)

    @cached_property
    def _lined(self) -> re.Pattern[str]:
        written = "|".join(dict.fromkeys(map(_lines, self._cores)))
        return re.compile(rf"(?:(?<!\\){_BASE64})?(?:{written}){_BASE64}?={{0,2}}")

    @cached_property
    def _spelled(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_spelling, self._spellings)))


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


def _lines(core: bytes) -> str:
    """A pattern for it in either alphabet, in one line or several."""
    letters = [{"+": "[+-]", "-": "[+-]", "/": "[/_]", "_": "[/_]"}.get(letter, letter) for letter in core.decode()]
    return _LINE_END.join(letters)


def _has_lines(text: bytes) -> bool:
    return b"\n" in text or b"\\" in text or b"\r" in text


def _one_line(text: bytes) -> bytes:
    """The text without the ends of its lines, written as they are or escaped."""
    if b"\\" in text:
        text = _ESCAPED_END.sub(b"", text)
    return text.translate(None, _BLANKS)


def _dump(secret: bytes) -> str:
    return _MARK + _APART.join(f"{byte:02x}" for byte in secret)


def _spelling(secret: str) -> str:
    """A pattern for the secret with any of its letters escaped in any way; each is one choice that is never undone."""
    letters = re.sub(r"\\+", r"\\", secret)  # escaping makes more backslashes of one
    return "".join(_letter(letter, before) for before, letter in pairwise(f" {letters}"))


def _letter(letter: str, before: str) -> str:
    slashes = r"\\{0,16}" if before == "\\" else r"\\{1,16}"  # it may have taken those of this letter
    data = _bytes(letter)
    percent = "".join(f"%(?:25){{0,{_ROUNDS}}}{byte:02x}" for byte in data)
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    unicode = "".join(f"{slashes}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    ways = [percent, unicode, f"&(?:amp;){{0,{_ROUNDS}}}(?:{'|'.join(_entities(letter))});?"]
    if ord(letter) < 0x100:
        ways.append(f"{slashes}x{ord(letter):02x}")
    if letter == " ":
        ways.append(r"\+")
    if letter == "\\":
        ways.append(r"\\{1,32}")
    elif letter in _JSON_SHORT:
        ways.append(f"{slashes}{_JSON_SHORT[letter]}")
    escaped = f"(?i:{'|'.join(ways)})"
    return f"(?>{escaped}|{re.escape(letter)})"


def _entities(letter: str) -> list[str]:
    numbers = [f"#0{{0,8}}{ord(letter)}(?![0-9])", f"#x0{{0,8}}{ord(letter):x}(?![0-9a-f])"]
    return [*numbers, *_names(letter)]


def _names(letter: str) -> list[str]:
    return [re.escape(name.rstrip(";")) for name in _named().get(letter, ())]


@cache
def _named() -> dict[str, list[str]]:
    """The names that HTML has for letters."""
    named: dict[str, list[str]] = {}
    for name, letter in html5.items():
        named.setdefault(letter, []).append(name)
    return named


def _peeled(text: bytes) -> Iterator[bytes]:
    """The text without its escapes, layer by layer, as long as there is another."""
    for _ in range(_ROUNDS):
        before = text
        if b"%" in text:
            yield (text := unquote_to_bytes(text))
        if b"&" in text:
            yield (text := _bytes(unescape(_LONG_NUMBER.sub(_shortened, _text(text)))))
        if b"\\" in text:
            yield (text := _bytes(_BACKSLASHED.sub(_unescaped, _text(text))))
        if text == before:
            return


def _unescaped(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _SHORT.get(match[3], match[3])


def _shortened(match: re.Match[str]) -> str:
    """Too long to be read as a number, which only zeros may make it: as short as one that is no letter either."""
    return match[0].lstrip("0")[:8]


def _bare(text: bytes) -> bytes:
    """Without all that escaping adds, and without what it may take with it."""
    for peeled in _peeled(text):
        text = peeled
    return text.replace(b"\\", b"").replace(b"+", b" ")


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


def _text(data: bytes) -> str:
    return data.decode(errors="surrogateescape")


def _bytes(text: str) -> bytes:
    """As UTF-8; what was no text stays what it was, and what was escaped as two halves becomes one letter."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16", errors="surrogatepass").decode("utf-16", errors="replace").encode()
