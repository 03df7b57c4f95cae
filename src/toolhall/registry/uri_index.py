"""UriIndex: finds what a URI names, among exact URIs and URI templates.

Templates are grouped by the literal before their first variable. Of the sorted literals, the last one that is not
behind the URI, or one that begins it, is the longest one that begins the URI; each literal knows the next shorter one
that begins it. So a binary search finds all groups whose literal begins the URI. In a group, templates are found by the
number of their segments and the first segment that is a literal behind the first variable. So of thousands of
templates few are tried, whatever the URI is.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeAlias, TypeVar

import msgspec

from toolhall.model.uri_template import UriTemplate, UriVariables, ascii_uri

T = TypeVar("T")
_SegmentKey: TypeAlias = tuple[int, int, str]  # the number of segments, and the place and text of a literal one
_ANYWHERE: _SegmentKey = (0, 0, "")  # of templates without such a segment


class UriMatch(msgspec.Struct, Generic[T], frozen=True):
    """What a URI names, and the values of its variables; `template` is None for an exact URI."""

    value: T
    template: UriTemplate | None = None
    variables: UriVariables = msgspec.field(default_factory=dict)


class UriIndex(Generic[T]):
    """Values by exact URI and by template; immutable."""

    def __init__(self, exact: Mapping[str, T], templates: Iterable[tuple[UriTemplate, T]] = ()) -> None:
        self._exact = {uri: UriMatch(value) for uri, value in exact.items()}
        self._groups: dict[str, _PrefixGroup[T]] = {}
        for template, value in sorted(templates, key=lambda each: each[0].specificity):  # stable: then as they came
            self._groups.setdefault(template.prefix, _PrefixGroup()).add(template, value)
        self._prefixes = sorted(self._groups)
        self._shorter = _next_shorter(self._prefixes)

    def find(self, uri: str) -> UriMatch[T] | None:
        """The value of the exact URI, else of the most specific template that matches (RT-9), or None."""
        exact = self._exact.get(uri)
        if exact is not None:
            return exact
        encoded = ascii_uri(uri)
        if encoded is None or not self._prefixes:
            return None
        segments = encoded.partition("?")[0].split("/")
        best: UriMatch[T] | None = None
        at = bisect_right(self._prefixes, encoded)
        prefix = self._prefixes[at - 1] if at else None
        while prefix is not None:
            if encoded.startswith(prefix):
                for candidates in self._groups[prefix].candidates(segments):
                    best = _first_match(candidates, encoded, best)
            prefix = self._shorter[prefix]
        return best


class _PrefixGroup(Generic[T]):
    """Templates with the same literal before their first variable, in the order in which they are added."""

    def __init__(self) -> None:
        self._by_segment: dict[_SegmentKey, list[tuple[UriTemplate, T]]] = {}
        self._places: dict[int, list[int]] = {}  # of literal segments, by the number of segments

    def add(self, template: UriTemplate, value: T) -> None:
        key = _segment_key(template)
        if key not in self._by_segment:
            self._by_segment[key] = []
            count, place, _ = key
            if key != _ANYWHERE and place not in self._places.setdefault(count, []):
                self._places[count].append(place)
        self._by_segment[key].append((template, value))

    def candidates(self, segments: Sequence[str]) -> Iterator[Sequence[tuple[UriTemplate, T]]]:
        """The templates that a URI with these segments may match, in lists that are ordered each for itself."""
        for place in self._places.get(len(segments), ()):
            yield self._by_segment.get((len(segments), place, segments[place]), ())
        yield self._by_segment.get(_ANYWHERE, ())


def _segment_key(template: UriTemplate) -> _SegmentKey:
    segments = template.segments
    if segments is None or None not in segments:
        return _ANYWHERE
    for place in range(segments.index(None), len(segments)):
        segment = segments[place]
        if segment is not None:
            return len(segments), place, segment
    return _ANYWHERE


def _first_match(candidates: Sequence[tuple[UriTemplate, T]], uri: str, best: UriMatch[T] | None) -> UriMatch[T] | None:
    """The first match, unless what was found before is at least as specific."""
    bound = best.template.specificity if best and best.template else None
    for template, value in candidates:
        if bound is not None and template.specificity >= bound:
            return best
        variables = template.match_ascii(uri)
        if variables is not None:
            return UriMatch(value, template, variables)
    return best


def _next_shorter(prefixes: list[str]) -> dict[str, str | None]:
    """For each of the sorted texts the longest other one that it begins with."""
    shorter: dict[str, str | None] = {}
    open_ones: list[str] = []  # each begins the next
    for prefix in prefixes:
        while open_ones and not prefix.startswith(open_ones[-1]):
            open_ones.pop()
        shorter[prefix] = open_ones[-1] if open_ones else None
        open_ones.append(prefix)
    return shorter
