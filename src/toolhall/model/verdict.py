"""What authorization says of one call."""

from typing import Literal, TypeAlias

import msgspec

How: TypeAlias = Literal["step_up", "approval", "second_person"]


class Allow(msgspec.Struct, frozen=True):
    """Yes, and the grant that says so."""

    by: str
    level: int = 0
    conditional: bool = False  # the arguments have yet to meet a grant's conditions


class Deny(msgspec.Struct, frozen=True):
    """No; the reason may be shown to the caller, `by` is what forbids it, and `scopes` are what would help."""

    reason: str
    by: str | None = None
    level: int = 0
    scopes: tuple[str, ...] = ()
    anonymous: bool = False  # any credential might help


class Verify(msgspec.Struct, frozen=True):
    """Yes, once a person has verified this exact call, in the way that its level asks for."""

    by: str
    level: int
    how: How
    conditional: bool = False


Verdict: TypeAlias = Allow | Deny | Verify
