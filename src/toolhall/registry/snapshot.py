"""All tools at one moment: found by name, listed in pages, never changed."""

import base64
import binascii
from collections.abc import Callable, Iterable

from toolhall.model.errors import Malformed
from toolhall.model.exchange import Page
from toolhall.model.tool import Tool
from toolhall.registry.entry import Entry


class Snapshot:
    """Immutable; a change to the registry makes a new one."""

    def __init__(self, entries: Iterable[Entry], page_size: int, *, shared: bool = True) -> None:
        self.entries = tuple(entries)
        self._page_size = page_size
        self._shared = shared
        self._by_name = {entry.tool.name: entry for entry in self.entries}
        self._by_name |= {entry.id: entry for entry in self.entries}
        self._positions = {entry.tool.name: position for position, entry in enumerate(self.entries)}
        self.repeats_in_headers = any(entry.tool.header_parameters for entry in self.entries)
        self.encoded: dict[str, bytes] = {}  # whole listings, as dialects without pages write them once
        self._pages: dict[int, Page] = {}

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Every tool, in order."""
        return tuple(entry.tool for entry in self.entries)

    def find(self, name: str) -> Entry | None:
        """The tool with this published name or id."""
        return self._by_name.get(name)

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
        chosen = tuple(entry.tool for entry in self.entries[start:end])
        more = end < len(self.entries)
        return Page(chosen, _cursor(end - 1, chosen[-1].name) if more else None, self._shared)

    def _start(self, cursor: str) -> int:
        """Continue after the tool the cursor names; if that is gone, with the one that took its position."""
        try:
            position, _, last = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            known = self._positions.get(last)
            start = int(position) if known is None else known + 1
        except (ValueError, binascii.Error):
            raise Malformed("unknown cursor: send the nextCursor of the page before, or none") from None
        return max(0, min(start, len(self.entries)))


def _cursor(position: int, last: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{last}".encode()).decode()
