"""What a running tool tells is cleaned and limited, whoever runs it (threats G2, G7, I11)."""

import msgspec
import pytest

from tests.unit.builders import Clock, RecordingLink
from toolhall.execution.client_link import (
    EVENTS_PER_SECOND,
    MAX_EVENT_BYTES,
    MAX_EVENT_TEXTS,
    ThrottledLink,
    client_features,
)
from toolhall.model.messages import (
    NULL_LINK,
    CallEvent,
    ClientLink,
    Filled,
    Form,
    LogEvent,
    ProgressEvent,
    Question,
    Sample,
    Visit,
)
from toolhall.model.secret import Secret
from toolhall.redaction.redactor import Redactor
from toolhall.redaction.secret_patterns import REDACTED

SECRET = "Zq7-x9_Kw.v3"
ESCAPED = "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07"


class KnowingLink(RecordingLink):
    """A link that knows the features of its client without being asked for each."""

    features = ("roots",)


@pytest.mark.parametrize(
    ("link", "features"), [(NULL_LINK, ()), (RecordingLink(), ("elicitation",)), (KnowingLink(), ("roots",))]
)
def test_client_features_are_those_of_the_innermost_link(link: ClientLink, features: tuple[str, ...]) -> None:
    assert client_features(link) == client_features(ThrottledLink(link)) == features


def test_throttled_link_sanitizes_events() -> None:
    link = RecordingLink()
    telling = ThrottledLink(link)
    telling.emit(ProgressEvent(1, 2))
    telling.emit(ProgressEvent(1, 2, ESCAPED))
    telling.emit(LogEvent("info", {ESCAPED: [ESCAPED, 1, None]}, "pick"))
    assert link.events == [
        ProgressEvent(1, 2),
        ProgressEvent(1, 2, "click"),
        LogEvent("info", {"click": ["click", 1, None]}, "pick"),
    ]


def test_throttled_link_limits_event_rate() -> None:
    """Of a flood so many pass at once, and so many each second after that; the rest is counted."""
    link, clock = RecordingLink(), Clock()
    telling = ThrottledLink(link, clock=clock)
    for step in range(100_000):
        telling.emit(ProgressEvent(step))
    assert len(link.events) == EVENTS_PER_SECOND
    assert telling.dropped == 100_000 - EVENTS_PER_SECOND
    clock.now += 0.5
    for step in range(100):
        telling.emit(ProgressEvent(step))
    assert len(link.events) == EVENTS_PER_SECOND + EVENTS_PER_SECOND // 2
    telling.finish()
    furthest, last = link.events[-2:]
    assert furthest == ProgressEvent(99)  # how far it came is worth knowing
    assert isinstance(last, LogEvent)
    assert f"{100_000 - EVENTS_PER_SECOND + 100 - EVENTS_PER_SECOND // 2 - 1} messages" in str(last.data)


def test_throttled_link_limits_event_bytes() -> None:
    """However slowly they come, the events of one call fill no more than so many bytes."""
    link, clock = RecordingLink(), Clock()
    telling = ThrottledLink(link, clock=clock)
    for _ in range(1_000):
        clock.now += 1
        telling.emit(LogEvent("info", "x" * 1_000))
    assert sum(len(msgspec.json.encode(event)) for event in link.events) <= MAX_EVENT_BYTES
    assert 60 < len(link.events) < 66
    assert telling.dropped == 1_000 - len(link.events)


def test_throttled_link_dropped_unserializable_progress_is_ignored() -> None:
    link, clock = RecordingLink(), Clock()
    telling = ThrottledLink(link, clock=clock)
    for _ in range(EVENTS_PER_SECOND):
        telling.emit(ProgressEvent(1))
    telling.emit(ProgressEvent(object()))  # type: ignore[arg-type]  # as a careless author may
    telling.finish()
    assert link.events == [ProgressEvent(1)] * EVENTS_PER_SECOND


def test_throttled_link_drops_large_event() -> None:
    link = RecordingLink()
    telling = ThrottledLink(link)
    telling.emit(LogEvent("info", "x" * MAX_EVENT_BYTES))
    assert not link.events
    assert telling.dropped == 1


@pytest.mark.parametrize(
    "event",
    [
        LogEvent("info", "x" * MAX_EVENT_BYTES),
        ProgressEvent(1, 2, "x" * MAX_EVENT_BYTES),
        LogEvent("info", ["x"] * (MAX_EVENT_TEXTS + 1)),
    ],
    ids=["log", "progress", "many texts"],
)
def test_throttled_link_oversized_event_is_not_redacted(event: CallEvent) -> None:
    class Tired(Redactor):
        def redact_next(self, text: str) -> str:
            raise AssertionError("looked at")

    link = RecordingLink()
    telling = ThrottledLink(link, Tired((Secret(SECRET),)))
    telling.emit(event)
    assert not link.events
    assert telling.dropped == 1


def test_throttled_link_counts_size_after_redaction() -> None:
    link, clock = RecordingLink(), Clock()
    telling = ThrottledLink(link, Redactor((Secret("Zq7x"),)), clock)
    for _ in range(10):
        clock.now += 1
        telling.emit(LogEvent("info", "Zq7x " * 1_300))
    assert 0 < sum(len(msgspec.json.encode(event)) for event in link.events) <= MAX_EVENT_BYTES
    assert telling.dropped


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_throttled_link_redacts_secret_spread_over_events(cut: int) -> None:
    link = RecordingLink()
    telling = ThrottledLink(link, Redactor((Secret(SECRET),)))
    telling.emit(ProgressEvent(1, None, f"a {SECRET[:cut]}"))
    telling.emit(LogEvent("info", {"rest": f"{SECRET[cut:]} b"}))
    first, second = link.events
    assert isinstance(first, ProgressEvent)
    assert isinstance(second, LogEvent)
    assert cut < 4 or first.message == f"a {REDACTED}"
    assert second.data == {"rest": f"{REDACTED} b"}


async def test_throttled_link_sanitizes_questions_and_keeps_keys() -> None:
    put: dict[str, Question] = {}

    def answer(key: str, question: Question) -> Filled:
        put[key] = question
        return Filled("accept", {"key": key})

    telling = ThrottledLink(RecordingLink(answer), Redactor((Secret(SECRET),)))
    questions: dict[str, Question] = {
        "a\u200b": Form(f"{ESCAPED} {SECRET}", {"type": "object", "properties": {"b": {"title": ESCAPED}}}),
        "c": Visit(ESCAPED, f"https://h.example/?t={SECRET}", "id"),
        "d": Sample(messages=({"role": "user", "content": SECRET},), max_tokens=1),
        "e": Form("plain", {"type": "object"}),
    }
    answers = await telling.ask(questions)
    assert list(answers) == list(questions)
    assert put["a"] == Form(f"click {REDACTED}", {"type": "object", "properties": {"b": {"title": "click"}}})
    assert put["c"] == Visit("click", f"https://h.example/?t={REDACTED}", "id")
    assert put["d"] == Sample(messages=({"role": "user", "content": REDACTED},), max_tokens=1)
    assert put["e"] is questions["e"]


async def test_throttled_link_passes_other_members_through() -> None:
    link = RecordingLink()
    telling = ThrottledLink(link)
    assert telling.can("elicitation")
    assert not telling.can("roots")
    await telling.detach(7)
    assert link.retries == [7]
