"""EgressClient, the SSRF-safe HTTP client of the hall and of its tools.

Theory of operation. A tool, or a document that somebody else wrote, may choose the URL of a request. The hall runs
inside a private network, so it must not send that request to loopback, to a private network or to the metadata service
of a cloud. Checking the name or the first resolved address is not enough: URL parsers disagree, a name may have several
addresses, and it may resolve to another address a moment later (DNS rebinding). Each request therefore passes these
checks, in this order:

1. `urls.parse_url` accepts only URLs that every parser reads alike: https (http only to loopback hosts that the
   operator allowed), no user, no fragment, no `..`, a hostname or an IP literal in its standard spelling. IP literals
   are checked here. `transport.check_target` compares the result with httpx2's own reading of the same URL.
2. `transport.check_headers` refuses line breaks, a Host header other than the URL's, and protocol upgrades.
3. `resolver.resolve_allowed` resolves the host once and checks all of its addresses against the EgressAllowlist; one
   forbidden address refuses the whole host, because any of them could be tried.
4. `transport.GuardedBackend` connects to one of these checked addresses, never to the name. It works below TLS, so the
   certificate is still verified against the name, and SNI and Host carry the name.
5. `limits.BodyLimiter` bounds the response: bytes as received, bytes when decompressed, their ratio, the number of gzip
   members, and the time from the start of the resolution to the last byte.

There is no way around: no redirects are followed (each target would need all checks again; a caller that follows one
makes a new request), no proxy settings are read from the environment, no Unix sockets, no CONNECT, no HTTP/2. A client
with a `base_url` reaches only paths below it. Messages never contain the query, credentials or bodies.

Connections that are not HTTP requests (to tool servers) use `resolver.Dialer`, which shares steps 1, 3 and 4.
"""

from collections.abc import Generator, Mapping
from typing import TypedDict, Unpack

import httpx2
import msgspec

from toolhall.egress.addresses import EgressAllowlist, EgressFailed
from toolhall.egress.limits import ResponseLimits
from toolhall.egress.resolver import Resolver, hall_resolver, tool_resolver
from toolhall.egress.transport import GuardedTransport, SslContextFactory, TransportPolicy, default_ssl_context
from toolhall.egress.urls import check_header_value, parse_url
from toolhall.model.json import Json, encode
from toolhall.model.secret import Secret

CLIENT_SECONDS = 30.0
CLIENT_BYTES = 10 * 1024 * 1024
FETCH_SECONDS = 5.0
FETCH_BYTES = 64 * 1024


class FetchLimits(TypedDict, total=False):
    """Limits on one fetch: bytes of the response, and seconds for all of it."""

    max_bytes: int
    seconds: float


class EgressResponse(msgspec.Struct, frozen=True):
    """A complete response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"<reply {self.status}, {len(self.body)} bytes>"  # headers and body may hold tokens


class EgressClient:
    """Makes requests to public addresses, and to destinations on the allowlist."""

    def __init__(
        self,
        allowlist: EgressAllowlist,
        resolve: Resolver = tool_resolver,
        ssl_context_factory: SslContextFactory = default_ssl_context,
    ) -> None:
        self.allowlist = allowlist
        self._resolve = resolve
        self._ssl_context_factory = ssl_context_factory

    @classmethod
    def for_hall(cls, allowlist: EgressAllowlist) -> "EgressClient":
        """A client for the hall's own requests, with DNS lookups that tools cannot exhaust."""
        return cls(allowlist, hall_resolver)

    def http_client(
        self,
        *,
        base_url: str = "",
        headers: Mapping[str, str] | None = None,
        auth: httpx2.Auth | None = None,
        timeout: float = CLIENT_SECONDS,
        max_bytes: int = CLIENT_BYTES,
    ) -> httpx2.AsyncClient:
        """An httpx2 client whose only transport is GuardedTransport; with a `base_url`, it reaches only URLs below it.

        `timeout` covers a whole response, from the DNS lookup to the last byte. The client raises the errors of httpx2,
        and EgressRefused and EgressFailed.
        """
        base = parse_url(base_url, self.allowlist) if base_url else None
        limits = ResponseLimits(max_bytes, timeout)
        return httpx2.AsyncClient(
            transport=GuardedTransport(
                TransportPolicy(self.allowlist, self._resolve, self._ssl_context_factory, limits, base)
            ),
            base_url=base_url,
            headers={"accept-encoding": "gzip", **_checked_headers(headers)},
            auth=auth,
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
        )

    async def fetch(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        form: Mapping[str, str] | None = None,
        json: Json = None,
        **limits: Unpack[FetchLimits],
    ) -> EgressResponse:
        """Make one request and read its whole response, whatever its status; raises EgressRefused or EgressFailed."""
        target = parse_url(url, self.allowlist)
        seconds = limits.get("seconds", FETCH_SECONDS)
        sent_headers = _checked_headers(headers) | ({} if json is None else {"content-type": "application/json"})
        content = None if json is None else encode(json)
        try:
            async with self.http_client(timeout=seconds, max_bytes=limits.get("max_bytes", FETCH_BYTES)) as client:
                response = await client.request(method, str(target), headers=sent_headers, data=form, content=content)
        except (httpx2.HTTPError, OSError) as error:
            raise EgressFailed(f"{target.display} {_failure_reason(error)}") from None
        return EgressResponse(response.status_code, dict(response.headers), response.content)


class BearerAuth(httpx2.Auth):
    """Sends a bearer token to the origin of `base_url` (scheme, host and port) and to no other."""

    def __init__(self, base_url: str, token: Secret) -> None:
        self._origin = _origin(httpx2.URL(base_url))
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Add the Authorization header if the request goes to the token's origin."""
        if _origin(request.url) == self._origin:
            request.headers["authorization"] = f"Bearer {self._token.reveal()}"
        yield request


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Check values before httpx2 sees them, because its errors quote invalid values."""
    return {name: check_header_value(value) for name, value in (headers or {}).items()}


def _failure_reason(error: Exception) -> str:
    """Why there is no response, without texts that could quote what was sent."""
    match error:
        case httpx2.ConnectError():
            return f"cannot be reached: {' '.join(str(error).split())}"
        case httpx2.TimeoutException():
            return "did not answer in time"
        case _:
            return f"sent no valid response: {type(error).__name__}"
