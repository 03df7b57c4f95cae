"""Shortlist and ListedTools: which tools MCP clients are shown, and which version each published name means."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from toolhall.model.names import SEARCH_TOOL
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Entry, Snapshot, ToolPages, tool_key

_log = logging.getLogger("toolhall.registry")


class Shortlist:
    """Chooses the listed tools: every tool in its newest version, unless tools are pinned or `search` is set.

    A pin with a version or range (`Kit.tool@^1`) decides which version the published name means; of several pins, the
    first that matches. With `search`, only the search tool and pinned tools are listed; all others can be called still.
    """

    def __init__(self, pinned: Iterable[str] = (), *, search: bool = False) -> None:
        # Pinned by version: a tool that claims to be a newer version of the search tool must not replace it.
        self.pins = (*([str(SEARCH_TOOL)] if search else []), *pinned)
        self._search = search
        self._warned: set[str] = set()
        self._cached: ListedTools | None = None

    def for_snapshot(self, snapshot: Snapshot) -> "ListedTools":
        """Return the listed tools of a snapshot; cached for the latest one."""
        cached = self._cached
        if cached is None or cached.snapshot is not snapshot:
            cached = self._cached = self._build(snapshot)
        return cached

    def _build(self, snapshot: Snapshot) -> "ListedTools":
        if not self.pins:
            return ListedTools(snapshot, snapshot)
        found = [(pin, entry) for pin in self.pins if (entry := snapshot.find(pin))]
        if snapshot.entries:
            self._warn_missing_pins({pin for pin, _ in found})
        preferred: dict[str, Entry] = {}
        for pin, entry in found:
            if pin not in (entry.tool.name, tool_key(entry.tool)):  # otherwise the pin names no version
                preferred.setdefault(tool_key(entry.tool), entry)
        other = {key: entry for key, entry in preferred.items() if snapshot.resolve(key, None) is not entry}
        keys = {tool_key(entry.tool) for _, entry in found} if self._search else None
        return ListedTools(snapshot, snapshot.with_preferred(other), keys)

    def _warn_missing_pins(self, found: set[str]) -> None:
        """Warn once about each pin that matches no tool: it may be misspelled."""
        for pin in self.pins:
            if pin not in found and pin not in self._warned:
                self._warned.add(pin)
                _log.warning("the pin %r matches no tool; check its name and version", pin)


class ListedTools:
    """The lists of one snapshot, whole or per caller."""

    def __init__(self, snapshot: Snapshot, names: Snapshot, keys: set[str] | None = None) -> None:
        """`names` resolves published names; `keys` are the listed tools (`Toolkit.tool`), None for all."""
        self.snapshot = snapshot
        self.names = names
        self._keys = keys
        self._by_name: dict[bool, dict[str, Tool]] = {}
        self._pages: dict[bool, ToolPages] = {} if keys is not None else {False: names.pages}

    def tools_by_name(self, *, versions: bool = False) -> dict[str, Tool]:
        """Return the listed tools by listed name; with `versions` all versions, the not preferred ones by id."""
        if versions not in self._by_name:
            entries = self.names.entries if versions else self.names.listed
            listed = (entry for entry in entries if self._keys is None or tool_key(entry.tool) in self._keys)
            self._by_name[versions] = {self._name(entry): entry.tool for entry in listed}
        return self._by_name[versions]

    def pages(self, *, versions: bool = False) -> ToolPages:
        """Return the pages for callers that may see every tool; cached."""
        if versions not in self._pages:
            self._pages[versions] = self._to_pages(self.tools_by_name(versions=versions), shared=True)
        return self._pages[versions]

    def pages_for(self, can_see: Callable[[Tool], bool], *, versions: bool = False) -> ToolPages:
        """Return the pages for a caller that may not see every tool.

        If the preferred version is hidden, its published name is not listed: it would not reach another version.
        """
        return self._to_pages(
            {name: tool for name, tool in self.tools_by_name(versions=versions).items() if can_see(tool)}
        )

    def _name(self, entry: Entry) -> str:
        return entry.tool.name if self.names.resolve(tool_key(entry.tool), None) is entry else entry.id

    def _to_pages(self, by_name: dict[str, Tool], *, shared: bool = False) -> ToolPages:
        tools = (with_listed_name(name, tool) for name, tool in by_name.items())
        return ToolPages(tools, self.names.page_size, shared=shared)


def with_listed_name(name: str, tool: Tool) -> Tool:
    """Return the tool under its listed name."""
    return tool if tool.name == name else msgspec.structs.replace(tool, name=name)
