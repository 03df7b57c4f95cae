"""What a tool needs before it may run, and what the hall supplies for one call: secrets, linked accounts, a user id."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret


class AccountNeed(msgspec.Struct, frozen=True):
    """An account of the user at a provider, linked with at least these scopes."""

    provider: str
    scopes: tuple[str, ...] = ()


class Needs(msgspec.Struct, frozen=True):
    """All that a tool declares; it is supplied with nothing else."""

    accounts: tuple[AccountNeed, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False


class Missing(msgspec.Struct, frozen=True):
    """Something that a call needs and has not; `url` is where a person links the account."""

    kind: Literal["secret", "account", "user_id"]
    id: str | None = None  # of the secret, or of the link that the person follows
    url: str | None = None
    account: AccountNeed | None = None


class Token(msgspec.Struct, frozen=True):
    """An account as one call may use it."""

    provider: str
    token: Secret
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None


class Equipment(msgspec.Struct, frozen=True):
    """What was supplied for one call: by the ids that the tool declared, and nothing beyond."""

    secrets: Mapping[str, Secret] = {}
    accounts: Mapping[str, Token] = {}
    user_id: str | None = None

    @property
    def hidden(self) -> tuple[Secret, ...]:
        """All that must not come out again."""
        return (*self.secrets.values(), *(account.token for account in self.accounts.values()))


class Brought(msgspec.Struct, frozen=True):
    """What a caller sent along by itself, where its dialect can: tokens and secrets by the ids they are for."""

    secrets: Mapping[str, Secret] = {}
    tokens: Mapping[str, Secret] = {}
    short: tuple[str, ...] = ()  # ids of what is too short to be kept out of texts

    def __bool__(self) -> bool:
        return bool(self.secrets or self.tokens or self.short)

    @property
    def names(self) -> list[str]:
        """What it is, as a person can be told: never the values."""
        return [f"account {name}" for name in sorted(self.tokens)] + [f"secret {name}" for name in sorted(self.secrets)]


NOTHING = Equipment()


def needs_of(requirements: JsonObject | None) -> Needs | None:
    """What requirements in OXP's words come to; None for a tool that needs nothing."""
    if not requirements:
        return None
    scopes: dict[str, tuple[str, ...]] = {}
    for account in _listed(requirements.get("authorization")):
        provider = account["id"]  # one that is named twice is one account with the scopes of both
        scopes[provider] = tuple(dict.fromkeys((*scopes.get(provider, ()), *_scopes(account))))
    secrets = tuple(dict.fromkeys(secret["id"] for secret in _listed(requirements.get("secrets"))))
    accounts = tuple(AccountNeed(*each) for each in scopes.items())
    needs = Needs(accounts, secrets, requirements.get("user_id") is True)
    return None if needs == Needs() else needs


def requirements_of(needs: Needs) -> JsonObject | None:
    """The same in OXP's words."""
    written: JsonObject = {}
    if needs.accounts:
        written["authorization"] = [_account(each) for each in needs.accounts]
    if needs.secrets:
        written["secrets"] = [{"id": each} for each in needs.secrets]
    if needs.user_id:
        written["user_id"] = True
    return written or None


def _account(need: AccountNeed) -> JsonObject:
    return {"id": need.provider, "oauth2": {"scopes": list(need.scopes)}} if need.scopes else {"id": need.provider}


def _listed(listed: Json) -> Iterator[JsonObject]:
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("id"), str):
            yield each


def _scopes(account: JsonObject) -> Iterator[str]:
    oauth = account.get("oauth2")
    listed = oauth.get("scopes") if isinstance(oauth, dict) else None
    return (each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str))
