"""Interfaces of authentication: Authenticator, its settings (AuthSettings), ASGI types, and client addresses.

ProtectedResource has the audiences that tokens must name, TokenIssuer an issuer whose tokens are accepted.
"""

import ipaddress
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

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
_NETWORK_BITS = 64  # an IPv6 customer typically has a /64
LOOPBACK = "127.0.0.1"
# Headers by which proxies identify themselves; a proxy need not send any.
FORWARDING_HEADERS = frozenset(
    {b"forwarded", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip", b"via"}
)
_LOOPBACK_PREFIXES = ("127.", "::1", "::ffff:127.")
_anonymous_callers: dict[str, Caller] = {}
AuthResult: TypeAlias = Caller | Awaitable[Caller]  # awaited only if a key set has to be fetched
MISSING_MESSAGE = "send a credential: 'Authorization: Bearer KEY', where 'toolhall key create NAME' makes a key"
# The same message for every reason: the reason would help only a forger.
INVALID_MESSAGE = "this credential is not valid here: unknown, expired, revoked, or made for another server"


def client_address(scope: Scope) -> str:
    """Return the IP address of the peer; empty for a Unix socket."""
    client = scope.get("client")
    return client[0] if client else ""


def is_loopback(address: str) -> bool:
    """Whether the address is this machine; a Unix socket (no address) is."""
    return address == LOOPBACK or not address or address.startswith(_LOOPBACK_PREFIXES)


def network_key(address: str) -> str:
    """Return what one customer typically has: the IPv4 address, or the /64 network of an IPv6 address."""
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
    """Return the anonymous caller of this address; cached, so that the same address gets the same object."""
    address = client_address(scope)
    caller = _anonymous_callers.get(address)
    if caller is None:
        if len(_anonymous_callers) >= _MAX_CACHED_CALLERS:
            _anonymous_callers.clear()
        caller = _anonymous_callers[address] = msgspec.structs.replace(ANONYMOUS, address=network_key(address))
    return caller


class RequestAuthenticator(Protocol):
    """Authenticates a connection by its ASGI scope and headers."""

    def authenticate(self, scope: Scope, headers: Headers) -> AuthResult:
        """Return the caller, anonymous without proof; AuthenticationFailed where that is not enough."""
        ...

    def local_caller(self, scope: Scope, headers: Headers) -> Caller | None:
        """Return the caller if the connection alone proves it, without a credential; such a proof cannot expire."""
        ...

    def prepare(self, scope: Scope, headers: Headers) -> Callable[[], AuthResult]:
        """Return a function that does what `authenticate` does for a head that comes again, and reads it only once.

        Nothing about the caller is kept: a key that was revoked or has expired fails with the next request.
        """
        ...


class MessageAuthenticator(Protocol):
    """Authenticates a message that may hold a token of its own."""

    def authenticate_message(self, token: str | None, caller: Caller, scope: Scope, headers: Headers) -> AuthResult:
        """Return the connection's caller or the token's; AuthenticationFailed if neither is proven."""
        ...


class Authenticator(RequestAuthenticator, MessageAuthenticator, Protocol):
    """Authenticates connections and messages."""


class AuthenticationFailed(Exception):
    """The request is rejected; `credential_sent` tells an invalid credential from a missing one."""

    def __init__(self, error: ToolhallError, *, credential_sent: bool = False) -> None:
        self.error = error
        self.credential_sent = credential_sent
        super().__init__(error.message)


async def resolve_caller(result: AuthResult) -> Caller:
    """Return the caller, awaiting it if necessary."""
    return result if isinstance(result, Caller) else await result


def missing_credential() -> AuthenticationFailed:
    """Return the failure of a request that needs a credential and has none."""
    return AuthenticationFailed(Unauthenticated(MISSING_MESSAGE))


def invalid_credential() -> AuthenticationFailed:
    """Return the failure of an invalid credential; it is never ignored in favour of another caller."""
    return AuthenticationFailed(Unauthenticated(INVALID_MESSAGE), credential_sent=True)


class TokenIssuer(msgspec.Struct, frozen=True, kw_only=True):
    """An issuer whose tokens are accepted; the ids of its callers begin with `name`."""

    name: str
    issuer: str
    jwks_url: str | None = None  # None: from its discovery document
    audience: str | None = None  # None: this server's own resource


class IssuerSettings(Protocol):
    """An issuer as the configuration has it."""

    @property
    def name(self) -> str:
        """The prefix of its callers' ids."""
        ...

    @property
    def issuer(self) -> str:
        """Its URL, exactly as in the `iss` claim."""
        ...

    @property
    def jwks_url(self) -> str | None:
        """The URL of its key set; None to discover it."""
        ...


class AuthSettings(Protocol):
    """The settings of authentication; `Config`, which lies in a higher layer, has them."""

    @property
    def profile(self) -> Literal["local", "server"]:
        """`local`: connections from this machine are the local user; `server`: they prove nothing."""
        ...

    @property
    def public_url(self) -> str | None:
        """The URL by which clients reach this server."""
        ...

    @property
    def resource(self) -> str | None:
        """The audience that tokens must name; the public URL by default."""
        ...

    @property
    def issuers(self) -> Sequence[IssuerSettings]:
        """The accepted token issuers."""
        ...

    @property
    def oxp_secret(self) -> str | None:
        """The secret with which OXP clients sign their tokens."""
        ...

    @property
    def allow_anonymous(self) -> bool:
        """Whether anonymous callers may list and call tools of level 0."""
        ...

    @property
    def public_metrics(self) -> bool:
        """Whether `/metrics` needs no credential."""
        ...

    @property
    def egress_allow(self) -> Sequence[str]:
        """Private hosts that may be fetched from."""
        ...


class ProtectedResource(msgspec.Struct, frozen=True):
    """The resource identifiers of this server: the configured one, or those derived from the public URL."""

    public_url: str | None = None
    explicit: str | None = None

    @property
    def audiences(self) -> frozenset[str]:
        """Every audience that means this server."""
        if self.explicit is not None:
            return frozenset({self.explicit})
        if self.public_url is None:
            return frozenset()
        return frozenset({self.public_url, f"{self.public_url}/", f"{self.public_url}/mcp"})

    def identifier(self, path: str) -> str | None:
        """Return the resource identifier of a path (empty for the root); None without a public URL."""
        return self.explicit or (None if self.public_url is None else f"{self.public_url}{path}")


def protected_resource(settings: AuthSettings) -> ProtectedResource:
    """Return the resource identifiers of the settings."""
    public = None if settings.public_url is None else settings.public_url.rstrip("/")
    return ProtectedResource(public, settings.resource)
