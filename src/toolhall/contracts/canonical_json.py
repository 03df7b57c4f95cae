"""Canonical JSON of RFC 8785 (canonical_json), and the differences between two JSON values (diff_json).

RFC 8785 is short enough to be implemented here: keys in the order of UTF-16, numbers as ECMAScript writes them, and
strings as Python's own encoder writes them. Equal values have equal bytes.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from json.encoder import JSONEncoder
from json.encoder import encode_basestring as _quoted
from math import isfinite

import msgspec

from toolhall.model.json import Json, escape_pointer

_MAX_SAFE_INTEGER = 2**53  # integers up to here are exact in every program
# Finds numbers that ECMAScript may spell differently from Python; false positives only cost time.
_UNUSUAL_NUMBER = re.compile(r"(?:^|[:,\[])-?(?:[0-9]+[.e]|[0-9]{16}|NaN|Infinity)")
_encode = JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
_LITERALS = {None: "null", True: "true", False: "false"}


class JsonDifference(msgspec.Struct, frozen=True, omit_defaults=True):
    """One differing path; a side without a value there is UNSET."""

    path: str
    old: Json = msgspec.UNSET
    new: Json = msgspec.UNSET


def canonical_json(value: Json) -> bytes:
    """The canonical bytes of a JSON value; strings with lone surrogates have distinct bytes too."""
    # For ASCII and small integers, Python's own encoder writes the same and is ten times as fast.
    plain = _encode(value)
    if plain.isascii() and not _UNUSUAL_NUMBER.search(plain):
        return plain.encode()
    return _encode_value(value).encode("utf-8", "surrogatepass")


def diff_json(old: Json, new: Json, ignored: Collection[str], limit: int) -> list[JsonDifference]:
    """The first `limit` differences; 1 and 1.0 are equal, and paths in `ignored` are not compared."""
    return list(islice(_differences(old, new, "", ignored), limit))


def _encode_value(value: Json) -> str:
    # Most frequent types first: schemas hold mostly strings and objects, and a start with many tools waits for this.
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join([f"{_quoted(key)}:{_encode_value(value[key])}" for key in _sorted_keys(value)]) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(_encode_value, value)) + "]"
    if value is None or isinstance(value, bool):
        return _LITERALS[value]
    if isinstance(value, int):
        return _encode_integer(value)
    if isinstance(value, float):
        return _encode_float(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def _sorted_keys(keys: Iterable[str]) -> list[str]:
    """Keys in the order of UTF-16, which differs from Python's only above the surrogates."""
    ordered = sorted(keys)
    return ordered if all(map(str.isascii, ordered)) else sorted(ordered, key=_utf16)


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def _encode_integer(value: int) -> str:
    """RFC 8785 has doubles only; an integer that is none gets a suffix, or it would equal its neighbours."""
    if -_MAX_SAFE_INTEGER <= value <= _MAX_SAFE_INTEGER:
        return str(value)
    try:
        nearest = float(value)
    except OverflowError:
        return f"{value}n"
    return _encode_float(nearest) if nearest == value else f"{value}n"


def _encode_float(value: float) -> str:
    """As ECMAScript's Number::toString; Python finds the same shortest digits."""
    if not isfinite(value):
        return "null"  # as every dialect writes it
    if value == 0:
        return "0"
    mantissa, _, power = repr(abs(value)).partition("e")
    before, _, after = mantissa.partition(".")
    digits = (before + after).lstrip("0")
    # The value is 0.DIGITS times ten to the power of `point`.
    point = len(before) + int(power or 0) - (len(before + after) - len(digits))
    digits = digits.rstrip("0")
    return ("-" if value < 0 else "") + _format_digits(digits, point)


def _format_digits(digits: str, point: int) -> str:
    if len(digits) <= point <= 21:
        return digits + "0" * (point - len(digits))
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    fraction = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{digits[0]}{fraction}e{point - 1:+d}"


def _differences(old: Json, new: Json, path: str, ignored: Collection[str]) -> Iterator[JsonDifference]:
    if path in ignored:
        return
    match old, new:
        case dict(), dict():
            for key in dict.fromkeys((*old, *new)):
                parts = old.get(key, msgspec.UNSET), new.get(key, msgspec.UNSET)
                yield from _differences(*parts, f"{path}/{escape_pointer(key)}", ignored)
        case list(), list():
            for index in range(max(len(old), len(new))):
                yield from _differences(_item(old, index), _item(new, index), f"{path}/{index}", ignored)
        case _ if _canonical_or_none(old) != _canonical_or_none(new):
            yield JsonDifference(path, old, new)
        case _:
            return


def _item(items: list[Json], index: int) -> Json:
    return items[index] if index < len(items) else msgspec.UNSET


def _canonical_or_none(value: Json) -> bytes | None:
    return None if value is msgspec.UNSET else canonical_json(value)
