"""What a client is shown that searches: the tool that finds tools, and those that were pinned."""

from collections.abc import Iterable

from toolhall.model.tool import Tool
from toolhall.registry.search_tool import SEARCH_TOOL
from toolhall.registry.snapshot import Snapshot


class Shortlist:
    """The few tools of a snapshot that are listed; the others are called all the same."""

    def __init__(self, pinned: Iterable[str] = ()) -> None:
        self._pinned = frozenset(pinned)
        self._made: tuple[Snapshot, Snapshot] | None = None

    def of(self, snapshot: Snapshot) -> Snapshot:
        """The part of a snapshot that is listed, made once."""
        if self._made is None or self._made[0] is not snapshot:
            self._made = snapshot, snapshot.only(self._is_listed)
        return self._made[1]

    def _is_listed(self, tool: Tool) -> bool:
        """Pinned by published name, by id, or by an id without its version."""
        names = {tool.name, str(tool.id), f"{tool.id.toolkit}.{tool.id.tool}"}
        return tool.id == SEARCH_TOOL or not names.isdisjoint(self._pinned)
