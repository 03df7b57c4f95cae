"""Strict JSON decoder: rejects duplicate keys, NUL, deep nesting, long keys and integers of too many digits.

The decoder refuses what parsers silently disagree about, at nearly the speed of a lax one. msgspec refuses NaN,
infinities, bad UTF-8, byte-order marks and lone surrogates. It keeps the last of two equal keys, so keys are
counted: a decoded message encoded again must have as many colons as the message that came in.
"""

import json

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.json import Json, encode, walk_levels

MAX_DEPTH = 64
MAX_MEMBERS = 10_000
MAX_KEY_LENGTH = 256
MAX_DIGITS = 20
_SMALL_BODY = 4 * 1024
_DIGITS_TO_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_MANY_DIGITS = b"0" * (MAX_DIGITS + 1)
_decode = msgspec.json.Decoder().decode


def decode(body: bytes, envelope_depth: int = 0) -> Json:
    """The value of a JSON text; Malformed says what to change.

    A dialect's envelope is so many levels around the arguments, which are as deep as they may be in every dialect.
    """
    try:
        value = _decode(body)
        exact = encode(value)
    except RecursionError:
        raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeDecodeError:
        raise Malformed("the message is not valid UTF-8") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed(f"the message is not valid JSON: {error}") from None
    if len(body) > _SMALL_BODY or body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _check_size(value, MAX_DEPTH + envelope_depth)
    if b"\\u" in body:
        _check_escapes(body)
    elif body.count(b":") != exact.count(b":"):
        raise Malformed("an object has the same key twice")
    if _MANY_DIGITS in body.translate(_DIGITS_TO_ZERO):
        _check_numbers(value)
    return value


def _check_escapes(body: bytes) -> None:
    """With \\u escapes colons can hide, so every key is compared; NUL can hide too."""
    text = body.decode()
    try:
        json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    except RecursionError:
        raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    if "\\u0000" in text.replace("\\\\", ""):
        raise Malformed("the character U+0000 is not allowed")


def _reject_duplicate_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Malformed("an object has the same key twice")
    return found


def _check_size(value: Json, max_depth: int) -> None:
    """Depth, number of members, length of keys."""
    members = 0
    for depth, level in enumerate(walk_levels(value), 1):
        if depth > max_depth:
            raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep")
        for part in level:
            if type(part) is dict and part:
                members += len(part)
                if max(map(len, part)) > MAX_KEY_LENGTH:
                    raise Malformed(f"a key is longer than {MAX_KEY_LENGTH} characters")
        if members > MAX_MEMBERS:
            raise Malformed(f"the message has more than {MAX_MEMBERS} members")


def _check_numbers(value: Json) -> None:
    """No integer has too many digits; a string may."""
    for level in walk_levels([value]):
        for part in level:
            for each in part.values() if type(part) is dict else part:
                if type(each) is int and abs(each) >= 10**MAX_DIGITS:
                    raise Malformed(f"an integer has more than {MAX_DIGITS} digits; send it as a string")
