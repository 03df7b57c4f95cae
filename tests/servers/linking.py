"""A hall's broker with a real door, vault and store, and a browser that goes where it is told."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.harness.patience import patience
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
    """Goes on when a test says so."""

    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


@dataclass
class Linking:
    """One hall, as far as accounts go."""

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

    async def agree(self, link: AccountLink, caller: Caller = ALICE) -> "Visit":
        """The person agrees on our page, and then at the provider's."""
        url, nonce = await self.broker.consent(link.id, caller)
        return Visit(url, nonce, await visited(url))

    async def connect(self, caller: Caller = ALICE, scopes: tuple[str, ...] = MAIL.scopes) -> AccountLink:
        """The whole way."""
        visit = await self.agree(await self.begin(caller, scopes), caller)
        return await self.broker.finish_redirect(visit.path, visit.query, visit.nonce)

    async def state(self, link: AccountLink) -> str | None:
        """How far it is; None if it is too old."""
        found = await self.broker.find_link(link.id)
        return None if found is None else found.state

    async def token(self, need: AccountRequirement = MAIL, user: str = "alice") -> AccountToken | None:
        return await self.broker.get_token(user, need)


@dataclass
class Visit:
    """Where the browser went, and where it was sent back to."""

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


async def visited(url: str) -> str:
    """Where a browser is sent back to; not the hall's HTTP client, so that its log is the hall's alone."""
    return await asyncio.to_thread(_visited, url)


def _visited(url: str) -> str:
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=patience())) as browser:
        browser.request("GET", f"{parts.path}?{parts.query}")
        reply = browser.getresponse()
        assert reply.status == 302, reply.read()
        return reply.headers["location"]


def settings(issuer: str | None, **changed: Any) -> ProviderSettings:
    """How the operator describes a provider; with an issuer, that publishes the rest."""
    given: dict[str, Any] = {"issuer": issuer, "client_id": "hall", "client_secret": SECRET} | changed
    return ProviderSettings(**given)


def register(server: Authority, way: str = "client_secret_basic") -> Authority:
    """The operator registers the hall there."""
    server.clients["hall"] = Client("hall", SECRET, REDIRECT, way)
    return server


def opened(*issuers: str) -> EgressClient:
    """A door to these servers on loopback, and to no other inner address."""
    return EgressClient(EgressAllowlist([urlsplit(each).netloc for each in issuers]))


@dataclass
class Kept:
    """What survives a restart: the stores and the key."""

    accounts: AccountStore
    vault: VaultStore
    key: str = field(default_factory=generate_key)


@asynccontextmanager
async def linking(
    providers: dict[str, ProviderSettings], *, kept: Kept | None = None, clock: Clock | None = None, **options: Any
) -> AsyncGenerator[Linking]:
    """A hall with these providers."""
    clock = clock or Clock()
    kept = kept or Kept(MemoryAccountStore(clock), MemoryVaultStore())
    door = options.pop("door", None) or opened(*(each.issuer for each in providers.values() if each.issuer))
    vault = Vault(find_key_encryption_keys(kept.key, None, profile="local"), clock)
    await vault.open(kept.vault)
    built = {name: build_provider(name, settings) for name, settings in providers.items()}
    broker = Broker(built, door, vault, clock, lambda: options.get("address", HALL), **_sleeping(options))
    broker.open(kept.accounts)
    try:
        yield Linking(broker, vault, kept.accounts, clock)
    finally:
        await broker.close()
        vault.close()


def _sleeping(options: dict[str, Any]) -> dict[str, Any]:
    return {"sleep": options["sleep"]} if "sleep" in options else {}
