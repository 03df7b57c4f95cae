"""Patterns for the forms of a secret that have more than one spelling: lines of base64, dumps in hex, escapes."""

import re
from functools import cache
from html.entities import html5
from itertools import pairwise

from toolhall.runners.peeling import JSON_SHORT, ROUNDS, as_bytes

BASE64 = "[A-Za-z0-9+/_-]"
_LINE_END = r"(?:\s|\\{1,8}[nr]){0,80}+"
_APART = r"(?:\\{1,8}[nrtx]|0x|[ :,;._%-]|\s){0,3}+"
_MARK = r"(?:\\{1,8}x|0x|%)?"


def lines(core: bytes) -> str:
    """A pattern for it in either alphabet, in one line or several."""
    letters = [{"+": "[+-]", "-": "[+-]", "/": "[/_]", "_": "[/_]"}.get(letter, letter) for letter in core.decode()]
    return _LINE_END.join(letters)


def dump(secret: bytes) -> str:
    """A pattern for it in hex, in one piece or in pairs set apart."""
    return _MARK + _APART.join(f"{byte:02x}" for byte in secret)


def spelling(secret: str) -> str:
    """A pattern for the secret with any of its letters escaped in any way; each is one choice that is never undone."""
    letters = re.sub(r"\\+", r"\\", secret)  # escaping makes more backslashes of one
    return "".join(_letter(letter, before) for before, letter in pairwise(f" {letters}"))


def _letter(letter: str, before: str) -> str:
    slashes = r"\\{0,16}" if before == "\\" else r"\\{1,16}"  # it may have taken those of this letter
    data = as_bytes(letter)
    percent = "".join(f"%(?:25){{0,{ROUNDS}}}{byte:02x}" for byte in data)
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    unicode = "".join(f"{slashes}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    ways = [percent, unicode, f"&(?:amp;){{0,{ROUNDS}}}(?:{'|'.join(_entities(letter))});?"]
    if ord(letter) < 0x100:
        ways.append(f"{slashes}x{ord(letter):02x}")
    if letter == " ":
        ways.append(r"\+")
    if letter == "\\":
        ways.append(r"\\{1,32}")
    elif letter in JSON_SHORT:
        ways.append(f"{slashes}{JSON_SHORT[letter]}")
    escaped = f"(?i:{'|'.join(ways)})"
    return f"(?>{escaped}|{re.escape(letter)})"


def _entities(letter: str) -> list[str]:
    numbers = [f"#0{{0,8}}{ord(letter)}(?![0-9])", f"#x0{{0,8}}{ord(letter):x}(?![0-9a-f])"]
    return [*numbers, *names_of(letter)]


def names_of(letter: str) -> list[str]:
    """What HTML calls it, for a pattern."""
    return [re.escape(name.rstrip(";")) for name in _named().get(letter, ())]


@cache
def _named() -> dict[str, list[str]]:
    """All names, by letter."""
    named: dict[str, list[str]] = {}
    for name, letter in html5.items():
        named.setdefault(letter, []).append(name)
    return named
