"""Who calls, as far as the transport can prove it."""

from typing import Protocol

from toolhall.model.caller import LOCAL, NOBODY, Caller
from toolhall.transports.asgi import Headers, Scope

_USUAL = "127.0.0.1"
_LOOPBACK = ("127.", "::1", "::ffff:127.")


class Identity(Protocol):
    """Proves a caller from a connection and its headers."""

    def caller(self, scope: Scope, headers: Headers) -> Caller:
        """Whoever this is; nobody in particular where nothing is proven."""
        ...


class LocalIdentity:
    """The `local` profile: whoever connects from this machine is its user."""

    def caller(self, scope: Scope, headers: Headers) -> Caller:
        """Local by address; a Unix socket has none and is local too. What a proxy forwards is nobody's."""
        client = scope.get("client")
        if b"x-forwarded-for" in headers or b"forwarded" in headers:
            return NOBODY
        return LOCAL if client is None or client[0] == _USUAL or client[0].startswith(_LOOPBACK) else NOBODY
