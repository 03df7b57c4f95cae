"""One change of a hall at a time, finished once it was begun, refused where nothing may be changed."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from toolhall.model.errors import Denied, Unavailable
from toolhall.stores.base import Stale, StoreFailed

_T = TypeVar("_T")


class Turns:
    """Shared by what is changed together: the tools of a hall, or its keys and grants."""

    def __init__(self) -> None:
        self._changing = asyncio.Lock()
        self.frozen: str | None = None  # why nothing may be changed now

    async def alone(self, change: Coroutine[Any, Any, _T]) -> _T:
        """One change at a time; it is finished even if nobody waits for it any more."""

        async def run() -> _T:
            async with self._changing:
                return await change

        if self.frozen is not None:
            change.close()
            raise Denied(self.frozen)
        try:
            return await asyncio.shield(asyncio.ensure_future(run()))
        except (StoreFailed, Stale) as failed:
            raise unstored(failed) from None


def unstored(failed: Exception) -> Unavailable:
    """The hall's fault, not the caller's."""
    return Unavailable("the change could not be stored; the server's log says why", detail=str(failed))
