"""Registered tools in pages, by id: whatever is added or removed meanwhile, no other is left out or comes twice."""

from bisect import bisect_right
from collections.abc import Iterator

import msgspec

from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject, encode
from toolhall.registrar.registrar import Registrar
from toolhall.stores.base import Kept, State
from toolhall.transports.api.summaries import summaries

PAGE_BYTES = 4 * 1024 * 1024
PARAMETERS = ("state", "toolkit", "cursor")
STATES: tuple[State, ...] = ("registered", "quarantined", "active", "inactive")


class Pages:
    """Sorted once for each change."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: tuple[Kept, ...] = ()
        self._sorted: list[Kept] = []
        self._ids: list[str] = []

    def page(self, registrar: Registrar, asked: dict[str, str]) -> JsonObject:
        """One page of summaries; a cursor is the id of the last one seen."""
        if asked.get("state", STATES[0]) not in STATES:
            raise Malformed(f"there is no such state; use one of {', '.join(STATES)}")
        self._sort(registrar.known)
        chosen: list[msgspec.Raw] = []
        size, last = 0, ""
        for told in summaries(self._matching(asked), registrar):
            written = encode(told)
            size += len(written)
            if chosen and (len(chosen) == self._size or size > PAGE_BYTES):
                return {"tools": chosen, "nextCursor": last}
            chosen.append(msgspec.Raw(written))
            last = told["id"]
        return {"tools": chosen}

    def _sort(self, known: tuple[Kept, ...]) -> None:
        if known != self._known:  # quick: what is the same is the same object
            self._known = known
            self._sorted = sorted(known, key=lambda kept: kept.id)
            self._ids = [kept.id for kept in self._sorted]

    def _matching(self, asked: dict[str, str]) -> Iterator[Kept]:
        state, toolkit = asked.get("state"), asked.get("toolkit")
        for number in range(bisect_right(self._ids, asked.get("cursor", "")), len(self._sorted)):
            kept = self._sorted[number]
            if state in (None, kept.state) and toolkit in (None, kept.toolkit):
                yield kept
