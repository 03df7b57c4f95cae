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


def test_requirements_from_json_reads_oxp_examples() -> None:
    gmail = {"authorization": [{"id": "google", "oauth2": {"scopes": ["mail.readonly"]}}], "user_id": True}
    assert requirements_from_json(gmail) == Requirements(
        (AccountRequirement("google", ("mail.readonly",)),), (), user_id=True
    )
    assert requirements_from_json({"secrets": [{"id": "TWILIO_API_KEY"}]}) == Requirements(secrets=("TWILIO_API_KEY",))


@pytest.mark.parametrize("nothing", [None, {}, {"user_id": False}, {"secrets": []}, {"x-other": 1}, {"secrets": "X"}])
def test_requirements_from_json_empty_is_none(nothing: Any) -> None:
    assert requirements_from_json(nothing) is None


def test_requirements_from_json_duplicates_are_merged() -> None:
    twice = {"authorization": [{"id": "a", "oauth2": {"scopes": ["x"]}}, {"id": "a", "oauth2": {"scopes": ["y", "x"]}}]}
    assert requirements_from_json(twice) == Requirements((AccountRequirement("a", ("x", "y")),))


def test_requirements_from_json_invalid_entries_are_ignored() -> None:
    strange = {"authorization": [{"id": 1}, "google", {"id": "a", "oauth2": {"scopes": [1, "x"]}}], "user_id": "yes"}
    assert requirements_from_json(strange) == Requirements((AccountRequirement("a", ("x",)),))


@given(NEEDS)
def test_requirements_round_trip_through_json(needs: Requirements) -> None:
    assert (requirements_from_json(requirements_to_json(needs)) or Requirements()) == needs


def test_resolved_credentials_repr_has_no_secret() -> None:
    equipment = ResolvedCredentials(
        {"KEY": Secret("hunter22")}, {"google": AccountToken("google", Secret("ya29.token"))}, "ada"
    )
    shown = repr((equipment, CallerCredentials({"KEY": Secret("hunter22")})))
    assert "hunter22" not in shown
    assert "ya29" not in shown
    assert equipment.secret_values == (Secret("hunter22"), Secret("ya29.token"))


def test_caller_user_by_kind_of_caller() -> None:
    assert LOCAL.user == "local"
    assert ANONYMOUS.user is None
    assert Caller("app", proof="shared").user is None
    assert Caller("app", proof="key", person="ada").user == "ada"
    assert Caller("app", proof="shared", acting_for="ada").user == "ada"
    assert Caller("idp:ada", proof="token").names == ("idp:ada", "ada")
