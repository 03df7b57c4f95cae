"""LazyEgressClient creates the egress HTTP client when it is first used, because importing httpx2 is slow."""

import asyncio
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from toolhall.egress.addresses import EgressAllowlist

if TYPE_CHECKING:
    import httpx2

    from toolhall.egress.client import EgressClient, EgressResponse


class LazyEgressClient(msgspec.Struct, frozen=True, dict=True):
    """The way out of the hall: every request is checked; `allow` are private hosts that its operator opened."""

    allow: tuple[str, ...] = ()
    for_hall: bool = False  # for the hall's own requests, not for those of tools

    @cached_property
    def egress_client(self) -> "EgressClient":
        """The client, created on first use: most tools make no request, and importing httpx2 is slow."""
        from toolhall.egress.client import EgressClient  # lazy: httpx2

        make = EgressClient.for_hall if self.for_hall else EgressClient
        return make(EgressAllowlist(self.allow))

    async def preload(self) -> None:
        """Import it now, and in a thread, so that the first request does not hold up the loop."""
        await asyncio.to_thread(_import_client)

    def http_client(self, **options: Any) -> "httpx2.AsyncClient":
        """An HTTP client that reaches public addresses only, follows no redirect and reads no proxy settings."""
        return self.egress_client.http_client(**options)

    async def fetch(self, method: str, url: str, **options: Any) -> "EgressResponse":
        """One request and its whole reply, through the same door."""
        return await self.egress_client.fetch(method, url, **options)


def _import_client() -> None:
    import toolhall.egress.client  # noqa: F401 # lazy: httpx2
