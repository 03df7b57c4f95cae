"""`Redactor`: removes the secrets of one call from texts, bytes, JSON values and streams, in all their encodings.

Theory of operation. A redactor knows the secrets of one call. Each secret has a SecretForms, which finds it in all its
encodings and is computed once per secret; see there for how one secret is found in one text. This module decides what
is searched, and keeps the work linear whatever a hostile tool returns:

- Text: all secrets are located before any is replaced, because the rest of a secret could not be found after a part of
  it is gone. A text longer than two chunks is cut into overlapping chunks of CHUNK_LENGTH; a cheap test (`occurs_in`)
  selects the chunks in which spans are located. The text that is left after that is tested again.
- JSON: the leaves (texts and whole numbers) are searched one by one, and also joined, so that a secret that is spread
  over several members is found; whole numbers are joined as a list of bytes as well. A value without a secret is tested
  once as a whole and returned byte for byte. Else _LeafSearch finds the leaves by division: many leaves are searched as
  one text, which is divided only if it contains a secret.
- Stream (`redact_next`): each piece is searched together with the end of the pieces before it. Nothing is held back:
  the end of a piece that may be the beginning of a secret is replaced at once, and so is its continuation.

Bounds: a text with more than MAX_SPANS secrets, or more than MAX_CHUNKS chunks with one, is replaced as a whole, and
so is a value whose leaves cannot be found within MAX_SEARCHES searches, or by reading _MAX_SCANS times its size.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING

import msgspec

from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.secret import Secret
from toolhall.redaction.secret_patterns import REDACTED

if TYPE_CHECKING:
    from toolhall.redaction.secret_forms import SecretForms

CHUNK_LENGTH = 16 * 1024  # characters of a long text that are searched together
MAX_CHUNKS = 8  # with a secret; above that the whole text is replaced
MAX_SPANS = 2_000  # of secrets in one text; above that the whole text is replaced
MAX_SEARCHES = 2_000  # for the leaves with a secret of one value; above that the whole value is replaced
_MAX_SCANS = 6  # these searches may read this many times the value's characters
_SEARCH_BRANCHES = 8
_LEAF_SEPARATOR = "\0"
_NUMBER_LIST_BYTES = b"0123456789-,[] "


class _TooManyMatches(Exception):
    """So many leaves contain a secret that the whole value is replaced."""


class Redactor:
    """Replaces the secrets of one call by REDACTED, and counts the replacements."""

    __slots__ = ("_forms", "count", "tail", "tool_secrets")

    def __init__(self, secrets: tuple[Secret, ...], credential: Secret | None = None) -> None:
        self._forms: tuple[SecretForms, ...] = () if credential is None else credential.derived(_forms_of)
        for secret in secrets:
            self._forms += secret.derived(_forms_of)
        self.tool_secrets = secrets  # the secrets given to the tool, without the caller's own credential
        self.tail = ""  # the end of the stream so far, for redact_next
        self.count = 0

    def redact_text(self, text: str) -> str:
        """Return the text without secrets."""
        data = _bytes(text)
        # Locate all before replacing any: the rest of a secret could not be found after a part of it is gone.
        found = [span for secret in self._forms if secret.occurs_in(data) for span in _secret_spans(secret, text)]
        return self._replace_spans(text, found) if found else text

    def redact_bytes(self, data: bytes) -> bytes:
        """Return bytes, which need not be text, without secrets."""
        if not self.contains_secret(data):
            return data
        return self.redact_text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def redact_json(self, encoded: bytes) -> bytes:
        """Return encoded JSON without secrets; the same object if there are none."""
        for secret in self._forms:
            if not _is_tiny(encoded, secret.min_line_length):
                break
        else:
            return encoded
        only_numbers = encoded[:1] == b"[" and not encoded.translate(None, _NUMBER_LIST_BYTES)
        if only_numbers and not any([secret.occurs_in_number_list(encoded) for secret in self._forms]):  # noqa: C419 - as below
            return encoded
        value = msgspec.json.decode(encoded)
        return encode(self.redact_value(value)) if self._value_contains_secret(value, encoded) else encoded

    def _value_contains_secret(self, value: Json, encoded: bytes) -> bool:
        """True if the value contains a secret; the leaves are tested together, as one text."""
        if not isinstance(value, dict | list):
            return self.contains_secret(encoded) or (
                isinstance(value, str) and b"\\" in encoded and self.contains_secret(_bytes(value))
            )
        for secret in self._forms:
            if _has_line(value, secret.min_line_length):
                break
        else:  # most small results
            return False
        names: list[str] = []
        leaves = _collect_leaves(value, [], names)
        lines = ["".join(map(str, leaves)), *names]
        listed = _number_list(leaves)
        together = _bytes("\n".join(lines))
        texts = (together, _bytes(listed)) if listed else (together,)
        for secret in self._forms:
            for text in texts if secret.matches_any_case else (encoded,):
                if secret.occurs_in(text):
                    return True
        return False

    def redact_value(self, value: Json) -> Json:
        """Return the value without secrets: in texts, names and numbers, and spread over several of these."""
        if isinstance(value, str):
            return self.redact_text(value)
        if not isinstance(value, dict | list):
            return value if value is None or isinstance(value, bool) or not self._is_changed(str(value)) else REDACTED
        names: list[str] = []
        leaves = _collect_leaves(value, [], names)
        try:
            if self._joined_contain_secret(leaves):
                self._redact_spread(leaves)
            self._redact_leaves(leaves, self.contains_secret)
            self._redact_leaves(renamed := list[Json](names), self.contains_secret)
        except _TooManyMatches:
            self.count += 1
            return {REDACTED: REDACTED} if isinstance(value, dict) else [REDACTED]
        changed = {before: after for before, after in zip(names, renamed, strict=True) if before is not after}
        return _rebuild(value, iter(leaves), changed)

    def contains_spread_secret(self, value: Json) -> bool:
        """True if the joined leaves of the value contain a secret."""
        return isinstance(value, dict | list) and self._joined_contain_secret(_collect_leaves(value, [], []))

    def _joined_contain_secret(self, leaves: list[Json]) -> bool:
        texts = ("".join(map(str, leaves)), _number_list(leaves))
        return any([secret.occurs_in_joined(text) for text in texts for secret in self._forms])  # noqa: C419 - as below

    def _redact_spread(self, leaves: list[Json]) -> None:
        """Replace secrets in the joined leaves: as one text, and whole numbers as a list of bytes."""
        if len(leaves) > MAX_SEARCHES:
            for text in ("".join(map(str, leaves)), _number_list(leaves)):
                if self._joined_spans(text) == [(0, len(text))]:
                    raise _TooManyMatches
        # Leaves that contain a whole secret first: the leaves beside them are no part of it.
        self._redact_leaves(
            leaves, lambda data: any(secret.occurs_whole_in(data) for secret in self._forms), texts_only=True
        )
        self._redact_joined(leaves, list(range(len(leaves))), "")
        self._redact_joined(leaves, [at for at, leaf in enumerate(leaves) if type(leaf) is int], ", ")

    def _redact_joined(self, leaves: list[Json], positions: list[int], separator: str) -> None:
        texts = [str(leaves[position]) for position in positions]
        text = separator.join(texts)
        spans = self._joined_spans(text)
        if not spans:
            return
        ends = list(accumulate(len(each) + len(separator) for each in texts))
        inside: dict[int, list[tuple[int, int]]] = {}
        for start, end in spans:
            at = bisect_right(ends, start)
            while at < len(ends) and (began := ends[at] - len(texts[at]) - len(separator)) < end:
                if len(inside) > MAX_SEARCHES:
                    raise _TooManyMatches
                inside.setdefault(at, []).append((max(start - began, 0), min(end - began, len(texts[at]))))
                at += 1
        for at, parts in inside.items():
            leaf, covered = leaves[positions[at]], [(first, last) for first, last in parts if first < last]
            if covered:
                leaves[positions[at]] = self._replace_spans(leaf, covered) if isinstance(leaf, str) else REDACTED

    def _joined_spans(self, text: str) -> list[tuple[int, int]]:
        return [span for secret in self._forms if secret.occurs_in_joined(text) for span in _secret_spans(secret, text)]

    def _redact_leaves(
        self, leaves: list[Json], contains: Callable[[bytes], bool], *, texts_only: bool = False
    ) -> None:
        """Replace secrets in single leaves."""
        for position in list(_LeafSearch(leaves, contains).matching_positions(0, len(leaves))):
            leaf = leaves[position]
            if isinstance(leaf, str):
                leaves[position] = self.redact_text(leaf)
            elif not texts_only and self._is_changed(str(leaf)):
                leaves[position] = REDACTED

    def _is_changed(self, text: str) -> bool:
        return self.redact_text(text) != text

    def contains_secret(self, data: bytes) -> bool:
        """True if the bytes contain a secret."""
        return any([secret.occurs_in(data) for secret in self._forms])  # noqa: C419 - a generator costs more than a miss

    def redact_next(self, text: str) -> str:
        """Return the next piece of a stream without secrets; a secret that is split between pieces is replaced in both.

        Nothing is held back: an end that may begin a secret is replaced at once, and so is its continuation.
        """
        before, whole = len(self.tail), self.tail + text
        data, spans = _bytes(whole), list[tuple[int, int]]()
        for secret in self._forms:
            if secret.occurs_in(data):
                spans += _secret_spans(secret, whole)
            prefix = secret.trailing_prefix_length(whole[-CHUNK_LENGTH:])
            if prefix:
                spans.append((len(whole) - prefix, len(whole)))
        self.tail = whole[-max(secret.tail_length for secret in self._forms) :]
        return self._replace_spans(whole, [(max(start, before), end) for start, end in spans if end > before])[before:]

    def _replace_spans(self, text: str, spans: list[tuple[int, int]]) -> str:
        parts, at = [], 0
        for start, end in sorted(spans):
            if end > at:
                if start >= at:
                    self.count += 1
                    parts += [text[at:start], REDACTED]
                at = end
        return "".join([*parts, text[at:]])


def _collect_leaves(value: Json, found: list[Json], names: list[str]) -> list[Json]:
    """Collect texts and whole numbers of a value in order, and in `names` the member names and fractions."""
    if isinstance(value, dict):
        names += value
        value = value.values()
    for part in value:
        kind = type(part)
        if kind is str or kind is int:
            found.append(part)
        elif kind is dict or kind is list:
            _collect_leaves(part, found, names)
        elif kind is float:
            names.append(str(part))
    return found


def _is_tiny(encoded: bytes, length: int) -> bool:
    """Return whether an encoded object is so small that neither its first name nor all the rest has this length.

    The closing bracket counts as a part of the rest: a fraction may be a character longer as text than in JSON.
    """
    name_end = encoded.find(b'":')
    return (
        name_end - 2 < length
        and len(encoded) - name_end - 2 < length
        and encoded.startswith(b'{"')
        and encoded.find(b"\\") < 0  # a name may go on behind an escaped quote
    )


def _has_line(value: JsonObject | list[Json], length: int) -> bool:
    """Return whether a name or a fraction in the value is so long, or all its leaves are together; looks no further."""
    joined, pending = 0, list[Json]([value])
    for part in pending:  # grows meanwhile
        for name in part if type(part) is dict else ():
            if len(name) >= length:
                return True
        for each in part.values() if type(part) is dict else part:
            kind = type(each)
            if kind is float:
                if len(str(each)) >= length:
                    return True
            elif kind is str:
                joined += len(each)
            elif kind is int:
                joined += len(str(each))
            elif kind is dict or kind is list:
                pending.append(each)
        if joined >= length:
            return True
    return False


def _number_list(leaves: list[Json]) -> str:
    """Return the whole numbers among the leaves as a text, separated by commas."""
    return ", ".join([str(leaf) for leaf in leaves if type(leaf) is int])


def _rebuild(value: Json, leaves: Iterator[Json], changed: dict[str, Json]) -> Json:
    """Return the value with these leaves, and with changed names and fractions."""
    match value:
        case dict():
            return {changed.get(key, key): _rebuild(part, leaves, changed) for key, part in value.items()}
        case list():
            return [_rebuild(part, leaves, changed) for part in value]
        case float():
            return REDACTED if str(value) in changed else value
        case bool() | None:
            return value
        case _:
            return next(leaves)


def _secret_spans(forms: "SecretForms", text: str) -> list[tuple[int, int]]:
    """Locate a secret in a text that contains it; the whole text if there are too many, or one longer than a chunk."""
    everything = [(0, len(text))]
    if len(text) <= 2 * CHUNK_LENGTH:
        spans = _merge_spans(forms.find_spans(text))
        return spans if len(spans) <= MAX_SPANS else everything
    spans, hits, step = list[tuple[int, int]](), 0, max(CHUNK_LENGTH, forms.max_form_length)
    for start in range(0, len(text), step):
        chunk = text[start : start + step + forms.max_form_length]
        if forms.occurs_in(_bytes(chunk)):
            hits += 1
            if hits > MAX_CHUNKS:
                return everything
            spans += [(start + first, start + last) for first, last in forms.find_spans(chunk)]
    from toolhall.redaction.secret_forms import remove_spans  # lazy: as in _secret_forms

    spans = _merge_spans(spans)
    if len(spans) > MAX_SPANS or forms.occurs_in(_bytes(remove_spans(text, spans))):
        return everything
    return spans


def _merge_spans(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans and merge those that overlap."""
    merged, covered = list[tuple[int, int]](), -1
    for start, end in sorted(spans):
        if start >= covered:
            merged.append((start, end))
        elif end > covered:
            merged[-1] = (merged[-1][0], end)
        covered = max(covered, end)
    return merged


class _LeafSearch:
    """Finds the leaves that contain a secret: many are searched as one text, and divided only if it contains one."""

    def __init__(self, leaves: list[Json], contains: Callable[[bytes], bool]) -> None:
        self._texts = list(map(str, leaves))
        self._contains = contains
        self._searches_left = MAX_SEARCHES
        self._characters_left = _MAX_SCANS * (sum(map(len, self._texts)) + len(self._texts))

    def matching_positions(self, start: int, end: int) -> Iterator[int]:
        """Yield the positions of leaves that contain a secret; raises _TooManyMatches."""
        if start == end:
            return
        text = _LEAF_SEPARATOR.join(self._texts[start:end])
        self._searches_left -= 1
        self._characters_left -= len(text)
        if self._searches_left < 0 or self._characters_left < 0:
            raise _TooManyMatches
        if not self._contains(_bytes(text)):
            return
        if end - start == 1:
            yield start
            return
        step = -(-(end - start) // _SEARCH_BRANCHES)
        for at in range(start, end, step):
            yield from self.matching_positions(at, min(at + step, end))


def preload_secret_forms() -> None:
    """Import now what the first redactor needs, so that the first call with a secret does not wait for it."""
    _secret_forms()


def _forms_of(secret: str) -> "tuple[SecretForms, ...]":
    return (_secret_forms()(secret),)


@cache
def _secret_forms() -> "type[SecretForms]":
    from toolhall.redaction.secret_forms import SecretForms  # lazy: many patterns, only for calls with a secret

    return SecretForms


def redactor_for(credential: Secret | None, secrets: tuple[Secret, ...] = ()) -> Redactor | None:
    """Return a redactor of these secrets and the caller's own credential; None without any."""
    return Redactor(secrets, credential) if secrets or credential is not None else None


def _bytes(text: str) -> bytes:
    return text.encode() if text.isascii() else text.encode(errors="surrogatepass")
