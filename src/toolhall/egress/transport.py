"""The httpx2 transport GuardedTransport: checked requests, checked addresses, bounded responses."""

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

_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def check_target(request: httpx2.Request, allowlist: EgressAllowlist, base: Url | None) -> Url:
    """The URL that the request is for; EgressRefused for one that is closed, or outside of the base."""
    url = parse_url(str(request.url), allowlist)
    port = request.url.port or {"http": 80, "https": 443}[url.scheme]
    if (url.host.encode(), url.port) != (request.url.raw_host, port):  # two readers, two opinions
        raise EgressRefused(f"{display_url(str(request.url))} can be read in two ways; write it plainly")
    if request.method == "CONNECT":
        raise EgressRefused("CONNECT is not sent: whoever answers it could connect to anything")
    if base is not None and not _is_below(url, base):
        raise EgressRefused(f"{url.display} is not below {base.display}; use a client of its own for it")
    return url


def check_headers(request: httpx2.Request) -> None:
    """No line breaks, and no header that chooses another host or another protocol."""
    for name, value in request.headers.raw:
        if not _HEADER_NAME.fullmatch(name):
            raise EgressRefused("a header's name holds other letters than a name may; use letters, digits and -")
        check_header_value(value.decode("latin-1"))
    if request.headers.get_list("host") != [request.url.netloc.decode("ascii")]:
        raise EgressRefused("the Host header is not the host of the URL; leave it out")
    if "upgrade" in request.headers:
        raise EgressRefused("only HTTP is spoken; leave out the Upgrade header")


def _is_below(url: Url, base: Url) -> bool:
    folder = base.path.rstrip("/")
    return url.origin == base.origin and (url.path == folder or url.path.startswith(f"{folder}/"))


_CONNECT_ERRORS = (httpcore2.ConnectError, httpcore2.ConnectTimeout)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Below TLS: the name stays what the certificate is checked against and what the other side is told."""

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
        """Resolve once, judge all addresses, connect to one of them."""
        del local_address, socket_options  # nobody who asks here chooses them
        try:
            async with asyncio.timeout(timeout):
                found = await resolve_allowed(host, port, self._allowlist, self._resolve)
                return await connect_first(
                    found, lambda address: self._network.connect_tcp(address, port), _CONNECT_ERRORS
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
        """Never: what listens on this machine's files trusts whoever can reach them."""
        del path, timeout, socket_options
        raise EgressRefused("sockets of this machine are not connected to; use an https URL")


MAX_CONNECTIONS = 20
KEEPALIVE_SECONDS = 5.0
_KEPT_EXTENSIONS = ("http_version", "reason_phrase")  # not the connection itself: what is read from it is not bounded
_DECODED_HEADERS = (b"content-encoding", b"content-length")
_HTTPCORE_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)
SslContextFactory = Callable[[], ssl.SSLContext]


@cache
def default_ssl_context() -> ssl.SSLContext:
    """Whose certificates are believed: as this machine does, whatever the environment says. Reading them takes long."""
    return httpx2.create_ssl_context(trust_env=False)


class TransportPolicy(msgspec.Struct, frozen=True):
    """What holds for every request of one client; with a `base`, it goes there and nowhere else."""

    allowlist: EgressAllowlist
    resolve: Resolver
    ssl_context_factory: SslContextFactory
    limits: ResponseLimits
    base: Url | None


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The only way out of a client of the door: no proxies, no sockets of this machine, no redirects of its own."""

    def __init__(self, policy: TransportPolicy) -> None:
        self._policy = policy
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Check, send, and return what the reply begins with."""
        url = check_target(request, self._policy.allowlist, self._policy.base)
        check_headers(request)
        deadline = asyncio.get_running_loop().time() + self._policy.limits.seconds
        measure = BodyLimiter(url.display, self._policy.limits, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                pool = await self._get_pool()
                with _httpx_errors():
                    reply = await pool.handle_async_request(_to_httpcore(request))
        except TimeoutError:
            raise measure.timeout_error() from None
        try:
            return _to_httpx(request, reply, measure)
        except BaseException:
            await reply.aclose()
            raise

    async def aclose(self) -> None:
        """End all connections."""
        if self._pool is not None:
            await self._pool.aclose()

    async def _get_pool(self) -> httpcore2.AsyncConnectionPool:
        trusted = await asyncio.to_thread(self._policy.ssl_context_factory) if self._pool is None else None
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=trusted,
                max_connections=MAX_CONNECTIONS,
                keepalive_expiry=KEEPALIVE_SECONDS,
                network_backend=GuardedBackend(self._policy.allowlist, self._policy.resolve),
            )
        return self._pool


def _to_httpcore(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    where = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    # Other extensions would choose another target, or another name for the certificate.
    kept = {name: said for name, said in request.extensions.items() if name == "timeout"}
    content = cast("AsyncIterable[bytes]", request.stream)
    return httpcore2.Request(request.method, where, headers=request.headers.raw, content=content, extensions=kept)


def _to_httpx(request: httpx2.Request, reply: httpcore2.Response, limiter: BodyLimiter) -> httpx2.Response:
    if reply.status == 101:
        raise EgressRefused(f"{request.url.host} wants to speak something else than HTTP")
    said = httpx2.Headers(reply.headers)
    length = "" if request.method == "HEAD" else said.get("content-length", "")
    limiter.check_headers(said.get("content-encoding", "").strip().lower(), length)
    packed = "content-encoding" in said
    headers = [each for each in reply.headers if not packed or each[0].lower() not in _DECODED_HEADERS]
    told = {name: reply.extensions[name] for name in _KEPT_EXTENSIONS if name in reply.extensions}
    body = LimitedBody(_body_parts(reply), reply.aclose, limiter)
    return httpx2.Response(reply.status, headers=headers, stream=body, extensions=told)


async def _body_parts(reply: httpcore2.Response) -> AsyncGenerator[bytes]:
    with _httpx_errors():
        async with aclosing(reply.aiter_stream()) as parts:
            async for part in parts:
                yield part


@contextmanager
def _httpx_errors() -> Generator[None]:
    """The errors of the library below, as those that a user of the client knows; they have the same names."""
    try:
        yield
    except _HTTPCORE_ERRORS as error:
        kind = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error)) from None
