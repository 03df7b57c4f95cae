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
from toolhall.oauth.client import REFUSED_CLIENT, DeviceCode, HttpFetcher, OAuthClient
from toolhall.oauth.client_identity import ClientIdentities, is_registration
from toolhall.oauth.discovery import ProviderDiscovery
from toolhall.oauth.link import AccountLinker, DeviceFlow, LinkRequest, LinkRequests, nonce_digest
from toolhall.oauth.providers import (
    DiscoveryFailed,
    Endpoints,
    LinkFailed,
    Provider,
    ProviderRefused,
    ProviderUnreachable,
    UnknownProvider,
)
from toolhall.oauth.refresh import AccountTokenCache, TokenRefresher
from toolhall.oauth.token_encryption import TokenEncryption
from toolhall.oauth.upstream_providers import ProviderDirectory, UpstreamProviders
from toolhall.stores.accounts import Account, AccountLink, AccountStore, LinkMethod, MemoryAccountStore
from toolhall.stores.common import StoreFailed
from toolhall.stores.vault.vault import Vault

_LOG = logging.getLogger("toolhall.accounts.broker")
_T = TypeVar("_T")
_STORE_UNAVAILABLE = "accounts cannot be kept now; try again later"


class NotConnected(Refused):
    """There is no such account, or none that this caller may unlink."""

    message = "there is no such account; 'toolhall account list' shows those that there are"


class UnlinkResult(msgspec.Struct, frozen=True, kw_only=True):
    """The account that was deleted; `revocation_error` says why its tokens may still be valid at the provider."""

    account: Account
    revocation_error: str | None


class LinkConsent(msgspec.Struct, frozen=True, kw_only=True):
    """What the consent page shows: who gets access to what, and where the browser goes and comes back."""

    link: AccountLink
    scopes: tuple[str, ...]  # all scopes that the provider is asked for
    provider_host: str
    redirect_host: str


class Broker:
    """The accounts of one hall; `base_url` returns where its pages are served now.

    People have accounts at the configured providers, and at the upstreams: `upstream:NAME`.
    """

    def __init__(
        self,
        providers: Mapping[str, Provider],
        egress: HttpFetcher,
        vault: Vault,
        clock: Callable[[], float],
        base_url: Callable[[], str],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        encryption, client = TokenEncryption(vault), OAuthClient(egress)
        identities = ClientIdentities(providers, client, encryption, lambda: self._refresher.store, base_url, clock)
        self.upstreams = UpstreamProviders(client, identities, clock)
        client.on_client_refused = self.upstreams.client_refused
        self._providers = ProviderDirectory(providers, self.upstreams)
        self._discovery = ProviderDiscovery(client, clock)
        self._refresher = TokenRefresher(MemoryAccountStore(clock), encryption, client, self._discovery, clock)
        self.tokens = AccountTokenCache(self._providers, encryption, self._refresher, clock, sleep)
        self._linker = AccountLinker(encryption, client, self._discovery, self.tokens, clock)
        self._link_requests = LinkRequests(self._linker, encryption, clock, base_url)
        self.devices = DeviceFlow(self._linker, client, self._discovery, clock, sleep)
        self._unlinker = AccountUnlinker(self._providers, self.tokens, self._refresher, encryption)
        self._finishing = BackgroundTasks()
        self.has_pages = True  # False: the hall is not served over HTTP

    def open(self, store: AccountStore) -> None:
        """Use this store of accounts and links from now on."""
        self._refresher.store = store

    def reload(self) -> None:
        """Drop cached tokens, because other processes may have changed the accounts."""
        self.tokens.clear()

    async def close(self) -> None:
        """Finish running links and refreshes: their tokens must not be lost."""
        await self.devices.close()
        await self._finishing.wait()
        await self.tokens.close()
        await self.upstreams.close()

    def call_on_linked(self, listener: Callable[[Account], None]) -> None:
        """Call this with each account that is linked from now on."""
        self._linker.on_linked = listener

    def providers(self) -> tuple[Provider, ...]:
        """The providers at which accounts can be linked; of upstreams, those that were discovered already."""
        return self._providers.all_known()

    async def redirect_uri(self, provider: Provider) -> str | None:
        """Return the redirect URI to register at a provider; None if it is not known now, or would not be https."""
        try:
            return self._link_requests.redirect_uri(provider, await self._discovery.endpoints(provider))
        except (LinkFailed, ProviderUnreachable):
            return None

    async def accounts(self, user: str | None = None) -> tuple[Account, ...]:
        """Return the accounts of a user, or of all users; their tokens stay encrypted."""
        found = await _stored(self._refresher.store.all(user))
        return tuple(each for each in found if not is_registration(each))

    # --- the token source of the equip stage

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """Return a valid token if one is cached."""
        return self.tokens.cached_token(user, need)

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """Return a valid token; None if the user has linked no such account, or not with these scopes."""
        return await self.tokens.get_token(user, need)

    async def link_requirement(
        self, caller: Caller, need: AccountRequirement, tool: str
    ) -> tuple[MissingRequirement, str]:
        """Return what is missing, with the URL of a new link, and a message; the link has this tool's scopes only."""
        if not self.has_pages and self._providers.exists(need.provider):
            scopes = f" --scopes {shlex.quote(' '.join(need.scopes))}" if need.scopes else ""
            how = f"with this hall stopped, run: toolhall account connect {need.provider} --no-browser{scopes}"
            message = f"an account at {need.provider} must be connected: {how}"
            return MissingRequirement("account", account=need), message
        try:
            link = await self.start_link(caller, need.provider, need.scopes, tool)
        except (LinkFailed, UnknownProvider) as refused:
            return MissingRequirement("account", account=need), refused.message
        url = self.link_url(link)
        message = f"an account at {need.provider} must be connected: let {link.user} open {url}, then repeat the call"
        return MissingRequirement("account", link.id, url, need), message

    # --- links

    async def start_link(
        self,
        caller: Caller,
        provider: str,
        scopes: tuple[str, ...],
        tool: str | None = None,
        how: LinkMethod = "browser",
    ) -> AccountLink:
        """Create a link for an account of the caller's user; raises UnknownProvider, LinkFailed or TooManyLinks."""
        try:
            found = await self._providers.get(provider)
        except ProviderUnreachable as error:
            raise self._link_failed(provider, error) from None
        request = LinkRequest(provider=found, scopes=tuple(dict.fromkeys(scopes)), tool=tool, how=how)
        return await _stored(self._link_requests.create(caller, request))

    def link_url(self, link: AccountLink) -> str:
        """Return the page on which the person links the account."""
        return self._link_requests.url(link)

    def status_url(self, link: AccountLink) -> str:
        """Return the URL at which a program polls the state of a link."""
        return f"{self._link_requests.url(link)}/status"

    async def find_link(self, link_id: str) -> AccountLink | None:
        """Return the link in its present state."""
        return await _stored(self._link_requests.store.find_link(link_id))

    async def describe_consent(self, link_id: str, visitor: Caller) -> LinkConsent:
        """Return what the person is asked to consent to; raises LinkFailed for any other visitor."""
        link, provider, endpoints = await self._pending_link(link_id, visitor)
        return LinkConsent(
            link=link,
            scopes=await _stored(self._linker.requested_scopes(link, provider)),
            provider_host=authorization_code.url_host(endpoints.authorize_url),
            redirect_host=authorization_code.url_host(self._link_requests.redirect_uri(provider, endpoints)),
        )

    async def consent(self, link_id: str, visitor: Caller) -> tuple[str, str]:
        """Start the authorization after consent; returns the provider's URL and a nonce for the browser's cookie."""
        link, provider, endpoints = await self._pending_link(link_id, visitor)
        nonce = secrets.token_urlsafe(32)
        browser = nonce_digest(nonce) if link.how == "browser" else ""
        attempt = await _stored(self._link_requests.start_authorization(link, provider, endpoints, browser))
        return authorization_code.authorize_url(provider, endpoints, attempt), nonce

    async def finish_redirect(self, path: str, query: Mapping[str, str], nonce: str | None) -> AccountLink:
        """Link the account by the provider's redirect; raises LinkFailed with a message for the person."""
        if not nonce:
            raise LinkFailed("this browser did not begin here; open the link again, and allow cookies")
        redirect_uri = self._link_requests.absolute_url(path)
        link, attempt = await _stored(
            self._link_requests.claim(query.get("state"), "browser", redirect_uri, nonce_digest(nonce))
        )
        return await self._finish_shielded(link, attempt, query)

    async def finish_pasted(self, link_id: str, caller: Caller, url: str) -> AccountLink:
        """Link the account by a pasted redirect URL; raises LinkFailed."""
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
        """Start the device flow; returns the code to show. The hall polls until the person has entered it."""
        if link.how != "device":
            raise LinkFailed
        try:
            return await _stored(self.devices.start(link, await self._providers.get(link.provider)))
        except (ProviderRefused, ProviderUnreachable) as error:
            raise self._link_failed(link.provider, error) from None

    async def disconnect(self, account_id: str, by: Caller) -> UnlinkResult:
        """Revoke and delete an account of the caller's own, or any as an administrator; raises NotConnected."""
        return await _stored(self._unlinker(account_id, by))

    async def _pending_link(self, link_id: str, visitor: Caller) -> tuple[AccountLink, Provider, Endpoints]:
        link = await _stored(self._link_requests.pending(link_id, visitor))
        try:
            provider = await self._providers.get(link.provider)
            if link.issuer != provider.identity:
                raise LinkFailed
            return link, provider, await self._discovery.endpoints(provider)
        except ProviderUnreachable as error:
            raise self._link_failed(link.provider, error) from None

    async def _finish_shielded(
        self, link: AccountLink, attempt: authorization_code.PendingAuthorization, query: Mapping[str, str]
    ) -> AccountLink:
        """Finish in a separate task: a browser that disconnects now must not lose the tokens."""
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
        try:
            provider = await self._providers.get(link.provider)
            endpoints = await self._discovery.endpoints(provider)
            if query.get("error") in REFUSED_CLIENT and authorization_code.state_matches(attempt, query.get("state")):
                await self.upstreams.client_refused(provider)
            code = authorization_code.check_callback(attempt, provider, endpoints, query)
            granted = await self._linker.exchange_code(provider, attempt, code)
        except (ProviderRefused, ProviderUnreachable) as error:
            raise self._link_failed(link.provider, error) from None
        await self._linker.save_account(link, provider, granted)

    def _link_failed(self, provider: str, error: ProviderRefused | ProviderUnreachable) -> LinkFailed:
        """Log what went wrong for the operator; returns the error that tells the person what to do."""
        _LOG.warning("no account could be connected at %s: %s", provider, error)
        if isinstance(error, ProviderRefused):
            return LinkFailed(f"{provider} refused ({error.code}); call the tool again to get a new link")
        if isinstance(error, DiscoveryFailed):
            return LinkFailed(f"no account can be connected at {provider}: {error}")
        return LinkFailed(f"{provider} cannot be used now; the operator finds the reason in the hall's log")


class AccountUnlinker:
    """Revokes and deletes accounts: users their own, administrators any."""

    def __init__(
        self,
        providers: ProviderDirectory,
        tokens: AccountTokenCache,
        refresher: TokenRefresher,
        encryption: TokenEncryption,
    ) -> None:
        self._providers = providers
        self._tokens = tokens
        self._refresher = refresher
        self._encryption = encryption

    async def __call__(self, account_id: str, by: Caller) -> UnlinkResult:
        """Revoke the tokens and delete the account; raises NotConnected."""
        store = self._refresher.store
        account = await store.get(account_id)
        if account is None or is_registration(account) or not (ADMIN in by.scopes or by.user == account.user):
            raise NotConnected
        await self._tokens.wait_for_refresh(account.user, account.provider)
        account = await store.get(account_id) or account  # a refresh may just have ended
        revocation_error = await self._revoke(account)
        if not await store.remove(account.id):
            raise NotConnected
        self._tokens.forget(account.user, account.provider)
        if revocation_error is not None:
            _LOG.warning(
                "the account %s at %s was not revoked there: %s", account.id, account.provider, revocation_error
            )
        return UnlinkResult(account=account, revocation_error=revocation_error)

    async def _revoke(self, account: Account) -> str | None:
        try:
            provider = await self._providers.find(account.provider)
        except ProviderUnreachable as error:
            return str(error)
        if provider is None or provider.identity != account.issuer:
            return f"{account.provider} is not set up any more as it was when the account was connected"
        tokens = await self._encryption.decrypt_tokens(account)
        return "its tokens do not open" if tokens is None else await self._refresher.revoke(provider, tokens)


async def _stored(work: Coroutine[Any, Any, _T]) -> _T:
    try:
        return await work
    except StoreFailed as failed:
        raise Unavailable(_STORE_UNAVAILABLE, detail=str(failed)) from None
