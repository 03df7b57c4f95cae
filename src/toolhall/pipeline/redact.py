"""Takes the secrets out of a call before it is kept: by schema, by name, by shape, and wherever else they turn up."""

from collections.abc import Iterator

import msgspec

from toolhall.model.json import Json, JsonObject
from toolhall.model.patch import escape
from toolhall.model.secret_names import is_secret_name, may_count
from toolhall.model.secret_shapes import HIDDEN, hide
from toolhall.schema.secrecy import OPEN, Secrecy

MAX_DEPTH = 64
# With more secrets, places, or letters in the pointers to them, everything is redacted: little would be left anyway.
MAX_SECRETS = 32
MAX_PLACES = 100
MAX_LETTERS = 16 * 1024
SHORTEST_ECHO = 4  # a shorter secret is part of too many words

_NAMING = ("name", "key", "header", "field")
_NAMED = ("value", "values")


class Part(msgspec.Struct, frozen=True):
    """A value, where it stands, what it is called there, and what its schema says."""

    pointer: str
    value: Json
    name: str = ""
    secrecy: Secrecy = OPEN


class Redacted(msgspec.Struct, frozen=True):
    """The values without secrets, in the order of the parts, and the pointers to what was replaced."""

    values: list[Json]
    pointers: tuple[str, ...]


def redact(*parts: Part) -> Redacted:
    """Everything together, because a tool may answer with the very secret that it was called with."""
    try:
        search = _Search()
        values = [search.part(part) for part in parts]
        if search.secrets:
            echoes = _Echoes(search.secrets)
            values = [echoes.replaced(value) for value in values]
        places = (place for part, value in zip(parts, values, strict=True) for place in _places(value, part.pointer))
        return Redacted(values, tuple(_few(places)))
    except _TooMany:
        return Redacted([HIDDEN] * len(parts), tuple(part.pointer for part in parts))


class _TooMany(Exception):
    """So much is secret that nothing is worth keeping."""


class _Search:
    """Replaces what is secret by itself, and remembers it."""

    def __init__(self) -> None:
        self.secrets: set[str] = set()
        self._secrecy = OPEN

    def part(self, part: Part) -> Json:
        """The part without its secrets."""
        self._secrecy = part.secrecy
        return self._hidden(part.value) if part.secrecy.whole else self._member(part.name, part.value, 0)

    def _member(self, name: str, value: Json, depth: int) -> Json:
        if name in self._secrecy.members or (is_secret_name(name) and not (may_count(name) and _is_numbers(value))):
            return self._hidden(value)
        return self._open(value, depth)

    def _hidden(self, value: Json) -> Json:
        """A yes or no, and nothing at all, are no secrets, whatever they are called."""
        if value is None or isinstance(value, bool) or value in ("", [], {}):
            return value
        for leaf in _leaves(value):
            self._remember(str(leaf))
            hide(str(leaf), self._remember)  # a header's value holds more than the secret
        return HIDDEN

    def _open(self, value: Json, depth: int) -> Json:
        match value:
            case str():
                return hide(value, self._remember)
            case dict() | list() if depth > MAX_DEPTH:
                return self._hidden(value)
            case dict():
                return self._object(value, depth + 1)
            case [str(name), second] if is_secret_name(name):  # a header, as a pair
                return [name, self._hidden(second)]
            case list():
                return [self._open(each, depth + 1) for each in value]
            case _:
                return value

    def _object(self, value: JsonObject, depth: int) -> JsonObject:
        named = any(isinstance(value.get(key), str) and is_secret_name(value[key]) for key in _NAMING)
        return {
            hide(key, self._remember): (
                self._hidden(each) if named and key in _NAMED else self._member(key, each, depth)
            )
            for key, each in value.items()
        }

    def _remember(self, secret: str) -> None:
        if len(secret) >= SHORTEST_ECHO and secret != HIDDEN:
            self.secrets.add(secret)
            if len(self.secrets) > MAX_SECRETS:
                raise _TooMany


class _Echoes:
    """Replaces the secrets that were found wherever else they stand."""

    def __init__(self, secrets: set[str]) -> None:
        self._secrets = sorted(secrets, key=len, reverse=True)  # one may be a part of another

    def replaced(self, value: Json) -> Json:
        """The value without them."""
        match value:
            case str():
                return self._text(value)
            case dict():
                return {self._text(key): self.replaced(each) for key, each in value.items()}
            case list():
                return [self.replaced(each) for each in value]
            case int() | float() if str(value) in self._secrets:
                return HIDDEN
            case _:
                return value

    def _text(self, text: str) -> str:
        for secret in self._secrets:
            if secret in text and text != HIDDEN:
                text = text.replace(secret, HIDDEN)
        return text


def _leaves(value: Json) -> Iterator[Json]:
    """The texts and numbers in a value."""
    pending = [value]
    while pending:
        part = pending.pop()
        match part:
            case dict():
                pending.extend(part.values())
            case list():
                pending.extend(part)
            case bool() | None:
                continue
            case _:
                yield part


def _is_numbers(value: Json) -> bool:
    return not any(isinstance(leaf, str) for leaf in _leaves(value))


def _places(value: Json, pointer: str) -> Iterator[str]:
    """Where something was replaced; looked for at the end, when no name in a pointer is a secret any more."""
    match value:
        case str() if HIDDEN in value:
            yield pointer
        case dict():
            for key, each in value.items():
                inner = f"{pointer}/{escape(key)}"
                if HIDDEN in key:
                    yield inner
                yield from _places(each, inner)
        case list():
            for index, each in enumerate(value):
                yield from _places(each, f"{pointer}/{index}")
        case _:
            return


def _few(places: Iterator[str]) -> Iterator[str]:
    letters = 0
    for count, place in enumerate(places):
        letters += len(place)
        if count >= MAX_PLACES or letters > MAX_LETTERS:
            raise _TooMany
        yield place
