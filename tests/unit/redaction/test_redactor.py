"""The secrets of a call are found in every form, in one piece or several, and nothing else is touched (threat G7)."""

import base64
import json
import re
import time
from collections.abc import Callable
from functools import cache

import pytest

from tests.unit.redaction.secret_encodings import CASES, EVERY, FORMS
from toolhall.model.json import encode
from toolhall.model.secret import Secret
from toolhall.redaction.redactor import Redactor, redactor_for
from toolhall.redaction.secret_forms import MIN_ANY_CASE_LENGTH
from toolhall.redaction.secret_patterns import REDACTED

TOKEN = "tk_a8Zk2Lm9QwEr_R4nd0mS3cr3t-V4lu3"
ODD = 'p"a/s\\s & <w>ö%rd+😀 1'
SECRETS = {"token": TOKEN, "odd": ODD, "six": "Zq7-x9"}


@cache
def secret_of(value: str) -> Secret:
    """One object for one secret, as in a hall: what is looked for is worked out once."""
    return Secret(value)


def redactor(*secrets: str) -> Redactor:
    return Redactor(tuple(map(secret_of, secrets or (TOKEN,))))


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_redactor_hides_a_secret_in_every_encoding_in_text_json_and_bytes(secret: str, name: str) -> None:
    """Outside JSON, inside it, and among bytes."""
    if name in CASES and len(secret) < MIN_ANY_CASE_LENGTH:
        return
    disguised = EVERY[name](secret)
    hides = redactor(secret)
    text = hides.redact_text(f"before <{disguised}> after")
    assert disguised not in text
    assert REDACTED in text
    assert json.loads(hides.redact_json(encode({"a": [f"before {disguised}"], disguised: 1}))) == {
        "a": [hides.redact_text(f"before {disguised}")],
        hides.redact_text(disguised): 1,
    }
    assert disguised.encode() not in hides.redact_bytes(b"\xff\x00" + disguised.encode() + b"\xfe")
    assert hides.count >= 4


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_redactor_keeps_the_text_around_a_secret(form: Callable[[str], str]) -> None:
    assert redactor().redact_text(f"before {form(TOKEN)}, after") == f"before {REDACTED}, after"


def test_redactor_leaves_other_texts_unchanged() -> None:
    hides = redactor(TOKEN, ODD)
    others = ["", "plain", TOKEN[:11], TOKEN[-11:], TOKEN[3:14], "100% & <b> \\u0041 \\n &amp; %20 =20", TOKEN[::-1]]
    for text in others:
        assert hides.redact_text(text) == text
        assert hides.redact_json(encode([text])) == encode([text])
        assert hides.redact_bytes(text.encode()) == text.encode()
    assert hides.count == 0


def test_redactor_keeps_bytes_that_are_not_utf_8() -> None:
    data = bytes(range(256)) + TOKEN.encode() + bytes(range(255, -1, -1))
    assert redactor().redact_bytes(data) == bytes(range(256)) + REDACTED.encode() + bytes(range(255, -1, -1))


def test_redactor_hides_secrets_in_numbers_and_keys() -> None:
    hides = redactor("13371337")
    assert hides.redact_value({"a": 13371337, "13371337": [1, True, None, 1.5, 213371337]}) == {
        "a": REDACTED,
        REDACTED: [1, True, None, 1.5, REDACTED],
    }


def test_redactor_hides_short_secrets_in_plain_form_only() -> None:
    hides = redactor("Zq7x")
    assert hides.redact_text("a Zq7x b") == f"a {REDACTED} b"
    assert hides.redact_text(b"Zq7x".hex()) == b"Zq7x".hex()


def test_redactor_hides_a_secret_that_contains_another() -> None:
    assert redactor("abcdefgh", "abcdefghijkl").redact_text("x abcdefghijkl y") == f"x {REDACTED} y"
    assert redactor("abcdefghijkl", "abcdefgh").redact_text("x abcdefghijkl y") == f"x {REDACTED} y"


def test_redactor_hides_the_unicode_normalized_form_of_a_secret() -> None:
    assert redactor("cafe\u0301-secret").redact_text("a café-secret b") == f"a {REDACTED} b"


def test_redactor_hides_a_whole_text_when_an_escaped_long_secret_cannot_be_located() -> None:
    long = "".join(f"{index:04d}-" for index in range(400))
    escaped = long.replace("1", "&#49;")
    assert redactor(long).redact_text(f"a {escaped} b") == REDACTED
    assert redactor(long).redact_text(f"a {long} b") == f"a {REDACTED} b"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_redact_next_hides_a_secret_split_into_two_chunks_at_any_position(form: Callable[[str], str]) -> None:
    """At most a few letters of it are seen, which say nothing."""
    disguised = form(TOKEN)
    for cut in range(1, len(disguised)):
        hides = redactor()
        seen = hides.redact_next(f"before {disguised[:cut]}") + hides.redact_next(f"{disguised[cut:]} after")
        assert not is_readable(seen, disguised), cut
        assert "after" in seen
        assert hides.count


@pytest.mark.parametrize("form", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7])
def test_redact_next_hides_a_secret_split_into_small_chunks(form: Callable[[str], str], size: int) -> None:
    disguised, hides = form(TOKEN), redactor()
    pieces = [hides.redact_next(disguised[at : at + size]) for at in range(0, len(disguised), size)]
    assert disguised not in "".join(pieces)
    assert not is_readable("".join(pieces), disguised, 0 if form in FORMS.values() else 12)


def is_readable(seen: str, disguised: str, least: int = 0) -> bool:
    """Whether more than four letters of it in a row can be read; some are longer than others."""
    letters = max(least, 5 * len(disguised) // len(TOKEN))
    return any(disguised[at : at + letters] in seen for at in range(max(1, len(disguised) - letters + 1)))


def test_redact_next_leaves_chunks_without_secrets_unchanged() -> None:
    hides = redactor()
    pieces = ["step 1 of 3", "", "tk", "t", " 50 %", "& more", "\\"]
    assert [hides.redact_next(piece) for piece in pieces] == pieces
    assert hides.count == 0


def test_redact_next_hides_a_secret_repeatedly() -> None:
    hides = redactor()
    assert hides.redact_next(f"{TOKEN} one") == f"{REDACTED} one"
    assert hides.redact_next(" two") == " two"
    assert hides.redact_next(f"{TOKEN}{TOKEN}") == REDACTED * 2


def test_redactor_for_a_call_without_secrets_is_none() -> None:
    assert redactor_for(None) is None
    assert redactor_for(Secret(TOKEN)) is not None
    both = redactor_for(Secret(TOKEN), (Secret("other-secret"),))
    assert both is not None
    assert both.redact_text(f"{TOKEN} other-secret") == f"{REDACTED} {REDACTED}"


LETTERS = 4_000


@pytest.mark.parametrize("end", ["", "q"])
@pytest.mark.parametrize("start", ["\\u0041 %74 &#116; ", f"\\u0041{TOKEN}"])
@pytest.mark.parametrize(
    "again",
    [
        "\\",
        "\\u",
        "\\x7",
        "%",
        "%25",
        "25",
        "%74",
        "&",
        "&amp;",
        "amp;",
        "&#116;",
        "74:",
        "74 ",
        TOKEN[:-1],
        "dGtfY\n",
        "dGtf\\n",
        f"{TOKEN[:13]} ",
        TOKEN[6:12],
        "116, ",
        "=74",
        "\\164",
    ],
)
def test_redactor_takes_linear_time_on_hostile_text(start: str, again: str, end: str) -> None:
    """Four times the text takes about four times the work; sixteen times would let a tool stop the hall."""

    def seconds(letters: int) -> float:
        hides = redactor(TOKEN, "\\\\\\\\\\\\\\\\x", "&&&&&&&&&")
        hostile = start + again * (letters // len(again)) + end
        began = time.process_time()
        hides.redact_text(hostile)
        hides.redact_next(hostile)
        return time.process_time() - began

    short = min(seconds(LETTERS) for _ in range(3))
    assert any(seconds(4 * LETTERS) < 8 * short + 0.02 for _ in range(2))  # the second time only if the first was slow


@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n"])
def test_redactor_hides_base64_with_line_breaks_and_keeps_the_text_around(end: str) -> None:
    """A hall's own key is longer than a line of base64."""
    key = f"tk_{'a8Zk2Lm9QwEr'}_{'x7-Q' * 10}abc_R4nd0m"
    lines = base64.encodebytes(key.encode()).decode().rstrip("\n").replace("\n", end)
    assert end in lines
    assert redactor(key).redact_text(f"before{end}{lines}{end}after") == f"before{end}{REDACTED}{end}after"


@pytest.mark.parametrize("end", ["\\n", "\\r\\n", "\\\\n", "\\\\r\\\\n"])
@pytest.mark.parametrize(("secret", "letter"), [("d64gXk14ca6k", "r"), ("8kg45a2cc7af", "n")])
def test_redactor_hides_base64_lines_that_begin_like_an_escaped_line_break(secret: str, letter: str, end: str) -> None:
    lines = base64.b64encode(secret.encode()).decode().replace(letter, f"{end}{letter}", 1)
    assert end in lines
    assert redactor(secret).redact_text(f"before {lines} after") == f"before {REDACTED} after"


def test_redact_next_hides_a_split_secret_with_repeated_prefixes() -> None:
    for secret in ("ab" * 300 + "c", "a" * 600 + "c"):
        hides = redactor(secret)
        seen = hides.redact_next(secret[:-1]) + hides.redact_next("c")
        assert "ababa" not in seen
        assert "aaaaa" not in seen


def test_redactor_hides_a_secret_inside_longer_base64() -> None:
    blob = base64.b64encode(b'{"user":"a","token":"' + TOKEN.encode() + b'","more":"text that may stay"}').decode()
    seen = redactor().redact_text(blob)
    assert REDACTED in seen
    assert TOKEN.encode()[:6] not in base64.b64decode(seen.partition(REDACTED)[0] + "===")
    assert b"that may stay" in base64.b64decode(
        "A" * (-len(seen.partition(REDACTED)[2]) % 4) + seen.partition(REDACTED)[2]
    )


@pytest.mark.parametrize("ahead", range(5))
@pytest.mark.parametrize("write", [base64.b64encode, base64.b32encode])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_redactor_hides_a_secret_at_every_alignment_of_base64_and_base32(
    write: Callable[[bytes], bytes], encoding: str, ahead: int
) -> None:
    if write is base64.b32encode and encoding != "utf-8":
        return
    for secret in (TOKEN, ODD):
        written = write(b"x" * ahead + secret.encode(encoding) + b"yz").decode()
        seen = redactor(secret).redact_text(f"before {written} after")
        assert re.fullmatch(rf"before \S{{0,9}}{re.escape(REDACTED)}\S{{0,9}} after", seen)


@pytest.mark.parametrize("change", [str, str.upper, str.lower])
def test_redactor_hides_every_run_of_twelve_characters_of_a_secret(change: Callable[[str], str]) -> None:
    for secret in (TOKEN, ODD, TOKEN * 40):
        for start in range(min(len(secret) - 12, 60)):
            for size in (12, 13, 20):
                run = change(secret[start : start + size])
                assert redactor(secret).redact_text(f"before ({run}) after") == f"before ({REDACTED}) after", run
        assert redactor(secret).redact_text(change(secret[2:13])) == change(secret[2:13])


def test_redactor_keeps_runs_of_a_secret_that_are_not_secret() -> None:
    """Rulers, the boundaries of PEM, the scheme and the host of a URL."""
    body = "\n".join(base64.b64encode(bytes(range(at, at + 48))).decode() for at in (0, 48, 96))
    key = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"
    url = "https://hooks.example.com/services/T0Z9Y8X7W6/aB3dE5fG7h"
    ruler = "x7Kq" + "-" * 30 + "Zw9P"
    hides = redactor(key, url, ruler)
    for text in ("-----BEGIN PRIVATE KEY-----", "see https://hooks.example.com/ and more", "-" * 40):
        assert hides.redact_text(text) == text
    for line in body.splitlines():
        assert hides.redact_text(f"a {line} b") == f"a {REDACTED} b"
    assert hides.redact_text(f"{key} {url} {ruler}") == f"{REDACTED} {REDACTED} {REDACTED}"


def test_redactor_matches_short_secrets_case_sensitively() -> None:
    assert redactor("Summer1").redact_text("summer1 SUMMER1 Summer1") == f"summer1 SUMMER1 {REDACTED}"


def test_redact_value_hides_a_secret_spread_over_several_parts() -> None:
    value = {"a": [TOKEN[:9], {"b": TOKEN[9:20], "n": 7}], "c": f"{TOKEN[20:]} and more", "d": 1.5, "e": None}
    assert redactor().redact_value({**value, "n": 3}) == {
        "a": [REDACTED, {"b": REDACTED, "n": 7}],  # two runs of it, and a number between them
        "c": f"{REDACTED} and more",
        "d": 1.5,
        "e": None,
        "n": 3,
    }
    assert redactor().redact_value(["x", TOKEN[:9], {"b": TOKEN[9:]}, "y"]) == ["x", REDACTED, {"b": REDACTED}, "y"]
    assert redactor().redact_value({"a": [3, *TOKEN.encode(), 4]}) == {"a": [3, *[REDACTED] * len(TOKEN), 4]}
    assert redactor("Zq7-x9").redact_value(["Zq7", "-x9"]) == ["Zq7", "-x9"], "a short one could be there by chance"


@pytest.mark.parametrize("part", [TOKEN[:11], TOKEN[:13], TOKEN[20:], 116, "t", TOKEN])
def test_redact_json_takes_linear_time_on_values_of_many_parts(part: object) -> None:
    def seconds(count: int) -> float:
        encoded = encode([part, {"a": part}] * count)
        began = time.process_time()
        redactor().redact_json(encoded)
        return time.process_time() - began

    short = min(seconds(500) for _ in range(3))
    assert min(seconds(2_000) for _ in range(2)) < 8 * short + 0.05


@pytest.mark.parametrize(
    ("secret", "known"),
    [
        (
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImFiYyJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLW9m",
            "eyJhbGciOiJSUzI1NiIsImtpZCI6ImFiYyJ9.",
        ),
        ("tk_4PV37QmDbu1G_BjK_85_qbgQ1YsEjEuXnS0OfCYJ1PdiGC96deZlHeJs_lAgA12", "tk_4PV37QmDbu1G"),
        (
            "mongodb+srv://user:Pa55-w0rd-long@db.example.net/app?retryWrites=true",
            "db.example.net/app?retryWrites=true",
        ),
    ],
    ids=["JWT", "key", "URL"],
)
def test_redactor_keeps_the_public_parts_of_a_credential(secret: str, known: str) -> None:
    assert redactor(secret).redact_text(f"see {known} there") == f"see {known} there"
    assert redactor(secret).redact_text(f"see {secret} there") == f"see {REDACTED} there"
    hidden = secret.replace(known, "").removeprefix("mongodb+srv://")
    assert redactor(secret).redact_text(f"see {hidden} there") == f"see {REDACTED} there"


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("secret", [TOKEN, ODD])
def test_redactor_hides_the_repr_of_utf_16_bytes(secret: str, encoding: str) -> None:
    shown = repr(secret.encode(encoding))
    seen = redactor(secret).redact_text(f"before {shown} after")
    assert re.fullmatch(rf"before b['\"](\\x..)*{re.escape(REDACTED)}(\\x00)?['\"] after", seen)
