"""The text of an API key: it is hard to mistype, quick to refuse, and never printed by accident."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.stores.access import ApiKeyToken, format_token, generate_token, parse_token, token_digest

TEXT = format_token(ApiKeyToken("abcDEF012345", "A-z_" * 10 + "A_-"))


def test_token_format_and_parse_round_trip() -> None:
    keys = [generate_token() for _ in range(200)]
    for key in keys:
        text = format_token(key)
        assert re.fullmatch(r"tk_[0-9A-Za-z]{12}_[0-9A-Za-z_-]{43}_[0-9A-Za-z]{6}", text)
        assert parse_token(text) == key
    assert len({key.id for key in keys}) == len({key.secret for key in keys}) == len(keys)


def test_token_format_of_a_fixed_key_is_stable() -> None:
    """A key that somebody has must be good in every later version."""
    assert TEXT == "tk_abcDEF012345_A-z_A-z_A-z_A-z_A-z_A-z_A-z_A-z_A-z_A-z_A_-_xqqT03"


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii"))
def test_parse_token_with_one_changed_character_returns_none(place: int, sign: str) -> None:
    wrong = TEXT[:place] + sign + TEXT[place + 1 :]
    assert (parse_token(wrong) is None) == (wrong != TEXT)


@pytest.mark.parametrize(
    "text",
    ["", "tk_", TEXT[:-1], TEXT + "0", TEXT + "\n", " " + TEXT, TEXT.upper(), TEXT.replace("A", "\uff21"), "\ud800"],
)
def test_parse_token_of_a_malformed_text_returns_none(text: str) -> None:
    assert parse_token(text) is None


@given(st.text())
def test_parse_token_of_arbitrary_text_returns_none(text: str) -> None:
    assert parse_token(text) is None


def test_token_digest_depends_on_pepper_and_secret() -> None:
    key = ApiKeyToken("a" * 12, "s" * 43)
    digests = {
        token_digest(b"p" * 32, key),
        token_digest(b"q" * 32, key),
        token_digest(b"p" * 32, ApiKeyToken(key.id, "t" * 43)),
    }
    assert len(digests) == 3
    assert {len(each) for each in digests} == {32}


def test_token_repr_does_not_contain_the_secret() -> None:
    key = generate_token()
    assert key.secret not in f"{key} {key!r} {[key]}"
