"""Takes the secrets of one call out of everything that it says, in the forms that `disguises` lists.

A value is searched part by part, then as a whole: its texts and numbers one after the other, so that a secret that is
spread over several members is found too, and its whole numbers as a list of bytes.
"""

from collections.abc import Iterator

import msgspec

from toolhall.model.json import Json, encode
from toolhall.model.secret import Secret
from toolhall.model.secret_shapes import HIDDEN
from toolhall.runners.disguises import Disguises

_BETWEEN = ("", ", ")  # texts and numbers as one text; whole numbers as a list


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
        found = [span for secret in self._secrets if secret.holds(data) for span in secret.spans(text)]
        return self._hidden(text, found) if found else text

    def data(self, data: bytes) -> bytes:
        """Bytes that are no text, or may be none."""
        if not self.finds(data):
            return data
        return self.text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")

    def json(self, encoded: bytes) -> bytes:
        """The same JSON without them; byte for byte the same where there are none."""
        value = msgspec.json.decode(encoded)
        return encode(self.value(value)) if self._inside(value, encoded) else encoded

    def _inside(self, value: Json, encoded: bytes) -> bool:
        """Whether one of them is in it; the texts together hold what each of them holds."""
        if not isinstance(value, dict | list):
            return self.finds(encoded) or (isinstance(value, str) and self.finds(_bytes(value)))
        names: list[str] = []
        leaves = _leaves(value, [], names)
        listed = _text(leaves, ", ")
        together = _bytes("\n".join([_text(leaves, ""), *names]))
        texts = (together, _bytes(listed)) if listed else (together,)
        for secret in self._secrets:
            for text in texts if secret.any_case else (encoded,):
                if secret.holds(text):
                    return True
        return False

    def value(self, value: Json) -> Json:
        """The value without them: in texts, keys and numbers, and over several of these."""
        return self._each(self._together(value) if self.spread(value) else value)

    def _together(self, value: Json) -> Json:
        # Where all of it is in one part, what stands beside that part is none of it.
        leaves = [self.text(leaf) if self._is_whole_in(leaf) else leaf for leaf in _leaves(value, [], [])]
        for between in _BETWEEN:
            text, places = _joined(leaves, between)
            spans = [span for secret in self._secrets if secret.joins(text) for span in secret.spans(text)]
            leaves = self._without(leaves, places, spans)
        return _rebuilt(value, iter(leaves))

    def spread(self, value: Json) -> bool:
        """Whether one of them is in the parts of the value, taken together."""
        if not isinstance(value, dict | list):
            return False
        leaves = _leaves(value, [], [])
        texts = [_text(leaves, between) for between in _BETWEEN]
        return any([secret.joins(text) for text in texts for secret in self._secrets])  # noqa: C419 - as below

    def _is_whole_in(self, leaf: Json) -> bool:
        return isinstance(leaf, str) and any(secret.holds_whole(_bytes(leaf)) for secret in self._secrets)

    def _without(self, leaves: list[Json], places: list[tuple[int, int]], spans: list[tuple[int, int]]) -> list[Json]:
        """The leaves without what these spans of their text cover."""
        left, waiting = list[Json](), sorted(spans, reverse=True)
        covered = 0  # up to where the spans that were taken reach
        for leaf, (start, end) in zip(leaves, places, strict=True):
            inside = [(0, min(covered, end) - start)] if covered > start else []
            while waiting and waiting[-1][0] < end:
                first, last = waiting.pop()
                inside.append((max(first - start, 0), min(last, end) - start))
                covered = max(covered, last)
            inside = [(first, last) for first, last in inside if first < last]
            hidden = self._hidden(leaf, inside) if isinstance(leaf, str) and inside else leaf
            left.append(HIDDEN if inside and not isinstance(leaf, str) else hidden)
        return left

    def _each(self, value: Json) -> Json:
        match value:
            case str():
                return self.text(value)
            case dict():
                return {self.text(key): self._each(part) for key, part in value.items()}
            case list():
                return [self._each(part) for part in value]
            case bool() | None:
                return value
            case _:
                written = str(value)
                return value if self.text(written) == written else HIDDEN

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
                spans += secret.spans(whole)
            begun = secret.begun(whole)
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


def _joined(leaves: list[Json], between: str) -> tuple[str, list[tuple[int, int]]]:
    """What `_text` gives, and where each leaf stands in it."""
    places, at = list[tuple[int, int]](), 0
    for leaf in leaves:
        size = len(str(leaf)) if not between or isinstance(leaf, int) else 0
        places.append((at, at + size))
        at += size + len(between) * bool(size)
    return _text(leaves, between), places


def _text(leaves: list[Json], between: str) -> str:
    """One text of all leaves, or a list of the whole numbers among them."""
    if between:
        return between.join([str(leaf) for leaf in leaves if type(leaf) is int])
    return "".join(map(str, leaves))


def _rebuilt(value: Json, leaves: Iterator[Json]) -> Json:
    match value:
        case dict():
            return {key: _rebuilt(part, leaves) for key, part in value.items()}
        case list():
            return [_rebuilt(part, leaves) for part in value]
        case bool() | float() | None:
            return value
        case _:
            return next(leaves)


def redactor_for(credential: Secret | None, secrets: tuple[Secret, ...] = ()) -> Redactor | None:
    """What hides them, and the caller's own credential; nothing, for a call without any."""
    return Redactor(secrets, credential) if secrets or credential is not None else None


def _bytes(text: str) -> bytes:
    return text.encode() if text.isascii() else text.encode(errors="surrogatepass")
