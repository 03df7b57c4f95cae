"""API keys in memory: the oracle that every other engine must equal."""

from collections.abc import Mapping

from toolhall.stores.base import Stale
from toolhall.stores.keys.base import ApiKey, in_order, revoked_at, used_at
from toolhall.stores.storable import refuse_unstorable_row


class MemoryKeys:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._keys: dict[str, ApiKey] = {}

    async def all(self) -> tuple[ApiKey, ...]:
        """Every key, what was made first first."""
        return in_order([*self._keys.values()])

    async def add(self, key: ApiKey) -> None:
        """Keep a new one; raises Stale if its id is taken."""
        refuse_unstorable_row(key)
        if key.id in self._keys:
            raise Stale([key.id])
        self._keys[key.id] = key

    async def revoke(self, key_id: str, at: float) -> ApiKey | None:
        """From now on it is good for nothing; None if there is none."""
        found = self._keys.get(key_id)
        if found is not None:
            found = self._keys[key_id] = revoked_at(found, at)
        return found

    async def used(self, moments: Mapping[str, float]) -> None:
        """When some were last used."""
        for key_id in moments.keys() & self._keys.keys():
            self._keys[key_id] = used_at(self._keys[key_id], moments[key_id])
