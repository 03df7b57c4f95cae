"""Keeps the tokens of linked accounts fresh: one refresh at a time, and what it brings is kept before it is used."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from toolhall.accounts.providers import Provider
from toolhall.accounts.renewing import Renewing, is_good, renewal_of
from toolhall.accounts.sealing import Kept, Sealing
from toolhall.model.errors import Unavailable
from toolhall.model.requirements import AccountNeed, Token
from toolhall.model.secret import Secret
from toolhall.stores.accounts.base import Account, AccountStore
from toolhall.stores.base import StoreFailed

HELD_SECONDS = 60.0  # another process may have disconnected the account: it is looked at again
WAIT_SECONDS = 5.0  # so long a call waits for a refresh, which itself goes on for as long as it takes
LOOK_SECONDS = 0.05  # while another process renews
MOST_LOOKS = 100
MOST_HELD = 10_000


class Held(NamedTuple):
    """A token at hand."""

    token: Token
    scopes: frozenset[str]
    until: float


class TokenKeeper:
    """The tokens of everybody; `store` may be another one after the hall was opened."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        sealing: Sealing,
        renewing: Renewing,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._providers = providers
        self._sealing = sealing
        self.renewing = renewing
        self._clock = clock
        self._sleep = sleep
        self._held: dict[tuple[str, str], Held] = {}
        self._flights: dict[tuple[str, str], asyncio.Task[Token | None]] = {}

    @property
    def store(self) -> AccountStore:
        """Where the accounts are kept."""
        return self.renewing.store

    def ready(self, user: str, need: AccountNeed) -> Token | None:
        """A token that is good now, if one is at hand."""
        held = self._held.get((user, need.provider))
        if held is None or held.until <= self._clock():
            return None
        # By their names first, which is quick; a provider may have two names for one scope.
        if held.scopes.issuperset(need.scopes) or self._providers[need.provider].covers(held.token.scopes, need.scopes):
            return held.token
        return None

    async def fresh(self, user: str, need: AccountNeed) -> Token | None:
        """A token that is good now; None if the user has no such account, or not with these scopes.

        Raises Unavailable where there is an account, and its provider cannot be asked.
        """
        token = self.ready(user, need)
        if token is not None:
            return token
        provider = self._providers.get(need.provider)
        if provider is None:
            return None
        token = await self._flight(user, provider)
        return token if token is not None and provider.covers(token.scopes, need.scopes) else None

    def forget(self, user: str, provider: str) -> None:
        """What is at hand is not used again."""
        self._held.pop((user, provider), None)

    def forget_all(self) -> None:
        """Nothing that is at hand is used again: another process may have changed any of it."""
        self._held.clear()

    async def settle(self, user: str, provider: str) -> None:
        """Wait for a refresh that is under way, as long as a call would; one that ends later revokes what it brings."""
        flight = self._flights.get((user, provider))
        if flight is not None:
            await asyncio.wait({flight}, timeout=WAIT_SECONDS)

    async def close(self) -> None:
        """Finish what is under way: a token that was renewed and not kept would be lost."""
        if self._flights:
            await asyncio.wait(set(self._flights.values()))
        self._held.clear()

    async def _flight(self, user: str, provider: Provider) -> Token | None:
        """One look for all who ask at the same moment; it goes on if they leave, or have waited long enough."""
        place = (user, provider.name)
        flight = self._flights.get(place)
        if flight is None:
            flight = asyncio.ensure_future(self._looked(user, provider))
            self._flights[place] = flight
            flight.add_done_callback(lambda done: self._landed(place, done))
        done, _ = await asyncio.wait({flight}, timeout=WAIT_SECONDS)
        return flight.result() if done else await self._meanwhile(user, provider)

    def _landed(self, place: tuple[str, str], done: "asyncio.Task[Token | None]") -> None:
        self._flights.pop(place, None)
        if not done.cancelled():
            done.exception()  # whoever waited was told; if nobody did, nobody is missing it

    async def _meanwhile(self, user: str, provider: Provider) -> Token:
        """The token that is being renewed, if it is still good."""
        try:
            account = await self._found(user, provider)
            kept = None if account is None else await self._sealing.tokens(account)
        except StoreFailed as failed:
            raise _unread(failed) from None
        if account is None or kept is None or kept.access is None or not is_good(account, self._clock()):
            raise Unavailable(f"{provider.name} has not renewed the account yet; try again in a moment")
        return _token(account, kept.access)

    async def _found(self, user: str, provider: Provider) -> Account | None:
        """The account, if it can be used."""
        account = await self.store.find(user, provider.name)
        if account is None or account.state == "broken" or account.issuer != provider.identity:
            return None
        return account

    async def _looked(self, user: str, provider: Provider) -> Token | None:
        try:
            for _ in range(MOST_LOOKS):
                account = await self._found(user, provider)
                if account is None:
                    return None
                account = await self.renewing.save_late(account) or account
                kept = await self._sealing.tokens(account)
                if kept is None or kept.access is None:
                    return None
                token = await self._usable(provider, account, kept, kept.access)
                if token is not None:
                    return token
        except StoreFailed as failed:
            raise _unread(failed) from None
        raise Unavailable(f"the account at {provider.name} is being renewed elsewhere; try again in a moment")

    async def _usable(self, provider: Provider, account: Account, kept: Kept, access: Secret) -> Token | None:
        """What can be used of these tokens, or of the next ones; None: look again."""
        now, due = self._clock(), renewal_of(account)
        if due is None or due > now:
            return self._hold(account, access)
        old = _token(account, access) if is_good(account, now) else None
        if kept.lease > now:  # another process renews it
            if old is None:
                await self._sleep(LOOK_SECONDS)
            return old
        if kept.refresh is None and old is not None:
            return old
        try:
            return await self._renewed(provider, account, kept)
        except Unavailable:
            if old is None:
                raise
            return old

    async def _renewed(self, provider: Provider, account: Account, kept: Kept) -> Token | None:
        saved = await self.renewing.renew(provider, account, kept)
        tokens = None if saved is None else await self._sealing.tokens(saved)
        if saved is None or tokens is None or tokens.access is None:
            return None
        return self._hold(saved, tokens.access)

    def _hold(self, account: Account, access: Secret) -> Token:
        token = _token(account, access)
        until, due = self._clock() + HELD_SECONDS, renewal_of(account)
        until = until if due is None else min(until, due)
        if len(self._held) >= MOST_HELD:
            self._held.clear()
        self._held[account.user, account.provider] = Held(token, frozenset(account.scopes), until)
        return token


def _unread(failed: StoreFailed) -> Unavailable:
    return Unavailable("accounts cannot be looked up now", detail=str(failed))


def _token(account: Account, access: Secret) -> Token:
    return Token(account.provider, access, account.scopes, account.expires_at)
