"""What must be remembered of the ways in which people prove who they are, and the protocol that every engine keeps."""

from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

TRIES = 5  # wrong codes of one person,
TRY_SECONDS = 300.0  # within so many seconds

Kind: TypeAlias = Literal["totp", "passkey", "invitation"]
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """One authenticator of a person, or the invitation to add one; `secret` is sealed, and says nothing by itself."""

    id: _Text
    person: _Text
    kind: Kind
    secret: _Text
    by: _Text  # who added it
    created_at: float
    expires: float | None = None  # of an invitation
    counter: int = 0  # the last time step or signature that was accepted
    used_at: float | None = None


class FactorReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Every factor of a person, or of everybody, the oldest first; an invitation that is too old is not there."""
        ...

    async def find(self, factor_id: str) -> Factor | None:
        """The one with this id; an invitation that is too old is not there."""
        ...


class FactorStore(FactorReader, Protocol):
    """What was used once cannot be used again, however many try at the same moment."""

    async def add(self, factor: Factor, instead_of: str | None = None) -> bool:
        """Add it, in place of an invitation if one is named; False if that is gone, or if it is there already."""
        ...

    async def remove(self, factor_id: str) -> bool:
        """Forget it; False if there is none."""
        ...

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Note that it was used; False unless the counter rises (or is 0 always, as it is for most passkeys)."""
        ...

    async def attempt(self, person: str) -> float:
        """Count a try of this person; 0, or in how many seconds the next one is allowed."""
        ...

    async def forgive(self, person: str) -> None:
        """Forget the tries of this person, because one was right."""
        ...


def in_order(factors: "list[Factor]", now: float) -> tuple[Factor, ...]:
    """As every store lists them."""
    there = [each for each in factors if each.expires is None or each.expires > now]
    return tuple(sorted(there, key=lambda each: (each.created_at, each.id)))


def wait_after(tries: list[float], now: float) -> float:
    """How long to wait after tries at these moments, in seconds; 0 if another one is allowed."""
    recent = sorted(each for each in tries if each > now - TRY_SECONDS)
    return 0.0 if len(recent) < TRIES else recent[-TRIES] + TRY_SECONDS - now
