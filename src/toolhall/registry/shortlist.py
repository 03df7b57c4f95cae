"""What MCP clients are shown: which tools, and which version of each goes by the published name."""

import logging
from collections.abc import Callable, Iterable

import msgspec

from toolhall.model.names import SEARCH_TOOL
from toolhall.model.tool import Tool
from toolhall.registry.entry import Entry
from toolhall.registry.names import key_of
from toolhall.registry.pages import Pages
from toolhall.registry.snapshot import Snapshot

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
        self._missed: set[str] = set()
        self._made: Shown | None = None

    def of(self, snapshot: Snapshot) -> "Shown":
        """What is shown of a snapshot, made once."""
        made = self._made
        if made is None or made.snapshot is not snapshot:
            made = self._made = self._shown(snapshot)
        return made

    def _shown(self, snapshot: Snapshot) -> "Shown":
        if not self.pins:
            return Shown(snapshot, snapshot)
        found = [(pin, entry) for pin in self.pins if (entry := snapshot.find(pin))]
        if snapshot.entries:
            self._say_missing({pin for pin, _ in found})
        meant: dict[str, Entry] = {}
        for pin, entry in found:
            if pin not in (entry.tool.name, key_of(entry.tool)):  # else it names no version
                meant.setdefault(key_of(entry.tool), entry)
        other = {key: entry for key, entry in meant.items() if snapshot.choose(key, None) is not entry}
        keys = {key_of(entry.tool) for _, entry in found} if self._search else None
        return Shown(snapshot, snapshot.meaning(other), keys)

    def _say_missing(self, found: set[str]) -> None:
        """Once for each: a tool may come later, but a name that was misspelled never will."""
        for pin in self.pins:
            if pin not in found and pin not in self._missed:
                self._missed.add(pin)
                _log.warning("the pin %r fits no tool that is there; check its name and version", pin)


class Shown:
    """The lists that are shown of one snapshot."""

    def __init__(self, snapshot: Snapshot, names: Snapshot, keys: set[str] | None = None) -> None:
        """`names` finds what a published name means; `keys` are the tools that are listed, if not all are."""
        self.snapshot = snapshot
        self.names = names
        self._keys = keys
        self._named: dict[bool, dict[str, Tool]] = {}
        self._pages: dict[bool, Pages] = {} if keys is not None else {False: names.pages}

    def named(self, *, versions: bool = False) -> dict[str, Tool]:
        """The listed tools by the names they are listed under: with `versions` all of them, the others by their id."""
        if versions not in self._named:
            entries = self.names.entries if versions else self.names.listed
            listed = (entry for entry in entries if self._keys is None or key_of(entry.tool) in self._keys)
            self._named[versions] = {self._name(entry): entry.tool for entry in listed}
        return self._named[versions]

    def pages(self, *, versions: bool = False) -> Pages:
        """The same in pages, for callers who see everything."""
        if versions not in self._pages:
            self._pages[versions] = self._paged(self.named(versions=versions), shared=True)
        return self._pages[versions]

    def pages_of(self, sees: Callable[[Tool], bool], *, versions: bool = False) -> Pages:
        """The part that one caller may see.

        A version that is hidden takes its name with it: a call by that name would not reach another one.
        """
        return self._paged({name: tool for name, tool in self.named(versions=versions).items() if sees(tool)})

    def _name(self, entry: Entry) -> str:
        return entry.tool.name if self.names.choose(key_of(entry.tool), None) is entry else entry.id

    def _paged(self, named: dict[str, Tool], *, shared: bool = False) -> Pages:
        tools = (listed_as(name, tool) for name, tool in named.items())
        return Pages(tools, self.names.page_size, shared=shared)


def listed_as(name: str, tool: Tool) -> Tool:
    """A tool under the name it is listed by."""
    return tool if tool.name == name else msgspec.structs.replace(tool, name=name)
