"""Keys and grants of one hall, opened together."""

from collections.abc import Callable

from toolhall.registrar.grants import Changed, Grants
from toolhall.registrar.keys import Keys
from toolhall.registrar.turns import Turns
from toolhall.stores.bundle import Stores
from toolhall.stores.keys.ring import KeyRing


class Access:
    """Who has a key, and who was granted what; `changed` hears of the grants whenever they change."""

    def __init__(self, root: bytes, turns: Turns, clock: Callable[[], float], changed: Changed) -> None:
        self.ring = KeyRing(root, clock)
        self.keys = Keys(self.ring, turns, clock)
        self.grants = Grants(changed, turns, clock)

    async def open(self, stores: Stores) -> None:
        """Bring back what there is; raises StoreFailed."""
        await self.keys.open(stores)
        await self.grants.open(stores)
