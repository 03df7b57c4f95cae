"""Keys and grants of one hall, opened together."""

from collections.abc import Awaitable, Callable

from toolhall.registrar.following import Following
from toolhall.registrar.grants import Changed, Grants
from toolhall.registrar.keys import Keys
from toolhall.registrar.turns import Turns
from toolhall.stores.bundle import Stores
from toolhall.stores.keys.ring import KeyRing


class Access:
    """Who has a key, and who was granted what; `changed` hears of the grants whenever they change."""

    def __init__(self, root: bytes, turns: Turns, clock: Callable[[], float], changed: Changed) -> None:
        self.turns = turns
        self._following = Following(self._follow)
        self.ring = KeyRing(root, clock)
        self.keys = Keys(self.ring, turns, clock)
        self.grants = Grants(changed, turns, clock)
        self.also: list[Callable[[], Awaitable[None]]] = []  # what else takes over what other processes changed

    async def open(self, stores: Stores) -> None:
        """Bring back what there is; raises StoreFailed."""
        await self._following.begin(stores.version)  # before anything is read: a change in between is seen later
        await self.keys.open(stores)
        await self.grants.open(stores)

    def watch(self) -> None:
        """Notice what other processes change, in the loop that runs now."""
        self._following.watch()

    def close(self) -> None:
        """Watch no longer; whoever opened the stores closes them."""
        self._following.stop()

    async def _follow(self) -> None:
        """Keys first: one that was revoked does not wait for grants that cannot be read."""
        await self.keys.follow()
        await self.grants.follow()
        for take in self.also:
            await take()
