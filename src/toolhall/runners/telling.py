"""The line that a running tool gets: what it tells and asks is cleaned, and it cannot flood whoever listens."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from toolhall.model.exchange import Event, Link, Log, Progress
from toolhall.model.json import Json
from toolhall.model.question import Answered, Question
from toolhall.model.text import Sweep, clean_text
from toolhall.schema.types import to_json

PER_SECOND = 20  # events of one call, and as many at once
MOST_BYTES = 64 * 1024  # of all events of one call
MOST_TEXTS = 500  # in one event


class Hides(Protocol):
    """What takes the secrets of a call out of texts."""

    def text(self, text: str) -> str:
        """The text without them."""
        ...

    def next(self, text: str) -> str:
        """The next piece of a text that comes in pieces."""
        ...

    def json(self, encoded: bytes) -> bytes:
        """The same JSON without them."""
        ...


class Telling:
    """A link for one call; what is too much is dropped and counted."""

    __slots__ = ("_at", "_bytes", "_caller", "_clock", "_hides", "_latest", "_left", "dropped", "link")

    def __init__(self, link: Link, hides: Hides | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.link = self._caller = link
        self.dropped = 0
        self._hides = hides
        self._latest: Progress | None = None
        self._clock = clock
        self._at = 0.0
        self._left = float(PER_SECOND)
        self._bytes = 0

    def through(self, link: Link) -> "Telling":
        """Tell and ask by way of another link to the same caller: what is too much does not even come there."""
        self.link = link
        return self

    def emit(self, event: Event) -> None:
        """Pass it on, clean, unless it is too much."""
        now = self._clock()
        if self._at:
            self._left = min(PER_SECOND, self._left + (now - self._at) * PER_SECOND)
        self._at = now
        if self._left < 1:
            self.dropped += 1
            self._latest = event if isinstance(event, Progress) else self._latest
        else:
            self._left -= 1
            self._latest = None if isinstance(event, Progress) else self._latest
            self._emit(event, self.link)

    def can(self, feature: str) -> bool:
        """Whether the caller's program declared it."""
        return self.link.can(feature)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Put the questions, clean; who asks finds the answers under its own keys."""
        keys = {clean_text(key): key for key in questions}
        put = {key: self._question(questions[stated]) for key, stated in keys.items()}
        answers = await self.link.ask(put)
        return {keys.get(key, key): answer for key, answer in answers.items()}

    async def detach(self, retry_ms: int) -> None:
        """Hang up and let the client come back for the answer, where the dialect can."""
        await self.link.detach(retry_ms)

    def end(self) -> None:
        """Say how far it came, and how much was dropped, as far as the caller hears log messages."""
        if self._latest is not None:
            self.dropped -= 1
            with suppress(TypeError, ValueError, NotImplementedError):  # one that was dropped was not even looked at
                self._emit(self._latest, self._caller)
        if self.dropped:
            limits = f"at most {PER_SECOND} a second and {MOST_BYTES // 1024} kB are passed on"
            self._caller.emit(Log("warning", f"{self.dropped} messages of this call were dropped: {limits}"))

    def _emit(self, event: Event, link: Link) -> None:
        """Counted before it is cleaned, which takes much longer, and after, because what is hidden may be shorter."""
        if self._bytes < MOST_BYTES:
            event = _plain(event)
            written = to_json(event)
            size = len(written)
            if written.count(b'"') > 2 * MOST_TEXTS:  # each would be looked at by itself
                self.dropped += 1
                return
            if self._bytes + size <= MOST_BYTES:
                event = self._clean(event)
                size = len(to_json(event))
            self._bytes += size
            if self._bytes <= MOST_BYTES:
                link.emit(event)
                return
        self.dropped += 1

    def _clean(self, event: Event) -> Event:
        match event:
            case Progress(done, total, str(message)):
                return Progress(done, total, self._text(message))
            case Progress():
                return event
            case Log(level, data, logger):
                return Log(level, self._whole(self._value(data)), logger)

    def _text(self, text: str) -> str:
        """A secret may come in pieces, one with each event."""
        text = clean_text(text)
        return text if self._hides is None else self._hides.next(text)

    def _key(self, key: str) -> str:
        """No piece: it stands between two values."""
        key = clean_text(key)
        return key if self._hides is None else self._hides.text(key)

    def _value(self, value: Json) -> Json:
        match value:
            case str():
                return self._text(value)
            case dict():
                return {self._key(key): self._value(part) for key, part in value.items()}
            case list():
                return [self._value(part) for part in value]
            case _:
                return value

    def _whole(self, value: Json) -> Json:
        """Without a secret that is spread over the parts of one value, such as a list of bytes."""
        if self._hides is None or not isinstance(value, dict | list):
            return value
        return msgspec.json.decode(self._hides.json(to_json(value)))

    def _question(self, question: Question) -> Question:
        stated = to_json(question)
        clean = Sweep().json(stated)
        if self._hides is not None:
            clean = self._hides.json(clean)
        return question if clean == stated else msgspec.json.decode(clean, type=type(question))


def _plain(event: Event) -> Event:
    """In words of JSON, whatever an author put into it."""
    match event:
        case Progress(message=None):
            return event
        case Progress(done, total, message):
            return Progress(done, total, str(message))
        case Log(level, data, logger):
            return Log(level, msgspec.json.decode(to_json(data)), logger)
