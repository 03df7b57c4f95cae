"""Broker: links and unlinks the accounts of users, and gives their tokens to the tools that require them."""

import asyncio
import hmac
import logging
import secrets
import shlex
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import msgspec

from toolhall.concurrency import BackgroundTasks
from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Refused, ToolhallError, Unavailable
from toolhall.model.requirements import AccountRequirement, AccountToken, MissingRequirement
from toolhall.oauth import authorization_code
from toolhall.oauth.client import DeviceCode, HttpFetcher, OAuthClient
from toolhall.oauth.discovery import ProviderDiscovery
from toolhall.oauth.errors import LinkFailed, ProviderRefused, ProviderUnreachable, UnknownProvider
from toolhall.oauth.link import AccountLinker, DeviceFlow, LinkRequest, LinkRequests, nonce_digest
from toolhall.oauth.providers import Endpoints, Provider
from toolhall.oauth.refresh import AccountTokenCache, TokenRefresher
from toolhall.oauth.token_encryption import TokenEncryption
from toolhall.stores.accounts import Account, AccountLink, AccountStore, LinkMethod, MemoryAccountStore
from toolhall.stores.common import StoreFailed
from toolhall.stores.vault.vault import Vault

_LOG = logging.getLogger("toolhall.accounts.broker")


class NotConnected(Refused):
    """There is no such account, or none that this caller may take away."""

    message = "there is no such account; 'toolhall account list' shows those that there are"


class UnlinkResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten here; `unrevoked` says why the provider may still honour its tokens, if it may."""

    account: Account
    revocation_error: str | None


class AccountUnlinker:
    """Anybody may take away an account of one's own; an operator may take away any."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        tokens: AccountTokenCache,
        refresher: TokenRefresher,
        encryption: TokenEncryption,
    ) -> None:
        self._providers = providers
        self._tokens = tokens
        self._refresher = refresher
        self._encryption = encryption

    async def __call__(self, account_id: str, by: Caller) -> UnlinkResult:
        """Revoke and forget it; NotConnected if there is none."""
        store = self._refresher.store
        account = await store.get(account_id)
        if account is None or not (ADMIN in by.scopes or by.user == account.user):
            raise NotConnected
        await self._tokens.wait_for_refresh(account.user, account.provider)
        account = await store.get(account_id) or account  # renewed just now
        unrevoked = await self._revoke(account)
        if not await store.remove(account.id):
            raise NotConnected
        self._tokens.forget(account.user, account.provider)
        if unrevoked is not None:
            _LOG.warning("the account %s at %s was not revoked there: %s", account.id, account.provider, unrevoked)
        return UnlinkResult(account=account, revocation_error=unrevoked)

    async def _revoke(self, account: Account) -> str | None:
        provider = self._providers.get(account.provider)
        if provider is None or provider.identity != account.issuer:
            return f"{account.provider} is not set up any more as it was when the account was connected"
        kept = await self._encryption.decrypt_tokens(account)
        return "its tokens do not open" if kept is None else await self._refresher.revoke(provider, kept)


_T = TypeVar("_T")
_STORE_UNAVAILABLE = "accounts cannot be kept now; try again later"


class LinkConsent(msgspec.Struct, frozen=True, kw_only=True):
    """What a person reads before agreeing: who gets access to what, and where the browser goes and comes back."""

    link: AccountLink
    scopes: tuple[str, ...]  # all that the provider is asked for
    provider_host: str
    redirect_host: str


class Broker:
    """One for each hall; `address` is where the hall is served now."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        egress: HttpFetcher,
        vault: Vault,
        clock: Callable[[], float],
        base_url: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._providers = providers
        sealing, asker = TokenEncryption(vault), OAuthClient(egress)
        self._discovery = ProviderDiscovery(asker, clock)
        self._refresher = TokenRefresher(MemoryAccountStore(clock), sealing, asker, self._discovery, clock)
        self.tokens = AccountTokenCache(self._providers, sealing, self._refresher, clock, sleep)
        self._linker = AccountLinker(sealing, asker, self._discovery, self.tokens, clock)
        self._link_requests = LinkRequests(self._linker, sealing, clock, base_url)
        self.devices = DeviceFlow(self._linker, asker, self._discovery, clock, sleep)
        self._unlinker = AccountUnlinker(self._providers, self.tokens, self._refresher, sealing)
        self._finishing = BackgroundTasks()
        self.has_pages = True  # False: nobody can open this hall's pages

    def open(self, store: AccountStore) -> None:
        """Use what is kept there."""
        self._refresher.store = store

    def reload(self) -> None:
        """Take over what other processes changed: whatever is used next is read again."""
        self.tokens.clear()

    async def close(self) -> None:
        """Finish what must not be lost."""
        await self.devices.close()
        await self._finishing.wait()
        await self.tokens.close()

    def providers(self) -> tuple[Provider, ...]:
        """Who accounts can be connected at."""
        return tuple(self._providers.values())

    async def redirect_uri(self, provider: Provider) -> str | None:
        """What the operator registers at this provider; None while the provider, or the hall, cannot be reached so."""
        try:
            return self._link_requests.redirect_uri(provider, await self._discovery.endpoints(provider))
        except (LinkFailed, ProviderUnreachable):
            return None

    async def accounts(self, user: str | None = None) -> tuple[Account, ...]:
        """The accounts of a user, or of everybody; what is sealed stays so."""
        return await _stored(self._refresher.store.all(user))

    # --- what the pipeline asks for

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """A token that is good now, if one is at hand."""
        return self.tokens.cached_token(user, need)

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """A token that is good now; None where the user has linked no such account, or not with these scopes."""
        return await self.tokens.get_token(user, need)

    async def link_requirement(
        self, caller: Caller, need: AccountRequirement, tool: str
    ) -> tuple[MissingRequirement, str]:
        """Where the user connects the account, and the words that say so; it names this tool's scopes alone."""
        if not self.has_pages and need.provider in self._providers:
            scopes = f" --scopes {shlex.quote(' '.join(need.scopes))}" if need.scopes else ""
            how = f"with this hall stopped, run: toolhall account connect {need.provider} --no-browser{scopes}"
            return MissingRequirement(
                "account", account=need
            ), f"an account at {need.provider} must be connected: {how}"
        try:
            link = await self.start_link(caller, need.provider, need.scopes, tool)
        except (LinkFailed, UnknownProvider) as refused:
            return MissingRequirement("account", account=need), refused.message
        url = self.link_url(link)
        words = f"an account at {need.provider} must be connected: let {link.user} open {url}, then repeat the call"
        return MissingRequirement("account", link.id, url, need), words

    # --- links

    async def start_link(
        self,
        caller: Caller,
        provider: str,
        scopes: tuple[str, ...],
        tool: str | None = None,
        how: LinkMethod = "browser",
    ) -> AccountLink:
        """A link by which the caller's user connects an account; UnknownProvider, LinkFailed, TooManyLinks."""
        wanted = LinkRequest(provider=self._provider(provider), scopes=tuple(dict.fromkeys(scopes)), tool=tool, how=how)
        return await _stored(self._link_requests.create(caller, wanted))

    def link_url(self, link: AccountLink) -> str:
        """The page on which the person connects the account."""
        return self._link_requests.url(link)

    def status_url(self, link: AccountLink) -> str:
        """Where a program asks how far that is."""
        return f"{self._link_requests.url(link)}/status"

    async def find_link(self, link_id: str) -> AccountLink | None:
        """The link as it stands now."""
        return await _stored(self._link_requests.store.find_link(link_id))

    async def describe_consent(self, link_id: str, visitor: Caller) -> LinkConsent:
        """What the person is asked to agree to; LinkFailed for everybody but that person."""
        link, provider, endpoints = await self._pending_link(link_id, visitor)
        return LinkConsent(
            link=link,
            scopes=await _stored(self._linker.requested_scopes(link, provider)),
            provider_host=authorization_code.url_host(endpoints.authorize_url),
            redirect_host=authorization_code.url_host(self._link_requests.redirect_uri(provider, endpoints)),
        )

    async def consent(self, link_id: str, visitor: Caller) -> tuple[str, str]:
        """The person agreed: where the browser goes, and what it must bring back in a cookie."""
        link, provider, endpoints = await self._pending_link(link_id, visitor)
        nonce = secrets.token_urlsafe(32)
        browser = nonce_digest(nonce) if link.how == "browser" else ""
        attempt = await _stored(self._link_requests.start_authorization(link, provider, endpoints, browser))
        return authorization_code.authorize_url(provider, endpoints, attempt), nonce

    async def finish_redirect(self, path: str, query: Mapping[str, str], nonce: str | None) -> AccountLink:
        """The browser is back at this path: connect the account; LinkFailed says what to tell the person."""
        if not nonce:
            raise LinkFailed("this browser did not begin here; open the link again, and allow cookies")
        came_to = self._link_requests.absolute_url(path)
        link, attempt = await _stored(
            self._link_requests.claim(query.get("state"), "browser", came_to, nonce_digest(nonce))
        )
        return await self._finish_shielded(link, attempt, query)

    async def finish_pasted(self, link_id: str, caller: Caller, url: str) -> AccountLink:
        """The person copied the address that the browser was sent to; LinkFailed says what is wrong."""
        link = await _stored(self._link_requests.pending(link_id, caller))
        redirect_uri = (await _stored(self._link_requests.current_authorization(link))).redirect_uri
        query = authorization_code.parse_pasted_url(redirect_uri, url)
        if not hmac.compare_digest(
            (authorization_code.link_id_from_state(query.get("state")) or "").encode(), link.id.encode()
        ):
            raise LinkFailed("this address belongs to another attempt; paste the one that you were just sent to")
        link, attempt = await _stored(self._link_requests.claim(query.get("state"), "paste", redirect_uri))
        return await self._finish_shielded(link, attempt, query)

    async def start_device(self, link: AccountLink) -> DeviceCode:
        """What the person enters elsewhere; the hall finds out by itself when that is done."""
        if link.how != "device":
            raise LinkFailed
        try:
            return await _stored(self.devices.start(link, self._provider(link.provider)))
        except (ProviderRefused, ProviderUnreachable) as error:
            raise self._link_failed(link, error) from None

    async def disconnect(self, account_id: str, by: Caller) -> UnlinkResult:
        """Revoke and forget an account, one's own or as an operator; NotConnected if there is none."""
        return await _stored(self._unlinker(account_id, by))

    # --- how it is done

    def _provider(self, name: str) -> Provider:
        if name not in self._providers:
            raise UnknownProvider(name, tuple(self._providers))
        return self._providers[name]

    async def _pending_link(self, link_id: str, visitor: Caller) -> tuple[AccountLink, Provider, Endpoints]:
        link = await _stored(self._link_requests.pending(link_id, visitor))
        provider = self._provider(link.provider)
        if link.issuer != provider.identity:
            raise LinkFailed
        try:
            return link, provider, await self._discovery.endpoints(provider)
        except ProviderUnreachable as error:
            raise self._link_failed(link, error) from None

    async def _finish_shielded(
        self, link: AccountLink, attempt: authorization_code.PendingAuthorization, query: Mapping[str, str]
    ) -> AccountLink:
        """In a task of its own: a browser that leaves now must not lose what it was given."""
        return await self._finishing.run_shielded(self._finish_link(link, attempt, query))

    async def _finish_link(
        self, link: AccountLink, attempt: authorization_code.PendingAuthorization, query: Mapping[str, str]
    ) -> AccountLink:
        try:
            await _stored(self._connect(link, attempt, query))
        except ToolhallError as failed:
            await _stored(self._link_requests.store.end_link(link.id, "failed", failed.message))
            raise
        ended = await _stored(self._link_requests.store.end_link(link.id, "completed"))
        return ended or link

    async def _connect(
        self, link: AccountLink, attempt: authorization_code.PendingAuthorization, query: Mapping[str, str]
    ) -> None:
        provider = self._provider(link.provider)
        try:
            endpoints = await self._discovery.endpoints(provider)
            code = authorization_code.check_callback(attempt, provider, endpoints, query)
            granted = await self._linker.exchange_code(provider, attempt, code)
        except (ProviderRefused, ProviderUnreachable) as error:
            raise self._link_failed(link, error) from None
        await self._linker.save_account(link, provider, granted)

    def _link_failed(self, link: AccountLink, error: ProviderRefused | ProviderUnreachable) -> LinkFailed:
        """What went wrong is for the operator's log; the person reads what can be done about it."""
        _LOG.warning("no account could be connected at %s: %s", link.provider, error)
        if isinstance(error, ProviderRefused):
            return LinkFailed(f"{link.provider} refused ({error.code}); call the tool again to get a new link")
        return LinkFailed(f"{link.provider} cannot be used now; the operator finds the reason in the hall's log")


async def _stored(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return await work
    except StoreFailed as failed:
        raise Unavailable(_STORE_UNAVAILABLE, detail=str(failed)) from None
