"""What the policy remembers, for whom, and the words of its refusals."""

from typing import Any

import msgspec
import pytest

from tests.unit.builders import tool_named
from tests.unit.pipeline.test_authorize import KEY, NOW, TOKEN, FixedRules, policy
from toolhall.model.caller import Allow, Caller, Deny
from toolhall.model.secret import Secret
from toolhall.pipeline.access_rules import Forbidden, Unmatched

SAME = [
    msgspec.structs.replace(KEY, credential=Secret("another key of the same caller"), expires_at=NOW + 9),
    msgspec.structs.replace(TOKEN, credential=Secret("renewed"), expires_at=NOW + 9),
]
OTHER: list[dict[str, Any]] = [
    {"id": "cii"}, {"proof": "shared"}, {"person": "eve"}, {"scopes": frozenset({"tools:Other"})},
    {"expires_at": None}, {"authenticated_at": NOW - 9}, {"short_lived": True}, {"acting_for": "eve"}, {"local": True},
]  # fmt: skip


def test_policy_cache_key_is_shared_by_two_credentials_of_one_caller() -> None:
    """They take turns, as they do while a key is rotated; neither makes the other's decisions be forgotten."""
    deciding = policy()
    for one, other in zip((KEY, TOKEN), SAME, strict=True):
        assert deciding.cache_key(one) is deciding.cache_key(other) is deciding.cache_key(one)
    narrow = msgspec.structs.replace(KEY, scopes=frozenset({"tools:Other"}))
    before = [deciding.cache_key(each) for each in (KEY, narrow)]
    assert [deciding.cache_key(each) for each in (KEY, narrow)] == before


@pytest.mark.parametrize("other", OTHER, ids=str)
def test_policy_cache_key_differs_for_callers_with_a_different_relevant_field(other: dict[str, Any]) -> None:
    deciding = policy()
    assert deciding.cache_key(KEY) is not deciding.cache_key(msgspec.structs.replace(KEY, **other))


def test_policy_cache_key_tests_cover_every_field_of_caller() -> None:
    assert {name for each in OTHER for name in each} | {"credential", "address"} == set(Caller.__struct_fields__)


def test_policy_denial_reason_distinguishes_forbidden_from_unmatched() -> None:
    forbidding, lacking = (policy(FixedRules(said)) for said in (Forbidden("cedar:no"), Unmatched()))
    asked: tuple[Any, ...] = (Allow("", 5, conditional=True), KEY, tool_named("pick", level=5), {})
    assert forbidding.authorize_arguments(*asked) == Deny(
        "this caller may not call this tool with these arguments", "cedar:no", 5
    )
    said = lacking.authorize_arguments(*asked)
    assert isinstance(said, Deny)
    assert said.reason == "no grant or policy allows this caller to call this tool with these arguments"
