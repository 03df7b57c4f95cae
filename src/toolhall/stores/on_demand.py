"""A store that is made with its first change: a hall that nothing was ever registered with need not wait for it."""

import asyncio
from collections.abc import Callable, Sequence

from toolhall.stores.base import Event, Kept, Stale, ToolStore
from toolhall.stores.lock import Lock


class OnDemand:
    """Empty until then; the lock on the folder is held from the start."""

    def __init__(self, make: Callable[[Lock], ToolStore], lock: Lock) -> None:
        self._make = make
        self._lock = lock
        self._making: asyncio.Task[ToolStore] | None = None
        self._store: ToolStore | None = None
        self._closed = False

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        return () if self._store is None else await self._store.all()

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        return () if self._store is None else await self._store.history(tool, limit)

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        store = self._store or await self._made()
        return await store.save(kept, events)

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        """Remove all or none; raises Stale."""
        if self._store is None:
            raise Stale([each.id for each in kept])
        await self._store.remove(kept, events)

    def close(self) -> None:
        """Finish what is being written, then let another process have the folder."""
        self._closed = True
        if self._store is not None:
            self._store.close()
        elif self._making is None:
            self._lock.release()

    async def _made(self) -> ToolStore:
        """Make it once, whoever waits for that, and whether anybody still does."""
        if self._making is None:
            self._making = asyncio.ensure_future(asyncio.to_thread(self._make, self._lock))
            self._making.add_done_callback(self._take)
        return await asyncio.shield(self._making)

    def _take(self, making: "asyncio.Task[ToolStore]") -> None:
        self._making = None
        if making.cancelled() or making.exception() is not None:
            if self._closed:
                self._lock.release()
            return  # whoever waits hears of it, and the next change tries again
        self._store = making.result()
        if self._closed:
            self._store.close()
