"""The equip stage: resolves the secrets and account tokens that a tool requires, and the redactor that hides them.

To equip a call is to fetch its credentials as late as possible and to keep them for this call only. NeedsRequirement
lists everything that is missing.
"""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NeedsRequirement
from toolhall.model.messages import Call
from toolhall.model.names import matches_any
from toolhall.model.requirements import (
    AccountRequirement,
    AccountToken,
    CallerCredentials,
    MissingRequirement,
    Requirements,
    ResolvedCredentials,
)
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret
from toolhall.oauth.providers import UPSTREAM_PREFIX
from toolhall.pipeline.states import Equipped, Valid, Verified
from toolhall.redaction.redactor import redactor_for

_NOT_SET = "the secret {} has not been set up here: whoever runs this hall does that with 'toolhall secret set {}'"
_NO_USER = "this tool acts for a user, and nobody is proven to be one: call with a credential of your own"
_NOT_ACCEPTED = (
    "this tool takes no credentials from its callers: leave them out of the context, or let whoever runs this hall"
    " list the tool in accept_credentials"
)
_NOT_SENT_ON = (
    "nothing that a caller sends goes to an upstream: leave the token out of the context, and link the account here"
)


class SecretSource(Protocol):
    """Returns stored secrets."""

    def get(self, name: str, user: str | None) -> Secret | None:
        """Return the user's own secret of this name, or else the hall's."""
        ...


class AccountTokenSource(Protocol):
    """Returns access tokens of linked accounts."""

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """Return a valid token if one is cached."""
        ...

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:
        """Return a valid token; None if the user has linked no such account, or not with these scopes."""
        ...

    async def link_requirement(
        self, caller: Caller, need: AccountRequirement, tool: str
    ) -> tuple[MissingRequirement, str]:
        """Return what is missing, with the URL where the user links the account, and a message."""
        ...


class NoCredentials:
    """A source of secrets and tokens that has none: every requirement is missing."""

    def get(self, name: str, user: str | None) -> Secret | None:  # noqa: ARG002
        """Return None."""
        return None

    def cached_token(self, user: str, need: AccountRequirement) -> AccountToken | None:  # noqa: ARG002
        """Return None."""
        return None

    async def get_token(self, user: str, need: AccountRequirement) -> AccountToken | None:  # noqa: ARG002
        """Return None."""
        return None

    async def link_requirement(
        self,
        caller: Caller,  # noqa: ARG002
        need: AccountRequirement,
        tool: str,  # noqa: ARG002
    ) -> tuple[MissingRequirement, str]:
        """Return the requirement without a URL."""
        return MissingRequirement("account", account=need), f"no account at {need.provider!r} can be linked here"


_NO_CREDENTIALS = NoCredentials()
_NO_CALLER_CREDENTIALS = CallerCredentials()


class Equip:
    """Resolves credentials; `accept_credentials` are globs of tools whose callers may send their own."""

    def __init__(
        self,
        secrets: SecretSource = _NO_CREDENTIALS,
        accounts: AccountTokenSource = _NO_CREDENTIALS,
        accept_credentials: tuple[str, ...] = (),
    ) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._accept_credentials = accept_credentials

    def __call__(self, verified: Verified) -> Equipped | Awaitable[Equipped]:
        """Return Equipped, or an awaitable of it if a token must be fetched; raises NeedsRequirement or Malformed."""
        call, needs = verified.call, verified.entry.requirements
        if needs is None and call.caller_credentials is None:
            return _equipped(verified, None)
        credentials = self._resolve_now(verified, needs or Requirements())
        if credentials is None:
            return self._equip_later(verified, needs or Requirements())
        return _equipped(verified, credentials)

    async def check_ready(self, valid: Valid) -> None:
        """Raise what `__call__` would raise, before a person is asked to approve a call that cannot run."""
        needs = valid.entry.requirements or Requirements()
        if self._resolve_now(valid, needs) is None:
            await self._resolve(valid, needs)

    def missing(self, caller: Caller, needs: Requirements) -> tuple[list[str], list[str]]:
        """Return what is certainly missing for this caller, and the providers whose tokens would have to be fetched.

        It fetches nothing and starts to link nothing.
        """
        user = caller.user
        absent = [_NOT_SET.format(name, name) for name in needs.secrets if self._secrets.get(name, user) is None]
        if user is None:
            return ([*absent, _NO_USER] if needs.user_id or needs.accounts else absent), []
        return absent, [need.provider for need in needs.accounts if self._accounts.cached_token(user, need) is None]

    def _resolve_now(self, state: Valid | Verified, needs: Requirements) -> ResolvedCredentials | None:
        """Return the credentials if all of them are cached, which is the usual case; else None."""
        call, user = state.call, state.call.caller.user
        sent = self._caller_credentials(call, state.entry.id, needs)
        secrets, accounts = {}, {}
        for name in needs.secrets:
            secret = sent.secrets.get(name) or self._secrets.get(name, user)
            if secret is None:
                return None
            secrets[name] = secret
        for need in needs.accounts:
            token = _caller_token(sent, need) or (None if user is None else self._accounts.cached_token(user, need))
            if token is None:
                return None
            accounts[need.provider] = token
        return None if needs.user_id and user is None else ResolvedCredentials(secrets, accounts, user)

    async def _equip_later(self, verified: Verified, needs: Requirements) -> Equipped:
        return _equipped(verified, await self._resolve(verified, needs))

    async def _resolve(self, state: Valid | Verified, needs: Requirements) -> ResolvedCredentials:
        """Return the credentials, fetching tokens; raises NeedsRequirement with everything that is missing."""
        call, user = state.call, state.call.caller.user
        sent = self._caller_credentials(call, state.entry.id, needs)
        missing: list[tuple[MissingRequirement, str]] = []
        secrets = {name: sent.secrets.get(name) or self._secrets.get(name, user) for name in needs.secrets}
        missing += [
            (MissingRequirement("secret", name), _NOT_SET.format(name, name)) for name in secrets if not secrets[name]
        ]
        accounts = {need.provider: await self._token(sent, user, need) for need in needs.accounts}
        if user is None and (needs.user_id or None in accounts.values()):
            missing.append((MissingRequirement("user_id"), _NO_USER))
        else:
            unlinked = [need for need in needs.accounts if accounts[need.provider] is None]
            missing += [await self._accounts.link_requirement(call.caller, need, state.entry.id) for need in unlinked]
        if missing:
            raise NeedsRequirement("; ".join(words for _, words in missing), missing=[each for each, _ in missing])
        return ResolvedCredentials(
            {name: secret for name, secret in secrets.items() if secret is not None},
            {provider: token for provider, token in accounts.items() if token is not None},
            user,
        )

    async def _token(self, sent: CallerCredentials, user: str | None, need: AccountRequirement) -> AccountToken | None:
        token = _caller_token(sent, need)
        return token if token is not None or user is None else await self._accounts.get_token(user, need)

    def _caller_credentials(self, call: Call, tool: str, needs: Requirements) -> CallerCredentials:
        """Return the credentials that the caller sent; raises Malformed if it may not, or for undeclared ones."""
        sent = call.caller_credentials
        if sent is None:
            return _NO_CALLER_CREDENTIALS
        if not matches_any(self._accept_credentials, tool):
            raise Malformed(_NOT_ACCEPTED)
        if sent.too_short:
            raise Malformed(
                f"the credential for {sent.too_short[0][:64]!r} is shorter than {MIN_SECRET_LENGTH} characters"
            )
        if any(name.startswith(UPSTREAM_PREFIX) for name in sent.tokens):
            raise Malformed(_NOT_SENT_ON)
        _check_declared(sent.secrets, needs.secrets)
        _check_declared(sent.tokens, [need.provider for need in needs.accounts])
        return sent


def _caller_token(sent: CallerCredentials, need: AccountRequirement) -> AccountToken | None:
    token = sent.tokens.get(need.provider)
    return None if token is None else AccountToken(need.provider, token, need.scopes)


def _check_declared(sent: Iterable[str], declared: Iterable[str]) -> None:
    undeclared = sorted(set(sent) - set(declared))
    if undeclared:
        raise Malformed(f"this tool does not require {undeclared[0][:64]!r}; leave it out of the context")


def _equipped(verified: Verified, credentials: ResolvedCredentials | None) -> Equipped:
    """Return Equipped with the redactor of all secrets of the call, so that the tool's output cannot reveal them."""
    own_credential = verified.call.caller.credential
    redactor = redactor_for(own_credential, () if credentials is None else credentials.secret_values)
    return Equipped(
        verified.call, verified.entry, verified.verdict, verified.arguments, verified.approval, redactor, credentials
    )
