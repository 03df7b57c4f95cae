"""Authentication at the HTTP edge: `build_auth`, the RFC 9728 metadata, and the audit of rejected requests.

`UnauthenticatedAudit` records failed authentications up to a limit per address and minute, and then only counts
them. `ResourceMetadata` serves `/.well-known/oauth-protected-resource`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from toolhall.auth.authenticator import Authenticator, AuthSettings, ProtectedResource, protected_resource
from toolhall.auth.credentials import MAX_ADDRESSES, FailureThrottle
from toolhall.auth.profiles import build_authenticator
from toolhall.http.errors import MCP_PATH, AuthChallenges
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RESOURCE_METADATA_PATH, base_url
from toolhall.model.call_records import MANAGEMENT_SUFFIX
from toolhall.model.caller import ALL_TOOLS, Caller
from toolhall.model.errors import ToolhallError, Unauthenticated
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import CallTool, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.stores.access import KeyRing

MAX_RECORDS = 20  # per address and minute: anonymous requests must not fill the disk
_DIALECTS = ("mcp", "oxp", "hub", "machine")


class _SuppressedRefusals(msgspec.Struct):
    """Refusals of one address that were only counted: the last call, the end of the window, and how many."""

    call: CallTool
    caller: Caller
    until: float
    count: int = 0


class UnauthenticatedAudit:
    """Audits rejected requests, as far as they were read; at most 20 records per address and minute."""

    def __init__(self, dispatcher: Dispatcher, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._throttle = FailureThrottle(clock, MAX_RECORDS)
        self._suppressed: dict[str, _SuppressedRefusals] = {}

    def record(self, call: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record this refusal, or only count it if its address has enough records."""
        address, now = caller.address or "", self._clock()
        if self._suppressed:
            self._flush(now)
        wait = self._throttle.retry_after(address)
        if wait is None:
            self._throttle.record(address)
            self._dispatcher.refuse(call, caller, error)
        else:
            suppressed = self._suppressed.setdefault(address, _SuppressedRefusals(call, caller, now + wait))
            suppressed.count += 1

    def close(self) -> None:
        """Record the counts that are still open."""
        self._flush(float("inf"))

    def _flush(self, now: float) -> None:
        """Write one record per address whose window has ended; for all addresses if too many are counted."""
        if len(self._suppressed) > MAX_ADDRESSES:
            now = float("inf")
        expired = [address for address, suppressed in self._suppressed.items() if suppressed.until <= now]
        for address in expired:
            suppressed = self._suppressed.pop(address)
            message = f"{suppressed.count} more of this address within a minute, which are not recorded one by one"
            self._dispatcher.record_refusal(suppressed.call, suppressed.caller, Unauthenticated(message))


def call_for_path(path: str) -> CallTool:
    """Return the audit entry of an unread request; the dialect follows from the path, REST by default."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    if first == "api":  # a console without a session asks who it is: no call of a tool
        return CallTool(path, {}, f"api{MANAGEMENT_SUFFIX}", 0)
    return CallTool(path, {}, first if first in _DIALECTS else "openapi", 0)


class ResourceMetadata:
    """RFC 9728 metadata of the server and of `/mcp`; each document names the resource of its own address."""

    def __init__(self, name: str, resource: ProtectedResource, issuers: Sequence[str]) -> None:
        self._name = name
        self._resource = resource
        self._issuers = list(issuers)
        # The path of the public URL; a proxy that strips it elsewhere may keep it in well-known paths.
        self._prefix = unquote(urlsplit(resource.public_url or "").path)

    def endpoints(self) -> dict[str, Methods]:
        """Return the two paths, and for a public URL with a path also the two that RFC 9728 derives from it."""
        paths = (
            RESOURCE_METADATA_PATH,
            RESOURCE_METADATA_PATH + MCP_PATH,
            RESOURCE_METADATA_PATH + self._prefix,
            RESOURCE_METADATA_PATH + self._prefix + MCP_PATH,
        )
        return {path: {"GET": self.metadata, "HEAD": self.metadata} for path in paths}

    async def metadata(self, request: HttpRequest) -> None:
        """Send the metadata document."""
        path = request.path.removeprefix(RESOURCE_METADATA_PATH)
        path = path if path == MCP_PATH else path.removeprefix(self._prefix)
        resource = self._resource.identifier(path) or base_url(request.scope, request.headers) + path
        document: JsonObject = {"resource": resource}
        if self._issuers:
            document["authorization_servers"] = self._issuers
        document |= {"scopes_supported": [ALL_TOOLS], "bearer_methods_supported": ["header"]}
        await request.reply(WireResponse(encode(document | {"resource_name": self._name})))


class AuthComponents(NamedTuple):
    """The parts of authentication that the HTTP application needs."""

    authenticator: Authenticator
    challenges: AuthChallenges | None
    endpoints: dict[str, Methods]
    accepts_credentials: Callable[[], bool] = bool  # whether any credential could be valid


def build_auth(name: str, settings: AuthSettings, keys: KeyRing, clock: Callable[[], float]) -> AuthComponents:
    """Build authentication from the settings; without tokens, no challenge points to an authorization server."""
    authenticator = build_authenticator(settings, keys, clock)

    def accepts_credentials() -> bool:
        return bool(settings.issuers) or settings.oxp_secret is not None or len(keys) > 0

    if settings.profile == "local" and not settings.issuers:
        return AuthComponents(authenticator, None, {}, accepts_credentials)
    resource = protected_resource(settings)
    metadata = ResourceMetadata(name, resource, [issuer.issuer for issuer in settings.issuers])
    return AuthComponents(authenticator, AuthChallenges(resource.public_url), metadata.endpoints(), accepts_credentials)


def public_hosts(settings: AuthSettings) -> frozenset[str]:
    """Return the host of the public URL, as it appears in a Host header."""
    host = urlsplit(settings.public_url or "").hostname
    return frozenset({f"[{host}]" if ":" in host else host}) if host else frozenset()
