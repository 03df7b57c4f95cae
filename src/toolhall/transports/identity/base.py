"""What proves a caller, and what is said to whoever is not proven."""

from collections.abc import Awaitable
from typing import Protocol, TypeAlias

from toolhall.model.caller import Caller
from toolhall.model.errors import ToolhallError, Unauthenticated
from toolhall.transports.asgi import Headers, Scope

Proven: TypeAlias = Caller | Awaitable[Caller]  # awaited only where somebody else has to be asked first

MISSING = "send a credential: 'Authorization: Bearer KEY', where 'toolhall key create NAME' makes a key"
# The same words for every reason: which one it was would help only whoever forges.
INVALID = "this credential is not valid here: unknown, expired, revoked, or made for another server"


class Identity(Protocol):
    """Proves a caller from a connection and its headers."""

    def caller(self, scope: Scope, headers: Headers) -> Proven:
        """Whoever this is; nobody in particular where nothing is proven, Unproven where that is not enough."""
        ...


class Speakers(Protocol):
    """Proves who sends a message that may bring a token of its own."""

    def speaker(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> Proven:
        """The caller, as far as the connection proved one, or whose token it is; Unproven for neither."""
        ...


class Entrance(Identity, Speakers, Protocol):
    """Proves both."""


class Unproven(Exception):
    """A request that goes no further; `sent` tells a credential that is not valid from none at all."""

    def __init__(self, error: ToolhallError, *, sent: bool = False) -> None:
        self.error = error
        self.sent = sent
        super().__init__(error.message)


async def proven(caller: Proven) -> Caller:
    """The caller, however long it takes."""
    return caller if isinstance(caller, Caller) else await caller


def missing() -> Unproven:
    """No credential came, and one is needed."""
    return Unproven(Unauthenticated(MISSING))


def invalid() -> Unproven:
    """One came that is not valid; who sends one is never served as somebody else instead."""
    return Unproven(Unauthenticated(INVALID), sent=True)
