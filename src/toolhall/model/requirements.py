"""What a tool requires (secrets, linked accounts, a user id), and the credentials resolved for one call."""

from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.secret import Secret


class AccountRequirement(msgspec.Struct, frozen=True):
    """An account of the user at an OAuth provider, linked with at least these scopes."""

    provider: str
    scopes: tuple[str, ...] = ()


class Requirements(msgspec.Struct, frozen=True):
    """Everything that a tool requires; it gets no other credentials."""

    accounts: tuple[AccountRequirement, ...] = ()
    secrets: tuple[str, ...] = ()
    user_id: bool = False


class MissingRequirement(msgspec.Struct, frozen=True):
    """A requirement that a call does not meet; `url` is where a person links the account."""

    kind: Literal["secret", "account", "user_id"]
    id: str | None = None  # of the secret, or of the account link
    url: str | None = None
    account: AccountRequirement | None = None


class AccountToken(msgspec.Struct, frozen=True):
    """The access token of a linked account, for one call."""

    provider: str
    token: Secret
    scopes: tuple[str, ...] = ()
    expires_at: float | None = None


class ResolvedCredentials(msgspec.Struct, frozen=True):
    """The credentials resolved for one call: only those that the tool declared, by their declared ids."""

    secrets: Mapping[str, Secret] = {}
    accounts: Mapping[str, AccountToken] = {}
    user_id: str | None = None

    @property
    def secret_values(self) -> tuple[Secret, ...]:
        """All secrets, which must be redacted from every output of the call."""
        return (*self.secrets.values(), *(account.token for account in self.accounts.values()))


class CallerCredentials(msgspec.Struct, frozen=True):
    """Credentials that the caller itself sent, if its dialect supports that: tokens and secrets by id."""

    secrets: Mapping[str, Secret] = {}
    tokens: Mapping[str, Secret] = {}
    too_short: tuple[str, ...] = ()  # ids of values that are too short to be redacted

    def __bool__(self) -> bool:
        return bool(self.secrets or self.tokens or self.too_short)

    @property
    def labels(self) -> list[str]:
        """A description of each for a person; never the values."""
        return [f"account {name}" for name in sorted(self.tokens)] + [f"secret {name}" for name in sorted(self.secrets)]


NO_CREDENTIALS = ResolvedCredentials()


def requirements_from_json(requirements: JsonObject | None) -> Requirements | None:
    """Parse requirements in OXP's format; None if there are none."""
    if not requirements:
        return None
    scopes: dict[str, tuple[str, ...]] = {}
    for account in _entries(requirements.get("authorization")):
        provider = account["id"]  # two entries for one provider are one account with the scopes of both
        scopes[provider] = tuple(dict.fromkeys((*scopes.get(provider, ()), *_account_scopes(account))))
    secrets = tuple(dict.fromkeys(secret["id"] for secret in _entries(requirements.get("secrets"))))
    accounts = tuple(AccountRequirement(*each) for each in scopes.items())
    parsed = Requirements(accounts, secrets, requirements.get("user_id") is True)
    return None if parsed == Requirements() else parsed


def requirements_to_json(requirements: Requirements) -> JsonObject | None:
    """Requirements in OXP's format; None if there are none."""
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
