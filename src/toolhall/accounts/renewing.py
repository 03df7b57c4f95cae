"""One refresh of one account: claimed before it is asked for, kept before it is used, and never asked for twice."""

import logging
from collections.abc import Callable

import msgspec

from toolhall.accounts.asking import Asker
from toolhall.accounts.discovery import Discovery
from toolhall.accounts.failures import Refusal, Unreachable
from toolhall.accounts.forms import refresh_form
from toolhall.accounts.providers import Endpoints, Provider
from toolhall.accounts.replies import Granted, read_tokens
from toolhall.accounts.sealing import Kept, Sealing
from toolhall.model.errors import Unavailable
from toolhall.model.secret import Secret
from toolhall.stores.accounts.base import Account, AccountStore
from toolhall.stores.base import StoreFailed

EARLY_SECONDS = 60.0  # so long before its end a token is renewed
# The provider may have replaced the refresh token before it answers; who does not wait for the answer has lost it.
REFRESH_SECONDS = 30.0
LEASE_SECONDS = REFRESH_SECONDS + 15.0  # the rest is for the store: no other process asks while this one may
LATE_SECONDS = 5.0  # a token that ends sooner may end on its way
FIRST_PAUSE = 1.0
LAST_PAUSE = 60.0
# The grant is over, as OAuth, GitHub and Slack say it; what else is refused is for the operator to mend.
_OVER = ("invalid_grant", "bad_refresh_token", "invalid_refresh_token", "token_revoked", "token_expired")
_LOG = logging.getLogger(__name__)


def is_good(account: Account, now: float) -> bool:
    """Whether the access token can still be used."""
    return account.expires_at is None or account.expires_at - LATE_SECONDS > now


def renewal_of(account: Account) -> float | None:
    """When its access token is to be renewed; a short-lived one is used for three quarters of its time."""
    if account.expires_at is None:
        return None
    life = account.expires_at - (account.refreshed_at or account.created_at)
    return account.expires_at - min(EARLY_SECONDS, max(life, 0.0) / 4)


class Renewing:
    """`store` may be another one after the hall was opened."""

    def __init__(
        self, store: AccountStore, sealing: Sealing, asker: Asker, discovery: Discovery, clock: Callable[[], float]
    ) -> None:
        self.store = store
        self._sealing = sealing
        self._asker = asker
        self._discovery = discovery
        self._clock = clock
        self._pauses: dict[str, tuple[float, float]] = {}  # of an account: until when, and for how long
        self._unsaved: dict[str, Account] = {}  # renewed there, and not yet kept here

    async def renew(self, provider: Provider, account: Account, kept: Kept) -> Account | None:
        """The account with new tokens, or broken; None if it changed meanwhile. Raises Unavailable, StoreFailed."""
        if kept.refresh is None:
            return await self._broken(account)
        self._refuse_pausing(provider, account)
        try:
            endpoints = await self._discovery.endpoints(provider)
        except Unreachable as error:
            raise self._paused(provider, account, error) from None
        lease = msgspec.structs.replace(kept, lease=self._clock() + LEASE_SECONDS)
        claimed = await self.store.save(await self._sealing.with_tokens(account, lease), account.serial)
        if claimed is None:
            return None
        try:
            granted = await self._granted(provider, endpoints, claimed, kept.refresh)
        except Refusal as refusal:
            if refusal.code in _OVER:
                _LOG.info("the account %s at %s is over: %s", account.id, provider.name, refusal.code)
                return await self._broken(claimed)
            raise await self._released(provider, claimed, kept, refusal) from None
        except Unreachable as error:
            raise await self._released(provider, claimed, kept, error) from None
        self._pauses.pop(account.id, None)
        return await self._keep(provider, claimed, granted, kept.refresh)

    async def _granted(self, provider: Provider, endpoints: Endpoints, account: Account, refresh: Secret) -> Granted:
        form = refresh_form(provider, refresh)
        reply = await self._asker.ask(provider, endpoints, endpoints.token_url, form, REFRESH_SECONDS)
        return read_tokens(reply, provider, account.scopes, self._clock())

    async def _keep(self, provider: Provider, claimed: Account, granted: Granted, refresh: Secret) -> Account | None:
        """From now on the old refresh token may be worth nothing, so the new one must not be lost."""
        now = self._clock()
        tokens = Kept(access=granted.access, refresh=granted.refresh or refresh)
        renewed = msgspec.structs.replace(
            await self._sealing.with_tokens(claimed, tokens),
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

    async def save_late(self, account: Account) -> Account | None:
        """Keep now what could not be kept when it was renewed; None if there is nothing, or the account changed."""
        renewed = self._unsaved.get(account.id)
        if renewed is None:
            return None
        saved = await self.store.save(renewed, account.serial) if renewed.serial == account.serial else None
        self._unsaved.pop(account.id, None)
        return saved

    async def revoke(self, provider: Provider, tokens: Kept) -> str | None:
        """Tell the provider that these are not used any more; None, or why that failed."""
        given = [(tokens.refresh, "refresh_token"), (tokens.access, "access_token")]
        try:
            endpoints = await self._discovery.endpoints(provider)
            for token, kind in given:
                if token is not None:
                    await self._asker.revoke(provider, endpoints, token, kind)
        except Unreachable as error:
            return str(error)
        return None

    async def _broken(self, account: Account) -> Account | None:
        """Nothing is left to try; a person must connect it anew."""
        emptied = await self._sealing.with_tokens(account, Kept(access=None, refresh=None))
        broken = msgspec.structs.replace(emptied, state="broken", expires_at=None)
        return await self.store.save(broken, account.serial)

    def _refuse_pausing(self, provider: Provider, account: Account) -> None:
        until, _ = self._pauses.get(account.id, (0.0, 0.0))
        wait = until - self._clock()
        if wait > 0:
            raise _unavailable(provider, wait)

    async def _released(self, provider: Provider, claimed: Account, kept: Kept, why: Exception) -> Unavailable:
        """Give the claim back, and leave the provider alone for a while."""
        paused = self._paused(provider, claimed, why)
        await self.store.save(await self._sealing.with_tokens(claimed, kept), claimed.serial)
        return paused

    def _paused(self, provider: Provider, account: Account, why: Exception) -> Unavailable:
        """Leave the provider alone for a while, each time for longer."""
        _, before = self._pauses.get(account.id, (0.0, 0.0))
        pause = min(before * 2 or FIRST_PAUSE, LAST_PAUSE)
        self._pauses[account.id] = (self._clock() + pause, pause)
        _LOG.warning("the account %s cannot be renewed at %s: %s", account.id, provider.name, why)
        return _unavailable(provider, pause)


def _unavailable(provider: Provider, wait: float) -> Unavailable:
    return Unavailable(f"the account at {provider.name} cannot be renewed now; try again in {wait:.0f} seconds")
