"""Caller, the proven identity behind a request, and what policy decides about it: levels and verdicts."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.model.names import matches_any
from toolhall.model.secret import Secret
from toolhall.model.tool import LEVELS, Tool

# How it was proven: not at all; by a key that several share; by a key of its own; by a token that was issued for this
# server; by being the person at this machine.
ProofKind: TypeAlias = Literal["none", "shared", "key", "token", "local"]
ADMIN = "admin"  # may change the hall itself
APPROVE = "approve"  # may say yes to another person's call
ACT_AS = "act_as"  # may call for another user
ALL_TOOLS = "tools:*"
TRUSTED_SERVER = "trusted"  # what its tool servers declare is served at once
SERVE_ALL = "serve:*"


class Caller(msgspec.Struct, frozen=True):
    """A proven identity; `id` is what limits, grants, sessions and records refer to."""

    id: str
    local: bool = False
    proof: ProofKind = "none"
    person: str | None = None  # who answers for it: verifies again, approves
    scopes: frozenset[str] = frozenset()
    expires_at: float | None = None  # of the credential; None: never
    authenticated_at: float | None = None  # when the person last signed in, as far as a token says
    short_lived: bool = False  # the credential was issued for at most an hour
    acting_for: str | None = None  # the user it calls for, where it may
    credential: Secret | None = None  # what it was proven by; hidden wherever a tool shows it
    address: str | None = None  # of whoever proved nothing

    @property
    def rate_limit_key(self) -> str:
        """What limits count as one: those who proved nothing are told apart by where they come from."""
        return self.id if self.address is None else f"{self.id}@{self.address}"

    @property
    def user(self) -> str | None:
        """Whose secrets and accounts its calls use: the user it acts for, or itself; None where nobody is proven."""
        if self.acting_for is not None:
            return self.acting_for
        return None if self.proof in ("none", "shared") else self.person or self.id

    @property
    def names(self) -> tuple[str, ...]:
        """Every name of the caller itself: its id, its person, and of a token the subject alone."""
        return tuple(filter(None, (self.id, self.person, self.id.partition(":")[2])))


LOCAL = Caller("local", local=True, proof="local", person="local", scopes=frozenset({ALL_TOOLS, ADMIN, ACT_AS}))
ANONYMOUS = Caller("anonymous")


def call_scope(toolkit: str) -> str:
    """What a credential must hold to call the tools of a toolkit, from level 4 on."""
    return f"tools:{toolkit}"


def serve_scope(toolkit: str) -> str:
    """What a credential must hold to run the tools of a toolkit for the hall."""
    return f"serve:{toolkit}"


DEFAULT_LEVEL = 1  # for the operator's own code
EXTERNAL_DEFAULT_LEVEL = 4  # for what comes from outside and states none: never less than an authorized caller
AUTHENTICATION_FROM = 1  # seed: 0 asks nothing, 1-3 authentication,
GRANT_FROM = 4  # 4-7 authorization,
STEP_UP_FROM = 8  # 8-10 additional verification: again, within minutes;
APPROVAL_FROM = 9  # of this exact call;
SECOND_PERSON_FROM = 10  # by another person
ABOVE_ALL_LEVELS = LEVELS.stop


def stated_level(tool: Tool) -> int:
    """What the definition says; silence is never written back, and is not 0."""
    if tool.level is not None:
        return tool.level
    return EXTERNAL_DEFAULT_LEVEL if tool.foreign else DEFAULT_LEVEL


def effective_level(tool: Tool, overrides: Mapping[str, int] | None = None) -> int:
    """The highest of what it states, what its traits demand, and what the operator says of tools like it."""
    raised = [level for glob, level in (overrides or {}).items() if matches_any((glob,), str(tool.id))]
    return max(stated_level(tool), _level_of_traits(tool), *raised, 0)


def _level_of_traits(tool: Tool) -> int:
    """What a publisher may not play down: credentials, a user's name, and effects that cannot be undone."""
    needs, notes = tool.requirements or {}, tool.annotations
    harmful = tool.effect == "destroys" or (notes is not None and notes.destructive is True)
    if needs.get("authorization") or needs.get("secrets") or harmful:
        return GRANT_FROM
    if notes is not None and notes.open_world is True and tool.foreign:
        return GRANT_FROM
    return 2 if needs.get("user_id") else 0


VerificationMethod: TypeAlias = Literal["step_up", "approval", "second_person"]


class Allow(msgspec.Struct, frozen=True):
    """Yes, and the grant that says so."""

    by: str
    level: int = 0
    conditional: bool = False  # the arguments have yet to meet a grant's conditions


class Deny(msgspec.Struct, frozen=True):
    """No; the reason may be shown to the caller, `by` is what forbids it, and `scopes` are what would help."""

    reason: str
    by: str | None = None
    level: int = 0
    scopes: tuple[str, ...] = ()
    anonymous: bool = False  # any credential might help


class RequireVerification(msgspec.Struct, frozen=True):
    """Yes, once a person has verified this exact call, in the way that its level asks for."""

    by: str
    level: int
    how: VerificationMethod
    conditional: bool = False


Verdict: TypeAlias = Allow | Deny | RequireVerification
