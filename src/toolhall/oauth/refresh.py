"""TokenRefresher renews account tokens; AccountTokenCache serves valid ones, with one refresh at a time.

Theory of operation: before a refresh, the process writes a lease into the account, so that no other process uses the
same refresh token. The response is stored before it is used, since the provider may have invalidated the old refresh
token; if the store fails, the response is kept in memory and stored later. Within a process, concurrent callers share
one task, which goes on when they stop waiting.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

import msgspec

from toolhall.concurrency import SingleFlight, StillRunning
from toolhall.model.errors import Unavailable
from toolhall.model.requirements import AccountRequirement, AccountToken
from toolhall.model.secret import Secret
from toolhall.oauth.client import OAuthClient, TokenResponse, parse_token_response, refresh_form
from toolhall.oauth.discovery import ProviderDiscovery
from toolhall.oauth.errors import ProviderRefused, ProviderUnreachable
from toolhall.oauth.providers import Endpoints, Provider
from toolhall.oauth.token_encryption import StoredTokens, TokenEncryption
from toolhall.stores.accounts import Account, AccountStore
from toolhall.stores.common import StoreFailed

REFRESH_EARLY_SECONDS = 60.0  # so long before its end a token is renewed
# The provider may have replaced the refresh token before it answers; who does not wait for the answer has lost it.
REFRESH_TIMEOUT_SECONDS = 30.0
LEASE_SECONDS = REFRESH_TIMEOUT_SECONDS + 15.0  # the rest is for the store: no other process asks while this one may
MIN_VALID_SECONDS = 5.0  # a token that ends sooner may end on its way
FIRST_BACKOFF = 1.0
MAX_BACKOFF = 60.0
# The grant is over, as OAuth, GitHub and Slack say it; what else is refused is for the operator to mend.
_GRANT_ENDED_CODES = ("invalid_grant", "bad_refresh_token", "invalid_refresh_token", "token_revoked", "token_expired")
_LOG = logging.getLogger("toolhall.accounts.renewing")


def is_valid(account: Account, now: float) -> bool:
    """Whether the access token can still be used."""
    return account.expires_at is None or account.expires_at - MIN_VALID_SECONDS > now


def refresh_time(account: Account) -> float | None:
    """When its access token is to be renewed; a short-lived one is used for three quarters of its time."""
    if account.expires_at is None:
        return None
    life = account.expires_at - (account.refreshed_at or account.created_at)
    return account.expires_at - min(REFRESH_EARLY_SECONDS, max(life, 0.0) / 4)


class TokenRefresher:
    """`store` may be another one after the hall was opened."""

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
        self._backoffs: dict[str, tuple[float, float]] = {}  # of an account: until when, and for how long
        self._unsaved: dict[str, Account] = {}  # renewed there, and not yet kept here

    async def refresh(self, provider: Provider, account: Account, tokens: StoredTokens) -> Account | None:
        """The account with new tokens, or broken; None if it changed meanwhile. Raises Unavailable, StoreFailed."""
        if tokens.refresh is None:
            return await self._mark_broken(account)
        self._check_backoff(provider, account)
        try:
            endpoints = await self._discovery.endpoints(provider)
        except ProviderUnreachable as error:
            raise self._back_off(provider, account, error) from None
        lease = msgspec.structs.replace(tokens, lease=self._clock() + LEASE_SECONDS)
        claimed = await self.store.save(await self._encryption.with_tokens(account, lease), account.serial)
        if claimed is None:
            return None
        try:
            granted = await self._request_tokens(provider, endpoints, claimed, tokens.refresh)
        except ProviderRefused as refusal:
            if refusal.code in _GRANT_ENDED_CODES:
                _LOG.info("the account %s at %s is over: %s", account.id, provider.name, refusal.code)
                return await self._mark_broken(claimed)
            raise await self._release_lease(provider, claimed, tokens, refusal) from None
        except ProviderUnreachable as error:
            raise await self._release_lease(provider, claimed, tokens, error) from None
        self._backoffs.pop(account.id, None)
        return await self._save_tokens(provider, claimed, granted, tokens.refresh)

    async def _request_tokens(
        self, provider: Provider, endpoints: Endpoints, account: Account, refresh: Secret
    ) -> TokenResponse:
        form = refresh_form(provider, refresh)
        reply = await self._client.post_form(provider, endpoints, endpoints.token_url, form, REFRESH_TIMEOUT_SECONDS)
        return parse_token_response(reply, provider, account.scopes, self._clock())

    async def _save_tokens(
        self, provider: Provider, claimed: Account, granted: TokenResponse, refresh: Secret
    ) -> Account | None:
        """From now on the old refresh token may be worth nothing, so the new one must not be lost."""
        now = self._clock()
        tokens = StoredTokens(access=granted.access, refresh=granted.refresh or refresh)
        renewed = msgspec.structs.replace(
            await self._encryption.with_tokens(claimed, tokens),
            scopes=granted.scopes,
            expires_at=granted.expires_at,
            refreshed_at=now,
        )
        try:
            saved = await self.store.save(renewed, claimed.serial)
        except StoreFailed:
            self._unsaved[claimed.id] = renewed
            raise
        if saved is None and await self.store.get(claimed.id) is None:  # disconnected meanwhile
            await self.revoke(provider, tokens)
        return saved

    async def save_unsaved(self, account: Account) -> Account | None:
        """Keep now what could not be kept when it was renewed; None if there is nothing, or the account changed."""
        renewed = self._unsaved.get(account.id)
        if renewed is None:
            return None
        saved = await self.store.save(renewed, account.serial) if renewed.serial == account.serial else None
        self._unsaved.pop(account.id, None)
        return saved

    async def revoke(self, provider: Provider, tokens: StoredTokens) -> str | None:
        """Tell the provider that these are not used any more; None, or why that failed."""
        given = [(tokens.refresh, "refresh_token"), (tokens.access, "access_token")]
        try:
            endpoints = await self._discovery.endpoints(provider)
            for token, kind in given:
                if token is not None:
                    await self._client.revoke(provider, endpoints, token, kind)
        except ProviderUnreachable as error:
            return str(error)
        return None

    async def _mark_broken(self, account: Account) -> Account | None:
        """Nothing is left to try; a person must connect it anew."""
        emptied = await self._encryption.with_tokens(account, StoredTokens(access=None, refresh=None))
        broken = msgspec.structs.replace(emptied, state="broken", expires_at=None)
        return await self.store.save(broken, account.serial)

    def _check_backoff(self, provider: Provider, account: Account) -> None:
        until, _ = self._backoffs.get(account.id, (0.0, 0.0))
        wait = until - self._clock()
        if wait > 0:
            raise _unavailable(provider, wait)

    async def _release_lease(
        self, provider: Provider, claimed: Account, tokens: StoredTokens, why: Exception
    ) -> Unavailable:
        """Give the claim back, and leave the provider alone for a while."""
        paused = self._back_off(provider, claimed, why)
        await self.store.save(await self._encryption.with_tokens(claimed, tokens), claimed.serial)
        return paused

    def _back_off(self, provider: Provider, account: Account, why: Exception) -> Unavailable:
        """Leave the provider alone for a while, each time for longer."""
        _, before = self._backoffs.get(account.id, (0.0, 0.0))
        pause = min(before * 2 or FIRST_BACKOFF, MAX_BACKOFF)
        self._backoffs[account.id] = (self._clock() + pause, pause)
        _LOG.warning("the account %s cannot be renewed at %s: %s", account.id, provider.name, why)
        return _unavailable(provider, pause)


def _unavailable(provider: Provider, wait: float) -> Unavailable:
    return Unavailable(f"the account at {provider.name} cannot be renewed now; try again in {wait:.0f} seconds")


CACHE_SECONDS = 60.0  # another process may have disconnected the account: it is looked at again
WAIT_SECONDS = 5.0  # so long a call waits for a refresh, which itself goes on for as long as it takes
POLL_SECONDS = 0.05  # while another process renews
MAX_POLLS = 100
MAX_CACHED_TOKENS = 10_000


class CachedToken(NamedTuple):
    """A token at hand."""

    token: AccountToken
    scopes: frozenset[str]
    until: float


class AccountTokenCache:
    """The tokens of everybody; `store` may be another one after the hall was opened."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
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
        """Where the accounts are kept."""
        return self.refresher.store

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """A token that is good now, if one is at hand."""
        held = self._cache.get((user, need.provider))
        if held is None or held.until <= self._clock():
            return None
        # By their names first, which is quick; a provider may have two names for one scope.
        if held.scopes.issuperset(need.scopes) or self._providers[need.provider].covers(held.token.scopes, need.scopes):
            return held.token
        return None

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """A token that is good now; None if the user has no such account, or not with these scopes.

        Raises Unavailable where there is an account, and its provider cannot be asked.
        """
        token = self.cached_token(user, need)
        if token is not None:
            return token
        provider = self._providers.get(need.provider)
        if provider is None:
            return None
        try:
            token = await self._flights.run(
                (user, provider.name), lambda: self._load_token(user, provider), WAIT_SECONDS
            )
        except StillRunning:
            token = await self._token_during_refresh(user, provider)
        return token if token is not None and provider.covers(token.scopes, need.scopes) else None

    def forget(self, user: str, provider: str) -> None:
        """What is at hand is not used again."""
        self._cache.pop((user, provider), None)

    def clear(self) -> None:
        """Nothing that is at hand is used again: another process may have changed any of it."""
        self._cache.clear()

    async def wait_for_refresh(self, user: str, provider: str) -> None:
        """Wait for a refresh that is under way, as long as a call would; one that ends later revokes what it brings."""
        await self._flights.wait((user, provider), WAIT_SECONDS)

    async def close(self) -> None:
        """Finish what is under way: a token that was renewed and not kept would be lost."""
        await self._flights.close()
        self._cache.clear()

    async def _token_during_refresh(self, user: str, provider: Provider) -> AccountToken:
        """The token that is being renewed, if it is still good."""
        try:
            account = await self._usable_account(user, provider)
            kept = None if account is None else await self._encryption.decrypt_tokens(account)
        except StoreFailed as failed:
            raise _lookup_failed(failed) from None
        if account is None or kept is None or kept.access is None or not is_valid(account, self._clock()):
            raise Unavailable(f"{provider.name} has not renewed the account yet; try again in a moment")
        return _token(account, kept.access)

    async def _usable_account(self, user: str, provider: Provider) -> Account | None:
        """The account, if it can be used."""
        account = await self.store.find(user, provider.name)
        if account is None or account.state == "broken" or account.issuer != provider.identity:
            return None
        return account

    async def _load_token(self, user: str, provider: Provider) -> AccountToken | None:
        try:
            for _ in range(MAX_POLLS):
                account = await self._usable_account(user, provider)
                if account is None:
                    return None
                account = await self.refresher.save_unsaved(account) or account
                kept = await self._encryption.decrypt_tokens(account)
                if kept is None or kept.access is None:
                    return None
                token = await self._token_from(provider, account, kept, kept.access)
                if token is not None:
                    return token
        except StoreFailed as failed:
            raise _lookup_failed(failed) from None
        raise Unavailable(f"the account at {provider.name} is being renewed elsewhere; try again in a moment")

    async def _token_from(
        self, provider: Provider, account: Account, tokens: StoredTokens, access: Secret
    ) -> AccountToken | None:
        """What can be used of these tokens, or of the next ones; None: look again."""
        now, due = self._clock(), refresh_time(account)
        if due is None or due > now:
            return self._cache_token(account, access)
        old = _token(account, access) if is_valid(account, now) else None
        if tokens.lease > now:  # another process renews it
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

    async def _refresh(self, provider: Provider, account: Account, kept: StoredTokens) -> AccountToken | None:
        saved = await self.refresher.refresh(provider, account, kept)
        tokens = None if saved is None else await self._encryption.decrypt_tokens(saved)
        if saved is None or tokens is None or tokens.access is None:
            return None
        return self._cache_token(saved, tokens.access)

    def _cache_token(self, account: Account, access: Secret) -> AccountToken:
        token = _token(account, access)
        until, due = self._clock() + CACHE_SECONDS, refresh_time(account)
        until = until if due is None else min(until, due)
        if len(self._cache) >= MAX_CACHED_TOKENS:
            self._cache.clear()
        self._cache[account.user, account.provider] = CachedToken(token, frozenset(account.scopes), until)
        return token


def _lookup_failed(failed: StoreFailed) -> Unavailable:
    return Unavailable("accounts cannot be looked up now", detail=str(failed))


def _token(account: Account, access: Secret) -> AccountToken:
    return AccountToken(account.provider, access, account.scopes, account.expires_at)
