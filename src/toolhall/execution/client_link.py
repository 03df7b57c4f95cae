"""`ThrottledLink`: the client link that a running tool gets, sanitized, redacted and limited in rate and size.

Events beyond the limits are dropped and counted; the caller is told how many, and the last progress, at the end.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol

import msgspec

from toolhall.model.json import Json
from toolhall.model.messages import CallEvent, ClientLink, LogEvent, ProgressEvent
from toolhall.model.questions import Answered, Question
from toolhall.model.text import TextSanitizer, clean_text
from toolhall.schema.types import to_json

EVENTS_PER_SECOND = 20  # events of one call, and as many at once
MAX_EVENT_BYTES = 64 * 1024  # of all events of one call
MAX_EVENT_TEXTS = 500  # in one event


class TextRedactor(Protocol):
    """What takes the secrets of a call out of texts."""

    def redact_text(self, text: str) -> str:
        """The text without them."""
        ...

    def redact_next(self, text: str) -> str:
        """The next piece of a text that comes in pieces."""
        ...

    def redact_json(self, encoded: bytes) -> bytes:
        """The same JSON without them."""
        ...


class ThrottledLink:
    """A link for one call; what is too much is dropped and counted."""

    __slots__ = (
        "_caller_link",
        "_clock",
        "_latest_progress",
        "_redactor",
        "_refilled_at",
        "_sent_bytes",
        "_tokens",
        "dropped",
        "link",
    )

    def __init__(
        self, link: ClientLink, redactor: TextRedactor | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.link = self._caller_link = link
        self.dropped = 0
        self._redactor = redactor
        self._latest_progress: ProgressEvent | None = None
        self._clock = clock
        self._refilled_at = 0.0
        self._tokens = float(EVENTS_PER_SECOND)
        self._sent_bytes = 0

    def rebind(self, link: ClientLink) -> "ThrottledLink":
        """Tell and ask by way of another link to the same caller: what is too much does not even come there."""
        self.link = link
        return self

    def emit(self, event: CallEvent) -> None:
        """Pass it on, clean, unless it is too much."""
        now = self._clock()
        if self._refilled_at:
            self._tokens = min(EVENTS_PER_SECOND, self._tokens + (now - self._refilled_at) * EVENTS_PER_SECOND)
        self._refilled_at = now
        if self._tokens < 1:
            self.dropped += 1
            self._latest_progress = event if isinstance(event, ProgressEvent) else self._latest_progress
        else:
            self._tokens -= 1
            self._latest_progress = None if isinstance(event, ProgressEvent) else self._latest_progress
            self._emit(event, self.link)

    def can(self, feature: str) -> bool:
        """Whether the caller's program declared it."""
        return self.link.can(feature)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Put the questions, clean; who asks finds the answers under its own keys."""
        keys = {clean_text(key): key for key in questions}
        put = {key: self._clean_question(questions[stated]) for key, stated in keys.items()}
        answers = await self.link.ask(put)
        return {keys.get(key, key): answer for key, answer in answers.items()}

    async def detach(self, retry_ms: int) -> None:
        """Hang up and let the client come back for the answer, where the dialect can."""
        await self.link.detach(retry_ms)

    def finish(self) -> None:
        """Say how far it came, and how much was dropped, as far as the caller hears log messages."""
        if self._latest_progress is not None:
            self.dropped -= 1
            with suppress(TypeError, ValueError, NotImplementedError):  # one that was dropped was not even looked at
                self._emit(self._latest_progress, self._caller_link)
        if self.dropped:
            limits = f"at most {EVENTS_PER_SECOND} a second and {MAX_EVENT_BYTES // 1024} kB are passed on"
            self._caller_link.emit(LogEvent("warning", f"{self.dropped} messages of this call were dropped: {limits}"))

    def _emit(self, event: CallEvent, link: ClientLink) -> None:
        """Counted before it is cleaned, which takes much longer, and after, because what is hidden may be shorter."""
        if self._sent_bytes < MAX_EVENT_BYTES:
            event = _to_json_event(event)
            written = to_json(event)
            size = len(written)
            if written.count(b'"') > 2 * MAX_EVENT_TEXTS:  # each would be looked at by itself
                self.dropped += 1
                return
            if self._sent_bytes + size <= MAX_EVENT_BYTES:
                event = self._clean_event(event)
                size = len(to_json(event))
            self._sent_bytes += size
            if self._sent_bytes <= MAX_EVENT_BYTES:
                link.emit(event)
                return
        self.dropped += 1

    def _clean_event(self, event: CallEvent) -> CallEvent:
        match event:
            case ProgressEvent(done, total, str(message)):
                return ProgressEvent(done, total, self._clean_text(message))
            case ProgressEvent():
                return event
            case LogEvent(level, data, logger):
                return LogEvent(level, self._redact_spread(self._clean_value(data)), logger)

    def _clean_text(self, text: str) -> str:
        """A secret may come in pieces, one with each event."""
        text = clean_text(text)
        return text if self._redactor is None else self._redactor.redact_next(text)

    def _clean_key(self, key: str) -> str:
        """No piece: it stands between two values."""
        key = clean_text(key)
        return key if self._redactor is None else self._redactor.redact_text(key)

    def _clean_value(self, value: Json) -> Json:
        match value:
            case str():
                return self._clean_text(value)
            case dict():
                return {self._clean_key(key): self._clean_value(part) for key, part in value.items()}
            case list():
                return [self._clean_value(part) for part in value]
            case _:
                return value

    def _redact_spread(self, value: Json) -> Json:
        """Without a secret that is spread over the parts of one value, such as a list of bytes."""
        if self._redactor is None or not isinstance(value, dict | list):
            return value
        return msgspec.json.decode(self._redactor.redact_json(to_json(value)))

    def _clean_question(self, question: Question) -> Question:
        stated = to_json(question)
        clean = TextSanitizer().clean_json(stated)
        if self._redactor is not None:
            clean = self._redactor.redact_json(clean)
        return question if clean == stated else msgspec.json.decode(clean, type=type(question))


def _to_json_event(event: CallEvent) -> CallEvent:
    """In words of JSON, whatever an author put into it."""
    match event:
        case ProgressEvent(message=None):
            return event
        case ProgressEvent(done, total, message):
            return ProgressEvent(done, total, str(message))
        case LogEvent(level, data, logger):
            return LogEvent(level, msgspec.json.decode(to_json(data)), logger)
