"""What a tool needs, in OXP's words and in ours."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.model.caller import ANONYMOUS, LOCAL, Caller
from toolhall.model.requirements import (
    AccountRequirement,
    AccountToken,
    CallerCredentials,
    Requirements,
    ResolvedCredentials,
    requirements_from_json,
    requirements_to_json,
)
from toolhall.model.secret import Secret

NAMES = st.text("abcXYZ_:/.", min_size=1, max_size=12)
SCOPES = st.lists(NAMES, unique=True, max_size=3).map(tuple)
NEEDS = st.builds(
    Requirements,
    st.dictionaries(NAMES, SCOPES, max_size=3).map(
        lambda found: tuple(AccountRequirement(*each) for each in found.items())
    ),
    st.lists(NAMES, unique=True, max_size=3).map(tuple),
    st.booleans(),
)


def test_the_seeds_examples_are_read() -> None:
    gmail = {"authorization": [{"id": "google", "oauth2": {"scopes": ["mail.readonly"]}}], "user_id": True}
    assert requirements_from_json(gmail) == Requirements(
        (AccountRequirement("google", ("mail.readonly",)),), (), user_id=True
    )
    assert requirements_from_json({"secrets": [{"id": "TWILIO_API_KEY"}]}) == Requirements(secrets=("TWILIO_API_KEY",))


@pytest.mark.parametrize("nothing", [None, {}, {"user_id": False}, {"secrets": []}, {"x-other": 1}, {"secrets": "X"}])
def test_a_tool_that_needs_nothing_needs_nothing(nothing: Any) -> None:
    assert requirements_from_json(nothing) is None


def test_what_is_named_twice_is_needed_once_with_the_scopes_of_both() -> None:
    twice = {"authorization": [{"id": "a", "oauth2": {"scopes": ["x"]}}, {"id": "a", "oauth2": {"scopes": ["y", "x"]}}]}
    assert requirements_from_json(twice) == Requirements((AccountRequirement("a", ("x", "y")),))


def test_what_cannot_be_read_is_no_requirement_and_no_crash() -> None:
    strange = {"authorization": [{"id": 1}, "google", {"id": "a", "oauth2": {"scopes": [1, "x"]}}], "user_id": "yes"}
    assert requirements_from_json(strange) == Requirements((AccountRequirement("a", ("x",)),))


@given(NEEDS)
def test_needs_come_back_from_oxps_words(needs: Requirements) -> None:
    assert (requirements_from_json(requirements_to_json(needs)) or Requirements()) == needs


def test_nothing_that_is_supplied_can_be_printed() -> None:
    equipment = ResolvedCredentials(
        {"KEY": Secret("hunter22")}, {"google": AccountToken("google", Secret("ya29.token"))}, "ada"
    )
    shown = repr((equipment, CallerCredentials({"KEY": Secret("hunter22")})))
    assert "hunter22" not in shown
    assert "ya29" not in shown
    assert equipment.secret_values == (Secret("hunter22"), Secret("ya29.token"))


def test_whose_accounts_a_call_uses() -> None:
    assert LOCAL.user == "local"
    assert ANONYMOUS.user is None
    assert Caller("app", proof="shared").user is None
    assert Caller("app", proof="key", person="ada").user == "ada"
    assert Caller("app", proof="shared", acting_for="ada").user == "ada"
    assert Caller("idp:ada", proof="token").names == ("idp:ada", "ada")
