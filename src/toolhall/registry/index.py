"""Tools by a dialect's own key, versions newest first; made anew when the snapshot changes."""

import re
from collections.abc import Callable, Hashable

from toolhall.model.tool import Tool
from toolhall.registry.entry import Entry
from toolhall.registry.snapshot import Snapshot


class Index:
    """Finds the newest, or one exact version, of what a dialect calls by its own key."""

    def __init__(self, key: Callable[[Tool], Hashable]) -> None:
        self._key = key
        self._snapshot: Snapshot | None = None
        self._found: dict[Hashable, list[Entry]] = {}

    def find(self, snapshot: Snapshot, key: Hashable, version: str | None = None) -> Entry | None:
        """The newest release, or exactly the version asked for."""
        if snapshot is not self._snapshot:
            self._build(snapshot)
        entries = self._found.get(key, [])
        if version is None:
            return entries[0] if entries else None
        return next((entry for entry in entries if entry.tool.id.version == version), None)

    def _build(self, snapshot: Snapshot) -> None:
        found: dict[Hashable, list[Entry]] = {}
        for entry in snapshot.entries:
            found.setdefault(self._key(entry.tool), []).append(entry)
        for entries in found.values():
            entries.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
        self._found, self._snapshot = found, snapshot


def precedence(version: str) -> tuple[bool, list[int], list[tuple[bool, int, str]]]:
    """Semantic version order, with every pre-release below every release."""
    core, _, mark = version.partition("+")[0].partition("-")
    numbers = [int(part) for part in re.findall(r"\d+", core)]
    marks = [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in mark.split(".")] if mark else []
    return not mark, numbers, marks
