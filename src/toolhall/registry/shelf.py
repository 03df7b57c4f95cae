"""Definitions that were registered from outside and that nothing runs yet: known, but not active."""

from toolhall.model.tool import Tool
from toolhall.registry.registry import Conflict

MAX_KEPT = 10_000


class Shelf:
    """By toolkit and version; the same pair twice is refused, as is one that is served already."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[Tool, ...]] = {}

    def put(self, tools: tuple[Tool, ...]) -> None:
        """Keep the tools of a validated definition."""
        key = (tools[0].id.toolkit, tools[0].id.version)
        if key in self._kept:
            raise Conflict(f"{key[0]} {key[1]} is registered already; raise its version")
        if len(self._kept) >= MAX_KEPT:
            raise Conflict(f"{MAX_KEPT} definitions are registered; remove some first")
        self._kept[key] = tools

    def remove(self, toolkit: str, version: str | None = None) -> int:
        """Forget a toolkit, or one version of it; how many were forgotten."""
        found = [key for key in self._kept if key[0] == toolkit and version in (None, key[1])]
        for key in found:
            del self._kept[key]
        return len(found)

    def holds(self, toolkit: str, tool: str | None = None) -> bool:
        """Whether a toolkit (with this tool) was registered."""
        return any(
            key[0] == toolkit and (tool is None or any(each.id.tool == tool for each in tools))
            for key, tools in self._kept.items()
        )

    @property
    def toolkits(self) -> list[tuple[Tool, ...]]:
        """Every definition's tools, in the order they came."""
        return list(self._kept.values())
