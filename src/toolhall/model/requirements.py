"""What a tool requires (secrets, linked accounts, a user id), and the credentials resolved for one call."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret


class AccountRequirement(msgspec.Struct, frozen=True):
    """An account of the user at a provider, linked with at least these scopes."""

    provider: str
    scopes: tuple[str, ...] = ()


class Requirements(msgspec.Struct, frozen=True):
    """All that a tool declares; it is supplied with nothing else."""

    accounts: tuple[AccountRequirement, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False


class MissingRequirement(msgspec.Struct, frozen=True):
    """Something that a call needs and has not; `url` is where a person links the account."""

    kind: Literal["secret", "account", "user_id"]
    id: str | None = None  # of the secret, or of the link that the person follows
    url: str | None = None
    account: AccountRequirement | None = None


class AccountToken(msgspec.Struct, frozen=True):
    """An account as one call may use it."""

    provider: str
    token: Secret
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None


class ResolvedCredentials(msgspec.Struct, frozen=True):
    """What was supplied for one call: by the ids that the tool declared, and nothing beyond."""

    secrets: Mapping[str, Secret] = {}
    accounts: Mapping[str, AccountToken] = {}
    user_id: str | None = None

    @property
    def secret_values(self) -> tuple[Secret, ...]:
        """All that must not come out again."""
        return (*self.secrets.values(), *(account.token for account in self.accounts.values()))


class CallerCredentials(msgspec.Struct, frozen=True):
    """What a caller sent along by itself, where its dialect can: tokens and secrets by the ids they are for."""

    secrets: Mapping[str, Secret] = {}
    tokens: Mapping[str, Secret] = {}
    too_short: tuple[str, ...] = ()  # ids of what is too short to be kept out of texts

    def __bool__(self) -> bool:
        return bool(self.secrets or self.tokens or self.too_short)

    @property
    def labels(self) -> list[str]:
        """What it is, as a person can be told: never the values."""
        return [f"account {name}" for name in sorted(self.tokens)] + [f"secret {name}" for name in sorted(self.secrets)]


NO_CREDENTIALS = ResolvedCredentials()


def requirements_from_json(requirements: JsonObject | None) -> Requirements | None:
    """What requirements in OXP's words come to; None for a tool that needs nothing."""
    if not requirements:
        return None
    scopes: dict[str, tuple[str, ...]] = {}
    for account in _entries(requirements.get("authorization")):
        provider = account["id"]  # one that is named twice is one account with the scopes of both
        scopes[provider] = tuple(dict.fromkeys((*scopes.get(provider, ()), *_account_scopes(account))))
    secrets = tuple(dict.fromkeys(secret["id"] for secret in _entries(requirements.get("secrets"))))
    accounts = tuple(AccountRequirement(*each) for each in scopes.items())
    needs = Requirements(accounts, secrets, requirements.get("user_id") is True)
    return None if needs == Requirements() else needs


def requirements_to_json(requirements: Requirements) -> JsonObject | None:
    """The same in OXP's words."""
    written: JsonObject = {}
    if requirements.accounts:
        written["authorization"] = [_account_to_json(each) for each in requirements.accounts]
    if requirements.secrets:
        written["secrets"] = [{"id": each} for each in requirements.secrets]
    if requirements.user_id:
        written["user_id"] = True
    return written or None


def _account_to_json(account: AccountRequirement) -> JsonObject:
    return (
        {"id": account.provider, "oauth2": {"scopes": list(account.scopes)}}
        if account.scopes
        else {"id": account.provider}
    )


def _entries(listed: Json) -> Iterator[JsonObject]:
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and isinstance(each.get("id"), str):
            yield each


def _account_scopes(account: JsonObject) -> Iterator[str]:
    oauth = account.get("oauth2")
    listed = oauth.get("scopes") if isinstance(oauth, dict) else None
    return (each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, str))
