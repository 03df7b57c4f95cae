"""What calls of upstreams are given by the rest of the hall: UpstreamCredentials, ChildEnvironment, SessionOpener.

A caller's own credential never goes to an upstream: nothing in this package reads it but to compare it.
"""

from collections.abc import Awaitable, Mapping
from typing import Protocol

import msgspec

from toolhall.dialects.mcp.client_handshake import Era
from toolhall.mcp_client.session import Headers, McpSession, SessionEvents
from toolhall.mcp_client.targets import QuestionHandler, SessionCredentials
from toolhall.model.errors import NeedsRequirement, ToolhallError
from toolhall.model.messages import Call
from toolhall.model.secret import Secret
from toolhall.model.upstream import Upstream


class UpstreamCredentials(Protocol):
    """The credentials that go to an upstream: those of its settings, and those that a call was equipped with."""

    def secret(self, name: str) -> Awaitable[Secret | None]:
        """Return a secret of the hall, for the environment of a child."""
        ...

    def headers(self, upstream: Upstream, call: Call | None) -> Awaitable[Headers]:
        """Return the headers of a call, or the hall's own (handshake, lists) without one; raises NeedsRequirement."""
        ...

    def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> Awaitable[bool]:
        """Renew the token that the upstream refused, once for all who ask now; False if there is nothing to renew."""
        ...

    def secrets(self, upstream: Upstream, call: Call | None) -> tuple[Secret, ...]:
        """Return the tokens that were sent and that the call was not equipped with, to redact what comes back."""
        ...

    def missing(self, upstream: Upstream, call: Call | None, challenge: str | None) -> Awaitable[ToolhallError]:
        """Return the error that says what a person has to link or to set, with the scopes of the challenge."""
        ...


class NoUpstreamCredentials:
    """Credentials of upstreams that take none: their fixed headers as they are."""

    async def secret(self, name: str) -> Secret | None:  # noqa: ARG002 - there is none
        """Return None."""
        return None

    async def headers(self, upstream: Upstream, call: Call | None) -> Headers:  # noqa: ARG002
        """Return the headers that hold no secret."""
        return tuple((name, value) for name, value in upstream.settings.headers.items() if "${" not in value)

    async def refresh(self, upstream: Upstream, call: Call | None, challenge: str | None) -> bool:  # noqa: ARG002
        """Return False."""
        return False

    def secrets(self, upstream: Upstream, call: Call | None) -> tuple[Secret, ...]:  # noqa: ARG002
        """Return none."""
        return ()

    async def missing(self, upstream: Upstream, call: Call | None, challenge: str | None) -> NeedsRequirement:  # noqa: ARG002
        """Return an error that names the upstream only."""
        return NeedsRequirement(f"the upstream {upstream.name!r} wants a credential, and this hall has none for it")


class ChildEnvironment(msgspec.Struct, frozen=True):
    """The variables that a child is given, and the secrets in them, which it may print."""

    variables: Mapping[str, str] = {}
    secrets: tuple[Secret, ...] = ()

    def __repr__(self) -> str:
        """Without values."""
        return f"ChildEnvironment({sorted(self.variables)!r})"


class SessionOpener(Protocol):
    """Opens a session with an upstream: detects its era unless that is known, and does the handshake."""

    def __call__(
        self,
        upstream: Upstream,
        events: SessionEvents,
        questions: QuestionHandler,
        *,
        era: Era | None,
        credentials: SessionCredentials,
        env: ChildEnvironment,
    ) -> Awaitable[McpSession]:
        """Return the open session; raises the errors of `mcp_client.session`.

        `credentials` open the session, and may be those of a call; what it listens with is the hall's own.
        """
        ...
