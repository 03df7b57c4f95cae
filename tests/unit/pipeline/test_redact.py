"""Redaction of whole calls: nested, in lists, in pairs, echoed, bounded."""

from typing import Any

import pytest

from tests.unit.parts import nested
from toolhall.model.secret_shapes import HIDDEN
from toolhall.pipeline.redact import MAX_DEPTH, MAX_PLACES, MAX_SECRETS, Part, redact
from toolhall.schema.secrecy import Secrecy


def redacted(value: Any, name: str = "", secrecy: Secrecy | None = None) -> tuple[Any, list[str]]:
    found = redact(Part("/p", value, name, secrecy or Secrecy()))
    return found.values[0], list(found.pointers)


@pytest.mark.parametrize(
    ("value", "shown", "places"),
    [
        ({"city": "Oslo"}, {"city": "Oslo"}, []),
        ({"a": [{"password": "x"}]}, {"a": [{"password": HIDDEN}]}, ["/p/a/0/password"]),
        ({"apiKey": {"deep": [1, "x"]}}, {"apiKey": HIDDEN}, ["/p/apiKey"]),
        ({"pin": 1}, {"pin": HIDDEN}, ["/p/pin"]),
        ({"a/b": {"token": "x"}}, {"a/b": {"token": HIDDEN}}, ["/p/a~1b/token"]),
        ([["Authorization", "x"], ["Host", "y"]], [["Authorization", HIDDEN], ["Host", "y"]], ["/p/0/1"]),
        ([{"name": "Cookie", "value": "x"}], [{"name": "Cookie", "value": HIDDEN}], ["/p/0/value"]),
        ({"key": "city", "value": "Oslo"}, {"key": "city", "value": "Oslo"}, []),
        ({"max_tokens": 5, "tokens": {"in": 1, "out": [2]}}, {"max_tokens": 5, "tokens": {"in": 1, "out": [2]}}, []),
        ({"tokens": ["x"]}, {"tokens": HIDDEN}, ["/p/tokens"]),
        (
            {"hasPassword": True, "token": None, "secret": "", "cookies": []},
            {"hasPassword": True, "token": None, "secret": "", "cookies": []},
            [],
        ),
        ("Bearer abcdefgh", f"Bearer {HIDDEN}", ["/p"]),
        (7, 7, []),
    ],
)
def test_by_name_and_shape(value: Any, shown: Any, places: list[str]) -> None:
    assert redacted(value) == (shown, places)


def test_by_schema() -> None:
    assert redacted({"a": "x", "b": ["y"]}, secrecy=Secrecy(frozenset({"b"}))) == ({"a": "x", "b": HIDDEN}, ["/p/b"])
    assert redacted({"a": "x"}, secrecy=Secrecy(whole=True)) == (HIDDEN, ["/p"])


def test_by_the_name_of_the_whole() -> None:
    assert redacted("x", name="get_secret") == (HIDDEN, ["/p"])
    assert redacted(12, name="count_tokens") == (12, [])


def test_echoes_are_found_in_every_part() -> None:
    found = redact(
        Part("/arguments", {"password": "hunter2", "pin": 4711, "user": "me"}),
        Part("/answer", {"said": "hello hunter2!", "hunter2": {"n": 4711, "hunter2/x": 1}, "year": 47110}),
    )
    assert found.values == [
        {"password": HIDDEN, "pin": HIDDEN, "user": "me"},
        {"said": f"hello {HIDDEN}!", HIDDEN: {"n": HIDDEN, f"{HIDDEN}/x": 1}, "year": 47110},
    ]
    assert "hunter2" not in "".join(found.pointers)
    assert "/answer/said" in found.pointers


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert redacted({"a": "x abcdef", "token": ["abcd", "abcdef"]})[0] == {"a": f"x {HIDDEN}", "token": HIDDEN}


def test_a_key_that_is_a_secret() -> None:
    key = "ghp_0123456789abcdef0123"
    value, places = redacted({"keys": {key: "mine"}})
    assert value == {"keys": {HIDDEN: "mine"}}
    assert places == [f"/p/keys/{HIDDEN}"]


def test_what_is_too_deep_is_not_looked_into() -> None:
    value, places = redacted(nested(MAX_DEPTH + 3, core="canary"))
    assert "canary" not in str(value)
    assert len(places) == 1


@pytest.mark.parametrize("count", [MAX_SECRETS + 1, 500])
def test_too_many_secrets(count: int) -> None:
    value = {"list": [{"token": f"secret-{number}"} for number in range(count)], "city": "Oslo"}
    assert redacted(value) == (HIDDEN, ["/p"])


def test_too_many_places() -> None:
    few, many = ([{"pin": 1}] * count for count in (MAX_PLACES, MAX_PLACES + 1))
    assert len(redacted(few)[1]) == MAX_PLACES
    assert redacted(many) == (HIDDEN, ["/p"])


def test_too_many_letters_in_pointers() -> None:
    value = nested(60, "k" * 200, {"pin": 1, "otp": 2})
    assert redacted(value) == (HIDDEN, ["/p"])
