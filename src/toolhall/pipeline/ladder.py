"""The steps of the ladder 0-10 that ask something of the caller itself; each holds for every level above it too."""

from typing import Annotated, TypeAlias

import msgspec

from toolhall.model.caller import ALL_TOOLS, Caller, scope_of
from toolhall.model.levels import APPROVAL_FROM, AUTHENTICATED_FROM, GRANTED_FROM, NEVER, SECOND_FROM, STEP_UP_FROM
from toolhall.model.verdict import Deny, How

RECENT_SECONDS = 12 * 3600.0

_From: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=NEVER)]


class Steps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """From which level on more is asked of a credential; 11 asks it never.

    A step never ends further up, so whoever may call at one level may call at every level below. The bands of the
    seed are not among them: from 1 on authentication, from 4 on a grant, from 8 on a person.
    """

    identified: _From = 2  # not a key that several share
    expiring: _From = 3  # a credential that ends some day
    recent: _From = 7  # a token whose person signed in within the last 12 hours
    short_lived: _From = NEVER  # a token issued for at most an hour; API keys no longer do


def unproven(caller: Caller, level: int, steps: Steps, now: float) -> Deny | None:
    """What the caller's credential lacks for a level, or None."""
    if level < AUTHENTICATED_FROM or caller.local:
        return None
    if caller.proof == "none":
        return Deny("a credential is needed", anonymous=True, level=level)
    reason = _lacking(caller, level, steps, now)
    return None if reason is None else Deny(f"level {level} needs {reason}", level=level)


def _lacking(caller: Caller, level: int, steps: Steps, now: float) -> str | None:
    if level >= steps.identified and caller.proof == "shared":
        return "a key of the caller's own, not one that several share"
    if level >= steps.expiring and caller.expires_at is None:
        return "a credential that expires; make a key with --expires"
    if level >= steps.short_lived and not caller.short_lived:
        return "a token that was issued for at most an hour"
    if level >= steps.recent and caller.proof == "token":
        return _not_recent(caller.authenticated_at, now)
    return None


def _not_recent(signed_in: float | None, now: float) -> str | None:
    """Signing in again helps only where the issuer says when that was."""
    if signed_in is None:
        return (
            "a token that says when its person signed in (auth_time): let its issuer send that, or raise steps.recent"
        )
    if now - signed_in > RECENT_SECONDS:
        return "a token from a sign-in within the last 12 hours; sign in again"
    return None


def unscoped(caller: Caller, level: int, toolkit: str) -> Deny | None:
    """What scope is missing: from level 4 on the toolkit's; below, only whoever names toolkits is held to them."""
    if caller.local or ALL_TOOLS in caller.scopes or level < AUTHENTICATED_FROM:
        return None
    needed = scope_of(toolkit)
    names_toolkits = any(scope.startswith("tools:") for scope in caller.scopes)
    if needed in caller.scopes or (level < GRANTED_FROM and not names_toolkits):
        return None
    return Deny(f"the credential lacks the scope {needed}", level=level, scopes=(needed,))


def verification(level: int) -> How | None:
    """What a person must do before a call of this level may run."""
    if level < STEP_UP_FROM:
        return None
    if level < APPROVAL_FROM:
        return "step_up"
    return "approval" if level < SECOND_FROM else "second_person"
