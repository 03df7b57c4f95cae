"""`ThrottledLink`: the client link that a running tool gets, sanitized, redacted and limited in rate and size.

Events beyond the limits are dropped and counted. At the end of the call the client gets the last progress event, if
that was dropped, and a log message with the number of dropped events.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import msgspec

from toolhall.model.json import Json
from toolhall.model.messages import (
    CLIENT_FEATURES,
    NULL_LINK,
    Answered,
    CallEvent,
    CallMemory,
    ClientLink,
    LogEvent,
    NullLink,
    ProgressEvent,
    Question,
    ResourceChanged,
    memory_of,
)
from toolhall.model.text import TextSanitizer, clean_text
from toolhall.redaction.redactor import Redactor
from toolhall.schema.types import to_json

EVENTS_PER_SECOND = 20  # of one call; also the largest burst
MAX_EVENT_BYTES = 64 * 1024  # of all events of one call
MAX_EVENT_TEXTS = 500  # in one event


class ChangesLink(NullLink):
    """The link of a call without a client: only what the tool changed is told."""

    features: tuple[str, ...] = ()

    def __init__(self, on_changed: Callable[[str], None]) -> None:
        self._on_changed = on_changed

    def emit(self, event: CallEvent) -> None:
        """Tell of a changed resource, and drop any other event."""
        if isinstance(event, ResourceChanged):
            self._on_changed(event.uri)


class ThrottledLink:
    """The client link of one call: sanitizes and redacts events and questions, and drops events beyond the limits."""

    # As class attributes, the initial values cost nothing per call.
    dropped = 0
    _latest_progress: ProgressEvent | None = None
    _refilled_at = 0.0
    _tokens = float(EVENTS_PER_SECOND)
    _sent_bytes = 0

    def __init__(
        self,
        link: ClientLink,
        redactor: Redactor | None = None,
        clock: Callable[[], float] = time.monotonic,
        on_changed: Callable[[str], None] | None = None,
    ) -> None:
        """`on_changed` gets the URIs of resources that the tool has changed; these go to no client directly."""
        self.link = self._caller_link = link
        self._on_changed = on_changed
        self._redactor = redactor
        self._clock = clock

    @property
    def memory(self) -> CallMemory:
        """The memory of the call."""
        return memory_of(self.link)

    def rebind(self, link: ClientLink) -> "ThrottledLink":
        """Send over another link to the same client, such as one that hands events to the loop."""
        self.link = link
        return self

    def emit(self, event: CallEvent) -> None:
        """Send the event, sanitized and redacted, unless it exceeds the limits (a token bucket)."""
        if isinstance(event, ResourceChanged):
            if self._on_changed is not None:
                self._on_changed(event.uri)
            return
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
        """Whether the client declared this feature."""
        return self.link.can(feature)

    async def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Answered]:
        """Ask the sanitized and redacted questions; the answers come back under the tool's own keys."""
        keys = {clean_text(key): key for key in questions}
        clean = {key: self._clean_question(questions[original]) for key, original in keys.items()}
        answers = await self.link.ask(clean)
        return {keys.get(key, key): answer for key, answer in answers.items()}

    async def detach(self, retry_ms: int) -> None:
        """Close the response stream and let the client resume it later, where the dialect can."""
        await self.link.detach(retry_ms)

    def finish(self) -> None:
        """Send the last dropped progress event, and a log message with the number of dropped events."""
        if self._latest_progress is not None:
            self.dropped -= 1
            with suppress(TypeError, ValueError, NotImplementedError):  # it was never encoded, and may not be JSON
                self._emit(self._latest_progress, self._caller_link)
        if self.dropped:
            limits = f"at most {EVENTS_PER_SECOND} a second and {MAX_EVENT_BYTES // 1024} kB are passed on"
            self._caller_link.emit(LogEvent("warning", f"{self.dropped} messages of this call were dropped: {limits}"))

    def _emit(self, event: CallEvent, link: ClientLink) -> None:
        """Send the event within the byte limit, measured before cleaning, which is costly, and after it."""
        if self._sent_bytes < MAX_EVENT_BYTES:
            event = _to_json_event(event)
            encoded = to_json(event)
            size = len(encoded)
            if encoded.count(b'"') > 2 * MAX_EVENT_TEXTS:  # each text would be redacted by itself
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
            case ResourceChanged():
                return event

    def _clean_text(self, text: str) -> str:
        """Sanitize and redact as part of a stream: a secret may be split over several events."""
        text = clean_text(text)
        return text if self._redactor is None else self._redactor.redact_next(text)

    def _clean_key(self, key: str) -> str:
        """Sanitize and redact by itself: keys stand between values, and are no part of the stream of texts."""
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
        """Redact a secret that is spread over the parts of one value, such as a list of bytes."""
        if self._redactor is None or not isinstance(value, dict | list):
            return value
        return msgspec.json.decode(self._redactor.redact_json(to_json(value)))

    def _clean_question(self, question: Question) -> Question:
        original = to_json(question)
        clean = TextSanitizer().clean_json(original)
        if self._redactor is not None:
            clean = self._redactor.redact_json(clean)
        return question if clean == original else msgspec.json.decode(clean, type=type(question))


def client_features(link: ClientLink) -> tuple[str, ...]:
    """The features that the client declared; read from the innermost link, which may know them already."""
    if isinstance(link, ThrottledLink):
        link = link.link
    if link is NULL_LINK:
        return ()
    known: tuple[str, ...] | None = getattr(link, "features", None)
    return tuple(filter(link.can, CLIENT_FEATURES)) if known is None else known


def _to_json_event(event: CallEvent) -> CallEvent:
    """Convert what the author put into the event to JSON types; raises where that is impossible."""
    match event:
        case ProgressEvent(message=None):
            return event
        case ProgressEvent(done, total, message):
            return ProgressEvent(done, total, str(message))
        case LogEvent(level, data, logger):
            return LogEvent(level, msgspec.json.decode(to_json(data)), logger)
        case ResourceChanged():
            return event
