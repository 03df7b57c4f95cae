"""EgressClient, the SSRF-safe HTTP client: resolve once, check every address, connect to the checked address."""

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


class BearerAuth(httpx2.Auth):
    """Scheme, host and port must be those of `base_url`; a request elsewhere goes without the token."""

    def __init__(self, base_url: str, token: Secret) -> None:
        self._origin = _origin(httpx2.URL(base_url))
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Bring the token where it belongs."""
        if _origin(request.url) == self._origin:
            request.headers["authorization"] = f"Bearer {self._token.reveal()}"
        yield request


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port or {"http": 80, "https": 443}.get(url.scheme)


CLIENT_SECONDS = 30.0
CLIENT_BYTES = 10 * 1024 * 1024
FETCH_SECONDS = 5.0
FETCH_BYTES = 64 * 1024


class FetchLimits(TypedDict, total=False):
    """What a fetch may cost at most."""

    max_bytes: int
    seconds: float


class EgressResponse(msgspec.Struct, frozen=True):
    """What came back, whole; headers by their names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def __repr__(self) -> str:
        return f"<reply {self.status}, {len(self.body)} bytes>"  # it may hold tokens


class EgressClient:
    """Opens to public addresses, and to what the operator `allowed`; `trust` says whose certificates are believed."""

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
        """For what the hall itself asks the outside: no tool can take its turn."""
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
        """A client that can only go through this door; with a `base_url`, only to what is below it.

        `timeout` is for a whole reply, from the first look at its address to the last byte. Its errors are those of
        httpx2, and EgressRefused and EgressFailed.
        """
        base = parse_url(base_url, self.allowlist) if base_url else None
        bounds = ResponseLimits(max_bytes, timeout)
        return httpx2.AsyncClient(
            transport=GuardedTransport(
                TransportPolicy(self.allowlist, self._resolve, self._ssl_context_factory, bounds, base)
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
        """One request and its whole reply, whatever its status; EgressRefused or EgressFailed otherwise."""
        target = parse_url(url, self.allowlist)
        seconds = limits.get("seconds", FETCH_SECONDS)
        said = _checked_headers(headers) | ({} if json is None else {"content-type": "application/json"})
        content = None if json is None else encode(json)
        try:
            async with self.http_client(timeout=seconds, max_bytes=limits.get("max_bytes", FETCH_BYTES)) as client:
                found = await client.request(method, str(target), headers=said, data=form, content=content)
        except (httpx2.HTTPError, OSError) as error:
            raise EgressFailed(f"{target.display} {_failure_reason(error)}") from None
        return EgressResponse(found.status_code, dict(found.headers), found.content)


def _checked_headers(headers: Mapping[str, str] | None) -> dict[str, str]:
    """Here already, because the library's own errors quote what they do not like."""
    return {name: check_header_value(value) for name, value in (headers or {}).items()}


def _failure_reason(error: Exception) -> str:
    """Why nothing came back; texts that could quote what was sent are left out."""
    match error:
        case httpx2.ConnectError():
            return f"cannot be reached: {' '.join(str(error).split())}"
        case httpx2.TimeoutException():
            return "did not answer in time"
        case _:
            return f"did not answer as it should: {type(error).__name__}"
