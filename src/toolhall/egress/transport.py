"""GuardedTransport, the httpx2 transport of EgressClient: checked requests, checked addresses, bounded responses."""

import asyncio
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable
from contextlib import aclosing, contextmanager
from functools import cache
from typing import cast

import httpcore2
import httpx2
import msgspec

from toolhall.egress.addresses import EgressAllowlist, EgressRefused
from toolhall.egress.limits import BodyLimiter, LimitedBody, ResponseLimits
from toolhall.egress.resolver import NameNotFound, Resolver, connect_first, resolve_allowed
from toolhall.egress.urls import Url, check_header_value, display_url, parse_url

MAX_CONNECTIONS = 20
KEEPALIVE_SECONDS = 5.0
SslContextFactory = Callable[[], ssl.SSLContext]
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PASSED_EXTENSIONS = ("http_version", "reason_phrase")  # not the network stream: reads from it would not be bounded
_DECODED_HEADERS = (b"content-encoding", b"content-length")
_CONNECT_ERRORS = (httpcore2.ConnectError, httpcore2.ConnectTimeout)
_HTTPCORE_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)


class TransportPolicy(msgspec.Struct, frozen=True):
    """What applies to every request of one client; with a `base`, requests go to URLs below it only."""

    allowlist: EgressAllowlist
    resolve: Resolver
    ssl_context_factory: SslContextFactory
    limits: ResponseLimits
    base: Url | None


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The only transport of an egress client: no proxies, no Unix sockets, no redirects."""

    def __init__(self, policy: TransportPolicy) -> None:
        self._policy = policy
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Check and send a request; the body of the response is bounded while it is read."""
        url = check_target(request, self._policy.allowlist, self._policy.base)
        check_headers(request)
        deadline = asyncio.get_running_loop().time() + self._policy.limits.seconds
        limiter = BodyLimiter(url.display, self._policy.limits, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                pool = await self._get_pool()
                with _httpx_errors():
                    response = await pool.handle_async_request(_to_httpcore(request))
        except TimeoutError:
            raise limiter.timeout_error() from None
        try:
            return _to_httpx(request, response, limiter)
        except BaseException:
            await response.aclose()
            raise

    async def aclose(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.aclose()

    async def _get_pool(self) -> httpcore2.AsyncConnectionPool:
        ssl_context = await asyncio.to_thread(self._policy.ssl_context_factory) if self._pool is None else None
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=ssl_context,
                max_connections=MAX_CONNECTIONS,
                keepalive_expiry=KEEPALIVE_SECONDS,
                network_backend=GuardedBackend(self._policy.allowlist, self._policy.resolve),
            )
        return self._pool


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Network backend that connects to checked addresses only.

    It works below TLS: the certificate is still verified against the name, and the server still gets the name.
    """

    def __init__(self, allowlist: EgressAllowlist, resolve: Resolver) -> None:
        self._allowlist = allowlist
        self._resolve = resolve
        self._network = cast("httpcore2.AsyncNetworkBackend", httpcore2.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Resolve the host once, check all of its addresses, connect to one of them."""
        del local_address, socket_options  # no caller sets them
        try:
            async with asyncio.timeout(timeout):
                addresses = await resolve_allowed(host, port, self._allowlist, self._resolve)
                return await connect_first(
                    addresses, lambda address: self._network.connect_tcp(address, port), _CONNECT_ERRORS
                )
        except TimeoutError:
            raise httpcore2.ConnectTimeout("no connection in time") from None
        except NameNotFound as error:
            raise httpcore2.ConnectError(str(error)) from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Always refuse: services on Unix sockets trust every process that can open them."""
        del path, timeout, socket_options
        raise EgressRefused("connections to Unix sockets are not allowed; use an https URL")


@cache
def default_ssl_context() -> ssl.SSLContext:
    """A context with the default CA certificates, whatever the environment says; cached, because loading is slow."""
    return httpx2.create_ssl_context(trust_env=False)


def check_target(request: httpx2.Request, allowlist: EgressAllowlist, base: Url | None) -> Url:
    """The parsed URL of a request; EgressRefused if it is not allowed, or not below the base."""
    url = parse_url(str(request.url), allowlist)
    port = request.url.port or {"http": 80, "https": 443}[url.scheme]
    if (url.host.encode(), url.port) != (request.url.raw_host, port):
        raise EgressRefused(f"{display_url(str(request.url))} is ambiguous: two parsers disagree on its host or port")
    if request.method == "CONNECT":
        raise EgressRefused("CONNECT requests are not allowed: the tunnel could lead to any host")
    if base is not None and not _is_below(url, base):
        raise EgressRefused(f"{url.display} is not below {base.display}; create another client for it")
    return url


def check_headers(request: httpx2.Request) -> None:
    """Refuse line breaks, and headers that would select another host or another protocol."""
    for name, value in request.headers.raw:
        if not _HEADER_NAME.fullmatch(name):
            raise EgressRefused("a header name contains invalid characters; use letters, digits and -")
        check_header_value(value.decode("latin-1"))
    if request.headers.get_list("host") != [request.url.netloc.decode("ascii")]:
        raise EgressRefused("the Host header is not the host of the URL; leave it out")
    if "upgrade" in request.headers:
        raise EgressRefused("only HTTP is supported; leave out the Upgrade header")


def _is_below(url: Url, base: Url) -> bool:
    folder = base.path.rstrip("/")
    return url.origin == base.origin and (url.path == folder or url.path.startswith(f"{folder}/"))


def _to_httpcore(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    target = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    # Other extensions could select another target, or another name for the certificate.
    extensions = {name: value for name, value in request.extensions.items() if name == "timeout"}
    content = cast("AsyncIterable[bytes]", request.stream)
    return httpcore2.Request(
        request.method, target, headers=request.headers.raw, content=content, extensions=extensions
    )


def _to_httpx(request: httpx2.Request, response: httpcore2.Response, limiter: BodyLimiter) -> httpx2.Response:
    if response.status == 101:
        raise EgressRefused(f"{request.url.host} tried to switch to another protocol than HTTP")
    received = httpx2.Headers(response.headers)
    length = "" if request.method == "HEAD" else received.get("content-length", "")
    limiter.check_headers(received.get("content-encoding", "").strip().lower(), length)
    encoded = "content-encoding" in received
    headers = [each for each in response.headers if not encoded or each[0].lower() not in _DECODED_HEADERS]
    extensions = {name: response.extensions[name] for name in _PASSED_EXTENSIONS if name in response.extensions}
    body = LimitedBody(_body_parts(response), response.aclose, limiter)
    return httpx2.Response(response.status, headers=headers, stream=body, extensions=extensions)


async def _body_parts(response: httpcore2.Response) -> AsyncGenerator[bytes]:
    with _httpx_errors():
        async with aclosing(response.aiter_stream()) as parts:
            async for part in parts:
                yield part


@contextmanager
def _httpx_errors() -> Generator[None]:
    """Raise httpcore2's errors as the httpx2 errors of the same names."""
    try:
        yield
    except _HTTPCORE_ERRORS as error:
        kind = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error)) from None
