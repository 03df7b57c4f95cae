"""Redaction of whole calls: nested, in lists, in pairs, echoed, bounded."""

from typing import Any

import pytest

from tests.unit.builders import nested
from toolhall.pipeline.call_recorder import MAX_DEPTH, MAX_POINTERS, MAX_SECRETS, RedactionInput, redact_parts
from toolhall.redaction.secret_patterns import REDACTED
from toolhall.schema.annotations import SecretFields


def redacted(value: Any, name: str = "", secrecy: SecretFields | None = None) -> tuple[Any, list[str]]:
    found = redact_parts(RedactionInput("/p", value, name, secrecy or SecretFields()))
    return found.values[0], list(found.pointers)


@pytest.mark.parametrize(
    ("value", "shown", "places"),
    [
        ({"city": "Oslo"}, {"city": "Oslo"}, []),
        ({"a": [{"password": "x"}]}, {"a": [{"password": REDACTED}]}, ["/p/a/0/password"]),
        ({"apiKey": {"deep": [1, "x"]}}, {"apiKey": REDACTED}, ["/p/apiKey"]),
        ({"pin": 1}, {"pin": REDACTED}, ["/p/pin"]),
        ({"a/b": {"token": "x"}}, {"a/b": {"token": REDACTED}}, ["/p/a~1b/token"]),
        ([["Authorization", "x"], ["Host", "y"]], [["Authorization", REDACTED], ["Host", "y"]], ["/p/0/1"]),
        ([{"name": "Cookie", "value": "x"}], [{"name": "Cookie", "value": REDACTED}], ["/p/0/value"]),
        ({"key": "city", "value": "Oslo"}, {"key": "city", "value": "Oslo"}, []),
        ({"max_tokens": 5, "tokens": {"in": 1, "out": [2]}}, {"max_tokens": 5, "tokens": {"in": 1, "out": [2]}}, []),
        ({"tokens": ["x"]}, {"tokens": REDACTED}, ["/p/tokens"]),
        (
            {"hasPassword": True, "token": None, "secret": "", "cookies": []},
            {"hasPassword": True, "token": None, "secret": "", "cookies": []},
            [],
        ),
        ("Bearer abcdefgh", f"Bearer {REDACTED}", ["/p"]),
        (7, 7, []),
    ],
)
def test_redact_parts_hides_values_by_secret_name_and_shape(value: Any, shown: Any, places: list[str]) -> None:
    assert redacted(value) == (shown, places)


def test_redact_parts_hides_fields_marked_secret_by_the_schema() -> None:
    assert redacted({"a": "x", "b": ["y"]}, secrecy=SecretFields(frozenset({"b"}))) == (
        {"a": "x", "b": REDACTED},
        ["/p/b"],
    )
    assert redacted({"a": "x"}, secrecy=SecretFields(whole=True)) == (REDACTED, ["/p"])


def test_redact_parts_hides_a_whole_value_with_a_secret_name() -> None:
    assert redacted("x", name="get_secret") == (REDACTED, ["/p"])
    assert redacted(12, name="count_tokens") == (12, [])


def test_redact_parts_hides_echoes_of_a_secret_in_all_parts() -> None:
    found = redact_parts(
        RedactionInput("/arguments", {"password": "hunter2", "pin": 4711, "user": "me"}),
        RedactionInput("/answer", {"said": "hello hunter2!", "hunter2": {"n": 4711, "hunter2/x": 1}, "year": 47110}),
    )
    assert found.values == [
        {"password": REDACTED, "pin": REDACTED, "user": "me"},
        {"said": f"hello {REDACTED}!", REDACTED: {"n": REDACTED, f"{REDACTED}/x": 1}, "year": 47110},
    ]
    assert "hunter2" not in "".join(found.pointers)
    assert "/answer/said" in found.pointers


def test_redact_parts_replaces_the_longer_of_two_overlapping_secrets_first() -> None:
    assert redacted({"a": "x abcdef", "token": ["abcd", "abcdef"]})[0] == {"a": f"x {REDACTED}", "token": REDACTED}


def test_redact_parts_hides_an_object_key_that_is_a_secret() -> None:
    key = "ghp_0123456789abcdef0123"
    value, places = redacted({"keys": {key: "mine"}})
    assert value == {"keys": {REDACTED: "mine"}}
    assert places == [f"/p/keys/{REDACTED}"]


def test_redact_parts_hides_values_beyond_the_maximum_depth() -> None:
    value, places = redacted(nested(MAX_DEPTH + 3, core="canary"))
    assert "canary" not in str(value)
    assert len(places) == 1


@pytest.mark.parametrize("count", [MAX_SECRETS + 1, 500])
def test_redact_parts_hides_the_whole_value_above_max_secrets(count: int) -> None:
    value = {"list": [{"token": f"secret-{number}"} for number in range(count)], "city": "Oslo"}
    assert redacted(value) == (REDACTED, ["/p"])


def test_redact_parts_hides_the_whole_value_above_max_pointers() -> None:
    few, many = ([{"pin": 1}] * count for count in (MAX_POINTERS, MAX_POINTERS + 1))
    assert len(redacted(few)[1]) == MAX_POINTERS
    assert redacted(many) == (REDACTED, ["/p"])


def test_redact_parts_hides_the_whole_value_when_pointers_are_too_long() -> None:
    value = nested(60, "k" * 200, {"pin": 1, "otp": 2})
    assert redacted(value) == (REDACTED, ["/p"])
