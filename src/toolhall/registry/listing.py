"""Shortlist and ListedTools: which tools MCP clients are shown, and which version each published name means."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from toolhall.model.names import SEARCH_TOOL
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Entry, Snapshot, ToolPages, tool_key

_log = logging.getLogger("toolhall.registry")


class Shortlist:
    """Every tool in its newest version, unless some are pinned, or clients search.

    A pin with a version or a range (`Kit.tool@^1`) decides which version the published name means; of several the first
    that there is. For clients that search, the list holds the tool that finds tools, and what is pinned; the others are
    called all the same.
    """

    def __init__(self, pinned: Iterable[str] = (), *, search: bool = False) -> None:
        # A tool that calls itself a newer version of the search must not take its place.
        self.pins = (*([str(SEARCH_TOOL)] if search else []), *pinned)
        self._search = search
        self._warned: set[str] = set()
        self._cached: ListedTools | None = None

    def for_snapshot(self, snapshot: Snapshot) -> "ListedTools":
        """What is shown of a snapshot, made once."""
        made = self._cached
        if made is None or made.snapshot is not snapshot:
            made = self._cached = self._build(snapshot)
        return made

    def _build(self, snapshot: Snapshot) -> "ListedTools":
        if not self.pins:
            return ListedTools(snapshot, snapshot)
        found = [(pin, entry) for pin in self.pins if (entry := snapshot.find(pin))]
        if snapshot.entries:
            self._warn_missing_pins({pin for pin, _ in found})
        meant: dict[str, Entry] = {}
        for pin, entry in found:
            if pin not in (entry.tool.name, tool_key(entry.tool)):  # else it names no version
                meant.setdefault(tool_key(entry.tool), entry)
        other = {key: entry for key, entry in meant.items() if snapshot.resolve(key, None) is not entry}
        keys = {tool_key(entry.tool) for _, entry in found} if self._search else None
        return ListedTools(snapshot, snapshot.with_preferred(other), keys)

    def _warn_missing_pins(self, found: set[str]) -> None:
        """Once for each: a tool may come later, but a name that was misspelled never will."""
        for pin in self.pins:
            if pin not in found and pin not in self._warned:
                self._warned.add(pin)
                _log.warning("the pin %r fits no tool that is there; check its name and version", pin)


class ListedTools:
    """The lists that are shown of one snapshot."""

    def __init__(self, snapshot: Snapshot, names: Snapshot, keys: set[str] | None = None) -> None:
        """`names` finds what a published name means; `keys` are the tools that are listed, if not all are."""
        self.snapshot = snapshot
        self.names = names
        self._keys = keys
        self._by_name: dict[bool, dict[str, Tool]] = {}
        self._pages: dict[bool, ToolPages] = {} if keys is not None else {False: names.pages}

    def tools_by_name(self, *, versions: bool = False) -> dict[str, Tool]:
        """The listed tools by the names they are listed under: with `versions` all of them, the others by their id."""
        if versions not in self._by_name:
            entries = self.names.entries if versions else self.names.listed
            listed = (entry for entry in entries if self._keys is None or tool_key(entry.tool) in self._keys)
            self._by_name[versions] = {self._name(entry): entry.tool for entry in listed}
        return self._by_name[versions]

    def pages(self, *, versions: bool = False) -> ToolPages:
        """The same in pages, for callers who see everything."""
        if versions not in self._pages:
            self._pages[versions] = self._to_pages(self.tools_by_name(versions=versions), shared=True)
        return self._pages[versions]

    def pages_for(self, can_see: Callable[[Tool], bool], *, versions: bool = False) -> ToolPages:
        """The part that one caller may see.

        A version that is hidden takes its name with it: a call by that name would not reach another one.
        """
        return self._to_pages(
            {name: tool for name, tool in self.tools_by_name(versions=versions).items() if can_see(tool)}
        )

    def _name(self, entry: Entry) -> str:
        return entry.tool.name if self.names.resolve(tool_key(entry.tool), None) is entry else entry.id

    def _to_pages(self, named: dict[str, Tool], *, shared: bool = False) -> ToolPages:
        tools = (with_listed_name(name, tool) for name, tool in named.items())
        return ToolPages(tools, self.names.page_size, shared=shared)


def with_listed_name(name: str, tool: Tool) -> Tool:
    """A tool under the name it is listed by."""
    return tool if tool.name == name else msgspec.structs.replace(tool, name=name)
