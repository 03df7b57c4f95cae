"""What a running tool tells is cleaned and limited, whoever runs it (threats G2, G7, I11)."""

import msgspec
import pytest

from tests.unit.parts import Clock, Hearing
from toolhall.model.exchange import Event, Log, Progress
from toolhall.model.question import Filled, Form, Question, Sample, Visit
from toolhall.model.secret import Secret
from toolhall.model.secret_shapes import HIDDEN
from toolhall.runners.redactor import Redactor
from toolhall.runners.telling import MOST_BYTES, MOST_TEXTS, PER_SECOND, Telling

SECRET = "Zq7-x9_Kw.v3"
ESCAPED = "\x1b]8;;http://evil.example\x07click\x1b]8;;\x07"


def test_events_pass_clean() -> None:
    link = Hearing()
    telling = Telling(link)
    telling.emit(Progress(1, 2))
    telling.emit(Progress(1, 2, ESCAPED))
    telling.emit(Log("info", {ESCAPED: [ESCAPED, 1, None]}, "pick"))
    assert link.events == [
        Progress(1, 2),
        Progress(1, 2, "click"),
        Log("info", {"click": ["click", 1, None]}, "pick"),
    ]


def test_events_come_at_a_bounded_rate() -> None:
    """Of a flood so many pass at once, and so many each second after that; the rest is counted."""
    link, clock = Hearing(), Clock()
    telling = Telling(link, clock=clock)
    for step in range(100_000):
        telling.emit(Progress(step))
    assert len(link.events) == PER_SECOND
    assert telling.dropped == 100_000 - PER_SECOND
    clock.now += 0.5
    for step in range(100):
        telling.emit(Progress(step))
    assert len(link.events) == PER_SECOND + PER_SECOND // 2
    telling.end()
    furthest, last = link.events[-2:]
    assert furthest == Progress(99)  # how far it came is worth knowing
    assert isinstance(last, Log)
    assert f"{100_000 - PER_SECOND + 100 - PER_SECOND // 2 - 1} messages" in str(last.data)


def test_events_are_bounded_in_all() -> None:
    """However slowly they come, the events of one call fill no more than so many bytes."""
    link, clock = Hearing(), Clock()
    telling = Telling(link, clock=clock)
    for _ in range(1_000):
        clock.now += 1
        telling.emit(Log("info", "x" * 1_000))
    assert sum(len(msgspec.json.encode(event)) for event in link.events) <= MOST_BYTES
    assert 60 < len(link.events) < 66
    assert telling.dropped == 1_000 - len(link.events)


def test_what_cannot_be_written_and_was_dropped_does_no_harm() -> None:
    link, clock = Hearing(), Clock()
    telling = Telling(link, clock=clock)
    for _ in range(PER_SECOND):
        telling.emit(Progress(1))
    telling.emit(Progress(object()))  # type: ignore[arg-type]  # as a careless author may
    telling.end()
    assert link.events == [Progress(1)] * PER_SECOND


def test_a_large_event_does_not_pass() -> None:
    link = Hearing()
    telling = Telling(link)
    telling.emit(Log("info", "x" * MOST_BYTES))
    assert not link.events
    assert telling.dropped == 1


@pytest.mark.parametrize(
    "event",
    [Log("info", "x" * MOST_BYTES), Progress(1, 2, "x" * MOST_BYTES), Log("info", ["x"] * (MOST_TEXTS + 1))],
    ids=["log", "progress", "many texts"],
)
def test_what_is_too_large_is_not_even_cleaned(event: Event) -> None:
    class Tired(Redactor):
        def next(self, text: str) -> str:
            raise AssertionError("looked at")

    link = Hearing()
    telling = Telling(link, Tired((Secret(SECRET),)))
    telling.emit(event)
    assert not link.events
    assert telling.dropped == 1


def test_what_hiding_makes_longer_is_counted_as_it_is_told() -> None:
    link, clock = Hearing(), Clock()
    telling = Telling(link, Redactor((Secret("Zq7x"),)), clock)
    for _ in range(10):
        clock.now += 1
        telling.emit(Log("info", "Zq7x " * 1_300))
    assert 0 < sum(len(msgspec.json.encode(event)) for event in link.events) <= MOST_BYTES
    assert telling.dropped


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_secret_spread_over_events_is_hidden(cut: int) -> None:
    link = Hearing()
    telling = Telling(link, Redactor((Secret(SECRET),)))
    telling.emit(Progress(1, None, f"a {SECRET[:cut]}"))
    telling.emit(Log("info", {"rest": f"{SECRET[cut:]} b"}))
    first, second = link.events
    assert isinstance(first, Progress)
    assert isinstance(second, Log)
    assert cut < 4 or first.message == f"a {HIDDEN}"
    assert second.data == {"rest": f"{HIDDEN} b"}


async def test_questions_are_clean_and_answered_by_the_tools_own_keys() -> None:
    put: dict[str, Question] = {}

    def answer(key: str, question: Question) -> Filled:
        put[key] = question
        return Filled("accept", {"key": key})

    telling = Telling(Hearing(answer), Redactor((Secret(SECRET),)))
    questions: dict[str, Question] = {
        "a\u200b": Form(f"{ESCAPED} {SECRET}", {"type": "object", "properties": {"b": {"title": ESCAPED}}}),
        "c": Visit(ESCAPED, f"https://h.example/?t={SECRET}", "id"),
        "d": Sample(messages=({"role": "user", "content": SECRET},), max_tokens=1),
        "e": Form("plain", {"type": "object"}),
    }
    answers = await telling.ask(questions)
    assert list(answers) == list(questions)
    assert put["a"] == Form(f"click {HIDDEN}", {"type": "object", "properties": {"b": {"title": "click"}}})
    assert put["c"] == Visit("click", f"https://h.example/?t={HIDDEN}", "id")
    assert put["d"] == Sample(messages=({"role": "user", "content": HIDDEN},), max_tokens=1)
    assert put["e"] is questions["e"]


async def test_the_rest_passes_through() -> None:
    link = Hearing()
    telling = Telling(link)
    assert telling.can("elicitation")
    assert not telling.can("roots")
    await telling.detach(7)
    assert link.retries == [7]
