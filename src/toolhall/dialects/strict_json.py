r"""Strict JSON decoder (decode) and typed access to the members of decoded messages.

Theory of operation. JSON parsers disagree about duplicate keys, NUL, huge integers and deep nesting; where two parsers
read one message differently, a check made by one can be bypassed through the other. `decode` refuses everything they
disagree about, at nearly the speed of a lax decoder:

- msgspec already refuses NaN, infinities, invalid UTF-8, byte-order marks and lone surrogates.
- msgspec silently keeps the last of two equal keys. Each key has one colon, so the decoded value is encoded again and
  the colons of both texts are counted: fewer after decoding means that a duplicate key was dropped. Colons inside
  strings occur equally often in both texts, unless an escape (`\u003a`) hides one; a body with any `\u` escape is
  parsed a second time with `json`, which reports every key, and is searched for an escaped NUL.
- Depth, number of members and length of keys need a walk over the value. Small bodies with few brackets cannot exceed
  the limits and skip it.
- Integers are checked only if the body has more than MAX_DIGITS digits in a row, found by one `translate`.

The limits hold for every dialect. An envelope adds levels around the arguments (`envelope_depth`), so that arguments
may be equally deep in all of them.
"""

import json

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode, walk_levels

MAX_DEPTH = 64
MAX_MEMBERS = 10_000
MAX_KEY_LENGTH = 256
MAX_DIGITS = 20
MAX_INTEGER = 10**MAX_DIGITS  # exclusive
MAX_ID_LENGTH = 256  # characters of a request id, a tool name or a method name in a message
SMALL_BODY = 4 * 1024
_DIGITS_TO_ZERO = bytes(0x30 if 0x30 <= byte <= 0x39 else byte for byte in range(256))
_MANY_DIGITS = b"0" * (MAX_DIGITS + 1)
_decode = msgspec.json.Decoder().decode


def decode(body: bytes, envelope_depth: int = 0) -> Json:
    """Decode one JSON text; raises Malformed, whose message names the fix.

    `envelope_depth` is the number of levels that the dialect's envelope puts around the arguments.
    """
    return decode_and_encode(body, envelope_depth)[0]


def decode_and_encode(body: bytes, envelope_depth: int = 0) -> tuple[Json, bytes]:
    """Decode one JSON text like `decode`; also return the encoded value, which the check for duplicate keys needs."""
    try:
        value = _decode(body)
        encoded = encode(value)
    except RecursionError:
        raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    except UnicodeDecodeError:
        raise Malformed("the message is not valid UTF-8") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise Malformed(f"the message is not valid JSON: {error}") from None
    if len(body) > SMALL_BODY or body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _check_size(value, MAX_DEPTH + envelope_depth)
    if b"\\u" in body:
        _check_escapes(body)
    elif body.count(b":") != encoded.count(b":"):
        raise Malformed("an object has the same key twice")
    if has_long_number(body):
        _check_numbers(value)
    return value, encoded


def has_long_number(body: bytes) -> bool:
    """True if there are more than MAX_DIGITS digits in a row, in a number or in a string."""
    return len(body) > MAX_DIGITS and _MANY_DIGITS in body.translate(_DIGITS_TO_ZERO)


def require_object(value: Json, what: str) -> JsonObject:
    """The value as an object; raises Malformed that names `what`."""
    if isinstance(value, dict):
        return value
    raise Malformed(f"{what} must be an object")


def text_or_none(value: Json) -> str | None:
    """The value if it is a text of 1 to MAX_ID_LENGTH characters, else None."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH else None


def require_text(holder: JsonObject, key: str) -> str:
    """A required member of 1 to MAX_ID_LENGTH characters; raises Malformed that names the key."""
    value = text_or_none(holder.get(key))
    if value is None:
        raise Malformed(f"{key} must be a text of 1 to {MAX_ID_LENGTH} characters")
    return value


def optional_text(holder: JsonObject, key: str) -> str | None:
    """Like require_text, but None where the member is absent or null."""
    return None if holder.get(key) is None else require_text(holder, key)


def duplicate_key(pairs: list[tuple[str, Json]]) -> str | None:
    """The first key that occurs twice among the members of an object."""
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return key
        seen.add(key)
    return None


def _check_escapes(body: bytes) -> None:
    r"""Compare every key and look for NUL: behind `\u` escapes, colons and NUL are invisible to the fast checks."""
    text = body.decode()
    try:
        json.loads(text, object_pairs_hook=_reject_duplicate_keys)
    except RecursionError:
        raise Malformed(f"the JSON is nested more than {MAX_DEPTH} levels deep") from None
    if "\\u0000" in text.replace("\\\\", ""):
        raise Malformed("the character U+0000 is not allowed")


def _reject_duplicate_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    if duplicate_key(pairs) is not None:
        raise Malformed("an object has the same key twice")
    return dict(pairs)


def _check_size(value: Json, max_depth: int) -> None:
    """Enforce the limits of depth, number of members and length of keys."""
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
    """Refuse integers of more than MAX_DIGITS digits; strings may hold as many as they like."""
    for level in walk_levels([value]):
        for part in level:
            for member in part.values() if type(part) is dict else part:
                if type(member) is int and abs(member) >= MAX_INTEGER:
                    raise Malformed(f"an integer has more than {MAX_DIGITS} digits; send it as a string")
