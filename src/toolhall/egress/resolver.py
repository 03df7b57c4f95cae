"""DNS resolution in bounded threads (SystemResolver), and connections to checked addresses only (Dialer).

A name is resolved once, all of its addresses are checked before any is tried, and the connection goes to a checked
address: DNS rebinding cannot change the target in between.
"""

import asyncio
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from ipaddress import ip_address
from typing import TypeAlias, TypeVar

from toolhall.egress.addresses import EgressAllowlist, EgressFailed, IpAddress, parse_address
from toolhall.egress.urls import Url, address_refused, parse_url

Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[IpAddress]]]
_PendingLookup: TypeAlias = "Future[Sequence[IpAddress]]"


class SystemResolver:
    """As this machine resolves names; OSError for one that leads nowhere.

    Nobody can end a lookup that hangs. So each has a thread of its own, which nothing else waits for; there are at most
    so many; and whoever wants a name that is being looked up waits for the same answer.
    """

    def __init__(self, max_lookups: int) -> None:
        self._max_lookups = max_lookups
        self._running: dict[tuple[str, int], _PendingLookup] = {}
        self._lock = threading.Lock()

    async def __call__(self, host: str, port: int) -> Sequence[IpAddress]:
        """All addresses; EgressFailed at once where too many lookups have not ended."""
        return await asyncio.wrap_future(self._start(host, port))

    def _start(self, host: str, port: int) -> _PendingLookup:
        with self._lock:
            found = self._running.get((host, port))
            if found is None:
                if len(self._running) >= self._max_lookups:
                    raise EgressFailed(
                        f"{host} is not looked up now: {self._max_lookups} names are, and none has an answer yet"
                    )
                found = Future()
                found.set_running_or_notify_cancel()  # who stops waiting does not stop the others
                threading.Thread(target=self._look_up, args=(host, port, found), name="lookup", daemon=True).start()
                self._running[host, port] = found
        return found

    def _look_up(self, host: str, port: int, found: _PendingLookup) -> None:
        answer: Sequence[IpAddress] | Exception
        try:
            told = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answer = tuple(dict.fromkeys(ip_address(where[0]) for _, _, _, _, where in told))
        except Exception as error:  # noqa: BLE001 - for whoever waits
            answer = error
        with self._lock:
            del self._running[host, port]
        if isinstance(answer, Exception):
            found.set_exception(answer)
        else:
            found.set_result(answer)


tool_resolver = SystemResolver(16)
hall_resolver = SystemResolver(
    4
)  # what the hall itself asks for: tools that fill all places of theirs hold up nobody's login
MAX_ADDRESSES_TRIED = 4
ATTEMPT_SECONDS = 2.0  # while there is another address to try
T = TypeVar("T")
P = TypeVar("P", bound=asyncio.Protocol)


class NameNotFound(OSError):
    """The name has no address."""


server_resolver = SystemResolver(
    8
)  # names that tool servers gave: those that take for ever hold up no login and no tool


async def resolve_allowed(host: str, port: int, allowlist: EgressAllowlist, resolve: Resolver) -> Sequence[IpAddress]:
    """All addresses of a host; one that is closed closes the host, because any of them may be tried.

    EgressRefused for a closed one, Nowhere for a name without any.
    """
    address = parse_address(host)
    try:
        found = await resolve(host, port) if address is None else [address]
    except OSError:
        raise NameNotFound(f"{host} cannot be resolved") from None
    for each in found:
        why = allowlist.refusal_reason(host, port, each)
        if why is not None:
            raise address_refused(host, port, why, each)
    return found


async def connect_first(
    addresses: Sequence[IpAddress],
    connect: Callable[[str], Awaitable[T]],
    errors: tuple[type[Exception], ...] = (OSError,),
) -> T:
    """The connection to the first address that takes one; else what the last one failed with."""
    tried = addresses[:MAX_ADDRESSES_TRIED]
    passing: tuple[type[Exception], ...] = (TimeoutError, *errors)
    for number, address in enumerate(tried, start=1):
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS if number < len(tried) else None):
                return await connect(str(address))
        except passing:
            if number == len(tried):
                raise
    raise NameNotFound("the name has no address")


def _default_ssl_context() -> ssl.SSLContext:
    from toolhall.egress.transport import default_ssl_context  # lazy: httpx2; most tool servers are on this machine

    return default_ssl_context()


class Dialer:
    """Connects a protocol of asyncio's to where a URL leads: no proxies, no sockets of this machine's files."""

    def __init__(
        self,
        allowlist: EgressAllowlist,
        resolve: Resolver = server_resolver,
        ssl_context_factory: Callable[[], ssl.SSLContext] = _default_ssl_context,
    ) -> None:
        self._allowlist = allowlist
        self._resolve = resolve
        self._ssl_context_factory = ssl_context_factory

    def with_address(self, address: IpAddress) -> "Dialer":
        """The same with one address more: a tool server may live at the very address that it joined from."""
        return Dialer(self._allowlist.with_address(address), self._resolve, self._ssl_context_factory)

    def parse(self, url: str) -> Url:
        """A URL that may be dialled, as far as its text tells; EgressRefused for others."""
        return parse_url(url, self._allowlist)

    async def connect(self, url: Url, protocol_factory: Callable[[], P]) -> P:
        """A new connection; EgressRefused, EgressFailed, or OSError where nobody answers or nobody believes them."""
        loop = asyncio.get_running_loop()
        secure = await asyncio.to_thread(self._ssl_context_factory) if url.scheme == "https" else None
        name = None if secure is None else url.host

        async def connect(address: str) -> P:
            _, made = await loop.create_connection(
                protocol_factory, address, url.port, ssl=secure, server_hostname=name
            )
            return made

        return await connect_first(await resolve_allowed(url.host, url.port, self._allowlist, self._resolve), connect)
