"""Refuses what no engine would bring back as it is."""

import msgspec

from toolhall.stores.base import Unstorable


def refuse_unstorable_row(row: msgspec.Struct) -> None:
    """Raise Unstorable unless every engine will bring this row back exactly."""
    try:
        again = msgspec.json.decode(msgspec.json.encode(row), type=type(row))
    except (msgspec.MsgspecError, UnicodeEncodeError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Unstorable(f"this cannot be stored: {error}") from None
    if again != row:
        raise Unstorable("this cannot be stored: it holds more than plain values")
