"""The way out of the hall before anybody goes it: the door behind it is made when it is first needed."""

import asyncio
import importlib
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import httpx2

    from toolhall.egress.door import Door, Reply

_DOOR = "toolhall.egress.door"


class Outside(msgspec.Struct, frozen=True, dict=True):
    """The way out of the hall: every request is checked; `allow` are private hosts that its operator opened."""

    allow: tuple[str, ...] = ()
    of_hall: bool = False  # for the hall's own requests, not for those of tools

    @cached_property
    def door(self) -> "Door":
        """Made when it is first needed: an HTTP client takes long to import, and most tools need none."""
        module = importlib.import_module(_DOOR)
        make: Callable[[object], Door] = module.Door.of_hall if self.of_hall else module.Door
        return make(module.Allowed(self.allow))

    async def ready(self) -> None:
        """Import it now, and in a thread, so that the first request does not hold up the loop."""
        await asyncio.to_thread(importlib.import_module, _DOOR)

    def client(self, **options: Any) -> "httpx2.AsyncClient":
        """An HTTP client that reaches public addresses only, follows no redirect and reads no proxy settings."""
        return self.door.client(**options)

    async def fetch(self, method: str, url: str, **options: Any) -> "Reply":
        """One request and its whole reply, through the same door."""
        return await self.door.fetch(method, url, **options)
