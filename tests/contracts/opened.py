"""The registered tools of a folder, closed together with their file."""

from collections.abc import Sequence
from pathlib import Path

from toolhall.stores.base import Event, Kept
from toolhall.stores.bundle import Stores
from toolhall.stores.sqlite import opening


class OpenTools:
    """One of the stores of a file, for tests that need no other."""

    def __init__(self, stores: Stores) -> None:
        self._tools = stores.tools
        self.close = stores.close

    async def all(self) -> tuple[Kept, ...]:
        return await self._tools.all()

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        return await self._tools.history(tool, limit)

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        return await self._tools.save(kept, events)

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        await self._tools.remove(kept, events)


def open_store(folder: Path) -> OpenTools:
    """To read and write."""
    return OpenTools(opening.open_stores(folder))


def open_readonly(folder: Path) -> OpenTools:
    """To read."""
    return OpenTools(opening.open_readonly(folder))
