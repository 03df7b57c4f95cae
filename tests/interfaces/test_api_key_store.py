"""What every store of API keys promises, whatever its engine."""

from typing import Any

import msgspec
import pytest

from toolhall.stores.access import ApiKey, ApiKeyStore
from toolhall.stores.bundle import Stores
from toolhall.stores.common import Stale, Unstorable


@pytest.fixture
def keys(stores: Stores) -> ApiKeyStore:
    return stores.keys


def key(key_id: str = "a" * 12, **other: Any) -> ApiKey:
    plain: dict[str, Any] = {"id": key_id, "name": "ci", "digest": b"\x00\xff" * 16, "created_at": 5, "by": "local"}
    return ApiKey(**plain | other)


async def test_api_key_store_new_is_empty(keys: ApiKeyStore) -> None:
    assert await keys.all() == ()
    assert await keys.revoke("a" * 12, 1.0) is None
    await keys.record_uses({"a" * 12: 1.0})
    assert await keys.all() == ()


async def test_api_key_store_added_key_is_returned_unchanged(keys: ApiKeyStore) -> None:
    odd = "\u202e \U0001f6e0 '\"; DROP TABLE api_keys; -- %s :by ?"
    whole = key(
        "b" * 12, name=odd, owner=odd, shared=True, scopes=("admin", odd), expires_at=1e11, last_used_at=0.5, by=odd
    )
    await keys.add(whole)
    await keys.add(key(created_at=9.25))
    assert await keys.all() == (whole, key(created_at=9.25))


async def test_api_key_store_lists_keys_by_creation_time(keys: ApiKeyStore) -> None:
    for key_id, moment in (("c" * 12, 3.0), ("b" * 12, 4.0), ("a" * 12, 3.0)):
        await keys.add(key(key_id, created_at=moment))
    assert [each.id[0] for each in await keys.all()] == ["a", "c", "b"]


async def test_api_key_store_add_with_a_taken_id_is_stale(keys: ApiKeyStore) -> None:
    await keys.add(key())
    with pytest.raises(Stale):
        await keys.add(key(name="other"))
    assert await keys.all() == (key(),)


async def test_api_key_store_revocation_is_kept_and_its_time_never_changes(keys: ApiKeyStore) -> None:
    await keys.add(key())
    await keys.add(key("b" * 12))
    revoked = await keys.revoke("a" * 12, 7.0)
    assert revoked == key(revoked_at=7.0)
    assert await keys.revoke("a" * 12, 8.0) == revoked
    assert await keys.all() == (revoked, key("b" * 12))


async def test_api_key_store_last_use_is_kept_and_never_moves_back(keys: ApiKeyStore) -> None:
    await keys.add(key())
    await keys.add(key("b" * 12))
    await keys.record_uses({"a" * 12: 7.5, "gone": 1.0})
    await keys.record_uses({"a" * 12: 6.5})
    assert await keys.all() == (key(last_used_at=7.5), key("b" * 12))


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "\x00"},
        {"owner": "\ud800"},
        {"digest": b"short"},
        {"created_at": float("nan")},
        {"expires_at": -1.0},
        {"scopes": ("x" * 300,)},
        {"shared": "yes"},
    ],
)
async def test_api_key_store_invalid_field_is_unstorable(keys: ApiKeyStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        await keys.add(msgspec.structs.replace(key(), **wrong))
    assert await keys.all() == ()
