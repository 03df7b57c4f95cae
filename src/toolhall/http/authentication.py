"""Authentication at the HTTP edge: `build_auth`, the RFC 9728 metadata, and the audit of rejected requests.

`UnauthenticatedAudit` records failed authentications up to a limit per address and minute, and then only counts
them. `ResourceMetadata` serves `/.well-known/oauth-protected-resource`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from toolhall.auth.authenticator import Authenticator
from toolhall.auth.credentials import MAX_ADDRESSES, FailureThrottle
from toolhall.auth.profiles import build_authenticator
from toolhall.auth.settings import AuthSettings, ProtectedResource, protected_resource
from toolhall.http.errors import MCP_PATH, AuthChallenges
from toolhall.http.request import HttpRequest, Methods
from toolhall.http.request_guard import RESOURCE_METADATA_PATH, base_url
from toolhall.model.caller import ALL_TOOLS, Caller
from toolhall.model.errors import ToolhallError, Unauthenticated
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import CallTool, WireResponse
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.stores.api_keys import KeyRing

MAX_RECORDS = 20  # of one address within a minute: strangers must not fill a disk
_DIALECTS = ("mcp", "oxp", "hub", "machine")


class _SuppressedRefusals(msgspec.Struct):
    """What one address was refused without a record: the last of it, until when that is counted, and how many."""

    call: CallTool
    caller: Caller
    until: float
    count: int = 0


class UnauthenticatedAudit:
    """What they asked for, as far as it was read."""

    def __init__(self, dispatcher: Dispatcher, clock: Callable[[], float]) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._throttle = FailureThrottle(clock, MAX_RECORDS)
        self._suppressed: dict[str, _SuppressedRefusals] = {}

    def record(self, call: CallTool, caller: Caller, error: ToolhallError) -> None:
        """Record this refusal; if there are enough of its address already, only count it."""
        address, now = caller.address or "", self._clock()
        if self._suppressed:
            self._flush(now)
        wait = self._throttle.retry_after(address)
        if wait is None:
            self._throttle.record(address)
            self._dispatcher.refuse(call, caller, error)
        else:
            more = self._suppressed.setdefault(address, _SuppressedRefusals(call, caller, now + wait))
            more.count += 1

    def close(self) -> None:
        """Record what was only counted so far."""
        self._flush(float("inf"))

    def _flush(self, now: float) -> None:
        """One record of each minute that is over; of every minute, where too many are counted."""
        if len(self._suppressed) > MAX_ADDRESSES:
            now = float("inf")
        over = [address for address, more in self._suppressed.items() if more.until <= now]
        for address in over:
            more = self._suppressed.pop(address)
            said = f"{more.count} more of this address within a minute, which are not recorded one by one"
            self._dispatcher.record_refusal(more.call, more.caller, Unauthenticated(said))


def call_for_path(path: str) -> CallTool:
    """A request that was not read: only its path is known, and by that its dialect; others are plain REST."""
    first = path.split("/", 2)[1] if path.startswith("/") else ""
    return CallTool(path, {}, first if first in _DIALECTS else "openapi", 0)


class ResourceMetadata:
    """The metadata of the whole server and of `/mcp`; each names the resource that its own address means."""

    def __init__(self, name: str, resource: ProtectedResource, issuers: Sequence[str]) -> None:
        self._name = name
        self._resource = resource
        self._issuers = list(issuers)
        # Of a public URL with a path: a proxy that strips it need not do so where it sends the well-known paths.
        self._prefix = unquote(urlsplit(resource.public_url or "").path)

    def endpoints(self) -> dict[str, Methods]:
        """The two paths, and for a public URL with a path the two that RFC 9728 makes of it."""
        paths = (
            RESOURCE_METADATA_PATH,
            RESOURCE_METADATA_PATH + MCP_PATH,
            RESOURCE_METADATA_PATH + self._prefix,
            RESOURCE_METADATA_PATH + self._prefix + MCP_PATH,
        )
        return {path: {"GET": self.metadata, "HEAD": self.metadata} for path in paths}

    async def metadata(self, request: HttpRequest) -> None:
        """The document."""
        path = request.path.removeprefix(RESOURCE_METADATA_PATH)
        path = path if path == MCP_PATH else path.removeprefix(self._prefix)
        named = self._resource.identifier(path) or base_url(request.scope, request.headers) + path
        document: JsonObject = {"resource": named}
        if self._issuers:
            document["authorization_servers"] = self._issuers
        document |= {"scopes_supported": [ALL_TOOLS], "bearer_methods_supported": ["header"]}
        await request.reply(WireResponse(encode(document | {"resource_name": self._name})))


class AuthComponents(NamedTuple):
    """What the HTTP application is given."""

    authenticator: Authenticator
    challenges: AuthChallenges | None
    endpoints: dict[str, Methods]
    accepts_credentials: Callable[[], bool] = bool  # whether any could be valid


def build_auth(name: str, settings: AuthSettings, keys: KeyRing, clock: Callable[[], float]) -> AuthComponents:
    """The entrance as the settings ask for it; where nobody needs a token, nobody is told where to get one."""
    identity = build_authenticator(settings, keys, clock)

    def takes_credentials() -> bool:
        return bool(settings.issuers) or settings.oxp_secret is not None or len(keys) > 0

    if settings.profile == "local" and not settings.issuers:
        return AuthComponents(identity, None, {}, takes_credentials)
    resource = protected_resource(settings)
    known = ResourceMetadata(name, resource, [issuer.issuer for issuer in settings.issuers])
    return AuthComponents(identity, AuthChallenges(resource.public_url), known.endpoints(), takes_credentials)


def public_hosts(settings: AuthSettings) -> frozenset[str]:
    """The name that others use for this server."""
    host = urlsplit(settings.public_url or "").hostname
    return frozenset({f"[{host}]" if ":" in host else host}) if host else frozenset()
