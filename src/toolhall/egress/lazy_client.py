"""LazyEgressClient creates the EgressClient when it is first used, because importing httpx2 is slow."""

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from toolhall.egress.addresses import EgressAllowlist

if TYPE_CHECKING:
    import httpx2

    from toolhall.egress.client import EgressClient, EgressResponse


class LazyEgressClient(msgspec.Struct, frozen=True, dict=True):
    """The settings of an EgressClient, which exists after the first request; most tools make none."""

    allow: tuple[str, ...] = ()  # entries of the EgressAllowlist
    for_hall: bool = False  # for the hall's own requests, not for those of tools

    @cached_property
    def egress_client(self) -> "EgressClient":
        """The client, created on first use."""
        from toolhall.egress.client import EgressClient  # lazy: httpx2

        make = EgressClient.for_hall if self.for_hall else EgressClient
        return make(EgressAllowlist(self.allow))

    async def preload(self) -> None:
        """Import httpx2 now, in a thread, so that the first request does not block the event loop."""
        import asyncio  # lazy: a module that only declares tools runs no loop

        await asyncio.to_thread(_import_client)

    def http_client(self, **options: Any) -> "httpx2.AsyncClient":
        """See EgressClient.http_client."""
        return self.egress_client.http_client(**options)

    async def fetch(self, method: str, url: str, **options: Any) -> "EgressResponse":
        """See EgressClient.fetch."""
        return await self.egress_client.fetch(method, url, **options)


def _import_client() -> None:
    import toolhall.egress.client  # noqa: F401  # pyright: ignore[reportUnusedImport]  # lazy: httpx2
