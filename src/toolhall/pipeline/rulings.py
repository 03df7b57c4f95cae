"""What rules say of a caller and a tool, whatever language they are written in."""

from typing import TypeAlias

import msgspec


class Permitted(msgspec.Struct, frozen=True):
    """Yes, and the rule that says so."""

    by: str


class Conditional(msgspec.Struct, frozen=True):
    """It depends on the arguments."""


class Forbidden(msgspec.Struct, frozen=True):
    """No, whatever else says yes, and the rule that says so."""

    by: str


class Unmatched(msgspec.Struct, frozen=True):
    """No rule says yes, which is a no."""


Ruling: TypeAlias = Permitted | Conditional | Forbidden | Unmatched
