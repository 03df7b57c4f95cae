"""What a call brings along, as the tool may use it: exactly what the tool declares, and nothing beyond."""

from toolhall.dialects.hub.remote import CallContext
from toolhall.model.caller import NOBODY, Caller
from toolhall.model.errors import Malformed, NeedsRequirement
from toolhall.model.requirements import Equipment, Missing, Needs, Token
from toolhall.model.secret import SHORTEST, Secret


def caller_of(context: CallContext) -> Caller:
    """Who calls, as the hall says."""
    return NOBODY if context.caller is None else context.caller.caller


def equipment_for(needs: Needs | None, context: CallContext) -> Equipment | None:
    """What the tool declares; NeedsRequirement lists what the hall did not send."""
    if needs is None:
        return None
    missing = [
        *(Missing("secret", name) for name in needs.secrets if name not in context.secrets),
        *(Missing("account", account=need) for need in needs.accounts if need.provider not in context.accounts),
    ]
    if needs.user_id and context.user_id is None:
        missing.append(Missing("user_id"))
    if missing:
        raise NeedsRequirement("the call came without what the tool declares to need", missing=missing)
    accounts = {need.provider: _account(need.provider, context) for need in needs.accounts}
    secrets = {name: _secret(name, context.secrets[name]) for name in needs.secrets}
    return Equipment(secrets, accounts, context.user_id if needs.user_id else None)


def _account(provider: str, context: CallContext) -> Token:
    lent = context.accounts[provider]
    return Token(provider, _secret(provider, lent.token), lent.scopes, lent.expires_at)


def _secret(name: str, value: str) -> Secret:
    try:
        return Secret(value)
    except ValueError:
        raise Malformed(f"what came for {name[:64]!r} is shorter than {SHORTEST} characters") from None
