"""A store that is made with its first change: a hall that nothing was ever registered with need not wait for it."""

import asyncio
from collections.abc import Callable, Sequence

from toolhall.stores.base import Event, Kept, Stale, ToolStore
from toolhall.stores.lock import Lock


class Later:
    """Empty until then; the lock on the folder is held from the start."""

    def __init__(self, make: Callable[[Lock], ToolStore], lock: Lock) -> None:
        self._make = make
        self._lock = lock
        self._store: ToolStore | None = None

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        return () if self._store is None else await self._store.all()

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        return () if self._store is None else await self._store.history(tool, limit)

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        if self._store is None:
            self._store = await asyncio.to_thread(self._make, self._lock)
        return await self._store.save(kept, events)

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        """Remove all or none; raises Stale."""
        if self._store is None:
            raise Stale([each.id for each in kept])
        await self._store.remove(kept, events)

    def close(self) -> None:
        """Finish what is being written, then let another process have the folder."""
        if self._store is None:
            self._lock.release()
        else:
            self._store.close()
