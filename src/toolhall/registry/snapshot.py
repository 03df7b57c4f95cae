"""All tools at one moment: found by name and version, the newest listed in pages, never changed."""

import base64
import binascii
from collections.abc import Callable, Iterable

from toolhall.model.errors import Malformed
from toolhall.model.exchange import Page
from toolhall.model.tool import Tool
from toolhall.model.versions import precedence, wanted
from toolhall.registry.entry import Entry


class Snapshot:
    """Immutable; a change to the registry makes a new one."""

    def __init__(self, entries: Iterable[Entry], page_size: int, *, shared: bool = True) -> None:
        self.entries = tuple(entries)
        self._page_size = page_size
        self._shared = shared
        self._versions = _by_key(self.entries)
        newest = {id(versions[0]) for versions in self._versions.values()}
        self.listed = tuple(entry for entry in self.entries if id(entry) in newest)
        self._by_name = {entry.tool.name: entry for entry in self.listed}
        self._by_name |= {entry.id: entry for entry in self.entries}
        self._positions = {entry.tool.name: position for position, entry in enumerate(self.listed)}
        self.repeats_in_headers = any(entry.tool.header_parameters for entry in self.entries)
        self.encoded: dict[str, bytes] = {}  # whole listings, as dialects without pages write them once
        self._pages: dict[int, Page] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every version of every tool, in order."""
        return tuple(entry.tool for entry in self.entries)

    def find(self, name: str) -> Entry | None:
        """By published name (its newest version), by id, or by an id with a range of versions: `Kit.tool@^1.2`."""
        found = self._by_name.get(name)
        if found is None and "." in name:
            key, at, version = name.partition("@")
            found = self.choose(key, version if at else None)
        return found

    def choose(self, key: str, version: str | None) -> Entry | None:
        """The newest version of `Toolkit.tool` that a caller means."""
        versions = self._versions.get(key, ())
        asked = wanted(version)
        if version is None:
            return versions[0] if versions else None
        return next((entry for entry in versions if asked.accepts(entry.tool.id.version)), None)

    def only(self, keep: Callable[[Tool], bool]) -> "Snapshot":
        """The part of it that one caller may see."""
        return Snapshot((entry for entry in self.entries if keep(entry.tool)), self._page_size, shared=False)

    def page(self, cursor: str | None) -> Page:
        """The page that a cursor points to; pages are made once per snapshot."""
        start = self._start(cursor) if cursor else 0
        page = self._pages.get(start)
        if page is None:
            # Cursors may be forged; only a page boundary is worth remembering.
            page = self._make_page(start)
            if start % self._page_size == 0:
                self._pages[start] = page
        return page

    def _make_page(self, start: int) -> Page:
        end = start + self._page_size
        chosen = tuple(entry.tool for entry in self.listed[start:end])
        more = end < len(self.listed)
        return Page(chosen, _cursor(end - 1, chosen[-1].name) if more else None, self._shared)

    def _start(self, cursor: str) -> int:
        """Continue after the tool the cursor names; if that is gone, with the one that took its position."""
        try:
            position, _, last = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            known = self._positions.get(last)
            start = int(position) if known is None else known + 1
        except (ValueError, binascii.Error):
            raise Malformed("unknown cursor: send the nextCursor of the page before, or none") from None
        return max(0, min(start, len(self.listed)))


def _by_key(entries: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """The versions of each tool, newest first."""
    versions: dict[str, list[Entry]] = {}
    for entry in entries:
        versions.setdefault(entry.id.partition("@")[0], []).append(entry)
    for several in versions.values():
        if len(several) > 1:
            several.sort(key=lambda entry: precedence(entry.tool.id.version), reverse=True)
    return versions


def _cursor(position: int, last: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{last}".encode()).decode()
