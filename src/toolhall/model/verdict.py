"""What authorization says of one call."""

from typing import TypeAlias

import msgspec


class Allow(msgspec.Struct, frozen=True):
    """Yes, and the grant that says so."""

    by: str


class Deny(msgspec.Struct, frozen=True):
    """No; the reason may be shown to the caller."""

    reason: str


class Verify(msgspec.Struct, frozen=True):
    """Yes, once a person has agreed to this exact call."""

    by: str
    how: str


Verdict: TypeAlias = Allow | Deny | Verify
