"""A list of tools in pages: each page is made once, and a cursor survives changes of the list."""

import base64
import binascii
from collections.abc import Iterable

from toolhall.model.errors import Malformed
from toolhall.model.exchange import Page
from toolhall.model.tool import Tool


class Pages:
    """Immutable; a changed list is another one. No two of its tools have one name."""

    def __init__(self, tools: Iterable[Tool], size: int, *, shared: bool) -> None:
        self.tools = tuple(tools)
        self._size = size
        self._shared = shared
        self._positions = {tool.name: position for position, tool in enumerate(self.tools)}
        self._made: dict[int, Page] = {}

    def page(self, cursor: str | None) -> Page:
        """The page that a cursor points to; Malformed if it is none of ours."""
        start = self._start(cursor) if cursor else 0
        page = self._made.get(start)
        if page is None:
            # Cursors may be forged; only a page boundary is worth remembering.
            page = self._make(start)
            if start % self._size == 0:
                self._made[start] = page
        return page

    def _make(self, start: int) -> Page:
        end = start + self._size
        chosen = self.tools[start:end]
        more = end < len(self.tools)
        return Page(chosen, _cursor(end - 1, chosen[-1].name) if more else None, self._shared)

    def _start(self, cursor: str) -> int:
        """Continue after the tool the cursor names; if that is gone, with the one that took its position."""
        try:
            position, _, last = base64.urlsafe_b64decode(cursor.encode()).decode().partition(":")
            known = self._positions.get(last)
            start = int(position) if known is None else known + 1
        except (ValueError, binascii.Error):
            raise Malformed("unknown cursor: send the nextCursor of the page before, or none") from None
        return max(0, min(start, len(self.tools)))


def _cursor(position: int, last: str) -> str:
    return base64.urlsafe_b64encode(f"{position}:{last}".encode()).decode()
