"""What 401 and 403 tell a client in `WWW-Authenticate`: where to get a credential, and with which scopes."""

import re
from collections.abc import Callable

import msgspec

from toolhall.model.caller import ADMIN, ALL_TOOLS, scope_of
from toolhall.model.exchange import Wire
from toolhall.transports.asgi import Headers, Scope
from toolhall.transports.mounting import METADATA, base_of

OF_MCP = "/mcp"
_NAME = b"www-authenticate"
_BARE = b"Bearer"
_MANAGED = ("/api/", "/metrics")
_TOOL = re.compile(r"/tools/([A-Za-z0-9_-]{1,64})/[^/]+", re.ASCII)
_INVALID = b'Bearer error="invalid_token"'


class Challenges:
    """Completes what a dialect says, which knows of no URLs."""

    def __init__(self, public_url: str | None) -> None:
        self._public_url = public_url

    def completed(self, wire: Wire, scope: Scope, headers: Headers) -> Wire:
        """The same reply, with the address of the metadata (RFC 9728) and with scopes in its challenge."""
        if not any(name == _NAME for name, _ in wire.headers):
            return wire
        base = self._public_url or base_of(scope, headers)
        of_path = OF_MCP if scope["path"] == OF_MCP else ""
        metadata = f'resource_metadata="{base}{METADATA}{of_path}"'.encode("latin-1", "replace")
        return _with_challenge(wire, lambda said: _joined(said, metadata, _needed(scope["path"])))


def said_invalid(wire: Wire) -> Wire:
    """The same reply to a request that brought a credential; RFC 6750 tells the two apart."""
    return _with_challenge(wire, lambda said: _INVALID if said == _BARE else said)


def _with_challenge(wire: Wire, change: Callable[[bytes], bytes]) -> Wire:
    headers = tuple((name, change(said) if name == _NAME else said) for name, said in wire.headers)
    return msgspec.structs.replace(wire, headers=headers)


def _joined(said: bytes, metadata: bytes, needed: str) -> bytes:
    scope = b"" if b"scope=" in said else b', scope="%b"' % needed.encode()
    return said + (b" " if said == _BARE else b", ") + metadata + scope


def _needed(path: str) -> str:
    """What a path needs, as far as it says; where the body names the tool, nobody has read it yet, so all of them."""
    if path.startswith(_MANAGED):
        return ADMIN
    named = _TOOL.fullmatch(path)
    return scope_of(named[1]) if named else ALL_TOOLS
