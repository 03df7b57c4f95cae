"""Seals tokens and attempts with the vault's keys, each bound to its row: moved to another row, it does not open."""

import logging

import msgspec

from toolhall.accounts.flow import Attempt
from toolhall.model.secret import Secret
from toolhall.stores.accounts.base import Account, Link
from toolhall.stores.vault.base import tenant_of
from toolhall.stores.vault.envelope import Unopened
from toolhall.stores.vault.vault import Vault

_LOG = logging.getLogger(__name__)


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of an account; until `lease` is over, one process alone renews them."""

    access: Secret | None
    refresh: Secret | None
    lease: float = 0.0


class _Tokens(msgspec.Struct, frozen=True):
    """How tokens are written before they are sealed; never kept, logged or passed on."""

    access: str | None
    refresh: str | None
    lease: float

    def __repr__(self) -> str:
        return "<tokens>"


class _Attempt(msgspec.Struct, frozen=True):
    """How an attempt is written before it is sealed."""

    state: str
    verifier: str
    redirect_uri: str
    issuer: str
    scopes: tuple[str, ...]
    resource: str | None

    def __repr__(self) -> str:
        return "<attempt>"


_tokens = msgspec.json.Decoder(_Tokens)
_attempt = msgspec.json.Decoder(_Attempt)


class Sealing:
    """What belongs to a user is sealed with the user's own data key."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def with_tokens(self, account: Account, kept: Kept) -> Account:
        """The account with these tokens; raises StoreFailed."""
        plain = msgspec.json.encode(_Tokens(_revealed(kept.access), _revealed(kept.refresh), kept.lease))
        sealer = await self._vault.sealer(tenant_of(account.user))
        return msgspec.structs.replace(account, sealed=sealer.seal(plain, *_of_account(account)))

    async def tokens(self, account: Account) -> Kept | None:
        """Its tokens; None if they do not open, which is logged."""
        plain = await self._opened(account, account.sealed, _of_account(account))
        if plain is None:
            return None
        found = _tokens.decode(plain)
        return Kept(access=_hidden(found.access), refresh=_hidden(found.refresh), lease=found.lease)

    async def attempt_sealed(self, link: Link, attempt: Attempt) -> bytes:
        """What the link keeps of an attempt; raises StoreFailed."""
        written = _Attempt(
            attempt.state.reveal(),
            attempt.verifier.reveal(),
            attempt.redirect_uri,
            attempt.issuer,
            attempt.scopes,
            attempt.resource,
        )
        sealer = await self._vault.sealer(tenant_of(link.user))
        return sealer.seal(msgspec.json.encode(written), *_of_link(link))

    async def attempt(self, link: Link) -> Attempt | None:
        """The attempt that a link keeps; None if there is none, or if it does not open."""
        plain = await self._opened(link, link.sealed, _of_link(link)) if link.sealed else None
        if plain is None:
            return None
        found = _attempt.decode(plain)
        return Attempt(
            state=Secret(found.state),
            verifier=Secret(found.verifier),
            redirect_uri=found.redirect_uri,
            issuer=found.issuer,
            scopes=found.scopes,
            resource=found.resource,
        )

    async def _opened(self, row: Account | Link, sealed: bytes, bound: tuple[str, ...]) -> bytes | None:
        try:
            sealer = await self._vault.sealer(tenant_of(row.user))
            return await sealer.find(sealed, *bound)
        except Unopened as why:
            _LOG.warning("the %s %s at %s does not open: %s", type(row).__name__.lower(), row.id, row.provider, why)
            return None


def _of_account(account: Account) -> tuple[str, ...]:
    return ("account", account.id, account.user, account.provider, account.issuer)


def _of_link(link: Link) -> tuple[str, ...]:
    return ("link", link.id, link.caller, link.user, link.provider, link.issuer)


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _hidden(value: str | None) -> Secret | None:
    return None if value is None else Secret(value)
