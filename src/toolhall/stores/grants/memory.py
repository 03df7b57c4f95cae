"""Grants in memory: the oracle that every other engine must equal."""

from toolhall.stores.base import Stale
from toolhall.stores.grants.base import Grant, in_order
from toolhall.stores.storable import refuse_unstorable_row


class MemoryGrants:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._grants: dict[str, Grant] = {}

    async def all(self) -> tuple[Grant, ...]:
        """Every grant, what was made first first."""
        return in_order([*self._grants.values()])

    async def add(self, grant: Grant) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        refuse_unstorable_row(grant)
        if grant.id in self._grants:
            raise Stale([grant.id])
        self._grants[grant.id] = grant

    async def remove(self, grant_id: str) -> Grant | None:
        """Forget it, and return what it was; None if there is none."""
        return self._grants.pop(grant_id, None)
