"""The end of every way to connect an account: a code or a device becomes tokens, and the tokens an account."""

import secrets
from collections.abc import Callable

import msgspec

from toolhall.accounts.asking import Asker
from toolhall.accounts.discovery import Discovery
from toolhall.accounts.failures import LinkFailed
from toolhall.accounts.flow import Attempt
from toolhall.accounts.forms import code_form
from toolhall.accounts.providers import Provider
from toolhall.accounts.replies import Granted, read_tokens
from toolhall.accounts.sealing import Kept, Sealing
from toolhall.accounts.tokens import TokenKeeper
from toolhall.model.errors import Unavailable
from toolhall.model.secret import Secret
from toolhall.stores.accounts.base import NEW, Account, AccountStore, Link

_TRIES = 10


class Connecting:
    """A user has one account at a provider; connecting it again replaces it."""

    def __init__(
        self,
        sealing: Sealing,
        asker: Asker,
        discovery: Discovery,
        tokens: TokenKeeper,
        clock: Callable[[], float],
    ) -> None:
        self._sealing = sealing
        self._asker = asker
        self._discovery = discovery
        self._tokens = tokens
        self._clock = clock

    @property
    def store(self) -> AccountStore:
        """Where the accounts are kept."""
        return self._tokens.store

    async def asked(self, link: Link, provider: Provider) -> tuple[str, ...]:
        """What the provider is asked for: what this tool needs, and what the user has agreed to before.

        Without the latter, two tools that need different scopes would take the account from each other.
        """
        before = await self.store.find(link.user, provider.name)
        still = before is not None and before.state == "connected" and before.issuer == provider.identity
        return provider.asked((*link.scopes, *(before.scopes if before is not None and still else ())))

    async def exchange(self, provider: Provider, attempt: Attempt, code: Secret) -> Granted:
        """The tokens for a code; raises Refusal, Unreachable."""
        endpoints = await self._discovery.endpoints(provider)
        reply = await self._asker.ask(provider, endpoints, endpoints.token_url, code_form(attempt, code))
        return read_tokens(reply, provider, attempt.scopes, self._clock())

    async def keep(self, link: Link, provider: Provider, granted: Granted) -> Account:
        """The account, kept; LinkFailed if the tool that needs it could do nothing with it."""
        tokens = Kept(access=granted.access, refresh=granted.refresh)
        missing = provider.missing(granted.scopes, link.scopes)
        if missing:
            if await self.store.find(link.user, provider.name) is None:  # some providers revoke all grants at once
                await self._tokens.renewing.revoke(provider, tokens)
            raise LinkFailed(f"{provider.name} granted less than is needed; missing: {' '.join(missing)}")
        for _ in range(_TRIES):
            before = await self.store.find(link.user, provider.name)
            account = self._account(link, provider, granted, before)
            saved = await self.store.save(
                await self._sealing.with_tokens(account, tokens), NEW if before is None else before.serial
            )
            if saved is not None:
                self._tokens.forget(link.user, provider.name)
                return saved
        raise Unavailable("the account changes all the time; try again later")

    def _account(self, link: Link, provider: Provider, granted: Granted, before: Account | None) -> Account:
        now = self._clock()
        blank = Account(
            id=secrets.token_hex(12),  # a person types it: no dash can begin it
            user=link.user,
            provider=provider.name,
            issuer=provider.identity,
            scopes=granted.scopes,
            sealed=b"",
            expires_at=granted.expires_at,
            created_at=now,
            refreshed_at=now,
        )
        return blank if before is None else msgspec.structs.replace(blank, id=before.id, serial=before.serial)
