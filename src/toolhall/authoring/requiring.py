"""How an author says what a tool needs: secrets, accounts as `provider:scope scope`, the user's id."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

from toolhall.model.json import JsonObject
from toolhall.model.requirements import AccountNeed, Needs, needs_of, requirements_of

_SECRET = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,127}")
SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,512}")  # RFC 6749: one of them
_ACCOUNT = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,63}}(?::{SCOPE.pattern}(?: {SCOPE.pattern})*)?")


class RequiringOptions(TypedDict, total=False):
    """What `@tool(...)` and a Toolkit's class line take alike; a tool needs what both say."""

    secrets: tuple[str, ...] | list[str]  # ids in the vault, for ctx.secret(...)
    account: str | tuple[str, ...] | list[str]  # "google:scope1 scope2", for ctx.account
    user_id: bool  # only for a caller that is a proven user; ctx.user_id


def options_of(declared: Any) -> tuple[str, ...]:
    """Everything that such a declaration takes, what is its own first."""
    shared = RequiringOptions.__annotations__
    return (*(name for name in declared.__annotations__ if name not in shared), *shared)


def requiring_problems(options: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with these options, each with the fix."""
    secrets = options.get("secrets", ())
    if not isinstance(secrets, list | tuple) or not all(isinstance(each, str) for each in secrets):
        yield f"secrets is {secrets!r}; use a list such as ['TWILIO_API_KEY']"
    else:
        for each in secrets:
            if not _SECRET.fullmatch(each):
                yield f"the secret {each!r}: use letters, digits, '_', '.' and '-', such as 'TWILIO_API_KEY'"
    accounts = _accounts(options)
    for account in accounts:
        if not isinstance(account, str) or not _ACCOUNT.fullmatch(account):
            yield f"account is {account!r}; write the provider and its scopes, such as 'google:calendar.events'"
    if type(options.get("user_id", False)) is not bool:
        yield f"user_id is {options['user_id']!r}; use True or False"


def required(*said: Mapping[str, Any]) -> JsonObject | None:
    """Everything that is needed by what a toolkit and its tool say, in OXP's words."""
    accounts = [_need(account) for options in said for account in _accounts(options)]
    secrets = [secret for options in said for secret in options.get("secrets", ())]
    needs = Needs(tuple(accounts), tuple(secrets), any(options.get("user_id", False) for options in said))
    merged = needs_of(requirements_of(needs))  # what both say is there once
    return None if merged is None else requirements_of(merged)


def _accounts(options: Mapping[str, Any]) -> tuple[Any, ...]:
    stated = options.get("account", ())
    return tuple(stated) if isinstance(stated, list | tuple) else (stated,)


def _need(account: str) -> AccountNeed:
    provider, _, scopes = account.partition(":")
    return AccountNeed(provider, tuple(scopes.split()))
