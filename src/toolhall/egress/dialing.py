"""Connections to judged addresses: a name is resolved once, and all that it leads to is judged before any is tried."""

import asyncio
import importlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from toolhall.egress.addresses import Address, Allowed, literal
from toolhall.egress.resolving import Lookups, Resolver
from toolhall.egress.urls import Url, checked, closed

MOST_TRIED = 4
ONE_TRY_SECONDS = 2.0  # while there is another address to try
_TRANSPORT = "toolhall.egress.transport"

T = TypeVar("T")
P = TypeVar("P", bound=asyncio.Protocol)


class Nowhere(OSError):
    """The name has no address."""


for_servers = Lookups(8)  # names that tool servers gave: those that take for ever hold up no login and no tool


async def judged(host: str, port: int, allowed: Allowed, resolve: Resolver) -> Sequence[Address]:
    """All addresses of a host; one that is closed closes the host, because any of them may be tried.

    EgressRefused for a closed one, Nowhere for a name without any.
    """
    address = literal(host)
    try:
        found = await resolve(host, port) if address is None else [address]
    except OSError:
        raise Nowhere(f"{host} cannot be resolved") from None
    for each in found:
        why = allowed.why_not(host, port, each)
        if why is not None:
            raise closed(host, port, why, each)
    return found


async def first(
    addresses: Sequence[Address],
    connect: Callable[[str], Awaitable[T]],
    failures: tuple[type[Exception], ...] = (OSError,),
) -> T:
    """The connection to the first address that takes one; else what the last one failed with."""
    tried = addresses[:MOST_TRIED]
    passing: tuple[type[Exception], ...] = (TimeoutError, *failures)
    for number, address in enumerate(tried, start=1):
        try:
            async with asyncio.timeout(ONE_TRY_SECONDS if number < len(tried) else None):
                return await connect(str(address))
        except passing:
            if number == len(tried):
                raise
    raise Nowhere("the name has no address")


def _system_trust() -> ssl.SSLContext:
    """Imported when it is needed: most tool servers live on this machine, and an HTTP client takes long to import."""
    found: ssl.SSLContext = importlib.import_module(_TRANSPORT).system_trust()
    return found


class Dial:
    """Connects a protocol of asyncio's to where a URL leads: no proxies, no sockets of this machine's files."""

    def __init__(
        self,
        allowed: Allowed,
        resolve: Resolver = for_servers,
        trust: Callable[[], ssl.SSLContext] = _system_trust,
    ) -> None:
        self._allowed = allowed
        self._resolve = resolve
        self._trust = trust

    def beside(self, address: Address) -> "Dial":
        """The same with one address more: a tool server may live at the very address that it joined from."""
        return Dial(self._allowed.beside(address), self._resolve, self._trust)

    def read(self, url: str) -> Url:
        """A URL that may be dialled, as far as its text tells; EgressRefused for others."""
        return checked(url, self._allowed)

    async def connect(self, url: Url, make: Callable[[], P]) -> P:
        """A new connection; EgressRefused, EgressFailed, or OSError where nobody answers or nobody believes them."""
        loop = asyncio.get_running_loop()
        secure = await asyncio.to_thread(self._trust) if url.scheme == "https" else None
        name = None if secure is None else url.host

        async def connect(address: str) -> P:
            _, made = await loop.create_connection(make, address, url.port, ssl=secure, server_hostname=name)
            return made

        return await first(await judged(url.host, url.port, self._allowed, self._resolve), connect)
