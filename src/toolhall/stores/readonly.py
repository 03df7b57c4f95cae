"""A store that is only read here, because another process writes to it."""

from collections.abc import Sequence

from toolhall.stores.base import Event, Kept, StoreFailed, ToolReader

_REFUSAL = "another process writes to this store; ask that one"


class ReadOnly:
    """Reads like the one it is made from; every change is refused."""

    def __init__(self, reader: ToolReader) -> None:
        self._reader = reader

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        return await self._reader.all()

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        return await self._reader.history(tool, limit)

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:  # noqa: ARG002 - refused
        """Refused."""
        raise StoreFailed(_REFUSAL)

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:  # noqa: ARG002 - refused
        """Refused."""
        raise StoreFailed(_REFUSAL)

    def close(self) -> None:
        """Nothing can be asked afterwards."""
        self._reader.close()
