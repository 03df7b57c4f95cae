"""What 401 and 403 tell a client in `WWW-Authenticate`: where to get a credential, and with which scopes."""

from collections.abc import Callable

import msgspec

from toolhall.model.caller import ALL_TOOLS
from toolhall.model.exchange import Wire
from toolhall.transports.asgi import Headers, Scope

METADATA = "/.well-known/oauth-protected-resource"
OF_MCP = "/mcp"
_NAME = b"www-authenticate"
_BARE = b"Bearer"
_INVALID = b'Bearer error="invalid_token"'


class Challenges:
    """Completes what a dialect says, which knows of no URLs."""

    def __init__(self, public_url: str | None) -> None:
        self._public_url = public_url

    def completed(self, wire: Wire, scope: Scope, headers: Headers) -> Wire:
        """The same reply, with the address of the metadata (RFC 9728) and with scopes in its challenge."""
        if not any(name == _NAME for name, _ in wire.headers):
            return wire
        base = self._public_url or origin_of(scope, headers)
        of_path = OF_MCP if scope["path"] == OF_MCP else ""
        metadata = f'resource_metadata="{base}{METADATA}{of_path}"'.encode("latin-1", "replace")
        return _with_challenge(wire, lambda said: _joined(said, metadata))


def said_invalid(wire: Wire) -> Wire:
    """The same reply to a request that brought a credential; RFC 6750 tells the two apart."""
    return _with_challenge(wire, lambda said: _INVALID if said == _BARE else said)


def _with_challenge(wire: Wire, change: Callable[[bytes], bytes]) -> Wire:
    headers = tuple((name, change(said) if name == _NAME else said) for name, said in wire.headers)
    return msgspec.structs.replace(wire, headers=headers)


def _joined(said: bytes, metadata: bytes) -> bytes:
    """Which call it was is not known before there is a credential, so the first one is asked for all tools."""
    scope = b"" if b"scope=" in said else b', scope="%b"' % ALL_TOOLS.encode()
    return said + (b" " if said == _BARE else b", ") + metadata + scope


def origin_of(scope: Scope, headers: Headers) -> str:
    """The address that the client used; the shield has checked the host."""
    return f"{scope.get('scheme', 'http')}://{headers.get(b'host', b'').decode('latin-1')}"
