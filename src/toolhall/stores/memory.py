"""Registered tools in memory: for halls without a data folder, and the oracle that every other engine must equal."""

from collections.abc import Sequence

import msgspec

from toolhall.stores.base import Event, Kept, in_order, is_of, refuse_new, refuse_stale, refuse_unstorable


class MemoryStore:
    """Keeps everything until the process ends."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self._events: list[bytes] = []  # encoded, so that nobody can change one
        self._serial = 0

    async def all(self) -> tuple[Kept, ...]:
        """Everything that is kept, what was registered first first."""
        return in_order(self._kept.values())

    async def save(self, kept: Sequence[Kept], events: Sequence[Event]) -> tuple[Kept, ...]:
        """Add what is NEW and replace the rest, all or none, and return it with its serials; raises Stale."""
        self._begin(kept, events)
        saved = tuple(msgspec.structs.replace(each, serial=self._serial, sound=True) for each in kept)
        self._kept |= {each.id: each for each in saved}
        return saved

    async def remove(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        """Remove all or none; raises Stale."""
        refuse_new(kept)
        self._begin(kept, events)
        for each in kept:
            del self._kept[each.id]

    async def history(self, tool: str | None = None, limit: int = 100) -> tuple[Event, ...]:
        """The newest events first: of one tool id, of all versions of a `Toolkit.tool`, or of everything."""
        newest = (msgspec.json.decode(line, type=Event) for line in reversed(self._events))
        return tuple(each for each in newest if tool is None or is_of(each, tool))[: max(limit, 0)]

    def _begin(self, kept: Sequence[Kept], events: Sequence[Event]) -> None:
        refuse_unstorable(kept, events)
        refuse_stale(kept, {each.id: each.serial for each in self._kept.values()})
        self._serial += 1
        self._events += [msgspec.json.encode(each) for each in events]
