"""Matching of URIs against URI templates: which variables have which values, in one scan without backtracking.

Theory of operation. RFC 6570 defines expansion only. Here a template is compiled to literals with one slot between any
two of them; `{.x}`, `{/x}` and `{;x}` are a literal and a slot. At most one slot may span segments. The slots before it
are found from the left, each up to the first occurrence of the literal behind it; the slots after it from the right;
the spanning slot (else the last one) gets what is left. Each character is thus searched a bounded number of times, and
no regular expression is made from a template. Query variables are split off before, and read in any order.

Values are percent-decoded once, after the scan. If a literal between two variables could also occur in a value
(`{name}.{type}`), or an encoded character would stand as itself after expansion (`{+path}` with `%3F`), a match counts
only if its values expand to a URI that has the same values. So whatever matches also expands back.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias
from urllib.parse import quote, unquote_to_bytes

import msgspec

from toolhall.model.uri_expansion import (
    MAX_URI_LENGTH,
    MAX_VARIABLES,
    BadUriTemplate,
    Expression,
    TemplatePart,
    UriValue,
    expand_parts,
    parse_template,
)

UriVariables: TypeAlias = dict[str, str | list[str]]
MAX_SEGMENTS = 256  # of an exploded path
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")  # RFC 3986, 3.1
_BAD_TRIPLET = re.compile(r"%(?![0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ASCII = "".join(map(chr, range(128)))
_NEVER_RAW = "/?#"  # what a slot within one segment never takes without percent-encoding
_SEPARATORS = re.compile(r"[/\\]")


class Slot(msgspec.Struct, frozen=True):
    """The place of one variable between two literals."""

    name: str
    never_raw: str = _NEVER_RAW
    spans: bool = False
    exploded: bool = False
    named: bool = False  # `{;x}`: its name is in the literal before, and `=` begins the value


class UriTemplate:
    """A URI template (or a URI without variables) that can be expanded and matched; BadUriTemplate if it cannot."""

    __slots__ = (
        "_ambiguous", "_any_path", "_keeps_reserved", "_literals", "_pivot", "_query", "_query_ampersands", "_reversed",
        "_slots", "_spans", "is_template", "literal_length", "parts", "query_variables", "shape", "text", "variables",
    )  # fmt: skip

    def __init__(self, text: str, *, any_path: bool = False) -> None:
        self.text = text
        self.parts = parse_template(text)
        path, query = _split_query(text, self.parts)
        self.query_variables = query.names if query else ()
        self._query = frozenset(self.query_variables)
        self._any_path = any_path
        self._literals, self._slots = _compile(text, path)
        self.variables = tuple(slot.name for slot in self._slots) + self.query_variables
        self._check_variables()
        spanning = [index for index, slot in enumerate(self._slots) if slot.spans]
        self._spans = bool(spanning)
        self._keeps_reserved = any(slot.spans and not slot.exploded for slot in self._slots)
        self._pivot = spanning[0] if spanning else len(self._slots) - 1
        self._ambiguous = any(_occurs_in_values(*end) for end in _slot_ends(self._literals, self._slots, self._pivot))
        self._reversed = tuple(literal[::-1] for literal in self._literals)
        continued = query is not None and query.operator.first == "&"
        self._query_ampersands = "".join(self._literals).partition("?")[2].count("&") + continued
        self.is_template = bool(self.variables)
        self.literal_length = sum(map(len, self._literals))
        # Equal for templates that are equal but for the names of variables: they match the same URIs.
        self.shape = "\0".join(
            f"{literal}\0{'*' if slot.exploded else '+' if slot.spans else ''}"
            for literal, slot in zip(self._literals, (*self._slots, Slot("")), strict=True)
        )

    @property
    def prefix(self) -> str:
        """The literal before the first variable: every URI that matches begins with it."""
        return self._literals[0]

    @property
    def specificity(self) -> tuple[int, bool, int]:
        """A sort key, best first: more literal characters, no variable that spans segments, fewer variables."""
        return -self.literal_length, self._spans, len(self.variables)

    @property
    def segments(self) -> tuple[str | None, ...] | None:
        """The segments of any URI that matches, up to `?`, None for one with a variable; None if a variable spans."""
        if self._spans:
            return None
        text = "{".join(self._literals).partition("?")[0]  # `{` is in no literal
        return tuple(None if "{" in segment else segment for segment in text.split("/"))

    def expand(self, values: Mapping[str, UriValue]) -> str:
        """Expand the template as RFC 6570 says; a missing variable leaves nothing behind."""
        return expand_parts(self.parts, values)

    def match(self, uri: str) -> UriVariables | None:
        """The values of all variables but of missing query variables, or None if the URI does not match."""
        encoded = ascii_uri(uri)
        return None if encoded is None else self.match_ascii(encoded)

    def match_ascii(self, encoded: str) -> UriVariables | None:
        """Match a URI that `ascii_uri` has checked: many templates are tried on one URI."""
        values = self._scan(encoded)
        if not values or not (self._ambiguous or (self._keeps_reserved and "%" in encoded)):
            return values
        return values if self._scan(self.expand(values)) == values else None

    def covers(self, other: "UriTemplate") -> bool:
        """Whether it is proven that this matches every URI that `other` matches.

        Proven are equal templates whatever the names of their variables are, and further query variables.
        """
        if not other.is_template:
            return self.match(other.text) is not None if self.is_template else self.text == other.text
        takes_query = any("?" not in slot.never_raw for slot in other._slots)
        return (
            self._literals == other._literals
            and [_kind_of(slot) for slot in self._slots] == [_kind_of(slot) for slot in other._slots]
            and (self._any_path or not other._any_path or not self._spans)
            and self._query >= other._query
            and not (self._query and not other._query and takes_query)
        )

    def _check_variables(self) -> None:
        if not _SCHEME.match(self._literals[0]):
            raise BadUriTemplate(f"{self.text!r}: a URI begins with a scheme; write it as 'myapp://{self.text}'")
        if len(self.variables) > MAX_VARIABLES:
            raise BadUriTemplate(
                f"{self.text!r} has more than {MAX_VARIABLES} variables; split it into several templates"
            )
        twice = next((name for name in self.variables if self.variables.count(name) > 1), None)
        if twice:
            raise BadUriTemplate(f"{self.text!r}: the variable '{twice}' is there twice; give one another name")

    def _scan(self, uri: str) -> UriVariables | None:
        """The decoded values of an ASCII URI."""
        path, query = self._split(uri) if self._query else (uri, "")
        pieces = self._pieces(path)
        if pieces is None:
            return None
        values: UriVariables = {}
        for slot, piece in zip(self._slots, pieces, strict=True):
            value = self._read_piece(slot, piece)
            if value is None:
                return None
            values[slot.name] = value
        return self._read_query(query, values) if query else values

    def _split(self, uri: str) -> tuple[str, str]:
        """The URI before its query variables, and these with the character in front of them."""
        at = uri.find("?")
        for _ in range(self._query_ampersands if at >= 0 else 0):
            at = uri.find("&", at + 1)
            if at < 0:
                break
        return (uri, "") if at < 0 else (uri[:at], uri[at:])

    def _pieces(self, path: str) -> list[str] | None:
        """What stands between the literals, still encoded."""
        literals, slots, pivot = self._literals, self._slots, self._pivot
        if not slots:
            return [] if path == literals[0] else None
        start, end = len(literals[0]), len(path) - len(literals[-1])
        if start > end or not path.startswith(literals[0]) or not path.endswith(literals[-1]):
            return None
        behind: list[str] = []
        if pivot < len(slots) - 1:
            # From the right, in the reversed text: `rfind` takes quadratic time where `find` does not.
            backwards, length = path[::-1], len(path)
            for index in range(len(slots) - 1, pivot, -1):
                at = backwards.find(self._reversed[index], length - end, length - start)
                if at < 0:
                    return None
                behind.append(path[length - at : end])
                end = length - at - len(literals[index])
        ahead: list[str] = []
        for index in range(pivot):
            literal = literals[index + 1]
            at = path.find(literal or "/", start, end)  # only an exploded path may follow a slot without a literal
            if at < 0:
                if literal:
                    return None
                at = end
            ahead.append(path[start:at])
            start = at + len(literal)
        return [*ahead, path[start:end], *reversed(behind)]

    def _read_piece(self, slot: Slot, piece: str) -> str | list[str] | None:
        if slot.named and piece:
            if piece[0] != "=":
                return None
            piece = piece[1:]
        if slot.exploded:
            return self._read_segments(piece)
        for character in slot.never_raw:
            if character in piece:
                return None
        value = _decode(piece)
        return None if value is None or (slot.spans and not (self._any_path or is_inner_path(value))) else value

    def _read_segments(self, piece: str) -> list[str] | None:
        if (piece and piece[0] != "/") or piece.count("/") > MAX_SEGMENTS:
            return None
        segments: list[str] = []
        for part in piece.split("/")[1:]:
            segment = None if "?" in part or "#" in part else _decode(part)
            if segment is None:
                return None
            segments.append(segment)
        return segments if self._any_path or is_inner_path("/".join(segments)) else None

    def _read_query(self, query: str, values: UriVariables) -> UriVariables | None:
        for pair in query[1:].split("&", len(self._query)):
            name, _, piece = pair.partition("=")
            value = None if "&" in piece or "#" in piece else _decode(piece)
            if value is None or name not in self._query or name in values:
                return None
            values[name] = value
        return values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UriTemplate):
            return NotImplemented
        return (self.text, self._any_path) == (other.text, other._any_path)

    def __hash__(self) -> int:
        return hash((self.text, self._any_path))

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"


def _kind_of(slot: Slot) -> Slot:
    """The slot without its variable's name."""
    return msgspec.structs.replace(slot, name="")


def is_inner_path(path: str) -> bool:
    """Whether a value that spans segments is not empty, not absolute, and has no `..` (RT-8)."""
    return bool(path) and path[0] not in "/\\" and (".." not in path or ".." not in _SEPARATORS.split(path))


def ascii_uri(uri: str) -> str | None:
    """The URI with other characters percent-encoded; None if it is too long or has spaces or control characters."""
    if len(uri) > MAX_URI_LENGTH:
        return None
    if not uri.isascii():
        try:
            uri = quote(uri, safe=_ASCII)
        except UnicodeEncodeError:  # a lone surrogate
            return None
        if len(uri) > MAX_URI_LENGTH:
            return None
    return uri if uri.isprintable() and " " not in uri else None


def _decode(piece: str) -> str | None:
    """The percent-decoded value; None if it is not UTF-8 or has NUL."""
    if "%" not in piece:
        return piece
    if _BAD_TRIPLET.search(piece):
        return None
    try:
        value = unquote_to_bytes(piece).decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in value else value


def _split_query(text: str, parts: Sequence[TemplatePart]) -> tuple[Sequence[TemplatePart], Expression | None]:
    """The parts before the query expression, and that expression."""
    queries = [part for part in parts if isinstance(part, Expression) and part.operator.is_query]
    if not queries:
        return parts, None
    names = ",".join(name for query in queries for name in query.names)
    if len(queries) > 1:
        first = queries[0].operator.first
        raise BadUriTemplate(f"{text!r} has two query expressions; write one at the end: {{{first}{names}}}")
    if parts[-1] is not queries[0]:
        raise BadUriTemplate(f"{text!r}: nothing can follow {queries[0].text}; write it at the end")
    has_query = any("?" in part for part in parts if isinstance(part, str))
    if has_query != (queries[0].operator.first == "&"):
        reason, fix = ("'?' is there already", "&") if has_query else ("there is no '?' before it", "?")
        raise BadUriTemplate(f"{text!r}: {reason}; write {{{fix}{names}}} instead of {queries[0].text}")
    return parts[:-1], queries[0]


def _compile(text: str, parts: Sequence[TemplatePart]) -> tuple[tuple[str, ...], tuple[Slot, ...]]:
    """The literals and the slots between them; there is one more literal, and the first and last may be empty."""
    literals, slots = [""], list[Slot]()
    in_query = False
    for part in _flatten(parts):
        if isinstance(part, str):
            literals[-1] += part
            in_query = in_query or "?" in part
            continue
        if slots and not literals[-1] and (slots[-1].spans or not part.exploded):
            raise BadUriTemplate(
                f"{text!r}: nothing separates '{slots[-1].name}' and '{part.name}'; put a literal between, such as /"
            )
        if part.spans and any(slot.spans for slot in slots):
            raise BadUriTemplate(
                f"{text!r}: two variables span segments, so it is unclear where '{part.name}' begins; "
                f"write {{{part.name}}} for one segment"
            )
        slots.append(msgspec.structs.replace(part, never_raw=part.never_raw + "&") if in_query else part)
        literals.append("")
    return tuple(literals), tuple(slots)


def _flatten(parts: Sequence[TemplatePart]) -> Iterator[str | Slot]:
    """The literals and slots that expressions stand for."""
    for part in parts:
        if isinstance(part, str):
            yield part
            continue
        operator = part.operator
        for index, name in enumerate(part.names):
            exploded = name in part.exploded
            if not exploded:  # the slashes of an exploded path are in its slot
                yield operator.separator if index else operator.first
            if operator.named:
                yield name
            never_raw = (
                "" if operator.reserved else _NEVER_RAW + (operator.separator if operator.separator in ",;" else "")
            )
            yield Slot(name, never_raw, operator.reserved or exploded, exploded, operator.named)


def _slot_ends(literals: Sequence[str], slots: Sequence[Slot], pivot: int) -> Iterator[tuple[Slot, str]]:
    """Each slot that a literal ends, and that literal: the one behind it, or before it if it is read from the right."""
    for index, slot in enumerate(slots):
        if index != pivot:
            yield slot, literals[index + 1 if index < pivot else index]


def _occurs_in_values(slot: Slot, literal: str) -> bool:
    """Whether a literal could occur in an expanded value, so that it does not tell where the slot ends."""
    expanded = _UNRESERVED | set("%=" if slot.named else "%")
    return bool(literal) and expanded.issuperset(literal)
