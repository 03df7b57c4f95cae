"""Connects to the addresses that were judged, and to nothing that a name may lead to a moment later."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import cast

import httpcore2

from toolhall.egress.addresses import Address, Allowed, literal
from toolhall.egress.errors import EgressRefused
from toolhall.egress.resolving import Resolver
from toolhall.egress.urls import closed

MOST_TRIED = 4
ONE_TRY_SECONDS = 2.0  # while there is another address to try


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
                return await self._first(await self._judged(host, port), port)
        except TimeoutError:
            raise httpcore2.ConnectTimeout("no connection in time") from None

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109 - the library's interface
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Never: what listens on this machine's files trusts whoever can reach them."""
        del path, timeout, socket_options
        raise EgressRefused("sockets of this machine are not connected to; use an https URL")

    async def _judged(self, host: str, port: int) -> Sequence[Address]:
        """All addresses of a host; one that is closed closes the host, because any of them may be tried."""
        try:
            address = literal(host)
            found = await self._resolve(host, port) if address is None else [address]
        except OSError:
            raise httpcore2.ConnectError(f"{host} cannot be resolved") from None
        for each in found:
            why = self._allowed.why_not(host, port, each)
            if why is not None:
                raise closed(host, port, why, each)
        return found

    async def _first(self, addresses: Sequence[Address], port: int) -> httpcore2.AsyncNetworkStream:
        tried = addresses[:MOST_TRIED]
        for number, address in enumerate(tried, start=1):
            seconds = ONE_TRY_SECONDS if number < len(tried) else None
            try:
                return await self._network.connect_tcp(str(address), port, timeout=seconds)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                if number == len(tried):
                    raise
        raise httpcore2.ConnectError("the name has no address")
