"""Sends requests that were checked, over connections that were judged, and hands on replies that are bounded."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator
from contextlib import aclosing, contextmanager
from functools import cache
from typing import cast

import httpcore2
import httpx2
import msgspec

from toolhall.egress.addresses import Allowed
from toolhall.egress.bodies import Body, Bounds, Measure
from toolhall.egress.connecting import GuardedBackend
from toolhall.egress.errors import EgressRefused
from toolhall.egress.requests import check_headers, check_target
from toolhall.egress.resolving import Resolver
from toolhall.egress.urls import Url

MOST_CONNECTIONS = 20
IDLE_SECONDS = 5.0
_TOLD = ("http_version", "reason_phrase")  # not the connection itself: what is read from it is not bounded
_NOT_AS_SENT = (b"content-encoding", b"content-length")
_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)
Trust = Callable[[], ssl.SSLContext]


@cache
def system_trust() -> ssl.SSLContext:
    """Whose certificates are believed: as this machine does, whatever the environment says. Reading them takes long."""
    return httpx2.create_ssl_context(trust_env=False)


class Rules(msgspec.Struct, frozen=True):
    """What holds for every request of one client; with a `base`, it goes there and nowhere else."""

    allowed: Allowed
    resolve: Resolver
    trust: Trust
    bounds: Bounds
    base: Url | None


class GuardedTransport(httpx2.AsyncBaseTransport):
    """The only way out of a client of the door: no proxies, no sockets of this machine, no redirects of its own."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._pool: httpcore2.AsyncConnectionPool | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Check, send, and return what the reply begins with."""
        url = check_target(request, self._rules.allowed, self._rules.base)
        check_headers(request)
        deadline = asyncio.get_running_loop().time() + self._rules.bounds.seconds
        measure = Measure(url.shown, self._rules.bounds, deadline)
        try:
            async with asyncio.timeout_at(deadline):
                pool = await self._opened()
                with _as_httpx():
                    reply = await pool.handle_async_request(_outgoing(request))
        except TimeoutError:
            raise measure.late() from None
        try:
            return _incoming(request, reply, measure)
        except BaseException:
            await reply.aclose()
            raise

    async def aclose(self) -> None:
        """End all connections."""
        if self._pool is not None:
            await self._pool.aclose()

    async def _opened(self) -> httpcore2.AsyncConnectionPool:
        trusted = await asyncio.to_thread(self._rules.trust) if self._pool is None else None
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=trusted,
                max_connections=MOST_CONNECTIONS,
                keepalive_expiry=IDLE_SECONDS,
                network_backend=GuardedBackend(self._rules.allowed, self._rules.resolve),
            )
        return self._pool


def _outgoing(request: httpx2.Request) -> httpcore2.Request:
    url = request.url
    where = httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
    # Other extensions would choose another target, or another name for the certificate.
    kept = {name: said for name, said in request.extensions.items() if name == "timeout"}
    content = cast("AsyncIterable[bytes]", request.stream)
    return httpcore2.Request(request.method, where, headers=request.headers.raw, content=content, extensions=kept)


def _incoming(request: httpx2.Request, reply: httpcore2.Response, measure: Measure) -> httpx2.Response:
    if reply.status == 101:
        raise EgressRefused(f"{request.url.host} wants to speak something else than HTTP")
    said = httpx2.Headers(reply.headers)
    length = "" if request.method == "HEAD" else said.get("content-length", "")
    measure.begin(said.get("content-encoding", "").strip().lower(), length)
    packed = "content-encoding" in said
    headers = [each for each in reply.headers if not packed or each[0].lower() not in _NOT_AS_SENT]
    told = {name: reply.extensions[name] for name in _TOLD if name in reply.extensions}
    body = Body(_parts(reply), reply.aclose, measure)
    return httpx2.Response(reply.status, headers=headers, stream=body, extensions=told)


async def _parts(reply: httpcore2.Response) -> AsyncGenerator[bytes]:
    with _as_httpx():
        async with aclosing(reply.aiter_stream()) as parts:
            async for part in parts:
                yield part


@contextmanager
def _as_httpx() -> Generator[None]:
    """The errors of the library below, as those that a user of the client knows; they have the same names."""
    try:
        yield
    except _ERRORS as error:
        kind = getattr(httpx2, type(error).__name__, httpx2.TransportError)
        raise kind(str(error)) from None
