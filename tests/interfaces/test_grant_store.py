"""What every store of grants promises, whatever its engine."""

from typing import Any

import msgspec
import pytest

from toolhall.stores.access import Condition, Grant, GrantStore
from toolhall.stores.bundle import Stores
from toolhall.stores.common import Stale, Unstorable

VALUES = (None, True, 0, -1.5, 2**60, "", "a\x00\u202e", [1, ["x"]], {"k": {"n": [False]}})


@pytest.fixture
def grants(stores: Stores) -> GrantStore:
    return stores.grants


def grant(grant_id: str = "g_a", **other: Any) -> Grant:
    plain: dict[str, Any] = {"effect": "permit", "callers": "ci", "tools": "Kit.*", "created_at": 5, "by": "local"}
    return Grant(id=grant_id, **plain | other)


async def test_grant_store_new_is_empty(grants: GrantStore) -> None:
    assert await grants.all() == ()
    assert await grants.remove("g_a") is None
    assert await grants.all() == ()


async def test_grant_store_added_grant_is_returned_unchanged(grants: GrantStore) -> None:
    odd = "\u202e \U0001f6e0 '\"; DROP TABLE grants; -- %s :by ?"
    whole = grant(
        effect="forbid", callers=odd, tools=odd, by=odd, conditions=(Condition(odd, VALUES), Condition("", ({},)))
    )
    await grants.add(whole)
    await grants.add(grant("g_b", created_at=1.25))
    assert await grants.all() == (grant("g_b", created_at=1.25), whole)


async def test_grant_store_add_with_a_taken_id_is_stale(grants: GrantStore) -> None:
    await grants.add(grant())
    with pytest.raises(Stale):
        await grants.add(grant(effect="forbid"))
    assert await grants.all() == (grant(),)


async def test_grant_store_removed_grant_is_gone(grants: GrantStore) -> None:
    kept = [grant("g_a"), grant("g_b", effect="forbid"), grant("g_c", effect="forbid")]
    for each in kept:
        await grants.add(each)
    assert await grants.remove("g_b") == kept[1]
    assert await grants.remove("g_b") is None
    assert await grants.all() == (kept[0], kept[2])
    assert await grants.remove("g_a") == kept[0]
    assert await grants.all() == (kept[2],)


@pytest.mark.parametrize(
    "wrong",
    [
        {"effect": "allow"},
        {"callers": "\x00"},
        {"tools": "\ud800"},
        {"created_at": float("inf")},
        {"conditions": (Condition("/a", (float("nan"),)),)},
        {"conditions": (Condition("/a", ("\ud800",)),)},
        {"conditions": (Condition("/a", ((1, 2),)),)},
    ],
)
async def test_grant_store_invalid_field_is_unstorable(grants: GrantStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        await grants.add(msgspec.structs.replace(grant(), **wrong))
    assert await grants.all() == ()
