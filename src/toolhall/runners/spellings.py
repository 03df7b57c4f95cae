"""A pattern for a secret with any of its letters escaped, and what HTML calls them."""

import re
from functools import cache
from html.entities import html5
from itertools import pairwise

from toolhall.runners.peeling import JSON_SHORT, ROUNDS, as_bytes

# Quoted-printable may end a line anywhere.
_SOFT_BREAK = r"(?:=[ \t]*(?:\r?\n|(?:\\{1,8}[nr]){1,2}))?"


def spelling(secret: str) -> str:
    """A pattern for the secret with any of its letters escaped in any way; each is one choice that is never undone."""
    letters = re.sub(r"\\+", r"\\", secret)  # escaping makes more backslashes of one
    return _SOFT_BREAK.join(_letter(letter, before) for before, letter in pairwise(f" {letters}"))


def _letter(letter: str, before: str) -> str:
    slashes = r"\\{0,16}" if before == "\\" else r"\\{1,16}"  # it may have taken those of this letter
    data = as_bytes(letter)
    percent = "".join(f"%(?:25){{0,{ROUNDS}}}{byte:02x}" for byte in data)
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    unicode = "".join(f"{slashes}u{units[at : at + 4]}" for at in range(0, len(units), 4))
    longer = rf"{slashes}u(?:{ord(letter):08x}|\{{0{{0,5}}{ord(letter):x}\}})"
    octal = "".join(f"{slashes}0?{byte:03o}" for byte in data)
    quoted = "".join(f"={byte:02x}" for byte in data)
    ways = [percent, unicode, longer, octal, quoted, f"&(?:amp;){{0,{ROUNDS}}}(?:{'|'.join(_entities(letter))});?"]
    if ord(letter) < 0x100:
        ways.append(f"{slashes}x{ord(letter):02x}")
    if not letter.isascii():
        ways.append("".join(f"{slashes}x{byte:02x}" for byte in data))
        ways += [f"{slashes}0?{ord(letter):03o}"] if ord(letter) < 0x100 else []
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
