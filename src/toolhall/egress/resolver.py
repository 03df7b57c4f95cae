"""DNS resolution in bounded threads (SystemResolver), and connections to checked addresses only (Dialer).

A host is resolved once, all of its addresses are checked before any is tried, and the connection goes to a checked
address: DNS rebinding cannot change the target in between. `client.py` describes the whole mechanism.
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

MAX_ADDRESSES_TRIED = 4
ATTEMPT_SECONDS = 2.0  # for one address, while there is another one to try
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[IpAddress]]]
_PendingLookup: TypeAlias = "Future[Sequence[IpAddress]]"
T = TypeVar("T")
P = TypeVar("P", bound=asyncio.Protocol)


class NameNotFound(OSError):
    """A name without an address."""


class SystemResolver:
    """Resolves names with the operating system's resolver (getaddrinfo).

    A lookup that hangs cannot be cancelled. So each runs in a daemon thread of its own that delays no other work;
    at most `max_lookups` run at a time; and concurrent requests for the same name share one lookup.
    """

    def __init__(self, max_lookups: int) -> None:
        self._max_lookups = max_lookups
        self._pending: dict[tuple[str, int], _PendingLookup] = {}
        self._lock = threading.Lock()

    async def __call__(self, host: str, port: int) -> Sequence[IpAddress]:
        """All addresses of a host; raises OSError if there is none, EgressFailed if too many lookups are pending."""
        return await asyncio.wrap_future(self._start(host, port))

    def _start(self, host: str, port: int) -> _PendingLookup:
        with self._lock:
            lookup = self._pending.get((host, port))
            if lookup is None:
                if len(self._pending) >= self._max_lookups:
                    raise EgressFailed(f"{host} was not resolved: {self._max_lookups} other DNS lookups are pending")
                lookup = Future()
                lookup.set_running_or_notify_cancel()  # so that one cancelled waiter does not cancel the others
                threading.Thread(target=self._look_up, args=(host, port, lookup), name="lookup", daemon=True).start()
                self._pending[host, port] = lookup
        return lookup

    def _look_up(self, host: str, port: int, lookup: _PendingLookup) -> None:
        result: Sequence[IpAddress] | Exception
        try:
            infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            result = tuple(dict.fromkeys(ip_address(sockaddr[0]) for _, _, _, _, sockaddr in infos))
        except Exception as error:  # noqa: BLE001 - raised in the waiting tasks
            result = error
        with self._lock:
            del self._pending[host, port]
        if isinstance(result, Exception):
            lookup.set_exception(result)
        else:
            lookup.set_result(result)


# Separate limits: lookups that hang in one group never delay another one.
tool_resolver = SystemResolver(16)  # requests of tools
hall_resolver = SystemResolver(4)  # requests of the hall itself, such as logins
server_resolver = SystemResolver(8)  # addresses of tool servers


async def resolve_allowed(host: str, port: int, allowlist: EgressAllowlist, resolve: Resolver) -> Sequence[IpAddress]:
    """All addresses of a host, each checked; one forbidden address refuses the host, because any may be tried.

    Raises EgressRefused for a forbidden address, NameNotFound for a name without addresses.
    """
    address = parse_address(host)
    try:
        addresses = await resolve(host, port) if address is None else [address]
    except OSError:
        raise NameNotFound(f"{host} cannot be resolved") from None
    for each in addresses:
        reason = allowlist.refusal_reason(host, port, each)
        if reason is not None:
            raise address_refused(host, port, reason, each)
    return addresses


async def connect_first(
    addresses: Sequence[IpAddress],
    connect: Callable[[str], Awaitable[T]],
    errors: tuple[type[Exception], ...] = (OSError,),
) -> T:
    """Connect to the first address that accepts, of at most MAX_ADDRESSES_TRIED; else raise the last error."""
    candidates = addresses[:MAX_ADDRESSES_TRIED]
    retryable: tuple[type[Exception], ...] = (TimeoutError, *errors)
    for number, address in enumerate(candidates, start=1):
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS if number < len(candidates) else None):
                return await connect(str(address))
        except retryable:
            if number == len(candidates):
                raise
    raise NameNotFound("the name has no address")


def _default_ssl_context() -> ssl.SSLContext:
    from toolhall.egress.transport import default_ssl_context  # lazy: httpx2; most tool servers are on this machine

    return default_ssl_context()


class Dialer:
    """Connects an asyncio protocol to the host of a URL, with the same checks as EgressClient; no proxies.

    Used for tool servers, which need a raw connection and no HTTP client.
    """

    def __init__(
        self,
        allowlist: EgressAllowlist,
        resolve: Resolver = server_resolver,
        ssl_context_factory: Callable[[], ssl.SSLContext] = _default_ssl_context,
        *,
        allow_plain: bool = False,
    ) -> None:
        self._allow_plain = allow_plain  # http to other machines, see parse_url
        self._allowlist = allowlist
        self._resolve = resolve
        self._ssl_context_factory = ssl_context_factory

    def with_address(self, address: IpAddress) -> "Dialer":
        """A copy that also allows one address: a tool server may be at the address that it joined from."""
        return Dialer(self._allowlist.with_address(address), self._resolve, self._ssl_context_factory)

    def parse(self, url: str) -> Url:
        """Parse and check a URL; the addresses of its host are checked by `connect`. Raises EgressRefused."""
        return parse_url(url, self._allowlist, allow_plain=self._allow_plain)

    async def connect(self, url: Url, protocol_factory: Callable[[], P]) -> P:
        """Open a connection; raises EgressRefused, EgressFailed, or OSError (also for an untrusted certificate)."""
        loop = asyncio.get_running_loop()
        ssl_context = await asyncio.to_thread(self._ssl_context_factory) if url.scheme == "https" else None
        server_hostname = None if ssl_context is None else url.host

        async def connect(address: str) -> P:
            _, protocol = await loop.create_connection(
                protocol_factory, address, url.port, ssl=ssl_context, server_hostname=server_hostname
            )
            return protocol

        addresses = await resolve_allowed(url.host, url.port, self._allowlist, self._resolve)
        return await connect_first(addresses, connect)
