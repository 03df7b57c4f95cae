"""Supplies what the tool requires, and nothing else: fetched late, held for this call, hidden in all that it says."""

from collections.abc import Awaitable, Iterable
from typing import Protocol

from toolhall.model.call import Call
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed, NeedsRequirement
from toolhall.model.globs import means
from toolhall.model.requirements import AccountNeed, Brought, Equipment, Missing, Needs, Token
from toolhall.model.secret import SHORTEST, Secret
from toolhall.pipeline.states import Equipped, Valid, Verified
from toolhall.runners.redactor import redactor_for

_NOT_SET = "the secret {} has not been set up here: whoever runs this hall does that with 'toolhall secret set {}'"
_NO_USER = "this tool acts for a user, and nobody is proven to be one: call with a credential of your own"
_NOT_TAKEN = (
    "this tool takes no credentials from its callers: leave them out of the context, or let whoever runs this hall"
    " list the tool in accept_credentials"
)


class Secrets(Protocol):
    """Where secrets are kept."""

    def get(self, name: str, user: str | None) -> Secret | None:
        """The user's own, or else the hall's."""
        ...


class Accounts(Protocol):
    """Where the linked accounts of users are kept fresh."""

    def ready(self, user: str, need: AccountNeed) -> Token | None:
        """A token that is good now, if one is at hand."""
        ...

    async def fresh(self, user: str, need: AccountNeed) -> Token | None:
        """A token that is good now; None where the user has linked no such account, or not with these scopes."""
        ...

    async def wanted(self, caller: Caller, need: AccountNeed, tool: str) -> tuple[Missing, str]:
        """Where the user links the account, and the words that say so."""
        ...


class Empty:
    """Where nothing is kept: every requirement is missing."""

    def get(self, name: str, user: str | None) -> Secret | None:  # noqa: ARG002
        """There is none."""
        return None

    def ready(self, user: str, need: AccountNeed) -> Token | None:  # noqa: ARG002
        """There is none."""
        return None

    async def fresh(self, user: str, need: AccountNeed) -> Token | None:  # noqa: ARG002
        """There is none."""
        return None

    async def wanted(self, caller: Caller, need: AccountNeed, tool: str) -> tuple[Missing, str]:  # noqa: ARG002
        """Nowhere."""
        return Missing("account", account=need), f"no account at {need.provider!r} can be linked here"


_EMPTY = Empty()


class Equip:
    """`accepts`: globs of tools whose callers may bring credentials of their own."""

    def __init__(self, secrets: Secrets = _EMPTY, accounts: Accounts = _EMPTY, accepts: tuple[str, ...] = ()) -> None:
        self._secrets = secrets
        self._accounts = accounts
        self._accepts = accepts

    def __call__(self, verified: Verified) -> Equipped | Awaitable[Equipped]:
        """Equipped at once, or after a token was fetched; NeedsRequirement lists what is missing."""
        call, needs = verified.call, verified.entry.needs
        if needs is None and call.brought is None:
            return _equipped(verified, None)
        equipment = self._at_once(verified, needs or Needs())
        return self._later(verified, needs or Needs()) if equipment is None else _equipped(verified, equipment)

    async def ready(self, valid: Valid) -> None:
        """Raise what `__call__` would raise, before a person is asked to agree to what could not run."""
        needs = valid.entry.needs or Needs()
        if self._at_once(valid, needs) is None:
            await self._fetched(valid, needs)

    def _at_once(self, asked: Valid | Verified, needs: Needs) -> Equipment | None:
        """The usual case: everything is at hand."""
        call, user = asked.call, asked.call.caller.user
        brought = self._taken(call, asked.entry.id, needs)
        secrets, accounts = {}, {}
        for name in needs.secrets:
            secret = brought.secrets.get(name) or self._secrets.get(name, user)
            if secret is None:
                return None
            secrets[name] = secret
        for need in needs.accounts:
            token = _lent(brought, need) or (None if user is None else self._accounts.ready(user, need))
            if token is None:
                return None
            accounts[need.provider] = token
        return None if needs.user_id and user is None else Equipment(secrets, accounts, user)

    async def _later(self, verified: Verified, needs: Needs) -> Equipped:
        return _equipped(verified, await self._fetched(verified, needs))

    async def _fetched(self, asked: Valid | Verified, needs: Needs) -> Equipment:
        """As `_at_once`, with what takes a while; everything that is missing is found out before anybody is told."""
        call, user = asked.call, asked.call.caller.user
        brought = self._taken(call, asked.entry.id, needs)
        missing: list[tuple[Missing, str]] = []
        secrets = {name: brought.secrets.get(name) or self._secrets.get(name, user) for name in needs.secrets}
        missing += [(Missing("secret", name), _NOT_SET.format(name, name)) for name in secrets if not secrets[name]]
        accounts = {need.provider: await self._token(brought, user, need) for need in needs.accounts}
        if user is None and (needs.user_id or None in accounts.values()):
            missing.append((Missing("user_id"), _NO_USER))
        else:
            unlinked = [need for need in needs.accounts if accounts[need.provider] is None]
            missing += [await self._accounts.wanted(call.caller, need, asked.entry.id) for need in unlinked]
        if missing:
            raise NeedsRequirement("; ".join(words for _, words in missing), missing=[each for each, _ in missing])
        return Equipment(
            {name: secret for name, secret in secrets.items() if secret is not None},
            {provider: token for provider, token in accounts.items() if token is not None},
            user,
        )

    async def _token(self, brought: Brought, user: str | None, need: AccountNeed) -> Token | None:
        token = _lent(brought, need)
        return token if token is not None or user is None else await self._accounts.fresh(user, need)

    def _taken(self, call: Call, tool: str, needs: Needs) -> Brought:
        """What the caller brought, if it may, and for exactly what the tool declares."""
        brought = call.brought
        if brought is None:
            return _NOTHING
        if not means(self._accepts, tool):
            raise Malformed(_NOT_TAKEN)
        if brought.short:
            raise Malformed(f"the credential for {brought.short[0][:64]!r} is shorter than {SHORTEST} characters")
        _refuse_undeclared(brought.secrets, needs.secrets)
        _refuse_undeclared(brought.tokens, [need.provider for need in needs.accounts])
        return brought


_NOTHING = Brought()


def _lent(brought: Brought, need: AccountNeed) -> Token | None:
    token = brought.tokens.get(need.provider)
    return None if token is None else Token(need.provider, token, need.scopes)


def _refuse_undeclared(brought: Iterable[str], declared: Iterable[str]) -> None:
    undeclared = sorted(set(brought) - set(declared))
    if undeclared:
        raise Malformed(f"this tool does not require {undeclared[0][:64]!r}; leave it out of the context")


def _equipped(verified: Verified, equipment: Equipment | None) -> Equipped:
    """With what hides every secret of the call: a tool that gets hold of one must not show it to anyone."""
    credential = verified.call.caller.credential
    redactor = redactor_for(credential, () if equipment is None else equipment.hidden)
    return Equipped(
        verified.call, verified.entry, verified.verdict, verified.arguments, verified.approval, redactor, equipment
    )
