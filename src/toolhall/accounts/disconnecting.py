"""Takes an account away: the provider is told first, and it is forgotten here whatever the provider says."""

import logging
from collections.abc import Mapping

import msgspec

from toolhall.accounts.providers import Provider
from toolhall.accounts.renewing import Renewing
from toolhall.accounts.sealing import Sealing
from toolhall.accounts.tokens import TokenKeeper
from toolhall.model.caller import ADMIN, Caller
from toolhall.model.errors import Refused
from toolhall.stores.accounts.base import Account

_LOG = logging.getLogger(__name__)


class NotConnected(Refused):
    """There is no such account, or none that this caller may take away."""

    message = "there is no such account; 'toolhall account list' shows those that there are"


class Disconnected(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten here; `unrevoked` says why the provider may still honour its tokens, if it may."""

    account: Account
    unrevoked: str | None


class Disconnecting:
    """Anybody may take away an account of one's own; an operator may take away any."""

    def __init__(
        self, providers: Mapping[str, Provider], tokens: TokenKeeper, renewing: Renewing, sealing: Sealing
    ) -> None:
        self._providers = providers
        self._tokens = tokens
        self._renewing = renewing
        self._sealing = sealing

    async def __call__(self, account_id: str, by: Caller) -> Disconnected:
        """Revoke and forget it; NotConnected if there is none."""
        store = self._renewing.store
        account = await store.get(account_id)
        if account is None or not (ADMIN in by.scopes or by.user == account.user):
            raise NotConnected
        await self._tokens.settle(account.user, account.provider)
        account = await store.get(account_id) or account  # renewed just now
        unrevoked = await self._revoked(account)
        if not await store.remove(account.id):
            raise NotConnected
        self._tokens.forget(account.user, account.provider)
        if unrevoked is not None:
            _LOG.warning("the account %s at %s was not revoked there: %s", account.id, account.provider, unrevoked)
        return Disconnected(account=account, unrevoked=unrevoked)

    async def _revoked(self, account: Account) -> str | None:
        provider = self._providers.get(account.provider)
        if provider is None or provider.identity != account.issuer:
            return f"{account.provider} is not set up any more as it was when the account was connected"
        kept = await self._sealing.tokens(account)
        return "its tokens do not open" if kept is None else await self._renewing.revoke(provider, kept)
