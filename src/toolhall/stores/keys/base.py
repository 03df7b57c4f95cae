"""What is remembered of API keys, and the small protocol that every engine keeps."""

from collections.abc import Mapping
from typing import Annotated, Protocol, TypeAlias

import msgspec

_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=256)]
_Moment: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key; its secret is not among it, only what proves that somebody has it."""

    id: _Text
    name: _Text  # the id of the caller that holds it; several keys of one name are one caller
    owner: _Text | None = None  # the person who answers for it; else its name
    shared: bool = False  # several programs hold it, so it proves less
    scopes: tuple[_Text, ...] = ()
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    created_at: _Moment
    expires_at: _Moment | None = None
    last_used_at: _Moment | None = None
    revoked_at: _Moment | None = None
    by: _Text


class KeyReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, also those that are revoked or expired, what was made first first."""
        ...


class KeyStore(KeyReader, Protocol):
    """A change is there once its call has returned."""

    async def add(self, key: ApiKey) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        ...

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """From now on it is good for nothing; None if there is none. One that was revoked before stays as it is."""
        ...

    async def used(self, moments: Mapping[str, float]) -> None:
        """When some were last used; ids that are not there are ignored, and time does not go back."""
        ...


def in_order(keys: list[ApiKey]) -> tuple[ApiKey, ...]:
    """As every store lists them."""
    return tuple(sorted(keys, key=lambda each: (each.created_at, each.id)))


def used_at(key: ApiKey, moment: float) -> ApiKey:
    """The key as it is after it was used then."""
    return msgspec.structs.replace(key, last_used_at=max(moment, key.last_used_at or 0.0))


def revoked_at(key: ApiKey, moment: float) -> ApiKey:
    """The key as it is after it was revoked then, if it was not before."""
    return key if key.revoked_at is not None else msgspec.structs.replace(key, revoked_at=moment)
