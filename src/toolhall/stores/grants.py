"""Grants: stored permit and forbid rules, the GrantStore protocol and its in-memory implementation."""

from typing import Annotated, Literal, Protocol, TypeAlias

import msgspec

from toolhall.model.json import Json
from toolhall.stores.common import Stale, check_storable

GrantEffect: TypeAlias = Literal["permit", "forbid"]
# A lone surrogate has no UTF-8, and PostgreSQL stores no NUL, so no engine accepts either.
_Text: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00\ud800-\udfff]*\Z", max_length=512)]
_Timestamp: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=1e12)]


class Condition(msgspec.Struct, frozen=True):
    """A condition on one argument: the value at a JSON pointer must be one of these."""

    path: _Text
    one_of: tuple[Json, ...]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One rule; a call needs a grant that permits it, and no grant may forbid it."""

    id: _Text
    effect: GrantEffect
    callers: _Text  # a glob over the ids of callers
    tools: _Text  # a glob over tool ids; without a version it matches all versions
    conditions: tuple[Condition, ...] = ()  # all of them must hold
    created_at: _Timestamp
    by: _Text


class GrantReader(Protocol):
    """The read-only half of the store; reads work while another process writes."""

    async def all(self) -> tuple[Grant, ...]:
        """Return all grants, oldest first."""
        ...


class GrantStore(GrantReader, Protocol):
    """A change is durable once its call has returned."""

    async def add(self, grant: Grant) -> None:
        """Insert it; raises Stale if its id is taken."""
        ...

    async def remove(self, grant_id: str) -> Grant | None:
        """Remove it and return it; None if there is none."""
        ...


def sort_grants(grants: list[Grant]) -> tuple[Grant, ...]:
    """Sort as every store lists them."""
    return tuple(sorted(grants, key=lambda each: (each.created_at, each.id)))


class MemoryGrantStore:
    """In-memory implementation; its content ends with the process."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    async def all(self) -> tuple[Grant, ...]:
        """Return all grants, oldest first."""
        return sort_grants([*self._grants.values()])

    async def add(self, grant: Grant) -> None:
        """Insert it; raises Stale if its id is taken."""
        check_storable(grant)
        if grant.id in self._grants:
            raise Stale([grant.id])
        self._grants[grant.id] = grant

    async def remove(self, grant_id: str) -> Grant | None:
        """Remove it and return it; None if there is none."""
        return self._grants.pop(grant_id, None)
