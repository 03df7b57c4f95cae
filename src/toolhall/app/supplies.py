"""What the hall supplies its tools with: secrets, accounts of users, and a guarded way to the outside."""

import time
from collections.abc import Callable
from pathlib import Path

from toolhall.accounts.broker import Broker
from toolhall.accounts.failures import BadProvider
from toolhall.config import BadConfig, Config
from toolhall.egress.addresses import Allowed, BadEntry
from toolhall.egress.outside import Outside
from toolhall.pipeline.equip import Equip
from toolhall.stores.base import StoreFailed
from toolhall.stores.bundle import Stores
from toolhall.stores.vault.keys import Keks, NoKey, find_keks
from toolhall.stores.vault.vault import Vault


class Supplies:
    """`address` is where people reach the hall's pages."""

    def __init__(self, config: Config, folder: Path | None, address: Callable[[], str]) -> None:
        try:
            Allowed(config.egress_allow)
            keks = find_keks(config.vault_key, folder, profile=config.profile)
            if config.providers and config.profile == "server":
                _refuse_unlinkable(config, keks)
            self.vault = Vault(keks, time.time)
            outside = Outside(config.egress_allow, of_hall=True)
            self.broker = Broker(config.providers, outside, self.vault, time.time, address)
        except (BadEntry, BadProvider, StoreFailed) as bad:
            raise BadConfig(str(bad)) from None
        self.equip = Equip(self.vault, self.broker, config.accept_credentials)

    async def open(self, stores: Stores) -> None:
        """Bring back what is kept; raises StoreFailed, also where secrets are and their key is not."""
        await self.vault.open(stores.vault)
        await self.broker.open(stores.accounts)

    async def refresh(self) -> None:
        """Take over what other processes changed."""
        await self.vault.refresh()
        await self.broker.refresh()

    async def settle(self) -> None:
        """Finish what must not be lost: a token that was fetched is kept before anything ends."""
        await self.broker.close()

    def close(self) -> None:
        """Forget what was opened."""
        self.vault.close()


def _refuse_unlinkable(config: Config, keks: Keks | NoKey) -> None:
    """Where others are served, nobody could link an account without these."""
    if isinstance(keks, NoKey):
        raise BadConfig(f"'providers' are set up, and accounts are kept sealed: {keks.fix}")
    if config.public_url is None:
        raise BadConfig("'providers' are set up, and people follow links to the hall: set public_url to what they use")
