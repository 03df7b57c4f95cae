"""JSON in the one spelling of RFC 8785, so that equal values have equal bytes.

It is short enough to be written here: keys in the order of UTF-16, numbers as ECMAScript writes them, and texts as
Python's own encoder writes them.
"""

import re
from collections.abc import Iterable
from json.encoder import JSONEncoder
from json.encoder import encode_basestring as _quoted
from math import isfinite

from toolhall.model.json import Json

_EXACT = 2**53  # whole numbers up to here are what they are in every program
# Perhaps a number that is spelled in another way.
_UNUSUAL = re.compile(r"(?:^|[:,\[])-?(?:[0-9]+[.e]|[0-9]{16}|NaN|Infinity)")
_encode = JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_NAMES = {None: "null", True: "true", False: "false"}


def canonical(value: Json) -> bytes:
    """The canonical bytes of a JSON value; texts that are no Unicode have bytes of their own too."""
    # Where there are only ASCII and small whole numbers, Python's own encoder, ten times as fast, writes the same.
    plain = _encode(value)
    if plain.isascii() and not _UNUSUAL.search(plain):
        return plain.encode()
    return _spelled(value).encode("utf-8", "surrogatepass")


def _spelled(value: Json) -> str:
    # In this order because schemas hold mostly texts and objects, and a start with thousands of tools waits for this.
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quoted(key)}:{_spelled(value[key])}" for key in _sorted(value)]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_spelled, value)) + "]"
    if value is None or isinstance(value, bool):
        return _NAMES[value]
    if isinstance(value, int):
        return _whole(value)
    if isinstance(value, float):
        return _number(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _sorted(keys: Iterable[str]) -> list[str]:
    """In the order of UTF-16, which differs from Python's only above the surrogates."""
    ordered = sorted(keys)
    return ordered if all(map(str.isascii, ordered)) else sorted(ordered, key=_utf16)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _whole(value: int) -> str:
    """RFC 8785 knows doubles only; a whole number that is none is a BigInt, or it would equal its neighbours."""
    if -_EXACT <= value <= _EXACT:
        return str(value)
    try:
        nearest = float(value)
    except OverflowError:
        return f"{value}n"
    return _number(nearest) if nearest == value else f"{value}n"


def _number(value: float) -> str:
    """As ECMAScript's Number::toString; Python finds the same shortest digits."""
    if not isfinite(value):
        return "null"  # which is what every dialect writes
    if value == 0:
        return "0"
    mantissa, _, power = repr(abs(value)).partition("e")
    before, _, after = mantissa.partition(".")
    digits = (before + after).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    point = len(before) + int(power or 0) - (len(before + after) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"
