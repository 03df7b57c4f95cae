"""Tools that are known and not served: why a call that finds nothing finds nothing."""

import msgspec

from toolhall.model.tool import Tool
from toolhall.model.versions import precedence, wanted

RETIRED = "retired"  # its last day is over
UNSERVED = "not served"  # it is active, but nothing here brings it


class Reason(msgspec.Struct, frozen=True):
    """A tool that is held back, and the state that it is in."""

    tool: Tool
    state: str


class Withheld:
    """By id, by name and by range of versions, as calls ask for tools."""

    def __init__(self) -> None:
        self._by_id: dict[str, Reason] = {}
        self._by_name: dict[str, dict[str, Reason]] = {}  # key or published name; then version

    def put(self, tool: Tool, state: str) -> None:
        """From now on this tool is held back in this state."""
        reason = self._by_id[str(tool.id)] = Reason(tool, state)
        for name in _names(tool):
            self._by_name.setdefault(name, {})[tool.id.version] = reason

    def drop(self, tool_id: str) -> None:
        """It is served, or gone."""
        reason = self._by_id.pop(tool_id, None)
        if reason is None:
            return
        for name in _names(reason.tool):
            versions = self._by_name[name]
            del versions[reason.tool.id.version]
            if not versions:
                del self._by_name[name]

    def find(self, name: str) -> Reason | None:
        """What a call by this name would have reached."""
        if name in self._by_id:
            return self._by_id[name]
        # A toolkit may have an @ of its own.
        key, _, version = (name, "", "") if name in self._by_name else name.rpartition("@")
        asked = wanted(version or None)
        fitting = {each: reason for each, reason in self._by_name.get(key, {}).items() if asked.accepts(each)}
        return fitting[max(fitting, key=precedence)] if fitting else None


def _names(tool: Tool) -> set[str]:
    return {f"{tool.id.toolkit}.{tool.id.tool}", tool.name}
