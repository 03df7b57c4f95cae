"""A broker of linked accounts with a real egress client, vault and store, and a browser that follows redirects."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.harness.http_client import request_url
from tests.servers.authority import Authority, Client
from toolhall.egress.addresses import EgressAllowlist
from toolhall.egress.client import EgressClient
from toolhall.model.caller import Caller
from toolhall.model.requirements import AccountRequirement, AccountToken
from toolhall.oauth.broker import Broker
from toolhall.oauth.providers import ProviderSettings, build_provider
from toolhall.stores.accounts import AccountLink, AccountStore, LinkMethod, MemoryAccountStore
from toolhall.stores.vault.key_sources import find_key_encryption_keys, generate_key
from toolhall.stores.vault.store import MemoryVaultStore, VaultStore
from toolhall.stores.vault.vault import Vault

HALL = "http://127.0.0.1:8000"
REDIRECT = f"{HALL}/oauth/callback"
SECRET = "client-secret-of-the-hall"
ALICE = Caller("alice", proof="key", person="alice")
BOB = Caller("bob", proof="key", person="bob")
MAIL = AccountRequirement("acme", ("mail.read",))
TOOL = "Mail.list@1.0.0"


@dataclass
class Clock:
    """A clock that a test sets."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


@dataclass
class BrokerHarness:
    """A broker with its vault, store and clock."""

    broker: Broker
    vault: Vault
    store: AccountStore
    clock: Clock

    async def begin(
        self,
        caller: Caller = ALICE,
        scopes: tuple[str, ...] = MAIL.scopes,
        how: LinkMethod = "browser",
        provider: str = "acme",
    ) -> AccountLink:
        return await self.broker.start_link(caller, provider, scopes, TOOL, how)

    async def agree(self, link: AccountLink, caller: Caller = ALICE) -> "BrowserVisit":
        """The person agrees on our page, and then at the provider's."""
        url, nonce = await self.broker.consent(link.id, caller)
        return BrowserVisit(url, nonce, await authorize_in_browser(url))

    async def connect(
        self, caller: Caller = ALICE, scopes: tuple[str, ...] = MAIL.scopes, provider: str = "acme"
    ) -> AccountLink:
        """Complete a link in a browser."""
        visit = await self.agree(await self.begin(caller, scopes, provider=provider), caller)
        return await self.broker.finish_redirect(visit.path, visit.query, visit.nonce)

    async def state(self, link: AccountLink) -> str | None:
        """The state of a link; None if it has expired."""
        found = await self.broker.find_link(link.id)
        return None if found is None else found.state

    async def token(self, need: AccountRequirement = MAIL, user: str = "alice") -> AccountToken | None:
        return await self.broker.get_token(user, need)


@dataclass
class BrowserVisit:
    """The URL that a browser opened, and the redirect that it got."""

    url: str
    nonce: str
    back: str

    @property
    def path(self) -> str:
        return urlsplit(self.back).path

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.back).query, keep_blank_values=True))

    @property
    def sent(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.url).query, keep_blank_values=True))


async def authorize_in_browser(url: str) -> str:
    """Open an authorization URL and return the redirect; not with the hall's HTTP client, whose log tests read."""
    return await asyncio.to_thread(_authorize, url)


def _authorize(url: str) -> str:
    reply = request_url(url)
    assert reply.status == 302, reply
    return reply.headers["location"]


def provider_settings(issuer: str | None, **changed: Any) -> ProviderSettings:
    """Settings of a provider; with an issuer, its metadata gives the endpoints."""
    given: dict[str, Any] = {"issuer": issuer, "client_id": "hall", "client_secret": SECRET} | changed
    return ProviderSettings(**given)


def register_hall(server: Authority, way: str = "client_secret_basic") -> Authority:
    """Register the hall as a client of the server."""
    server.clients["hall"] = Client("hall", SECRET, REDIRECT, way)
    return server


def egress_client_for(*issuers: str) -> EgressClient:
    """An egress client that may reach these servers on loopback, and no other private address."""
    return EgressClient(EgressAllowlist([urlsplit(each).netloc for each in issuers]))


@dataclass
class BrokerStorage:
    """The stores and the vault key, which survive a restart."""

    accounts: AccountStore
    vault: VaultStore
    key: str = field(default_factory=generate_key)


@asynccontextmanager
async def broker_harness(
    providers: dict[str, ProviderSettings],
    *,
    storage: BrokerStorage | None = None,
    clock: Clock | None = None,
    **options: Any,
) -> AsyncGenerator[BrokerHarness]:
    """Open a broker with these providers."""
    clock = clock or Clock()
    storage = storage or BrokerStorage(MemoryAccountStore(clock), MemoryVaultStore())
    egress = options.pop("egress", None) or egress_client_for(
        *(each.issuer for each in providers.values() if each.issuer)
    )
    vault = Vault(find_key_encryption_keys(storage.key, None, profile="local"), clock)
    await vault.open(storage.vault)
    built = {name: build_provider(name, settings) for name, settings in providers.items()}
    broker = Broker(built, egress, vault, clock, lambda: options.get("address", HALL), **_sleeping(options))
    broker.upstreams.settings_of = options.get("upstreams", {}).get
    broker.open(storage.accounts)
    try:
        yield BrokerHarness(broker, vault, storage.accounts, clock)
    finally:
        await broker.close()
        vault.close()


def _sleeping(options: dict[str, Any]) -> dict[str, Any]:
    return {"sleep": options["sleep"]} if "sleep" in options else {}
