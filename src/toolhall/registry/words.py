"""The words of a text as search compares them: small letters, no accents, names taken apart."""

import re
import unicodedata
from functools import lru_cache

_RUN = re.compile(r"[A-Za-z0-9]+")
# `HTTPServer2` is HTTP and Server2; a run of small letters and digits is one part.
_PART = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z][a-z0-9]*|[0-9]+[a-z0-9]*")
_LONGEST = 64
# Scripts that put no space between words: each character counts as one.
_UNSPACED = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ")


def words(text: str) -> list[str]:
    """Every word in order; a compound is there in parts and as a whole."""
    runs = _RUN.findall(text) if text.isascii() else _plain(text).split()
    return [word for run in runs for word in _parts(run)]


@lru_cache(maxsize=32_768)
def _parts(run: str) -> tuple[str, ...]:
    run = run[:_LONGEST]
    parts = _PART.findall(run) if run.isascii() else _split(run)
    found = [_folded(part) for part in parts]
    return tuple(found) if len(found) == 1 else (*found, _folded(run))


def _folded(part: str) -> str:
    """In small letters; an English plural is the same word."""
    word = part.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _split(run: str) -> list[str]:
    """At every capital letter that follows a small one."""
    starts = [at for at in range(1, len(run)) if run[at].isupper() and run[at - 1].islower()]
    return [run[start:end] for start, end in zip([0, *starts], [*starts, len(run)], strict=True)]


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_LETTERS)


class _Letters(dict[int, str]):
    """What becomes of each character, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if unicodedata.category(letter)[0] not in "LNM":
            return " "  # most characters there are; not worth remembering
        if unicodedata.name(letter, "").startswith(_UNSPACED):
            found = f" {letter} "
        else:
            found = "".join(part for part in unicodedata.normalize("NFD", letter) if not unicodedata.combining(part))
        self[code] = found
        return found


_LETTERS = _Letters()
