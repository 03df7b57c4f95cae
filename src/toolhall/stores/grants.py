"""Grants: stored permit and forbid rules, the GrantStore protocol and its in-memory implementation."""

from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.json import Json
from toolhall.stores.common import Stale, check_storable

GrantEffect: TypeAlias = Literal["permit", "forbid"]
# Half a surrogate pair has no UTF-8, and PostgreSQL keeps no NUL; so no engine does.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=512)]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


class Condition(msgspec.Struct, frozen=True):
    """What an argument must be: the value at a JSON pointer is one of these."""

    path: _Text
    one_of: tuple[Json, ...]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; a call is permitted by one that permits it and by none that forbids it."""

    id: _Text
    effect: GrantEffect
    callers: _Text  # a glob over the ids of callers
    tools: _Text  # a glob over the ids of tools; one without a version means all versions
    conditions: tuple[Condition, ...] = ()  # all of them must hold
    created_at: _Timestamp
    by: _Text


class GrantReader(Protocol):
    """What may be read, also while another process writes."""

    async def all(self) -> tuple[Grant, ...]:
        """Every grant, what was made first first."""
        ...


class GrantStore(GrantReader, Protocol):
    """A change is there once its call has returned."""

    async def add(self, grant: Grant) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        ...

    async def remove(self, grant_id: str) -> Grant | None:
        """Forget it, and return what it was; None if there is none."""
        ...


def sort_grants(grants: list[Grant]) -> tuple[Grant, ...]:
    """As every store lists them."""
    return tuple(sorted(grants, key=lambda each: (each.created_at, each.id)))


class MemoryGrantStore:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    async def all(self) -> tuple[Grant, ...]:
        """Every grant, what was made first first."""
        return sort_grants([*self._grants.values()])

    async def add(self, grant: Grant) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        check_storable(grant)
        if grant.id in self._grants:
            raise Stale([grant.id])
        self._grants[grant.id] = grant

    async def remove(self, grant_id: str) -> Grant | None:
        """Forget it, and return what it was; None if there is none."""
        return self._grants.pop(grant_id, None)
