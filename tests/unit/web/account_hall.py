"""A hall with a tool that needs a linked account, and helpers to link it in a browser."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.servers.authority import Authority, Client
from tests.unit.web.browser_client import ORIGIN, Browser, Reply
from toolhall import Config, Context, Toolhall, Toolkit, tool
from toolhall.model.call_records import AuditRecord
from toolhall.model.caller import ALL_TOOLS, LOCAL, Caller
from toolhall.model.errors import NeedsRequirement
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.oauth.providers import ProviderSettings
from toolhall.registration.access import NewGrant, NewKey
from toolhall.stores.accounts import AccountLink
from toolhall.stores.audit.journal import MemoryJournal

SECRET = "client-secret-of-the-hall"
SCOPES = ("mail.read", "mail.send")


class Post(Toolkit, name="Post", version="1.0.0"):
    """Reads letters."""

    @tool(account=f"acme:{' '.join(SCOPES)}")
    async def read(self, ctx: Context) -> str:
        """Read the letters of an account."""
        return ctx.account.provider

    @tool(secrets=["SMS_KEY"])
    async def ring(self, ctx: Context) -> int:
        """Ring somebody."""
        return len(ctx.secret("SMS_KEY"))


class AccountHall:
    """The hall with its provider, and access to its links, keys and records."""

    def __init__(self, hall: Toolhall, acme: Authority) -> None:
        self.hall = hall
        self.acme = acme

    async def ask(self, caller: Caller = LOCAL) -> str:
        """The path of the page that a call is sent to."""
        answer = await self.call(caller)
        assert isinstance(answer, NeedsRequirement), answer
        (missing,) = answer.missing
        path = f"/connect/{missing.id}"
        assert missing.url == f"{ORIGIN}{path}"
        assert f"{ORIGIN}{path}" in answer.message
        return path

    async def call(self, caller: Caller = LOCAL) -> Any:
        """What a call ends with: a value, or an error."""
        answer = await self.hall.dispatcher.answer(CallTool("Post_read", {}, "test"), caller)
        return answer.result.encoded if isinstance(answer, CompletedCall) else answer

    async def link(self, path: str) -> AccountLink:
        found = await self.hall.credentials.broker.find_link(path.rpartition("/")[2])
        assert found is not None
        return found

    async def key(self, name: str, *scopes: str, owner: str | None = None, shared: bool = False) -> str:
        """A new API key, whose caller may call everything."""
        wanted = NewKey(name=name, owner=owner, shared=shared, scopes=(ALL_TOOLS, *scopes))
        _, secret = await self.hall.access.keys.create(wanted, "local")
        await self.hall.access.grants.add(NewGrant(callers=name, tools="*"), "local")
        return secret

    def recorded(self) -> list[AuditRecord]:
        assert isinstance(self.hall.journal, MemoryJournal)
        return [each for each in self.hall.journal.records if each.phase is None and "management" in each.dialect]


async def agree_on_page(browser: Browser, path: str) -> str:
    """Agree on the connect page; the authorization URL that the browser is redirected to."""
    page = await browser.get(path)
    reply = await browser.post(path, {"word": page.word("connect"), "action": "connect"})
    assert reply.status == 303, reply.text
    return reply.header("location")


async def agree_at_provider(url: str) -> str:
    """Agree at the provider, over real HTTP; path and query of the redirect."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        reply = await client.get(url, follow_redirects=False)
    back: str = reply.headers["location"]
    assert back.startswith(f"{ORIGIN}/oauth/callback?"), reply.text
    return back.removeprefix(ORIGIN)


async def open_callback(browser: Browser, back: str, **headers: str) -> Reply:
    """Open the callback as a cross-site navigation."""
    return await browser.get(back, **{"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", **headers})


@asynccontextmanager
async def account_hall(acme: Authority, **settings: Any) -> AsyncGenerator[AccountHall]:
    """Open the hall, registered at the provider."""
    redirect = f"{settings.get('public_url', ORIGIN)}/oauth/callback"
    acme.clients["hall"] = Client("hall", SECRET, redirect, "client_secret_basic")
    provider = ProviderSettings(issuer=acme.issuer, client_id="hall", client_secret=SECRET)
    config = Config(providers={"acme": provider}, egress_allow=(urlsplit(acme.issuer).netloc,), **settings)
    with Toolhall(Post(), config=config) as hall:
        await hall.open()
        yield AccountHall(hall, acme)
        await hall.settle()
