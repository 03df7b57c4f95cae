"""Second factors: TOTP, passkeys and invitations of a person, the FactorStore protocol and its in-memory implementation."""

import time
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.stores.common import Clock, MonotonicClock

MAX_ATTEMPTS = 5  # wrong codes of one person,
ATTEMPT_WINDOW_SECONDS = 300.0  # within so many seconds
FactorKind: TypeAlias = Literal["totp", "passkey", "invitation"]
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """One authenticator of a person, or the invitation to add one; `secret` is sealed, and says nothing by itself."""

    id: _Text
    person: _Text
    kind: FactorKind
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

    async def add(self, factor: Factor, invitation_id: str | None = None) -> bool:
        """Add it, in place of an invitation if one is named; False if that is gone, or if it is there already."""
        ...

    async def remove(self, factor_id: str) -> bool:
        """Forget it; False if there is none."""
        ...

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Note that it was used; False unless the counter rises (or is 0 always, as it is for most passkeys)."""
        ...

    async def record_attempt(self, person: str) -> float:
        """Count a try of this person; 0, or in how many seconds the next one is allowed."""
        ...

    async def reset_attempts(self, person: str) -> None:
        """Forget the tries of this person, because one was right."""
        ...


def unexpired_factors(factors: "list[Factor]", now: float) -> tuple[Factor, ...]:
    """As every store lists them."""
    there = [each for each in factors if each.expires is None or each.expires > now]
    return tuple(sorted(there, key=lambda each: (each.created_at, each.id)))


def retry_delay(attempts: list[float], now: float) -> float:
    """How long to wait after tries at these moments, in seconds; 0 if another one is allowed."""
    recent = sorted(each for each in attempts if each > now - ATTEMPT_WINDOW_SECONDS)
    return 0.0 if len(recent) < MAX_ATTEMPTS else recent[-MAX_ATTEMPTS] + ATTEMPT_WINDOW_SECONDS - now


class MemoryFactorStore:
    """Keeps them until the process ends."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = MonotonicClock(clock)
        self._factors: dict[str, Factor] = {}
        self._attempts: dict[str, list[float]] = {}

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Every factor of a person, or of everybody, the oldest first; an invitation that is too old is not there."""
        return unexpired_factors(
            [each for each in self._factors.values() if person in (None, each.person)], self._clock()
        )

    async def find(self, factor_id: str) -> Factor | None:
        """The one with this id; an invitation that is too old is not there."""
        kept = self._factors.get(factor_id)
        return next(iter(unexpired_factors([] if kept is None else [kept], self._clock())), None)

    async def add(self, factor: Factor, invitation_id: str | None = None) -> bool:
        """Add it, in place of an invitation if one is named; False if that is gone, or if it is there already."""
        there = {each.id for each in unexpired_factors(list(self._factors.values()), self._clock())}
        if factor.id in self._factors or (invitation_id is not None and invitation_id not in there):
            return False
        self._factors = {name: each for name, each in self._factors.items() if name in there and name != invitation_id}
        self._factors[factor.id] = factor
        return True

    async def remove(self, factor_id: str) -> bool:
        """Forget it; False if there is none."""
        return self._factors.pop(factor_id, None) is not None

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Note that it was used; False unless the counter rises (or is 0 always, as it is for most passkeys)."""
        found = self._factors.get(factor_id)
        if found is None or not (counter > found.counter or counter == found.counter == 0):
            return False
        self._factors[factor_id] = msgspec.structs.replace(found, counter=counter, used_at=self._clock())
        return True

    async def record_attempt(self, person: str) -> float:
        """Count a try of this person; 0, or in how many seconds the next one is allowed."""
        now = self._clock()
        tries = self._attempts.get(person, [])
        wait = retry_delay(tries, now)
        if not wait:
            self._attempts[person] = [*tries, now][-MAX_ATTEMPTS:]
        return wait

    async def reset_attempts(self, person: str) -> None:
        """Forget the tries of this person, because one was right."""
        self._attempts.pop(person, None)
