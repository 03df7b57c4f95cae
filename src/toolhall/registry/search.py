"""Full-text search for tools: SearchIndex ranks by BM25, SnapshotSearch keeps one index per snapshot.

`tokenize` splits names at case changes, folds case and accents, and treats each character of scripts without spaces as
a word. Rare words are scored first; a common word only reorders the best candidates once rarer words have found enough.
"""

import heapq
import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from math import log
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import Toolkit, tool
from toolhall.authoring.definition import Definition, definitions_of
from toolhall.model.caller import Caller
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import SEARCH_TOOL
from toolhall.model.tool import Tool
from toolhall.registry.snapshot import Snapshot

CanSee: TypeAlias = Callable[[Caller, Tool], bool]
_WORD = re.compile(r"[A-Za-z0-9]+")
# `HTTPServer2` becomes HTTP and Server2; a run of lower-case letters and digits is one part.
_SUBWORD = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z][a-z0-9]*|[0-9]+[a-z0-9]*")
_MAX_WORD_LENGTH = 64
# Scripts without spaces between words: each character counts as a word.
_UNSPACED_SCRIPTS = ("CJK ", "HIRAGANA ", "KATAKANA ", "HANGUL ", "THAI ", "LAO ", "KHMER ", "MYANMAR ", "TIBETAN ")


MAX_QUERY = 400
MAX_WORDS = 16
_K1, _B = 1.2, 0.75  # the usual k1 and b of BM25
# A word in more tools than this only boosts the best candidates, once rarer words have found enough.
_COMMON_WORD_TOOLS, _MIN_CANDIDATES, _MAX_BOOSTED = 300, 200, 500
_MAX_SCHEMAS = 200
# The weight of a word by field.
_NAME_WEIGHT, _TITLE_WEIGHT, _TAG_WEIGHT, _PARAMETER_WEIGHT, _TEXT_WEIGHT = 4, 3, 3, 2, 1
_NAMED_SUBSCHEMAS = ("properties", "$defs")
_SUBSCHEMA_KEYWORDS = (*_NAMED_SUBSCHEMAS, "items", "additionalProperties", "anyOf", "oneOf", "allOf")


class SnapshotSearch:
    """Searches a snapshot; keeps the index of the latest one, built on first use."""

    def __init__(self) -> None:
        self._built: tuple[Snapshot | None, SearchIndex] = (None, SearchIndex(()))

    def find(
        self, snapshot: Snapshot, query: str, limit: int, keep: Callable[[Tool], bool] | None = None
    ) -> list[Tool]:
        """Return the best matches among the listed tools that `keep` accepts, best first."""
        indexed, index = self._built
        if indexed is not snapshot:
            index = SearchIndex(entry.tool for entry in snapshot.listed)
            self._built = snapshot, index  # in one step, because several threads search
        return index.find(query, limit, keep)


class SearchIndex:
    """An inverted index, ranked by BM25: the cost of a query depends only on the tools that contain its words."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        # Sorted by id, so that equal scores have one order, independent of the order of registration.
        self._tools = sorted(tools, key=lambda tool: tool.id)
        self._postings: dict[str, array[int]] = {}
        self._term_counts: dict[str, array[int]] = {}
        lengths = [self._add(number, tool) for number, tool in enumerate(self._tools)]
        average = sum(lengths) / len(lengths) if lengths else 1
        self._norms = [_K1 * (1 - _B + _B * length / average) for length in lengths]

    def find(self, query: str, limit: int, keep: Callable[[Tool], bool] | None = None) -> list[Tool]:
        """Return the best matches, best first; raises Malformed for a query that is too long."""
        scores = self._scores(query_words(query), lambda found: self._has_enough(limit, found, keep))
        ranked = [(-score, number) for number, score in scores.items()]
        heapq.heapify(ranked)  # only the first few are needed in order
        found: list[Tool] = []
        while ranked and len(found) < limit:
            tool = self._tools[heapq.heappop(ranked)[1]]
            if keep is None or keep(tool):
                found.append(tool)
        return found

    def _add(self, number: int, tool: Tool) -> int:
        counts: dict[str, int] = {}
        for text, weight in _weighted_texts(tool):
            for word in tokenize(text):
                counts[word] = counts.get(word, 0) + weight
        for word, count in counts.items():
            if word not in self._postings:
                self._postings[word], self._term_counts[word] = array("I"), array("I")
            self._postings[word].append(number)
            self._term_counts[word].append(count)
        return sum(counts.values())

    def _has_enough(self, limit: int, numbers: Iterable[int], keep: Callable[[Tool], bool] | None) -> bool:
        """Return whether at least `limit` of these tools pass `keep`."""
        kept = (number for number in numbers if keep is None or keep(self._tools[number]))
        return sum(1 for _ in islice(kept, limit)) == limit

    def _scores(self, query: list[str], has_enough: Callable[[Iterable[int]], bool]) -> dict[int, float]:
        """Return the score of every tool with any of the words; rare words first, which weigh most."""
        scores: dict[int, float] = {}
        best: list[int] = []
        norms = self._norms
        known = sorted(filter(self._postings.__contains__, query), key=lambda word: len(self._postings[word]))
        for word in known[:MAX_WORDS]:
            holders, counts = self._postings[word], self._term_counts[word]
            common = len(holders) > _COMMON_WORD_TOOLS and has_enough(scores)
            if common and len(holders) > len(self._tools) // 4:
                break  # too common to rank by, like all words after it
            weight = log(1 + (len(self._tools) - len(holders) + 0.5) / (len(holders) + 0.5)) * (_K1 + 1)
            if common and not best and len(scores) >= _MIN_CANDIDATES:
                best = heapq.nsmallest(_MAX_BOOSTED, scores, key=lambda number: (-scores[number], number))
            for number, count in _postings_for(best, holders, counts) if best else zip(holders, counts, strict=True):
                scores[number] = scores.get(number, 0.0) + weight * count / (count + norms[number])
        return scores


def _postings_for(numbers: list[int], postings: "array[int]", counts: "array[int]") -> Iterator[tuple[int, int]]:
    """Yield the postings of these tools, each with its count."""
    for number in numbers:
        position = bisect_left(postings, number)
        if position < len(postings) and postings[position] == number:
            yield number, counts[position]


def search(tools: Snapshot | Iterable[Tool], query: str, limit: int) -> list[Tool]:
    """Search once; for repeated searches keep a SnapshotSearch."""
    if isinstance(tools, Snapshot):
        return SnapshotSearch().find(tools, query, limit)
    return SearchIndex(tools).find(query, limit)


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query, sorted; raises Malformed if it is too long."""
    if len(query) > MAX_QUERY:
        raise Malformed(f"the query has more than {MAX_QUERY} characters; ask with fewer words")
    return sorted(set(tokenize(query)))


def _weighted_texts(tool: Tool) -> Iterator[tuple[str, int]]:
    """Yield the texts of a tool, each with the weight of its words."""
    yield tool.name if tool.id.toolkit in tool.name else f"{tool.id.toolkit} {tool.name}", _NAME_WEIGHT
    yield tool.title or "", _TITLE_WEIGHT
    yield tool.description or "", _TEXT_WEIGHT
    for tag in tool.tags:
        yield tag, _TAG_WEIGHT
    yield from _parameter_texts(tool.input)


def _parameter_texts(schema: Json) -> Iterator[tuple[str, int]]:
    """Yield the names and descriptions of parameters and their parts, up to a number of subschemas."""
    pending: list[Json] = [schema]
    for _ in range(_MAX_SCHEMAS):
        if not pending:
            return
        part = pending.pop()
        if not isinstance(part, dict):
            continue
        if isinstance(text := part.get("description"), str):
            yield text, _TEXT_WEIGHT
        for key in _SUBSCHEMA_KEYWORDS:
            match part.get(key):
                case dict(named) if key in _NAMED_SUBSCHEMAS:
                    pending.extend(named.values())
                    yield from ((name, _PARAMETER_WEIGHT) for name in named)
                case list(several):
                    pending.extend(several)
                case dict(one):
                    pending.append(one)
                case _:
                    continue


class FoundTool(msgspec.Struct, frozen=True, rename="camel"):
    """All that a model needs to call it."""

    name: str
    id: str
    title: str | None
    description: str | None
    input_schema: JsonObject


class FoundTools(msgspec.Struct, frozen=True):
    """Best first."""

    tools: list[FoundTool]


class SearchToolkit(Toolkit, name=SEARCH_TOOL.toolkit, version=SEARCH_TOOL.version, level=0):
    """Searches what its caller may see, and nothing else."""

    def __init__(self, tools: Callable[[], Snapshot], can_see: CanSee) -> None:
        """`tools` gives the snapshot of now, in which names mean what they mean in a call."""
        self._tools = tools
        self._can_see = can_see
        self._search = SnapshotSearch()

    # Not async: the first search after a change builds the index, and the hall answers others meanwhile.
    @tool(title="Search tools", effect="reads")
    def search_tools(
        self,
        ctx: Context,
        query: Annotated[str, Meta(min_length=1, max_length=MAX_QUERY, description="What the tool should do.")],
        limit: Annotated[int, Meta(ge=1, le=20, description="How many to show at most.")] = 5,
    ) -> FoundTools:
        """Find tools by what they do. Each tool found can be called by its name, although it is not listed."""

        def keep(found: Tool) -> bool:
            return found.id != SEARCH_TOOL and self._can_see(ctx.caller, found)

        return FoundTools([_describe(each) for each in self._search.find(self._tools(), query, limit, keep)])


def search_tool(tools: Callable[[], Snapshot], can_see: CanSee) -> Definition:
    """Return the definition of the search tool; `can_see` says which tools a caller may find.

    It is registered and listed in every dialect like any other tool.
    """
    (definition,) = definitions_of(SearchToolkit(tools, can_see))
    return msgspec.structs.replace(definition, tool=msgspec.structs.replace(definition.tool, name=SEARCH_TOOL.tool))


def _describe(found: Tool) -> FoundTool:
    return FoundTool(found.name, str(found.id), found.title, found.description, found.input)


def tokenize(text: str) -> list[str]:
    """Return every word in order; a compound word both in parts and as a whole."""
    runs = _WORD.findall(text) if text.isascii() else _normalized(text).split()
    return [word for run in runs for word in _subwords(run)]


@lru_cache(maxsize=32_768)
def _subwords(run: str) -> tuple[str, ...]:
    run = run[:_MAX_WORD_LENGTH]
    parts = _SUBWORD.findall(run) if run.isascii() else _split_camel_case(run)
    found = [_folded(part) for part in parts]
    return tuple(found) if len(found) == 1 else (*found, _folded(run))


def _folded(part: str) -> str:
    """Fold the case, and reduce an English plural to its singular."""
    word = part.casefold()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _split_camel_case(run: str) -> list[str]:
    """Split before every upper-case letter that follows a lower-case one."""
    starts = [at for at in range(1, len(run)) if run[at].isupper() and run[at - 1].islower()]
    return [run[start:end] for start, end in zip([0, *starts], [*starts, len(run)], strict=True)]


def _normalized(text: str) -> str:
    return unicodedata.normalize("NFKC", text).translate(_LETTER_TABLE)


class _LetterTable(dict[int, str]):
    """A translation table that is filled on first use of a character."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if unicodedata.category(letter)[0] not in "LNM":
            return " "  # most of Unicode; not cached
        if unicodedata.name(letter, "").startswith(_UNSPACED_SCRIPTS):
            found = f" {letter} "
        else:
            found = "".join(part for part in unicodedata.normalize("NFD", letter) if not unicodedata.combining(part))
        self[code] = found
        return found


_LETTER_TABLE = _LetterTable()
