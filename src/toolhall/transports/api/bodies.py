"""Bodies of requests that are about people."""

from typing import TypeVar

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.json import Json

T = TypeVar("T", bound=msgspec.Struct)


def body_as(given: Json, kind: type[T], example: str) -> T:
    """The body as an action wants it; Malformed says what to write instead, and repeats nothing of a code."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError:
        raise Malformed(f"this body cannot be read; write {example}") from None
