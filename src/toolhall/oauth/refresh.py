"""TokenRefresher refreshes account tokens; AccountTokenCache serves valid ones, with one refresh at a time.

Theory of operation
-------------------
Many providers rotate refresh tokens: each refresh invalidates the token that was sent and returns the next one. Two
refreshes with one token, or a response that is lost, end the grant, and the user has to link the account again. So:

- One refresh per process: concurrent calls that need the account of one user wait for one task (SingleFlight). It goes
  on when they stop waiting, after WAIT_SECONDS at the latest; a call then uses the old token if it is still valid.
- One refresh among all processes: before it asks the provider, the process saves a lease in the account, by compare and
  swap on its serial number. Another process that reads the lease uses the old token, or polls until the new one is
  there. The lease is longer than the provider may take to answer, so no other process asks in between.
- The response is saved before it is used. If the store fails, the response stays in memory (`_unsaved`) and the next
  call saves it. If the account was unlinked meanwhile, the new tokens are revoked.
- If the provider says that the grant has ended, the account is marked broken and the user must link it again. Any other
  failure gives the lease back and backs off, for twice as long each time.

An access token is refreshed before it expires (`refresh_time`). Cached tokens are looked up again after CACHE_SECONDS,
because another process may have unlinked the account.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from toolhall.concurrency import SingleFlight, StillRunning
from toolhall.model.errors import Unavailable
from toolhall.model.requirements import AccountRequirement, AccountToken
from toolhall.model.secret import Secret
from toolhall.oauth.client import OAuthClient, TokenResponse, parse_token_response, refresh_form
from toolhall.oauth.discovery import ProviderDiscovery
from toolhall.oauth.providers import DiscoveryFailed, Endpoints, Provider, ProviderRefused, ProviderUnreachable
from toolhall.oauth.token_encryption import StoredTokens, TokenEncryption
from toolhall.oauth.upstream_providers import ProviderDirectory
from toolhall.stores.accounts import Account, AccountStore
from toolhall.stores.common import StoreFailed

REFRESH_EARLY_SECONDS = 60.0  # before the access token expires
# The provider may rotate the refresh token before it responds: a response that is not awaited is lost.
REFRESH_TIMEOUT_SECONDS = 30.0
LEASE_SECONDS = REFRESH_TIMEOUT_SECONDS + 15.0  # with time for the store: no other process asks while this one may
MIN_VALID_SECONDS = 5.0  # a token that expires sooner may expire on its way
FIRST_BACKOFF = 1.0
MAX_BACKOFF = 60.0
# The grant has ended, in the codes of OAuth, GitHub and Slack; other refusals are for the operator to fix.
_GRANT_ENDED_CODES = ("invalid_grant", "bad_refresh_token", "invalid_refresh_token", "token_revoked", "token_expired")
CACHE_SECONDS = 60.0  # another process may have unlinked the account
WAIT_SECONDS = 5.0  # a call waits so long for a refresh; the refresh goes on
POLL_SECONDS = 0.05  # while another process refreshes
MAX_POLLS = 100
MAX_CACHED_TOKENS = 10_000
_LOG = logging.getLogger("toolhall.accounts.renewing")


class TokenRefresher:
    """Refreshes and revokes tokens; `store` is replaced when the hall is opened."""

    def __init__(
        self,
        store: AccountStore,
        encryption: TokenEncryption,
        client: OAuthClient,
        discovery: ProviderDiscovery,
        clock: Callable[[], float],
    ) -> None:
        self.store = store
        self._encryption = encryption
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self._backoffs: dict[str, tuple[float, float]] = {}  # by account id: until when, and for how many seconds
        self._unsaved: dict[str, Account] = {}  # refreshed by the provider, but not yet saved

    async def refresh(self, provider: Provider, account: Account, tokens: StoredTokens) -> Account | None:
        """Return the account with new tokens or marked broken; None if it was changed meanwhile.

        Raises Unavailable or StoreFailed.
        """
        if tokens.refresh is None:
            return await self._mark_broken(account)
        self._check_backoff(provider, account)
        try:
            endpoints = await self._discovery.endpoints(provider)
        except ProviderUnreachable as error:
            raise self._back_off(provider, account, error) from None
        lease = msgspec.structs.replace(tokens, lease=self._clock() + LEASE_SECONDS)
        leased = await self.store.save(await self._encryption.with_tokens(account, lease), account.serial)
        if leased is None:
            return None
        try:
            response = await self._request_tokens(provider, endpoints, leased, tokens.refresh)
        except ProviderRefused as refusal:
            if refusal.code in _GRANT_ENDED_CODES:
                _LOG.info("the account %s at %s is over: %s", account.id, provider.name, refusal.code)
                return await self._mark_broken(leased)
            raise await self._release_lease(provider, leased, tokens, refusal) from None
        except ProviderUnreachable as error:
            raise await self._release_lease(provider, leased, tokens, error) from None
        self._backoffs.pop(account.id, None)
        return await self._save_tokens(provider, leased, response, tokens.refresh)

    async def _request_tokens(
        self, provider: Provider, endpoints: Endpoints, account: Account, refresh: Secret
    ) -> TokenResponse:
        form = refresh_form(provider, refresh)
        reply = await self._client.post_form(provider, endpoints, endpoints.token_url, form, REFRESH_TIMEOUT_SECONDS)
        return parse_token_response(reply, provider, account.scopes, self._clock())

    async def _save_tokens(
        self, provider: Provider, leased: Account, response: TokenResponse, refresh: Secret
    ) -> Account | None:
        """Save new tokens; the old refresh token may be invalid now, so these must not be lost."""
        now = self._clock()
        tokens = StoredTokens(access=response.access, refresh=response.refresh or refresh)
        refreshed = msgspec.structs.replace(
            await self._encryption.with_tokens(leased, tokens),
            scopes=response.scopes,
            expires_at=response.expires_at,
            refreshed_at=now,
        )
        try:
            saved = await self.store.save(refreshed, leased.serial)
        except StoreFailed:
            self._unsaved[leased.id] = refreshed
            raise
        if saved is None and await self.store.get(leased.id) is None:  # unlinked meanwhile
            await self.revoke(provider, tokens)
        return saved

    async def save_unsaved(self, account: Account) -> Account | None:
        """Save the response that could not be saved before; None if there is none, or the account was changed."""
        refreshed = self._unsaved.get(account.id)
        if refreshed is None:
            return None
        saved = await self.store.save(refreshed, account.serial) if refreshed.serial == account.serial else None
        self._unsaved.pop(account.id, None)
        return saved

    async def revoke(self, provider: Provider, tokens: StoredTokens) -> str | None:
        """Revoke tokens at the provider; returns None, or why that failed."""
        tokens_by_kind = [(tokens.refresh, "refresh_token"), (tokens.access, "access_token")]
        try:
            endpoints = await self._discovery.endpoints(provider)
            for token, kind in tokens_by_kind:
                if token is not None:
                    await self._client.revoke(provider, endpoints, token, kind)
        except ProviderUnreachable as error:
            return str(error)
        return None

    async def _mark_broken(self, account: Account) -> Account | None:
        """Mark the account broken and delete its tokens; the user must link it again."""
        emptied = await self._encryption.with_tokens(account, StoredTokens(access=None, refresh=None))
        broken = msgspec.structs.replace(emptied, state="broken", expires_at=None)
        return await self.store.save(broken, account.serial)

    def _check_backoff(self, provider: Provider, account: Account) -> None:
        until, _ = self._backoffs.get(account.id, (0.0, 0.0))
        wait = until - self._clock()
        if wait > 0:
            raise _unavailable(provider, wait)

    async def _release_lease(
        self, provider: Provider, leased: Account, tokens: StoredTokens, why: Exception
    ) -> Unavailable:
        """Give the lease back and back off; returns the error to raise."""
        error = self._back_off(provider, leased, why)
        await self.store.save(await self._encryption.with_tokens(leased, tokens), leased.serial)
        return error

    def _back_off(self, provider: Provider, account: Account, why: Exception) -> Unavailable:
        """Start or double the backoff of an account; returns the error to raise."""
        _, before = self._backoffs.get(account.id, (0.0, 0.0))
        pause = min(before * 2 or FIRST_BACKOFF, MAX_BACKOFF)
        self._backoffs[account.id] = (self._clock() + pause, pause)
        _LOG.warning("the account %s cannot be renewed at %s: %s", account.id, provider.name, why)
        return _unavailable(provider, pause)


class CachedToken(NamedTuple):
    """A cached access token."""

    token: AccountToken
    scopes: frozenset[str]
    until: float


class AccountTokenCache:
    """Serves valid access tokens of all users; one refresh at a time per user and provider."""

    def __init__(
        self,
        providers: ProviderDirectory,
        encryption: TokenEncryption,
        refresher: TokenRefresher,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._providers = providers
        self._encryption = encryption
        self.refresher = refresher
        self._clock = clock
        self._sleep = sleep
        self._cache: dict[tuple[str, str], CachedToken] = {}
        self._flights: SingleFlight[tuple[str, str], AccountToken | None] = SingleFlight()

    @property
    def store(self) -> AccountStore:
        """The store of the accounts."""
        return self.refresher.store

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """Return a valid token with these scopes if one is cached."""
        cached = self._cache.get((user, need.provider))
        if cached is None or cached.until <= self._clock():
            return None
        # The quick comparison first; `covers` knows that a provider may have two names for one scope.
        if cached.scopes.issuperset(need.scopes):
            return cached.token
        provider = self._providers.known(need.provider)
        return cached.token if provider is not None and provider.covers(cached.token.scopes, need.scopes) else None

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """Return a valid token, refreshed if needed; None if the user has no such account, or not with these scopes.

        Raises Unavailable if there is an account but its token cannot be refreshed now.
        """
        token = self.cached_token(user, need)
        if token is not None:
            return token
        provider = await self._provider(need.provider)
        if provider is None:
            return None
        try:
            token = await self._flights.run(
                (user, provider.name), lambda: self._load_token(user, provider), WAIT_SECONDS
            )
        except StillRunning:
            token = await self._token_during_refresh(user, provider)
        return token if token is not None and provider.covers(token.scopes, need.scopes) else None

    async def renew_token(self, user: str, name: str, refused: Secret) -> AccountToken | None:
        """Return another token than this one, which was refused before its end; None if the user has to link again.

        However many calls were refused with one token, it is renewed once. Raises Unavailable.
        """
        provider = await self._provider(name)
        if provider is None:
            return None
        self.forget(user, name)
        for _ in range(2):  # a flight that was under way already may only look the old token up
            try:
                token = await self._flights.run(
                    (user, name), lambda: self._load_token(user, provider, refused), WAIT_SECONDS
                )
            except StillRunning:
                raise Unavailable(f"{name} has not renewed the account yet; try again in a moment") from None
            if token is None or token.token != refused:
                return token
            self.forget(user, name)
        return None

    async def _provider(self, name: str) -> Provider | None:
        try:
            return await self._providers.find(name)
        except DiscoveryFailed as failed:
            raise Unavailable(f"accounts at {name} cannot be used now: {failed}") from None
        except ProviderUnreachable as failed:
            raise Unavailable(f"accounts at {name} cannot be used now; try again later", detail=str(failed)) from None

    def forget(self, user: str, provider: str) -> None:
        """Drop the cached token of an account."""
        self._cache.pop((user, provider), None)

    def clear(self) -> None:
        """Drop all cached tokens: another process may have changed the accounts."""
        self._cache.clear()

    async def wait_for_refresh(self, user: str, provider: str) -> None:
        """Wait for a running refresh, at most as long as a call would; one that ends later revokes its tokens."""
        await self._flights.wait((user, provider), WAIT_SECONDS)

    async def close(self) -> None:
        """Wait for running refreshes: their tokens would be lost otherwise."""
        await self._flights.close()
        self._cache.clear()

    async def _token_during_refresh(self, user: str, provider: Provider) -> AccountToken:
        """Return the old token if it is still valid while a refresh takes longer; raises Unavailable."""
        try:
            account = await self._usable_account(user, provider)
            tokens = None if account is None else await self._encryption.decrypt_tokens(account)
        except StoreFailed as failed:
            raise _lookup_failed(failed) from None
        if account is None or tokens is None or tokens.access is None or not is_valid(account, self._clock()):
            raise Unavailable(f"{provider.name} has not renewed the account yet; try again in a moment")
        return _token(account, tokens.access)

    async def _usable_account(self, user: str, provider: Provider) -> Account | None:
        """Return the user's account unless it is broken or was linked at another issuer."""
        account = await self.store.find(user, provider.name)
        if account is None or account.state == "broken" or account.issuer != provider.identity:
            return None
        return account

    async def _load_token(self, user: str, provider: Provider, refused: Secret | None = None) -> AccountToken | None:
        """Return a valid token that is not the refused one; None if there is none and cannot be."""
        try:
            for _ in range(MAX_POLLS):
                account = await self._usable_account(user, provider)
                if account is None:
                    return None
                account = await self.refresher.save_unsaved(account) or account
                tokens = await self._encryption.decrypt_tokens(account)
                if tokens is None or tokens.access is None:
                    return None
                if tokens.access == refused:
                    if tokens.refresh is None:
                        return None
                    account = msgspec.structs.replace(account, expires_at=0.0)  # whatever was said of its end
                token = await self._token_from(provider, account, tokens, tokens.access)
                if token is not None:
                    return token
        except StoreFailed as failed:
            raise _lookup_failed(failed) from None
        raise Unavailable(f"the account at {provider.name} is being renewed elsewhere; try again in a moment")

    async def _token_from(
        self, provider: Provider, account: Account, tokens: StoredTokens, access: Secret
    ) -> AccountToken | None:
        """Return the present or refreshed token; None: the account was changed, read it again."""
        now, due = self._clock(), refresh_time(account)
        if due is None or due > now:
            return self._cache_token(account, access)
        old = _token(account, access) if is_valid(account, now) else None
        if tokens.lease > now:  # another process refreshes it
            if old is None:
                await self._sleep(POLL_SECONDS)
            return old
        if tokens.refresh is None and old is not None:
            return old
        try:
            return await self._refresh(provider, account, tokens)
        except Unavailable:
            if old is None:
                raise
            return old

    async def _refresh(self, provider: Provider, account: Account, tokens: StoredTokens) -> AccountToken | None:
        saved = await self.refresher.refresh(provider, account, tokens)
        new_tokens = None if saved is None else await self._encryption.decrypt_tokens(saved)
        if saved is None or new_tokens is None or new_tokens.access is None:
            return None
        return self._cache_token(saved, new_tokens.access)

    def _cache_token(self, account: Account, access: Secret) -> AccountToken:
        token = _token(account, access)
        until, due = self._clock() + CACHE_SECONDS, refresh_time(account)
        until = until if due is None else min(until, due)
        if len(self._cache) >= MAX_CACHED_TOKENS:
            self._cache.clear()
        self._cache[account.user, account.provider] = CachedToken(token, frozenset(account.scopes), until)
        return token


def is_valid(account: Account, now: float) -> bool:
    """Return whether the access token can still be used."""
    return account.expires_at is None or account.expires_at - MIN_VALID_SECONDS > now


def refresh_time(account: Account) -> float | None:
    """Return when to refresh the access token, None if it never expires; at three quarters of a short lifetime."""
    if account.expires_at is None:
        return None
    life = account.expires_at - (account.refreshed_at or account.created_at)
    return account.expires_at - min(REFRESH_EARLY_SECONDS, max(life, 0.0) / 4)


def _unavailable(provider: Provider, wait: float) -> Unavailable:
    return Unavailable(f"the account at {provider.name} cannot be renewed now; try again in {wait:.0f} seconds")


def _lookup_failed(failed: StoreFailed) -> Unavailable:
    return Unavailable("accounts cannot be looked up now", detail=str(failed))


def _token(account: Account, access: Secret) -> AccountToken:
    return AccountToken(account.provider, access, account.scopes, account.expires_at)
