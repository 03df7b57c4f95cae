"""Finds tools by what they say: ranked by BM25, through an index that is built once per snapshot."""

import heapq
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import log

from toolhall.model.errors import Malformed
from toolhall.model.json import Json
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Snapshot
from toolhall.registry.words import words

MAX_QUERY = 400
MOST_WORDS = 16
_SATURATION, _LENGTH = 1.2, 0.75  # BM25's k1 and b, as everybody sets them
# A word in more tools than these only lifts the best that rarer words have found, once those have found enough.
_COMMON, _ENOUGH, _LIFTED = 300, 200, 500
_MOST_SCHEMAS = 200
# What a word counts, by where it stands.
_NAME, _TITLE, _TAG, _PARAMETER, _TEXT = 4, 3, 3, 2, 1
_NAMED = ("properties", "$defs")
_INSIDE = (*_NAMED, "items", "additionalProperties", "anyOf", "oneOf", "allOf")


class Search:
    """Searches the newest snapshot it was given; the index is built when it is first asked."""

    def __init__(self) -> None:
        self._built: tuple[Snapshot | None, SearchIndex] = (None, SearchIndex(()))

    def find(
        self, snapshot: Snapshot, query: str, limit: int, keep: Callable[[Tool], bool] | None = None
    ) -> list[Tool]:
        """The best matches among the listed tools that `keep` lets pass, best first."""
        of, index = self._built
        if of is not snapshot:
            index = SearchIndex(entry.tool for entry in snapshot.listed)
            self._built = snapshot, index  # in one step: threads search too
        return index.find(query, limit, keep)


class SearchIndex:
    """For each word, the tools that hold it: what a query costs does not depend on all the others."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        # In the order of ids, so that equally good tools come in the same order whoever registered first.
        self._tools = sorted(tools, key=lambda tool: tool.id)
        self._holders: dict[str, array[int]] = {}
        self._counts: dict[str, array[int]] = {}
        lengths = [self._add(number, tool) for number, tool in enumerate(self._tools)]
        usual = sum(lengths) / len(lengths) if lengths else 1
        self._norms = [_SATURATION * (1 - _LENGTH + _LENGTH * length / usual) for length in lengths]

    def find(self, query: str, limit: int, keep: Callable[[Tool], bool] | None = None) -> list[Tool]:
        """The best matches, best first; Malformed if the query is too long."""
        scores = self._scores(asked_words(query), lambda found: self._fills(limit, found, keep))
        ranked = [(-score, number) for number, score in scores.items()]
        heapq.heapify(ranked)  # few of them are wanted in order
        found: list[Tool] = []
        while ranked and len(found) < limit:
            tool = self._tools[heapq.heappop(ranked)[1]]
            if keep is None or keep(tool):
                found.append(tool)
        return found

    def _add(self, number: int, tool: Tool) -> int:
        counts: dict[str, int] = {}
        for text, weight in _texts(tool):
            for word in words(text):
                counts[word] = counts.get(word, 0) + weight
        for word, count in counts.items():
            if word not in self._holders:
                self._holders[word], self._counts[word] = array("I"), array("I")
            self._holders[word].append(number)
            self._counts[word].append(count)
        return sum(counts.values())

    def _fills(self, limit: int, numbers: Iterable[int], keep: Callable[[Tool], bool] | None) -> bool:
        """Whether so many of these tools can be shown."""
        kept = (number for number in numbers if keep is None or keep(self._tools[number]))
        return sum(1 for _ in islice(kept, limit)) == limit

    def _scores(self, asked: list[str], fills: Callable[[Iterable[int]], bool]) -> dict[int, float]:
        """How well each tool fits that holds any of the words; rare words first, which tell most."""
        scores: dict[int, float] = {}
        best: list[int] = []
        norms = self._norms
        known = sorted(filter(self._holders.__contains__, asked), key=lambda word: len(self._holders[word]))
        for word in known[:MOST_WORDS]:
            holders, counts = self._holders[word], self._counts[word]
            common = len(holders) > _COMMON and fills(scores)
            if common and len(holders) > len(self._tools) // 4:
                break  # it is in too many to tell one from the other, and so are all that follow
            told = log(1 + (len(self._tools) - len(holders) + 0.5) / (len(holders) + 0.5)) * (_SATURATION + 1)
            if common and not best and len(scores) >= _ENOUGH:
                best = heapq.nsmallest(_LIFTED, scores, key=lambda number: (-scores[number], number))
            for number, count in _among(best, holders, counts) if best else zip(holders, counts, strict=True):
                scores[number] = scores.get(number, 0.0) + told * count / (count + norms[number])
        return scores


def _among(numbers: list[int], holders: "array[int]", counts: "array[int]") -> Iterator[tuple[int, int]]:
    """Those of the holders of a word that are wanted, each with its count."""
    for number in numbers:
        place = bisect_left(holders, number)
        if place < len(holders) and holders[place] == number:
            yield number, counts[place]


def search(tools: Snapshot | Iterable[Tool], query: str, limit: int) -> list[Tool]:
    """The best matches, best first; whoever searches more than once keeps a `Search`."""
    if isinstance(tools, Snapshot):
        return Search().find(tools, query, limit)
    return SearchIndex(tools).find(query, limit)


def asked_words(query: str) -> list[str]:
    """The different words of a query, in an order of their own; Malformed if it is too long."""
    if len(query) > MAX_QUERY:
        raise Malformed(f"the query has more than {MAX_QUERY} characters; ask with fewer words")
    return sorted(set(words(query)))


def _texts(tool: Tool) -> Iterator[tuple[str, int]]:
    """What a tool says, each with what a word in it counts."""
    yield tool.name if tool.id.toolkit in tool.name else f"{tool.id.toolkit} {tool.name}", _NAME
    yield tool.title or "", _TITLE
    yield tool.description or "", _TEXT
    for tag in tool.tags:
        yield tag, _TAG
    yield from _parameters(tool.input)


def _parameters(schema: Json) -> Iterator[tuple[str, int]]:
    """The names and descriptions of parameters and of what is in them, as far as anybody would read."""
    pending: list[Json] = [schema]
    for _ in range(_MOST_SCHEMAS):
        if not pending:
            return
        part = pending.pop()
        if not isinstance(part, dict):
            continue
        if isinstance(text := part.get("description"), str):
            yield text, _TEXT
        for key in _INSIDE:
            match part.get(key):
                case dict(named) if key in _NAMED:
                    pending.extend(named.values())
                    yield from ((name, _PARAMETER) for name in named)
                case list(several):
                    pending.extend(several)
                case dict(one):
                    pending.append(one)
                case _:
                    continue
