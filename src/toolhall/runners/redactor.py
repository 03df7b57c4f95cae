"""Takes the secrets of one call out of everything that it says, in the forms that `disguises` lists.

A value is searched part by part, then as a whole: its texts and numbers one after the other, so that a secret that is
spread over several members is found too, and its whole numbers as a list of bytes.

The work is bounded, whatever the value holds. The parts that hold a secret are found by division (`_Search`). A long
text is cut into overlapping pieces, and only those that hold one are looked at closely. A text in which too many pieces
hold one is hidden whole, and so is a value with too many such parts.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate

import msgspec

from toolhall.model.json import Json, encode
from toolhall.model.secret import Secret
from toolhall.model.secret_shapes import HIDDEN
from toolhall.runners.disguises import Disguises, without

PIECE = 16 * 1024  # characters of a long text that are looked at together
MOST_PIECES = 8  # that hold a secret; with more of them the whole text is hidden
MOST_SPANS = 2_000  # of secrets in one text; with more of them the whole text is hidden
MOST_SEARCHES = 2_000  # for the parts of one value that hold a secret; if they do not suffice, all of it is hidden
_MOST_SCANS = 6  # how often these searches may read as many characters as the value has
_BRANCHES = 8
_BETWEEN_PARTS = "\0"
_ONLY_NUMBERS = b"0123456789-,[] "


class _TooMuch(Exception):
    """So many parts hold a secret that all of the value is hidden."""


class Redactor:
    """Knows the secrets that this call uses, and counts how often it hid one."""

    __slots__ = ("_secrets", "count", "lent", "tail")

    def __init__(self, secrets: tuple[Secret, ...], credential: Secret | None = None) -> None:
        self._secrets = [
            secret.known(Disguises) for secret in (secrets if credential is None else (credential, *secrets))
        ]
        self.lent = secrets  # what the tool is given, without the caller's own credential
        self.tail = ""  # the end of what `next` has seen
        self.count = 0

    def text(self, text: str) -> str:
        """The text without them."""
        data = _bytes(text)
        # All are looked for before any is hidden: what is left of one would not be found after a part of it is gone.
        found = [span for secret in self._secrets if secret.holds(data) for span in _spans(secret, text)]
        return self._hidden(text, found) if found else text

    def data(self, data: bytes) -> bytes:
        """Bytes that are no text, or may be none."""
        if not self.finds(data):
            return data
        return self.text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def json(self, encoded: bytes) -> bytes:
        """The same JSON without them; byte for byte the same where there are none."""
        only_numbers = encoded[:1] == b"[" and not encoded.translate(None, _ONLY_NUMBERS)
        if only_numbers and not any([secret.holds_list(encoded) for secret in self._secrets]):  # noqa: C419 - as below
            return encoded
        value = msgspec.json.decode(encoded)
        return encode(self.value(value)) if self._inside(value, encoded) else encoded

    def _inside(self, value: Json, encoded: bytes) -> bool:
        """Whether one of them is in it; the texts together hold what each of them holds."""
        if not isinstance(value, dict | list):
            return self.finds(encoded) or (isinstance(value, str) and b"\\" in encoded and self.finds(_bytes(value)))
        names: list[str] = []
        leaves = _leaves(value, [], names)
        listed = _listed(leaves)
        together = _bytes("\n".join(["".join(map(str, leaves)), *names]))
        texts = (together, _bytes(listed)) if listed else (together,)
        for secret in self._secrets:
            for text in texts if secret.any_case else (encoded,):
                if secret.holds(text):
                    return True
        return False

    def value(self, value: Json) -> Json:
        """The value without them: in texts, keys and numbers, and over several of these."""
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list):
            return value if value is None or isinstance(value, bool) or not self._changes(str(value)) else HIDDEN
        names: list[str] = []
        leaves = _leaves(value, [], names)
        try:
            if self._joins(leaves):
                self._hide_spread(leaves)
            self._hide_each(leaves, self.finds)
            self._hide_each(renamed := list[Json](names), self.finds)
        except _TooMuch:
            self.count += 1
            return {HIDDEN: HIDDEN} if isinstance(value, dict) else [HIDDEN]
        changed = {before: after for before, after in zip(names, renamed, strict=True) if before is not after}
        return _rebuilt(value, iter(leaves), changed)

    def spread(self, value: Json) -> bool:
        """Whether one of them is in the parts of the value, taken together."""
        return isinstance(value, dict | list) and self._joins(_leaves(value, [], []))

    def _joins(self, leaves: list[Json]) -> bool:
        texts = ("".join(map(str, leaves)), _listed(leaves))
        return any([secret.joins(text) for text in texts for secret in self._secrets])  # noqa: C419 - as below

    def _hide_spread(self, leaves: list[Json]) -> None:
        """Hide what is in the leaves taken together: as one text, and their whole numbers as a list."""
        if len(leaves) > MOST_SEARCHES:
            for text in ("".join(map(str, leaves)), _listed(leaves)):
                if self._joined_spans(text) == [(0, len(text))]:
                    raise _TooMuch
        # Where all of it is in one part, what stands beside that part is none of it.
        self._hide_each(leaves, lambda data: any(secret.holds_whole(data) for secret in self._secrets), texts=True)
        self._hide_joined(leaves, list(range(len(leaves))), "")
        self._hide_joined(leaves, [at for at, leaf in enumerate(leaves) if type(leaf) is int], ", ")

    def _hide_joined(self, leaves: list[Json], places: list[int], between: str) -> None:
        texts = [str(leaves[place]) for place in places]
        text = between.join(texts)
        spans = self._joined_spans(text)
        if not spans:
            return
        ends = list(accumulate(len(each) + len(between) for each in texts))
        inside: dict[int, list[tuple[int, int]]] = {}
        for start, end in spans:
            at = bisect_right(ends, start)
            while at < len(ends) and (began := ends[at] - len(texts[at]) - len(between)) < end:
                if len(inside) > MOST_SEARCHES:
                    raise _TooMuch
                inside.setdefault(at, []).append((max(start - began, 0), min(end - began, len(texts[at]))))
                at += 1
        for at, parts in inside.items():
            leaf, covered = leaves[places[at]], [(first, last) for first, last in parts if first < last]
            if covered:
                leaves[places[at]] = self._hidden(leaf, covered) if isinstance(leaf, str) else HIDDEN

    def _joined_spans(self, text: str) -> list[tuple[int, int]]:
        return [span for secret in self._secrets if secret.joins(text) for span in _spans(secret, text)]

    def _hide_each(self, leaves: list[Json], holds: Callable[[bytes], bool], *, texts: bool = False) -> None:
        """Hide what is in single leaves."""
        for place in list(_Search(leaves, holds).places(0, len(leaves))):
            leaf = leaves[place]
            if isinstance(leaf, str):
                leaves[place] = self.text(leaf)
            elif not texts and self._changes(str(leaf)):
                leaves[place] = HIDDEN

    def _changes(self, text: str) -> bool:
        return self.text(text) != text

    def finds(self, data: bytes) -> bool:
        """Whether any of them is in it."""
        return any([secret.holds(data) for secret in self._secrets])  # noqa: C419 - a generator costs more than a miss

    def next(self, text: str) -> str:
        """The next piece of a text that comes in pieces: a secret that is cut in two, wherever, is hidden in both.

        Nothing is held back: an end that may become a secret is hidden at once, and so is what goes on with it.
        """
        before, whole = len(self.tail), self.tail + text
        data, spans = _bytes(whole), list[tuple[int, int]]()
        for secret in self._secrets:
            if secret.holds(data):
                spans += _spans(secret, whole)
            begun = secret.begun(whole[-PIECE:])
            if begun:
                spans.append((len(whole) - begun, len(whole)))
        self.tail = whole[-max(secret.reach for secret in self._secrets) :]
        return self._hidden(whole, [(max(start, before), end) for start, end in spans if end > before])[before:]

    def _hidden(self, text: str, spans: list[tuple[int, int]]) -> str:
        parts, at = [], 0
        for start, end in sorted(spans):
            if end > at:
                if start >= at:
                    self.count += 1
                    parts += [text[at:start], HIDDEN]
                at = end
        return "".join([*parts, text[at:]])


def _leaves(value: Json, found: list[Json], names: list[str]) -> list[Json]:
    """The texts and whole numbers in a value, in order; beside them the names of members, and the other numbers."""
    if isinstance(value, dict):
        names += value
        value = value.values()
    for part in value:
        kind = type(part)
        if kind is str or kind is int:
            found.append(part)
        elif kind is dict or kind is list:
            _leaves(part, found, names)
        elif kind is float:
            names.append(str(part))
    return found


def _listed(leaves: list[Json]) -> str:
    """The whole numbers among the leaves, as a list."""
    return ", ".join([str(leaf) for leaf in leaves if type(leaf) is int])


def _rebuilt(value: Json, leaves: Iterator[Json], changed: dict[str, Json]) -> Json:
    """The value with these leaves, and with the names and fractions that have changed."""
    match value:
        case dict():
            return {changed.get(key, key): _rebuilt(part, leaves, changed) for key, part in value.items()}
        case list():
            return [_rebuilt(part, leaves, changed) for part in value]
        case float():
            return HIDDEN if str(value) in changed else value
        case bool() | None:
            return value
        case _:
            return next(leaves)


def _spans(secret: Disguises, text: str) -> list[tuple[int, int]]:
    """Where a secret stands in a text that holds it; all of a text that holds it too often, or longer than a piece."""
    everything = [(0, len(text))]
    if len(text) <= 2 * PIECE:
        spans = _merged(secret.spans(text))
        return spans if len(spans) <= MOST_SPANS else everything
    spans, hits, step = list[tuple[int, int]](), 0, max(PIECE, secret.longest)
    for start in range(0, len(text), step):
        piece = text[start : start + step + secret.longest]
        if secret.holds(_bytes(piece)):
            hits += 1
            if hits > MOST_PIECES:
                return everything
            spans += [(start + first, start + last) for first, last in secret.spans(piece)]
    spans = _merged(spans)
    if len(spans) > MOST_SPANS or secret.holds(_bytes(without(text, spans))):
        return everything
    return spans


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same places, in order, without those that others cover."""
    merged, covered = list[tuple[int, int]](), -1
    for start, end in sorted(spans):
        if start >= covered:
            merged.append((start, end))
        elif end > covered:
            merged[-1] = (merged[-1][0], end)
        covered = max(covered, end)
    return merged


class _Search:
    """Finds the leaves that hold a secret: many leaves are searched as one text, and divided only if that holds one."""

    def __init__(self, leaves: list[Json], holds: Callable[[bytes], bool]) -> None:
        self._texts = list(map(str, leaves))
        self._holds = holds
        self._searches = MOST_SEARCHES
        self._letters = _MOST_SCANS * (sum(map(len, self._texts)) + len(self._texts))

    def places(self, start: int, end: int) -> Iterator[int]:
        """Which of these leaves hold one."""
        if start == end:
            return
        text = _BETWEEN_PARTS.join(self._texts[start:end])
        self._searches -= 1
        self._letters -= len(text)
        if self._searches < 0 or self._letters < 0:
            raise _TooMuch
        if not self._holds(_bytes(text)):
            return
        if end - start == 1:
            yield start
            return
        step = -(-(end - start) // _BRANCHES)
        for at in range(start, end, step):
            yield from self.places(at, min(at + step, end))


def redactor_for(credential: Secret | None, secrets: tuple[Secret, ...] = ()) -> Redactor | None:
    """What hides them, and the caller's own credential; nothing, for a call without any."""
    return Redactor(secrets, credential) if secrets or credential is not None else None


def _bytes(text: str) -> bytes:
    return text.encode() if text.isascii() else text.encode(errors="surrogatepass")
