"""Registered tools in SQL."""

from collections.abc import Sequence

from toolhall.stores.base import Event, Kept
from toolhall.stores.macs import Macs
from toolhall.stores.sql import statements
from toolhall.stores.sql.database import Database


class SqlTools:
    """The store of registered tools."""

    def __init__(self, database: Database, macs: Macs) -> None:
        self._database = database
        self._macs = macs

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        return await self._database.run(statements.read_all, self._macs)

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        return await self._database.run(statements.read_history, tool, limit)

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        return await self._database.run(statements.save, tuple(kept), tuple(events), self._macs)

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        """Remove all or none; raises Stale."""
        await self._database.run(statements.remove, tuple(kept), tuple(events))
