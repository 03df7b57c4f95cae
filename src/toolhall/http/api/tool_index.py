"""ToolIndex: pages of registered tools that match filters and a search, with counts by facet.

Theory of operation
-------------------
The index is built once per change of the records or of what is served, and reuses the rows of tools that did not
change; a request only intersects sets of row numbers. Without a search, rows are in the order of their ids and a cursor
is the id of the last tool of a page, so that additions and removals between two pages neither skip nor repeat a tool.
With one, the best match comes first and a cursor is the number of tools before the next page.

The counts of a facet are over the tools that match everything but the filter of that facet, so that they say what
another choice would show.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from toolhall.dialects.openapi.paths import EFFECTS, ORIGINS, STATES
from toolhall.http.api.base import OBSERVERS_ONLY, limit_parameter
from toolhall.http.api.tool_summaries import newest_ids, server_of, stored_members, summary_for_callers
from toolhall.model.caller import effective_level
from toolhall.model.errors import Denied, Malformed, NotFound
from toolhall.model.json import JsonObject, encode
from toolhall.model.tool import KINDS, LEVELS, Tool
from toolhall.registration.service import RegistrationService
from toolhall.registry.registry import Registry
from toolhall.registry.search import SearchIndex, query_words
from toolhall.registry.snapshot import Snapshot
from toolhall.stores.tools import ToolRecord

PAGE_BYTES = 4 * 1024 * 1024
MAX_FACET_VALUES = 100  # of each facet; the most frequent are named
FACETS = ("toolkit", "kind", "effect", "level", "state", "origin", "server", "tag")
_OF_THE_HALL = frozenset({"origin", "server"})  # facets that callers see nothing of
LIST_PARAMETERS = ("query", *FACETS, "limit", "cursor")
NO_EFFECT = "none"
_CHOICES = {"kind": KINDS, "state": STATES, "origin": ORIGINS, "effect": (*EFFECTS, NO_EFFECT)}


class ToolRow(NamedTuple):
    """One tool of the index: its encoded summary, and its values of each facet."""

    record: ToolRecord
    tool: Tool
    facts: tuple[bool, int, bool]  # whether it is served, its effective level, whether it is the newest version
    encoded: bytes
    facets: Mapping[str, Collection[str]]


class _BuiltIndex:
    """All rows in the order of their ids, and for each facet the row numbers of each value."""

    def __init__(self, rows: Sequence[ToolRow]) -> None:
        self.rows = rows
        self.ids = [row.record.id for row in rows]
        self.everything = frozenset(range(len(rows)))
        self.holders: dict[str, dict[str, set[int]]] = {facet: {} for facet in FACETS}
        for number, row in enumerate(rows):
            for facet, values in row.facets.items():
                for value in values:
                    self.holders[facet].setdefault(value, set()).add(number)
        self._search: SearchIndex | None = None

    def search(self, query: str) -> list[int]:
        """Return the numbers of the rows that match a query, best first."""
        if self._search is None:
            self._search = SearchIndex(row.tool for row in self.rows)
        numbers = {id_: number for number, id_ in enumerate(self.ids)}
        return [numbers[str(tool.id)] for tool in self._search.find(query, len(self.rows))]

    def rows_of(self, view: Snapshot) -> frozenset[int]:
        """Return the numbers of the rows of what is in a view."""
        known = {entry.id for entry in view.all_entries}
        return frozenset(number for number, id_ in enumerate(self.ids) if id_ in known)

    def keep_search(self, before: "_BuiltIndex") -> None:
        """Take over the search of an earlier index if all tools show the same."""
        if [row.record.digests for row in before.rows] == [row.record.digests for row in self.rows] and (
            before.ids == self.ids
        ):
            self._search = before._search


class ToolIndex:
    """Finds registered tools for `GET /api/tools`; built on first use, and anew after a change."""

    def __init__(self, registration: RegistrationService, registry: Registry, page_size: int) -> None:
        self._registration = registration
        self._registry = registry
        self._page_size = page_size
        self._built = _BuiltIndex(())
        self._known: tuple[tuple[ToolRecord, ...], Snapshot | None] = ((), None)
        self._building = asyncio.Lock()

    async def page(self, parameters: dict[str, str], view: Snapshot | None = None) -> JsonObject:
        """Return one page of summaries, the number of all that match, and the counts by facet.

        With a view, only of the tools in it, as their callers see them.
        """
        if view is not None and not _OF_THE_HALL.isdisjoint(parameters):
            raise Denied(OBSERVERS_ONLY)
        query = parameters.get("query", "")
        if "\0" in query:
            raise Malformed("query contains a null character")
        query_words(query)  # refuses one that is too long before anything is built
        filters = {facet: _wanted_values(facet, parameters[facet]) for facet in FACETS if facet in parameters}
        limit = limit_parameter(parameters) if "limit" in parameters else self._page_size
        built = await self._current()
        ranked = await asyncio.to_thread(built.search, query) if query.strip() else None
        rows = built.everything if view is None else built.rows_of(view)
        found = _FacetedSearch(built, filters, rows if ranked is None else rows.intersection(ranked))
        ordered = sorted(found.matching) if ranked is None else [each for each in ranked if each in found.matching]
        start = _start(built, ordered, parameters.get("cursor", ""), by_rank=ranked is not None)
        page, following = _page_of(built, ordered, start, limit)
        after: JsonObject = {}
        if following < len(ordered):
            cursor = str(following) if ranked is not None else built.ids[ordered[following - 1]]
            after = {"nextCursor": cursor}
        counts = found.counts()
        if view is not None:
            page = [msgspec.Raw(encode(summary_for_callers(msgspec.json.decode(each)))) for each in page]
            counts |= {facet: {} for facet in _OF_THE_HALL}
        return {"tools": page, **after, "total": len(ordered), "facets": counts}

    async def _current(self) -> _BuiltIndex:
        """Return the index of what is registered and served now."""
        async with self._building:
            known = self._registration.all_records, self._registry.snapshot
            if known[1] is not self._known[1] or known[0] != self._known[0]:  # cheap: unchanged records are identical
                before = self._built
                rows = await asyncio.to_thread(self._rows, known[0], {row.record.id: row for row in before.rows})
                self._built = built = _BuiltIndex(rows)
                built.keep_search(before)
                self._known = known
            return self._built

    def _rows(self, records: tuple[ToolRecord, ...], before: Mapping[str, ToolRow]) -> list[ToolRow]:
        newest = newest_ids(records)
        document, digest = b"", ""
        rows: list[ToolRow] = []
        for record in records:
            served, is_newest = self._registration.is_served(record), record.id in newest
            kept = before.get(record.id)
            if kept is not None and kept.record is record and (kept.facts[0], kept.facts[2]) == (served, is_newest):
                rows.append(kept)
                continue
            if record.document is not document:  # tools of one document are adjacent
                document, digest = record.document, record.document_digest
            tool = self._registration.tool(record)
            level = effective_level(tool, self._registration.level_overrides)
            rows.append(_make_row(record, tool, digest, (served, level, is_newest)))
        return sorted(rows, key=lambda row: row.record.id)


def _make_row(record: ToolRecord, tool: Tool, digest: str, facts: tuple[bool, int, bool]) -> ToolRow:
    served, level, newest = facts
    members = {"served": served, "effectiveLevel": level, "newest": newest}
    server = server_of(record)
    facets: dict[str, Collection[str]] = {
        "toolkit": (record.toolkit,),
        "kind": (tool.kind,),
        "effect": (tool.effect or NO_EFFECT,),
        "level": (str(level),),
        "state": (record.state,),
        "origin": (record.origin,),
        "server": () if server is None else (server,),
        "tag": frozenset(tool.tags),
    }
    return ToolRow(record, tool, facts, encode({**stored_members(record, tool, digest), **members}), facets)


class _FacetedSearch:
    """The rows that pass all filters, and those that pass all filters but one."""

    def __init__(self, built: _BuiltIndex, filters: Mapping[str, frozenset[str]], found: frozenset[int]) -> None:
        self._built = built
        self._filters = filters
        self._found = found
        self._passing = {facet: _holders(built, facet, values) for facet, values in filters.items()}
        self.matching = self._without("")

    def counts(self) -> JsonObject:
        """Return the counts by facet, the most frequent values first; what is filtered by is always named."""
        return {facet: self._counts_of(facet) for facet in FACETS}

    def _counts_of(self, facet: str) -> dict[str, int]:
        base = self._without(facet)
        if base is self._built.everything:
            counted = {value: len(numbers) for value, numbers in self._built.holders[facet].items()}
        else:
            counted = {value: len(base & numbers) for value, numbers in self._built.holders[facet].items()}
        chosen = self._filters.get(facet, frozenset())
        ranked = sorted(
            (value for value, count in counted.items() if count or value in chosen),
            key=lambda value: (value not in chosen, -counted[value], value),
        )
        return {value: counted[value] for value in ranked[: max(MAX_FACET_VALUES, len(LEVELS))]}

    def _without(self, facet: str) -> frozenset[int]:
        """Return the rows that pass the filters of all other facets."""
        others = sorted((rows for name, rows in self._passing.items() if name != facet), key=len)
        if not others:
            return self._found
        return self._found.intersection(*others)


def _holders(built: _BuiltIndex, facet: str, values: frozenset[str]) -> frozenset[int]:
    holders = built.holders[facet]
    return frozenset[int]().union(*(holders[value] for value in values if value in holders))


def _wanted_values(facet: str, text: str) -> frozenset[str]:
    """Return the values that a filter accepts; raises Malformed for one that no tool can have."""
    if facet == "level":
        low, dash, high = text.partition("-")
        known = {str(level): level for level in LEVELS}
        if low in known and (not dash or high in known):
            return frozenset(map(str, range(known[low], known[high or low] + 1)))
        raise Malformed(f"level is a number from 0 to {LEVELS[-1]}, or a band such as 4-7")
    if facet in _CHOICES and text not in _CHOICES[facet]:
        raise Malformed(f"there is no such {facet}; use one of {', '.join(_CHOICES[facet])}")
    return frozenset({text})


def _start(built: _BuiltIndex, ordered: Sequence[int], cursor: str, *, by_rank: bool) -> int:
    """Return the position of the first tool behind the cursor."""
    if not by_rank:
        return bisect_right(ordered, cursor, key=lambda number: built.ids[number])
    if cursor and not (cursor.isascii() and cursor.isdigit() and len(cursor) <= 6):
        raise NotFound("this cursor is not of this search; leave it out to begin again")
    return int(cursor or 0)


def _page_of(built: _BuiltIndex, ordered: Sequence[int], start: int, limit: int) -> tuple[list[msgspec.Raw], int]:
    """Return the summaries of a page, at least one if there is any, and the position of the next page."""
    page: list[msgspec.Raw] = []
    size = 0
    for encoded in _encoded(built, ordered[start : start + limit]):
        size += len(encoded)
        if page and size > PAGE_BYTES:
            break
        page.append(msgspec.Raw(encoded))
    return page, start + len(page)


def _encoded(built: _BuiltIndex, numbers: Sequence[int]) -> Iterator[bytes]:
    return (built.rows[number].encoded for number in numbers)
