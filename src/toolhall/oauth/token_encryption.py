"""TokenEncryption: encrypts tokens and pending authorizations with the vault's keys, each bound to its row."""

import logging

import msgspec

from toolhall.model.secret import Secret
from toolhall.oauth.authorization_code import PendingAuthorization
from toolhall.stores.accounts import Account, AccountLink
from toolhall.stores.vault.envelope import DecryptionFailed
from toolhall.stores.vault.store import tenant_of
from toolhall.stores.vault.vault import Vault

_LOG = logging.getLogger("toolhall.accounts.sealing")


class StoredTokens(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of an account; until the time `lease`, only the process that wrote it may refresh them."""

    access: Secret | None
    refresh: Secret | None
    lease: float = 0.0


class _TokensPayload(msgspec.Struct, frozen=True):
    """The JSON form of tokens before encryption; never stored, logged or passed on."""

    access: str | None
    refresh: str | None
    lease: float

    def __repr__(self) -> str:
        return "<tokens>"


class _AuthorizationPayload(msgspec.Struct, frozen=True):
    """The JSON form of a pending authorization before encryption."""

    state: str
    verifier: str
    redirect_uri: str
    issuer: str
    scopes: tuple[str, ...]
    resource: str | None

    def __repr__(self) -> str:
        return "<attempt>"


_tokens_decoder = msgspec.json.Decoder(_TokensPayload)
_authorization_decoder = msgspec.json.Decoder(_AuthorizationPayload)


class TokenEncryption:
    """Encrypts and decrypts with the user's own data key; the row's identity is associated data."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def with_tokens(self, account: Account, tokens: StoredTokens) -> Account:
        """Return the account with these tokens, encrypted; raises StoreFailed."""
        plain = msgspec.json.encode(_TokensPayload(_plain(tokens.access), _plain(tokens.refresh), tokens.lease))
        return await self.with_payload(account, plain)

    async def with_payload(self, account: Account, plain: bytes) -> Account:
        """Return the account with these bytes, encrypted; raises StoreFailed."""
        sealer = await self._vault.sealer(tenant_of(account.user))
        return msgspec.structs.replace(account, sealed=sealer.seal(plain, *_account_context(account)))

    async def decrypt_payload(self, account: Account) -> bytes | None:
        """Return the account's bytes; None if they cannot be decrypted, which is logged."""
        return await self._decrypt(account, account.sealed, _account_context(account))

    async def decrypt_tokens(self, account: Account) -> StoredTokens | None:
        """Return the account's tokens; None if they cannot be decrypted, which is logged."""
        plain = await self.decrypt_payload(account)
        if plain is None:
            return None
        found = _tokens_decoder.decode(plain)
        return StoredTokens(access=_as_secret(found.access), refresh=_as_secret(found.refresh), lease=found.lease)

    async def encrypt_authorization(self, link: AccountLink, attempt: PendingAuthorization) -> bytes:
        """Encrypt a pending authorization for its link; raises StoreFailed."""
        payload = _AuthorizationPayload(
            attempt.state.reveal(),
            attempt.verifier.reveal(),
            attempt.redirect_uri,
            attempt.issuer,
            attempt.scopes,
            attempt.resource,
        )
        sealer = await self._vault.sealer(tenant_of(link.user))
        return sealer.seal(msgspec.json.encode(payload), *_link_context(link))

    async def decrypt_authorization(self, link: AccountLink) -> PendingAuthorization | None:
        """Return the link's pending authorization; None if there is none, or it cannot be decrypted."""
        plain = await self._decrypt(link, link.sealed, _link_context(link)) if link.sealed else None
        if plain is None:
            return None
        found = _authorization_decoder.decode(plain)
        return PendingAuthorization(
            state=Secret(found.state),
            verifier=Secret(found.verifier),
            redirect_uri=found.redirect_uri,
            issuer=found.issuer,
            scopes=found.scopes,
            resource=found.resource,
        )

    async def _decrypt(self, row: Account | AccountLink, sealed: bytes, context: tuple[str, ...]) -> bytes | None:
        try:
            sealer = await self._vault.sealer(tenant_of(row.user))
            return await sealer.open_with_refresh(sealed, *context)
        except DecryptionFailed as why:
            kind = "account" if isinstance(row, Account) else "link"
            _LOG.warning("the %s %s at %s does not open: %s", kind, row.id, row.provider, why)
            return None


def _account_context(account: Account) -> tuple[str, ...]:
    return ("account", account.id, account.user, account.provider, account.issuer)


def _link_context(link: AccountLink) -> tuple[str, ...]:
    return ("link", link.id, link.caller, link.user, link.provider, link.issuer)


def _plain(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _as_secret(value: str | None) -> Secret | None:
    return None if value is None else Secret(value)
