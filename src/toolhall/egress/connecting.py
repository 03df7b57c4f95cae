"""Connects to the addresses that were judged, and to nothing that a name may lead to a moment later."""

import asyncio
from collections.abc import Iterable
from typing import cast

import httpcore2

from toolhall.egress.addresses import Allowed
from toolhall.egress.dialing import Nowhere, first, judged
from toolhall.egress.errors import EgressRefused
from toolhall.egress.resolving import Resolver

_FAILURES = (httpcore2.ConnectError, httpcore2.ConnectTimeout)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Below TLS: the name stays what the certificate is checked against and what the other side is told."""

    def __init__(self, allowed: Allowed, resolve: Resolver) -> None:
        self._allowed = allowed
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
                found = await judged(host, port, self._allowed, self._resolve)
                return await first(found, lambda address: self._network.connect_tcp(address, port), _FAILURES)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("no connection in time") from None
        except Nowhere as error:
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
