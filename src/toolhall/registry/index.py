"""Tools by a dialect's own key, versions newest first; made anew when the snapshot changes."""

from collections.abc import Callable, Hashable

from toolhall.model.tool import Tool
from toolhall.model.versions import precedence, wanted
from toolhall.registry.entry import Entry
from toolhall.registry.snapshot import Snapshot


class Index:
    """Finds the newest version, or the one that is asked for, of what a dialect calls by its own key."""

    def __init__(self, key: Callable[[Tool], Hashable]) -> None:
        self._key = key
        self._snapshot: Snapshot | None = None
        self._found: dict[Hashable, list[Entry]] = {}

    def find(self, snapshot: Snapshot, key: Hashable, version: str | None = None) -> Entry | None:
        """The newest release, or the newest of the versions asked for (`1.2.0`, `^1.2`, `~1.2`, `1`)."""
        if snapshot is not self._snapshot:
            self._build(snapshot)
        entries = self._found.get(key, [])
        if version is None:
            return entries[0] if entries else None
        asked = wanted(version)
        return next((entry for entry in entries if asked.accepts(entry.tool.id.version)), None)

    def _build(self, snapshot: Snapshot) -> None:
        found: dict[Hashable, list[Entry]] = {}
        for entry in snapshot.entries:
            found.setdefault(self._key(entry.tool), []).append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
        self._found, self._snapshot = found, snapshot
