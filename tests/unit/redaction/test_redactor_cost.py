"""However long a secret is, to find and to hide it costs a few searches: no pattern is made that holds up the hall."""

import base64
import html
import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.seeds import runs_everything
from tests.unit.redaction.secret_encodings import CASES, EVERY
from toolhall.model.json import encode
from toolhall.model.secret import Secret
from toolhall.model.text import clean_text
from toolhall.redaction.redactor import MAX_CHUNKS, MAX_SEARCHES, Redactor
from toolhall.redaction.secret_forms import MAX_PATTERN_LENGTH, MIN_ANY_CASE_LENGTH, SecretForms
from toolhall.redaction.secret_patterns import REDACTED
from toolhall.redaction.text_views import RunMatcher

pytestmark = pytest.mark.threat("I7")

LONG = [MAX_PATTERN_LENGTH + 1, 512, 2_500]
LONGEST = [16_384, 65_536]
SPELLED = [6, 40, MAX_PATTERN_LENGTH]
MOST_FOR_CLEAN = 3_000  # letters of patterns: the letters of a secret, each once
MOST_FOR_ALL = 100_000
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
CLEAN = 'Half of it, 50 %, is <b>bold</b> &amp; "quoted"\\n %2e %41 &#65; &lt; \\u0041 \\/ 41 42:43 QUJD\nREVG'
LITERAL = ["raw", "base64", "base64url", "hex", "upper hex", "base64 after one byte", "base64 after two bytes"]


def a_secret(length: int, letters: str = LETTERS) -> str:
    return "".join(random.Random(length).choices(letters, k=length))


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The patterns that were made since."""
    patterns, compile_ = list[str](), re.compile
    clean_text("ä")  # what is made once for all secrets is made now

    def compiled(pattern: Any, flags: int = 0) -> Any:
        patterns.append(pattern)
        return compile_(pattern, flags)

    monkeypatch.setattr(re, "compile", compiled)
    return patterns


def letters_of(made: list[str]) -> int:
    return sum(map(len, made))


def clean_texts_stay(hides: Redactor) -> None:
    assert hides.redact_text(CLEAN) == CLEAN
    assert hides.redact_json(encode([CLEAN])) == encode([CLEAN])
    assert hides.redact_bytes(CLEAN.encode()) == CLEAN.encode()
    assert hides.redact_next(CLEAN) == CLEAN
    assert hides.count == 0


@pytest.mark.parametrize("length", [*LONG, *LONGEST] if runs_everything() else LONG)
@pytest.mark.parametrize("form", EVERY.values(), ids=EVERY)
def test_redactor_compiles_no_pattern_for_a_long_secret(
    length: int, form: Callable[[str], str], made: list[str]
) -> None:
    secret = a_secret(length)
    hides, disguised = Redactor((Secret(secret),)), form(secret)
    clean_texts_stay(hides)
    for seen in (
        hides.redact_text(f"before <{disguised}> after"),
        json.loads(hides.redact_json(encode([f"before <{disguised}> after"])))[0],
        hides.redact_bytes(f"before <{disguised}> after".encode()).decode(),
    ):
        assert REDACTED in seen
        assert len(seen) < len(f"before <{REDACTED}> after") + 8  # base64 of what stood around it may stay
    assert disguised not in hides.redact_next(f"before <{disguised}> after")
    assert made == []


@pytest.mark.parametrize("length", [*SPELLED, *LONG, *LONGEST])
@pytest.mark.parametrize("name", LITERAL)
def test_redactor_compiles_no_pattern_for_encodings_with_one_spelling(length: int, name: str, made: list[str]) -> None:
    secret = a_secret(length)
    seen = Redactor((Secret(secret),)).redact_text(f"before <{EVERY[name](secret)}> after")
    assert re.fullmatch(rf"before <\w{{0,2}}{re.escape(REDACTED)}\w{{0,3}}={{0,2}}> after", seen)
    assert made == []


@pytest.mark.parametrize("length", SPELLED)
def test_redactor_patterns_for_a_clean_text_are_bounded_for_any_secret_length(length: int, made: list[str]) -> None:
    clean_texts_stay(Redactor((Secret(a_secret(length)),)))
    assert letters_of(made) <= MOST_FOR_CLEAN


@pytest.mark.parametrize("letters", [LETTERS, LETTERS + "%&\\<>\"' äß漢😀"], ids=["plain", "odd"])
@pytest.mark.parametrize("length", SPELLED)
def test_redactor_patterns_for_all_encodings_are_compiled_once_and_bounded(
    length: int, letters: str, made: list[str]
) -> None:
    secret = Secret(a_secret(length, letters))
    for name, form in EVERY.items():
        if length >= MIN_ANY_CASE_LENGTH or name not in CASES:
            assert REDACTED in Redactor((secret,)).redact_text(f"before <{form(secret.reveal())}> after"), name
    assert len(made) == len(set(made)) <= 5
    assert letters_of(made) <= MOST_FOR_ALL


def test_redactor_hides_a_partly_escaped_long_secret_that_contains_escapes(made: list[str]) -> None:
    secret = "%41\\u0042&amp;" + a_secret(MAX_PATTERN_LENGTH) + "\\n%"
    for escaped in ("%78".join(secret.split("x")), "&#120;".join(secret.split("x")), html.escape(secret)):
        assert escaped != secret
        assert Redactor((Secret(secret),)).redact_text(f"before {escaped} after") == REDACTED
    assert made == []


def test_redactor_searches_for_each_escaped_character_of_a_secret_once() -> None:
    """Each letter that JSON escapes is searched for once, not once for each time that the secret has it."""
    searched = 0

    class Counted(bytes):
        def __contains__(self, part: Any) -> bool:
            nonlocal searched
            searched += 1
            return super().__contains__(part)

    text = Counted(b"\\" + b"x" * 70_000)
    assert not Secret("/" * 65_536).derived(lambda value: Redactor((Secret(value),))).contains_secret(text)
    assert searched < 50


@pytest.mark.threat("F7")
@pytest.mark.parametrize("digits", ["1" * 5_000, "0" * 5_000])
def test_redactor_accepts_character_references_with_thousands_of_digits(digits: str) -> None:
    """Python refuses to read so long a number; a tool's answer must not fail by that."""
    hides = Redactor((Secret("tk-secret"),))
    assert hides.redact_text(f"a &#{digits}; b") == f"a &#{digits}; b"
    assert hides.redact_text(f"a &#{'0' * 5_000}116;k-secret b") == REDACTED


def test_redactor_hides_only_the_long_secret_inside_longer_base64(made: list[str]) -> None:
    secret = a_secret(4_000)
    blob = base64.b64encode(b'{"token":"' + secret.encode() + b'","more":"text that may stay"}').decode()
    seen = Redactor((Secret(secret),)).redact_text(blob)
    ahead, _, behind = seen.partition(REDACTED)
    assert base64.b64decode(ahead[:12]) == b'{"token":'
    assert len(ahead) == 13
    assert b"that may stay" in base64.b64decode("A" * (-len(behind) % 4) + behind)
    assert made == []


KEY = "tk_4PV37QmDbu1G_BjK_85_qbgQ1YsEjEuXnS0OfCYJ1PdiGC96deZlHeJs_lAgA12"
FULL_OF_IT: dict[str, Any] = {
    "halves": [KEY[:33]] * 6_000,
    "pieces": [KEY[at : at + 6] for at in range(0, 66, 6)] * 2_000,
    "characters": list(KEY) * 800,
    "members": {str(number): KEY[:30] for number in range(5_000)},
    "names": {KEY[:30] + str(number): 1 for number in range(5_000)},
    "bytes": [*KEY.encode()] * 700,
    "escaped": ["%" + "%".join(f"{byte:02x}" for byte in KEY.encode())] * 900,
    "whole": [KEY] * 3_000,
    "text of halves": f"{KEY[:33]} " * 6_000,
    "text of base64": f"{base64.b64encode(KEY.encode()).decode()} " * 2_000,
    "text of hex": f"{KEY.encode().hex(':')} " * 1_000,
    "text of numbers": f"{list(KEY.encode())} " * 700,
}


class SearchCounter:
    """How often a secret was searched for, and in how many characters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.searches = self.letters = 0
        for name in ("occurs_in", "occurs_whole_in", "find_spans"):
            self._count(monkeypatch, name)

    def _count(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        search = getattr(SecretForms, name)

        def counted(disguises: SecretForms, text: Any) -> Any:
            self.searches += 1
            self.letters += len(text)
            return search(disguises, text)

        monkeypatch.setattr(SecretForms, name, counted)


@pytest.mark.threat("F7")
@pytest.mark.parametrize("value", FULL_OF_IT.values(), ids=FULL_OF_IT)
def test_redact_json_hides_a_value_full_of_secrets_after_a_bounded_number_of_searches(
    value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller's own key is searched for too: whoever has one could have each result take seconds."""
    encoded = encode(value)
    work = SearchCounter(monkeypatch)
    hidden = json.loads(Redactor((), Secret(KEY)).redact_json(encoded))
    assert type(hidden) is type(value)
    assert set(hidden.items() if isinstance(hidden, dict) else hidden if isinstance(hidden, list) else [hidden]) == {
        (REDACTED, REDACTED) if isinstance(hidden, dict) else REDACTED
    }
    assert work.searches <= 4 * MAX_SEARCHES
    assert work.letters <= 24 * len(encoded)


@pytest.mark.threat("F7")
def test_redact_json_of_a_large_value_hides_only_parts_with_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"id": number, "name": f"row {number}", "share": number / 7} for number in range(8_000)]
    spoiled: list[Any] = [dict(row) for row in rows]
    spoiled[17]["name"] = f"see {KEY} and more"
    spoiled[4_000]["id"] = {KEY: 1}
    spoiled[7_000:7_000] = [KEY[:20], KEY[20:]]
    encoded = encode(spoiled)
    work = SearchCounter(monkeypatch)
    seen = json.loads(Redactor((), Secret(KEY)).redact_json(encoded))
    assert seen[17]["name"] == f"see {REDACTED} and more"
    assert seen[4_000]["id"] == {REDACTED: 1}
    assert seen[7_000:7_002] == [REDACTED, REDACTED]
    del seen[7_000:7_002]
    assert [row for number, row in enumerate(seen) if number not in (17, 4_000)] == [
        row for number, row in enumerate(rows) if number not in (17, 4_000)
    ]
    assert work.searches <= MAX_SEARCHES
    assert work.letters <= 24 * len(encoded)


@pytest.mark.parametrize("name", EVERY)
def test_redactor_of_a_long_text_hides_only_the_chunks_with_a_secret(name: str) -> None:
    before, after = "the quiet harbour. " * 4_000, "a lost umbrella. " * 4_000
    seen = Redactor((), Secret(KEY)).redact_text(f"{before}<{EVERY[name](KEY)}>{after}")
    assert REDACTED in seen
    assert seen.startswith(before[:40_000])
    assert seen.endswith(after[-30_000:])
    many = f"{'the quiet harbour. ' * 2_000}<{EVERY[name](KEY)}>" * (MAX_CHUNKS + 1)
    assert Redactor((), Secret(KEY)).redact_text(many) == REDACTED


def test_run_matcher_reports_a_bounded_number_of_spans_per_run() -> None:
    folded = KEY[16:].lower()  # its id is no secret
    for size in (12, 33, len(folded)):
        spans = list(RunMatcher(folded).find_spans(f"<{folded[:size]}>" * 100))
        assert len(spans) <= 100 * -(-size // 9)  # not one for each of its characters
        covered = {at for start, end in spans for at in range(start, end)}
        assert covered == {at for at in range(100 * (size + 2)) if 0 < at % (size + 2) < size + 1}


def test_run_matcher_ignores_anchors_without_a_run() -> None:
    assert list(RunMatcher(KEY.lower()).find_spans(KEY[25:31].lower() * 100)) == []


def test_redact_json_does_not_decode_numbers_without_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random.Random(1).choices(range(256), k=20_000)
    encoded = encode(numbers)
    work = SearchCounter(monkeypatch)
    assert Redactor((), Secret(KEY)).redact_json(encoded) is encoded
    assert work.searches == 0
    assert Redactor((Secret("123456789012"),)).redact_json(encode([1, 123456789012, 2])) == encode([1, REDACTED, 2])
    assert Redactor((Secret("123456789012"),)).redact_json(encode([123456, 789012])) == encode([REDACTED, REDACTED])


@pytest.mark.parametrize("digits", range(2, 7))
def test_redactor_hides_hexadecimal_numbers_with_leading_zeros(digits: int) -> None:
    written = ", ".join(f"0x{byte:0{digits}X}" for byte in KEY.encode())
    assert Redactor((), Secret(KEY)).redact_text(f"before {written} after") == f"before {REDACTED} after"


def test_redactor_does_not_parse_ordinary_texts_as_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """One number with zeros ahead, or one escape, is no reason to."""
    read = list[bytes]()
    monkeypatch.setattr("toolhall.redaction.text_views.numbers_bytes", read.append)
    for text in ("the quiet harbour 0x00 and 116, 107, 95", "0x41, " * 100, "a1b2c3" * 1_000, "1, 2, 3, " * 100):
        assert Redactor((), Secret(KEY)).redact_text(text) == text
    assert read == []
