"""Second factors: TOTP, passkeys and invitations; the FactorStore protocol and its in-memory implementation."""

import time
from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.stores.common import Clock, MonotonicClock

MAX_ATTEMPTS = 5  # failed attempts of one person within ATTEMPT_WINDOW_SECONDS
ATTEMPT_WINDOW_SECONDS = 300.0
FactorKind: TypeAlias = Literal["totp", "passkey", "invitation"]
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z")]


class Factor(msgspec.Struct, frozen=True, kw_only=True):
    """One authenticator of a person, or an invitation to enrol one; `secret` is encrypted."""

    id: _Text
    person: _Text
    kind: FactorKind
    secret: _Text
    by: _Text  # the caller that added it
    created_at: float
    expires: float | None = None  # invitations only
    counter: int = 0  # the last accepted TOTP time step or passkey signature counter
    used_at: float | None = None


class FactorReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Return the factors of a person, or all factors, oldest first, without expired invitations."""
        ...

    async def find(self, factor_id: str) -> Factor | None:
        """Return the factor with this id; None for an expired invitation."""
        ...


class FactorStore(FactorReader, Protocol):
    """A one-time code or invitation is consumed once, however many callers use it concurrently."""

    async def add(self, factor: Factor, invitation_id: str | None = None) -> bool:
        """Insert a factor, consuming the invitation if one is named; False if that is gone, or if the id is taken."""
        ...

    async def remove(self, factor_id: str) -> bool:
        """Remove it; False if there is none."""
        ...

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Store the counter of a use; False unless it rises (or stays 0, as with most passkeys)."""
        ...

    async def record_attempt(self, person: str) -> float:
        """Count an attempt of this person; return 0, or the seconds until the next one is allowed."""
        ...

    async def reset_attempts(self, person: str) -> None:
        """Forget the person's attempts after a successful one."""
        ...


def unexpired_factors(factors: "list[Factor]", now: float) -> tuple[Factor, ...]:
    """Sort as every store lists them."""
    there = [each for each in factors if each.expires is None or each.expires > now]
    return tuple(sorted(there, key=lambda each: (each.created_at, each.id)))


def retry_delay(attempts: list[float], now: float) -> float:
    """Return the seconds until another attempt is allowed after attempts at these times; 0 if it is allowed now."""
    recent = sorted(each for each in attempts if each > now - ATTEMPT_WINDOW_SECONDS)
    return 0.0 if len(recent) < MAX_ATTEMPTS else recent[-MAX_ATTEMPTS] + ATTEMPT_WINDOW_SECONDS - now


class MemoryFactorStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = MonotonicClock(clock)
        self._factors: dict[str, Factor] = {}
        self._attempts: dict[str, list[float]] = {}

    async def all(self, person: str | None = None) -> tuple[Factor, ...]:
        """Return the factors of a person, or all factors, oldest first, without expired invitations."""
        return unexpired_factors(
            [each for each in self._factors.values() if person in (None, each.person)], self._clock()
        )

    async def find(self, factor_id: str) -> Factor | None:
        """Return the factor with this id; None for an expired invitation."""
        found = self._factors.get(factor_id)
        return next(iter(unexpired_factors([] if found is None else [found], self._clock())), None)

    async def add(self, factor: Factor, invitation_id: str | None = None) -> bool:
        """Insert a factor, consuming the invitation if one is named; False if that is gone, or if the id is taken."""
        there = {each.id for each in unexpired_factors(list(self._factors.values()), self._clock())}
        if factor.id in self._factors or (invitation_id is not None and invitation_id not in there):
            return False
        self._factors = {name: each for name, each in self._factors.items() if name in there and name != invitation_id}
        self._factors[factor.id] = factor
        return True

    async def remove(self, factor_id: str) -> bool:
        """Remove it; False if there is none."""
        return self._factors.pop(factor_id, None) is not None

    async def advance(self, factor_id: str, counter: int) -> bool:
        """Store the counter of a use; False unless it rises (or stays 0, as with most passkeys)."""
        found = self._factors.get(factor_id)
        if found is None or not (counter > found.counter or counter == found.counter == 0):
            return False
        self._factors[factor_id] = msgspec.structs.replace(found, counter=counter, used_at=self._clock())
        return True

    async def record_attempt(self, person: str) -> float:
        """Count an attempt of this person; return 0, or the seconds until the next one is allowed."""
        now = self._clock()
        tries = self._attempts.get(person, [])
        wait = retry_delay(tries, now)
        if not wait:
            self._attempts[person] = [*tries, now][-MAX_ATTEMPTS:]
        return wait

    async def reset_attempts(self, person: str) -> None:
        """Forget the person's attempts after a successful one."""
        self._attempts.pop(person, None)
