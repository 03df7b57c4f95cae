"""All tools at one moment: found by name and version, the newest listed in pages, never changed."""

from collections.abc import Callable, Iterable, Mapping

from toolhall.model.exchange import Page
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence, wanted
from toolhall.registry.entry import Entry
from toolhall.registry.names import key_of
from toolhall.registry.pages import Pages

_NEWEST: Mapping[str, Entry] = {}


class Snapshot:
    """Immutable; a change to the registry makes a new one."""

    def __init__(
        self,
        entries: Iterable[Entry],
        page_size: int,
        *,
        shared: bool = True,
        meant: Mapping[str, Entry] = _NEWEST,
        names: Mapping[str, Entry] | None = None,
    ) -> None:
        """`meant` says of some tools (by `Toolkit.tool`) which version is listed, if not the newest; `names` of all."""
        self.entries = tuple(entries)
        self.page_size = page_size
        self._versions = _by_key(self.entries)
        newest = {key: versions[0] for key, versions in self._versions.items()} if names is None else names
        self._meant = {**newest, **meant}
        chosen = set(map(id, self._meant.values()))
        self.listed = tuple(entry for entry in self.entries if id(entry) in chosen)
        self._by_name = {entry.tool.name: entry for entry in self.listed}
        self._by_name |= {entry.id: entry for entry in self.entries}
        self.repeats_in_headers = any(entry.tool.header_parameters for entry in self.entries)
        self.encoded: dict[str, bytes] = {}  # whole listings, as dialects without pages write them once
        self.pages = Pages((entry.tool for entry in self.listed), page_size, shared=shared)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every version of every tool, in order."""
        return tuple(entry.tool for entry in self.entries)

    def find(self, name: str) -> Entry | None:
        """By published name (of the version that is listed), by id, or by an id with a range: `Kit.tool@^1.2`."""
        found = self._by_name.get(name)
        if found is None and "." in name:
            key, _, version = name.rpartition("@")
            found = self.choose(name, None) or (self.choose(key, version) if key else None)
        return found

    def choose(self, key: str, version: str | None) -> Entry | None:
        """The newest version of `Toolkit.tool` that a caller means; of one that asks for none, the listed one."""
        if version is None:
            return self._meant.get(key)
        asked = wanted(version)
        versions = self._versions.get(key, ())
        return next((entry for entry in versions if asked.accepts(entry.tool.id.version)), None)

    def only(self, keep: Callable[[Tool], bool]) -> "Snapshot":
        """The part of it that one caller may see; a hidden version takes its name with it, and no other gets it."""
        entries = [entry for entry in self.entries if keep(entry.tool)]
        kept = set(map(id, entries))
        names = {key: entry for key, entry in self._meant.items() if id(entry) in kept}
        return Snapshot(entries, self.page_size, shared=False, names=names)

    def meaning(self, meant: Mapping[str, Entry]) -> "Snapshot":
        """The same tools; of those named here, another version than the newest goes by the published name."""
        return Snapshot(self.entries, self.page_size, meant=meant) if meant else self

    def page(self, cursor: str | None) -> Page:
        """The page of the list that a cursor points to; pages are made once per snapshot."""
        return self.pages.page(cursor)


def _by_key(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """The versions of each tool, newest first."""
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(key_of(entry.tool), []).append(entry)
    for several in versions.values():
        if len(several) > 1:
            several.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
    return versions
