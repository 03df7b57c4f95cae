"""Who asks, as proven by the transport."""

from typing import Literal, TypeAlias

import msgspec

from toolhall.model.secret import Secret

# How it was proven: not at all; by a key that several share; by a key of its own; by a token that was issued for this
# server; by being the person at this machine.
Proof: TypeAlias = Literal["none", "shared", "key", "token", "local"]

ADMIN = "admin"  # may change the hall itself
APPROVE = "approve"  # may say yes to another person's call
ACT_AS = "act_as"  # may call for another user
ALL_TOOLS = "tools:*"
TRUSTED = "trusted"  # what its tool servers declare is served at once
SERVE_ALL = "serve:*"


class Caller(msgspec.Struct, frozen=True):
    """A proven identity; `id` is what limits, grants, sessions and records refer to."""

    id: str
    local: bool = False
    proof: Proof = "none"
    person: str | None = None  # who answers for it: verifies again, approves
    scopes: frozenset[str] = frozenset()
    expires_at: float | None = None  # of the credential; None: never
    authenticated_at: float | None = None  # when the person last signed in, as far as a token says
    short_lived: bool = False  # the credential was issued for at most an hour
    acting_for: str | None = None  # the user it calls for, where it may
    credential: Secret | None = None  # what it was proven by; hidden wherever a tool shows it
    address: str | None = None  # of whoever proved nothing

    @property
    def account(self) -> str:
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
NOBODY = Caller("anonymous")


def scope_of(toolkit: str) -> str:
    """What a credential must hold to call the tools of a toolkit, from level 4 on."""
    return f"tools:{toolkit}"


def serve_scope(toolkit: str) -> str:
    """What a credential must hold to run the tools of a toolkit for the hall."""
    return f"serve:{toolkit}"
