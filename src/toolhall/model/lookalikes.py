"""What a name looks like to a person: two names with one look must not stand for two tools."""

import unicodedata

# Letters of other scripts that most typefaces draw like a Latin one.
_CYRILLIC = dict(zip("авекмнорстухѕіјԛԝьгһԁӏ", "abekmhopctyxsijqwbrhdl", strict=True))
_GREEK = dict(zip("αβγεηικνορτυχωϲϳ", "abyenikvoptuxwcj", strict=True))
_OTHER = dict(zip("ɑɡıȷոսցօհӏᴏᴠᴡᴢⅼ", "agijnugohlovwzl", strict=True))
_DASHES = dict.fromkeys("‐‑‒–—―−﹘﹣－", "-")  # noqa: RUF001 - these are what is looked for
_DOTS = dict.fromkeys("․·・｡。", ".")  # noqa: RUF001
_LATIN = str.maketrans(_CYRILLIC | _GREEK | _OTHER | _DASHES | _DOTS)
_INVISIBLE = ("Cf", "Mn", "Me", "Cc")


def look(name: str) -> str:
    """The same for names that cannot be told apart by looking: case, accents, width and script do not matter."""
    if name.isascii():
        return name.casefold()
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_LATIN)
    return "".join(letter for letter in plain if unicodedata.category(letter) not in _INVISIBLE)
