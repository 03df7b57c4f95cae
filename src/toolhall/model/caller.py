"""Caller, the authenticated identity of a request; authorization levels of tools; and policy verdicts."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.names import matches_any
from toolhall.model.secret import Secret
from toolhall.model.tool import LEVELS, Tool

# How a caller was authenticated: not at all; by an API key that several callers share; by an API key of its own; by an
# access token issued for this server; or as the local user of this machine.
ProofKind: TypeAlias = Literal["none", "shared", "key", "token", "local"]
VerificationMethod: TypeAlias = Literal["step_up", "approval", "second_person"]
DEFAULT_LEVEL = 1  # for tools in the operator's own code
EXTERNAL_DEFAULT_LEVEL = 4  # for tools from outside that state no level: at least an authorized caller
# Level 0 requires nothing; each threshold adds a requirement to those below.
AUTHENTICATION_FROM = 1  # an authenticated caller
GRANT_FROM = 4  # a grant
STEP_UP_FROM = 8  # a person who verified again within minutes
APPROVAL_FROM = 9  # a person's approval of this exact call
SECOND_PERSON_FROM = 10  # the approval of another person
ABOVE_ALL_LEVELS = LEVELS.stop
# Scopes of a credential.
ADMIN = "admin"  # may manage the hall
OBSERVE = "observe"  # may read what administrators read of tools, access, calls and health, and change nothing
APPROVE = "approve"  # may approve another person's call
ACT_AS = "act_as"  # may call on behalf of another user
ALL_TOOLS = "tools:*"
TRUSTED_SERVER = "trusted"  # tools that its tool servers declare become active without review
SERVE_ALL = "serve:*"


class Caller(msgspec.Struct, frozen=True):
    """An authenticated identity; limits, grants, sessions and audit records refer to its `id`."""

    id: str
    local: bool = False
    proof: ProofKind = "none"
    person: str | None = None  # who is responsible: verifies again, approves
    scopes: frozenset[str] = frozenset()
    expires_at: float | None = None  # of the credential; None: never
    authenticated_at: float | None = None  # when the person last signed in, if the token says
    short_lived: bool = False  # the credential was issued for at most an hour
    acting_for: str | None = None  # the user on whose behalf it calls
    credential: Secret | None = None  # what it authenticated with; redacted from every output
    address: str | None = None  # the client's IP address, if it is not authenticated

    @property
    def rate_limit_key(self) -> str:
        """The key of rate limits: the id, and for unauthenticated callers their address."""
        return self.id if self.address is None else f"{self.id}@{self.address}"

    @property
    def user(self) -> str | None:
        """The user whose secrets and accounts its calls use: whom it acts for, or itself; None if not authenticated."""
        if self.acting_for is not None:
            return self.acting_for
        return None if self.proof in ("none", "shared") else self.person or self.id

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the caller: its id, its person, and the subject of its token."""
        return tuple(filter(None, (self.id, self.person, self.id.partition(":")[2])))


LOCAL = Caller("local", local=True, proof="local", person="local", scopes=frozenset({ALL_TOOLS, ADMIN, ACT_AS}))
ANONYMOUS = Caller("anonymous")


def call_scope(toolkit: str) -> str:
    """The scope that a credential needs to call a toolkit's tools of level 4 and above."""
    return f"tools:{toolkit}"


def serve_scope(toolkit: str) -> str:
    """The scope that a tool server's credential needs to run a toolkit's tools for the hall."""
    return f"serve:{toolkit}"


def stated_level(tool: Tool) -> int:
    """The level that the definition states, or the default; a missing level is not 0, and is never written back."""
    if tool.level is not None:
        return tool.level
    return EXTERNAL_DEFAULT_LEVEL if tool.foreign else DEFAULT_LEVEL


def effective_level(tool: Tool, overrides: Mapping[str, int] | None = None) -> int:
    """The highest of the stated level, the level its traits demand, and the operator's overrides by glob."""
    raised = [level for glob, level in (overrides or {}).items() if matches_any((glob,), str(tool.id))]
    return max(stated_level(tool), _level_of_traits(tool), *raised, 0)


def _level_of_traits(tool: Tool) -> int:
    """The minimum level, whatever the publisher states: for credentials, a user id, and irreversible effects."""
    requirements, annotations = tool.requirements or {}, tool.annotations
    destructive = tool.effect == "destroys" or (annotations is not None and annotations.destructive is True)
    if requirements.get("authorization") or requirements.get("secrets") or destructive:
        return GRANT_FROM
    if annotations is not None and annotations.open_world is True and tool.foreign:
        return GRANT_FROM
    return 2 if requirements.get("user_id") else 0


class Allow(msgspec.Struct, frozen=True):
    """The call is allowed, by this grant."""

    by: str
    level: int = 0
    conditional: bool = False  # only if the arguments meet the conditions of a grant


class Deny(msgspec.Struct, frozen=True):
    """The call is denied by the grant or rule `by`; `reason` may be shown to the caller, `scopes` would allow it."""

    reason: str
    by: str | None = None
    level: int = 0
    scopes: tuple[str, ...] = ()
    anonymous: bool = False  # the caller is not authenticated: any credential might help


class RequireVerification(msgspec.Struct, frozen=True):
    """The call is allowed once a person has verified it, in the way that its level requires."""

    by: str
    level: int
    how: VerificationMethod
    conditional: bool = False


Verdict: TypeAlias = Allow | Deny | RequireVerification
