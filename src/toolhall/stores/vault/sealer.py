"""Seals what others keep, such as the tokens of accounts, with the data keys of the vault."""

from collections.abc import Awaitable, Callable

from toolhall.stores.base import StoreFailed
from toolhall.stores.vault.envelope import UnknownKey, key_of
from toolhall.stores.vault.shelf import Shelf


class Sealer:
    """For one tenant; `bound` says what a record is, and it opens for exactly that only."""

    def __init__(self, tenant: str, shelf: Callable[[], Shelf], refresh: Callable[[], Awaitable[None]]) -> None:
        self._tenant = tenant
        self._shelf = shelf
        self._refresh = refresh

    def seal(self, plain: bytes, *bound: str) -> bytes:
        """Sealed with the tenant's newest key; raises StoreFailed if that was shredded since."""
        key = self._shelf().sealing.get((self._tenant, "records"))
        if key is None:
            raise StoreFailed("the keys of its owner were shredded just now; try again")
        return key.seal(plain, *bound)

    def open(self, sealed: bytes, *bound: str) -> bytes:
        """What was sealed for exactly this; raises Unopened."""
        key = self._shelf().keys.get(key_of(sealed))
        if key is None or (key.kept.tenant, key.kept.use) != (self._tenant, "records"):
            raise UnknownKey("the key that sealed it is not here")
        return key.open(sealed, *bound)

    async def find(self, sealed: bytes, *bound: str) -> bytes:
        """The same, also for what another process sealed with a key that it has just made."""
        try:
            return self.open(sealed, *bound)
        except UnknownKey:
            await self._refresh()
            return self.open(sealed, *bound)
