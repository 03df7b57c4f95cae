"""What a tool in another process is supplied with: it leaves ours for exactly that process and exactly that call."""

import msgspec

from toolhall.model.call import Call
from toolhall.model.caller import Caller
from toolhall.model.requirements import Equipment, Token
from toolhall.model.secret import Secret


class Lent(msgspec.Struct, frozen=True):
    """An account's token."""

    token: str
    scopes: tuple[str, ...]
    expires_at: float | None

    def __repr__(self) -> str:
        return "Lent(...)"


class Supply(msgspec.Struct, frozen=True):
    """The equipment as JSON can carry it; never printed."""

    secrets: dict[str, str]
    accounts: dict[str, Lent]
    user_id: str | None

    def __repr__(self) -> str:
        return "Supply(...)"


def known_to(call: Call) -> Caller:
    """The caller as the tool knows it: what it was proven by is nothing to a tool."""
    caller = call.caller
    return caller if caller.credential is None else msgspec.structs.replace(caller, credential=None)


def supply_of(equipment: Equipment | None) -> Supply | None:
    """Ready to be sent."""
    if equipment is None:
        return None
    secrets = {name: secret.reveal() for name, secret in equipment.secrets.items()}
    accounts = {
        provider: Lent(account.token.reveal(), account.scopes, account.expires_at)
        for provider, account in equipment.accounts.items()
    }
    return Supply(secrets, accounts, equipment.user_id)


def equipment_from(supply: Supply | None) -> Equipment | None:
    """As it was before it was sent."""
    if supply is None:
        return None
    accounts = {
        provider: Token(provider, Secret(lent.token), lent.scopes, lent.expires_at)
        for provider, lent in supply.accounts.items()
    }
    return Equipment({name: Secret(value) for name, value in supply.secrets.items()}, accounts, supply.user_id)
