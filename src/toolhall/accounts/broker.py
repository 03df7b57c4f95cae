"""The hall as a client of other services: people connect their accounts, tools get tokens, and nobody else does."""

import asyncio
import hmac
import logging
import secrets
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from toolhall.accounts import flow
from toolhall.accounts.asking import Asker, Fetching
from toolhall.accounts.connecting import Connecting
from toolhall.accounts.device import Devices
from toolhall.accounts.disconnecting import Disconnected, Disconnecting
from toolhall.accounts.discovery import Discovery
from toolhall.accounts.failures import LinkFailed, Refusal, UnknownProvider, Unreachable
from toolhall.accounts.links import Links, Wanted, digest_of
from toolhall.accounts.providers import Endpoints, Provider, ProviderSettings, provider_of
from toolhall.accounts.renewing import Renewing
from toolhall.accounts.replies import DeviceCode
from toolhall.accounts.sealing import Sealing
from toolhall.accounts.tokens import TokenKeeper
from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError, Unavailable
from toolhall.model.requirements import AccountNeed, Missing, Token
from toolhall.stores.accounts.base import Account, AccountStore, How, Link
from toolhall.stores.accounts.memory import MemoryAccounts
from toolhall.stores.base import StoreFailed
from toolhall.stores.vault.vault import Vault

_T = TypeVar("_T")
_LOG = logging.getLogger(__name__)
_UNKEPT = "accounts cannot be kept now; try again later"


class Consent(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads before agreeing: who gets access to what, and where the browser goes and comes back."""

    link: Link
    scopes: tuple[str, ...]  # all that the provider is asked for
    provider_host: str
    redirect_host: str


class Broker:
    """One for each hall; `address` is where the hall is served now."""

    def __init__(
        self,
        providers: Mapping[str, ProviderSettings],
        door: Fetching,
        vault: Vault,
        clock: Callable[[], float],
        address: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._providers = {name: provider_of(name, settings) for name, settings in providers.items()}
        sealing, asker = Sealing(vault), Asker(door)
        self._discovery = Discovery(asker, clock)
        self._renewing = Renewing(MemoryAccounts(clock), sealing, asker, self._discovery, clock)
        self.tokens = TokenKeeper(self._providers, sealing, self._renewing, clock, sleep)
        self._connecting = Connecting(sealing, asker, self._discovery, self.tokens, clock)
        self._links = Links(self._connecting, sealing, clock, address)
        self.devices = Devices(self._connecting, asker, self._discovery, clock, sleep)
        self._disconnecting = Disconnecting(self._providers, self.tokens, self._renewing, sealing)
        self._ending: set[asyncio.Task[Link]] = set()
        self.pages = True  # False: nobody can open this hall's pages

    async def open(self, store: AccountStore) -> None:
        """Use what is kept there."""
        self._renewing.store = store

    async def refresh(self) -> None:
        """Take over what other processes changed: whatever is used next is read again."""
        self.tokens.forget_all()

    async def close(self) -> None:
        """Finish what must not be lost."""
        await self.devices.close()
        if self._ending:
            await asyncio.wait(self._ending)
        await self.tokens.close()

    def providers(self) -> tuple[Provider, ...]:
        """Who accounts can be connected at."""
        return tuple(self._providers.values())

    async def redirect_uri(self, provider: Provider) -> str | None:
        """What the operator registers at this provider; None while the provider, or the hall, cannot be reached so."""
        try:
            return self._links.redirect_uri(provider, await self._discovery.endpoints(provider))
        except (LinkFailed, Unreachable):
            return None

    async def accounts(self, user: str | None = None) -> tuple[Account, ...]:
        """The accounts of a user, or of everybody; what is sealed stays so."""
        return await _kept(self._renewing.store.all(user))

    # --- what the pipeline asks for

    def ready(self, user: str, need: AccountNeed) -> Token | None:
        """A token that is good now, if one is at hand."""
        return self.tokens.ready(user, need)

    async def fresh(self, user: str, need: AccountNeed) -> Token | None:
        """A token that is good now; None where the user has linked no such account, or not with these scopes."""
        return await self.tokens.fresh(user, need)

    async def wanted(self, caller: Caller, need: AccountNeed, tool: str) -> tuple[Missing, str]:
        """Where the user connects the account, and the words that say so; it names this tool's scopes alone."""
        if not self.pages and need.provider in self._providers:
            scopes = f" --scopes {shlex.quote(' '.join(need.scopes))}" if need.scopes else ""
            how = f"with this hall stopped, run: toolhall account connect {need.provider} --no-browser{scopes}"
            return Missing("account", account=need), f"an account at {need.provider} must be connected: {how}"
        try:
            link = await self.begin(caller, need.provider, need.scopes, tool)
        except (LinkFailed, UnknownProvider) as refused:
            return Missing("account", account=need), refused.message
        url = self.link_url(link)
        words = f"an account at {need.provider} must be connected: let {link.user} open {url}, then repeat the call"
        return Missing("account", link.id, url, need), words

    # --- links

    async def begin(
        self, caller: Caller, provider: str, scopes: tuple[str, ...], tool: str | None = None, how: How = "browser"
    ) -> Link:
        """A link by which the caller's user connects an account; UnknownProvider, LinkFailed, TooManyLinks."""
        wanted = Wanted(provider=self._provider(provider), scopes=tuple(dict.fromkeys(scopes)), tool=tool, how=how)
        return await _kept(self._links.begin(caller, wanted))

    def link_url(self, link: Link) -> str:
        """The page on which the person connects the account."""
        return self._links.url(link)

    def check_url(self, link: Link) -> str:
        """Where a program asks how far that is."""
        return f"{self._links.url(link)}/status"

    async def find(self, link_id: str) -> Link | None:
        """The link as it stands now."""
        return await _kept(self._links.store.link_find(link_id))

    async def describe(self, link_id: str, visitor: Caller) -> Consent:
        """What the person is asked to agree to; LinkFailed for everybody but that person."""
        link, provider, endpoints = await self._usable(link_id, visitor)
        return Consent(
            link=link,
            scopes=await _kept(self._connecting.asked(link, provider)),
            provider_host=flow.host_of(endpoints.authorize_url),
            redirect_host=flow.host_of(self._links.redirect_uri(provider, endpoints)),
        )

    async def consent(self, link_id: str, visitor: Caller) -> tuple[str, str]:
        """The person agreed: where the browser goes, and what it must bring back in a cookie."""
        link, provider, endpoints = await self._usable(link_id, visitor)
        nonce = secrets.token_urlsafe(32)
        browser = digest_of(nonce) if link.how == "browser" else ""
        attempt = await _kept(self._links.attempted(link, provider, endpoints, browser))
        return flow.authorize_url(provider, endpoints, attempt), nonce

    async def finish(self, path: str, query: Mapping[str, str], nonce: str | None) -> Link:
        """The browser is back at this path: connect the account; LinkFailed says what to tell the person."""
        if not nonce:
            raise LinkFailed("this browser did not begin here; open the link again, and allow cookies")
        came_to = self._links.came_to(path)
        link, attempt = await _kept(self._links.claimed(query.get("state"), "browser", came_to, digest_of(nonce)))
        return await self._concluded(link, attempt, query)

    async def paste(self, link_id: str, caller: Caller, url: str) -> Link:
        """The person copied the address that the browser was sent to; LinkFailed says what is wrong."""
        link = await _kept(self._links.pending(link_id, caller))
        redirect_uri = (await _kept(self._links.attempt(link))).redirect_uri
        query = flow.read_redirect(redirect_uri, url)
        if not hmac.compare_digest((flow.link_of(query.get("state")) or "").encode(), link.id.encode()):
            raise LinkFailed("this address belongs to another attempt; paste the one that you were just sent to")
        link, attempt = await _kept(self._links.claimed(query.get("state"), "paste", redirect_uri))
        return await self._concluded(link, attempt, query)

    async def device(self, link: Link) -> DeviceCode:
        """What the person enters elsewhere; the hall finds out by itself when that is done."""
        if link.how != "device":
            raise LinkFailed
        try:
            return await _kept(self.devices.start(link, self._provider(link.provider)))
        except (Refusal, Unreachable) as error:
            raise self._told(link, error) from None

    async def disconnect(self, account_id: str, by: Caller) -> Disconnected:
        """Revoke and forget an account, one's own or as an operator; NotConnected if there is none."""
        return await _kept(self._disconnecting(account_id, by))

    # --- how it is done

    def _provider(self, name: str) -> Provider:
        if name not in self._providers:
            raise UnknownProvider(name, tuple(self._providers))
        return self._providers[name]

    async def _usable(self, link_id: str, visitor: Caller) -> tuple[Link, Provider, Endpoints]:
        link = await _kept(self._links.pending(link_id, visitor))
        provider = self._provider(link.provider)
        if link.issuer != provider.identity:
            raise LinkFailed
        try:
            return link, provider, await self._discovery.endpoints(provider)
        except Unreachable as error:
            raise self._told(link, error) from None

    async def _concluded(self, link: Link, attempt: flow.Attempt, query: Mapping[str, str]) -> Link:
        """In a task of its own: a browser that leaves now must not lose what it was given."""
        task = asyncio.ensure_future(self._conclude(link, attempt, query))
        self._ending.add(task)
        task.add_done_callback(self._landed)
        return await asyncio.shield(task)

    def _landed(self, task: "asyncio.Task[Link]") -> None:
        self._ending.discard(task)
        if not task.cancelled():
            task.exception()

    async def _conclude(self, link: Link, attempt: flow.Attempt, query: Mapping[str, str]) -> Link:
        try:
            await _kept(self._connect(link, attempt, query))
        except ToolhallError as failed:
            await _kept(self._links.store.link_end(link.id, "failed", failed.message))
            raise
        ended = await _kept(self._links.store.link_end(link.id, "completed"))
        return ended or link

    async def _connect(self, link: Link, attempt: flow.Attempt, query: Mapping[str, str]) -> None:
        provider = self._provider(link.provider)
        try:
            endpoints = await self._discovery.endpoints(provider)
            code = flow.check_callback(attempt, provider, endpoints, query)
            granted = await self._connecting.exchange(provider, attempt, code)
        except (Refusal, Unreachable) as error:
            raise self._told(link, error) from None
        await self._connecting.keep(link, provider, granted)

    def _told(self, link: Link, error: Refusal | Unreachable) -> LinkFailed:
        """What went wrong is for the operator's log; the person reads what can be done about it."""
        _LOG.warning("no account could be connected at %s: %s", link.provider, error)
        if isinstance(error, Refusal):
            return LinkFailed(f"{link.provider} refused ({error.code}); call the tool again to get a new link")
        return LinkFailed(f"{link.provider} cannot be used now; the operator finds the reason in the hall's log")


async def _kept(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return await work
    except StoreFailed as failed:
        raise Unavailable(_UNKEPT, detail=str(failed)) from None
