"""PlainShape: reads calls of one usual shape by their type, with the guarantees of `strict_json` at less cost.

Theory of operation. Nearly all messages of a dialect are calls of one shape: a few short members and small arguments,
without escapes. A dialect describes that shape as a Struct without unknown members; msgspec then decodes names, ids and
lengths in one step. What `strict_json` checks beyond that can only be wrong in the arguments, and for duplicate keys:

- The arguments are encoded once. The encoding is passed on with the call: the audit's digest is made of it, and the
  tool's function is given what is decoded from it.
- Each key is one colon. The required keys of the shape and the colons in the encoded arguments are the least that the
  body can have; if it has no more, no key occurs twice. If it has more, because of optional members or of colons in
  texts, the whole message is encoded and its colons are counted.
- Arguments that are encoded in MAX_DEPTH bytes have neither too many levels nor too long keys. Longer ones are plain
  while the body has few brackets, where the strict decoder makes no walk over the value either.

Whatever is not plain is read by the dialect's general reader, which also reports what is wrong with it; a property test
compares both.
"""

from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec

from toolhall.dialects.strict_json import MAX_DEPTH, MAX_DIGITS, MAX_ID_LENGTH, SMALL_BODY, has_long_number
from toolhall.model.json import JsonObject, encode

StructT = TypeVar("StructT", bound=msgspec.Struct)
ShortText: TypeAlias = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ID_LENGTH)]  # as `require_text`


class PlainShape(Generic[StructT]):
    """The usual shape of a dialect's calls: a Struct with `forbid_unknown_fields` and `omit_defaults`.

    All of its members are texts, integers or such Structs, except the arguments.
    """

    def __init__(self, shape: type[StructT]) -> None:
        self._decode = msgspec.json.Decoder(shape).decode
        self._required_keys = _count_required_keys(shape)

    def decode(self, body: bytes) -> StructT | None:
        """Decode a small message of this shape; None if it has another one, or any escape."""
        # `find`, because `in` with bytes raises and drops an exception inside CPython.
        if len(body) > SMALL_BODY or body.find(b"\\") >= 0:
            return None
        try:
            return self._decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def encode_arguments(
        self, body: bytes, message: StructT, arguments: JsonObject, optional_keys: int = 0
    ) -> bytes | None:
        """Encode the arguments of a decoded message; None if it needs the checks of the general reader.

        `optional_keys` is the number of optional members that are known to be there.
        """
        encoded = encode(arguments)
        extra = body.count(b":") - encoded.count(b":") - self._required_keys - optional_keys
        if extra and body.count(b":") != encode(message).count(b":"):
            return None
        size = len(encoded)
        if size > MAX_DIGITS and has_long_number(encoded):
            return None
        if size > MAX_DEPTH and body.count(b"{") + body.count(b"[") > MAX_DEPTH:
            return None
        return encoded


def _count_required_keys(shape: Any) -> int:
    """The number of keys that every message of a shape has, at all levels."""
    required = [field.type for field in msgspec.structs.fields(shape) if field.required]
    inner = [kind for kind in required if isinstance(kind, type) and issubclass(kind, msgspec.Struct)]
    return len(required) + sum(map(_count_required_keys, inner))
