"""The `server` profile: every request brings a credential, except to the few paths that anybody may ask."""

from collections.abc import Collection

from toolhall.model.caller import Caller
from toolhall.transports.asgi import Headers, Scope
from toolhall.transports.identity.addresses import nobody
from toolhall.transports.identity.base import Proven, missing
from toolhall.transports.identity.gate import Gate
from toolhall.transports.identity.sent import credential

PUBLIC = frozenset({"/health", "/health/live", "/health/ready", "/oauth/callback", "/oxp/health"})
# What a client must read before it can have a credential; pages for people, which sign in by themselves.
PUBLIC_BELOW = ("/.well-known/", "/approve/", "/connect/", "/enroll/", "/oauth/callback/")
MESSAGES = "/machine"  # its messages bring their own credential, so only the body tells


class ServerIdentity:
    """Nobody is proven by an address; `allow_anonymous` lets nobody in particular in, for tools of level 0."""

    def __init__(self, gate: Gate, *, allow_anonymous: bool = False, public: Collection[str] = ()) -> None:
        self._gate = gate
        self._allow_anonymous = allow_anonymous
        self._public = PUBLIC.union(public)

    def caller(self, scope: Scope, headers: Headers) -> Proven:
        """By the credential in the headers."""
        path = scope["path"]
        sent = credential(headers, path)
        if sent is not None:
            return self._gate.prove(sent, scope)
        if self._allow_anonymous or path in self._public or path.startswith(PUBLIC_BELOW):
            return nobody(scope)
        if path == MESSAGES and scope.get("method") == "POST":
            return nobody(scope)
        raise missing()

    def speaker(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> Proven:
        """Who sends a message: its own token counts like one in the headers, and two must be the same."""
        if token is not None:
            return self._gate.prove_again(token, scope, headers) or caller
        if caller.proof == "none" and not self._allow_anonymous:
            raise missing()
        return caller
