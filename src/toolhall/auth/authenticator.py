"""Authenticator: from the headers of an ASGI request to a Caller, and the ASGI types it reads."""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeAlias

import msgspec

from toolhall.model.caller import ANONYMOUS, Caller
from toolhall.model.errors import ToolhallError, Unauthenticated

Scope: TypeAlias = MutableMapping[str, Any]
AsgiMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[AsgiMessage]]
Send: TypeAlias = Callable[[AsgiMessage], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers: TypeAlias = dict[bytes, bytes]
_MAX_CACHED_CALLERS = 4_096
_NETWORK_BITS = 64  # what one customer has of IPv6
LOOPBACK = "127.0.0.1"
# A proxy need not say that it is one; these are what those say that do.
FORWARDING_HEADERS = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via"}
)
_LOOPBACK_PREFIXES = ("127.", "::1", "::ffff:127.")
_anonymous_callers: dict[str, Caller] = {}


def client_address(scope: Scope) -> str:
    """The other end of a connection; a Unix socket has none."""
    client = scope.get("client")
    return client[0] if client else ""


def is_loopback(address: str) -> bool:
    """Whether it is this machine."""
    return address == LOOPBACK or not address or address.startswith(_LOOPBACK_PREFIXES)


def network_key(address: str) -> str:
    """What belongs to one customer: an address of IPv4, a network of IPv6."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(int(parsed) >> _NETWORK_BITS)


def anonymous_caller(scope: Scope) -> Caller:
    """Nobody in particular, from this address; the same object again where it can be."""
    address = client_address(scope)
    known = _anonymous_callers.get(address)
    if known is None:
        if len(_anonymous_callers) >= _MAX_CACHED_CALLERS:
            _anonymous_callers.clear()
        known = _anonymous_callers[address] = msgspec.structs.replace(ANONYMOUS, address=network_key(address))
    return known


AuthResult: TypeAlias = Caller | Awaitable[Caller]  # awaited only where somebody else has to be asked first
MISSING_MESSAGE = "send a credential: 'Authorization: Bearer KEY', where 'toolhall key create NAME' makes a key"
# The same words for every reason: which one it was would help only whoever forges.
INVALID_MESSAGE = "this credential is not valid here: unknown, expired, revoked, or made for another server"


class RequestAuthenticator(Protocol):
    """Proves a caller from a connection and its headers."""

    def authenticate(self, scope: Scope, headers: Headers) -> AuthResult:
        """Whoever this is; nobody in particular where nothing is proven, Unproven where that is not enough."""
        ...


class MessageAuthenticator(Protocol):
    """Proves who sends a message that may bring a token of its own."""

    def authenticate_message(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> AuthResult:
        """The caller, as far as the connection proved one, or whose token it is; Unproven for neither."""
        ...


class Authenticator(RequestAuthenticator, MessageAuthenticator, Protocol):
    """Proves both."""


class AuthenticationFailed(Exception):
    """A request that goes no further; `sent` tells a credential that is not valid from none at all."""

    def __init__(self, error: ToolhallError, *, credential_sent: bool = False) -> None:
        self.error = error
        self.credential_sent = credential_sent
        super().__init__(error.message)


async def resolve_caller(result: AuthResult) -> Caller:
    """The caller, however long it takes."""
    return result if isinstance(result, Caller) else await result


def missing_credential() -> AuthenticationFailed:
    """No credential came, and one is needed."""
    return AuthenticationFailed(Unauthenticated(MISSING_MESSAGE))


def invalid_credential() -> AuthenticationFailed:
    """One came that is not valid; who sends one is never served as somebody else instead."""
    return AuthenticationFailed(Unauthenticated(INVALID_MESSAGE), credential_sent=True)
