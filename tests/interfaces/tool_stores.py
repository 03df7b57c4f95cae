"""The registered tools of a folder, closed together with their file."""

from collections.abc import Sequence
from pathlib import Path

from toolhall.stores import sqlite
from toolhall.stores.bundle import Stores
from toolhall.stores.tools import ToolEvent, ToolRecord


class ClosableToolStore:
    """One of the stores of a file, for tests that need no other."""

    def __init__(self, stores: Stores) -> None:
        self._tools = stores.tools
        self.close = stores.close

    async def all(self) -> tuple[ToolRecord, ...]:
        return await self._tools.all()

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[ToolEvent, ...]:
        return await self._tools.history(tool, limit)

    async def save(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> tuple[ToolRecord, ...]:
        return await self._tools.save(records, events)

    async def remove(self, records: Sequence[ToolRecord], events: Sequence[ToolEvent]) -> None:
        await self._tools.remove(records, events)


def open_store(folder: Path) -> ClosableToolStore:
    """To read and write."""
    return ClosableToolStore(sqlite.open_sqlite(folder))


def open_readonly(folder: Path) -> ClosableToolStore:
    """To read."""
    return ClosableToolStore(sqlite.open_readonly(folder))
