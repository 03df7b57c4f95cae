"""Making and revoking keys: what is wanted is checked, what is kept is no secret, and a change counts at once."""

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from toolhall.model.errors import Denied, Malformed, NotFound, Unavailable
from toolhall.registration import access as module
from toolhall.registration.access import AccessControl, NewKey
from toolhall.stores.access import ApiKey, MemoryApiKeyStore
from toolhall.stores.bundle import Stores, in_memory
from toolhall.stores.common import StoreFailed, WriteLock

NOW = 1_000_000.0
DAY = 86_400.0


class ApiKeysHarness:
    """API key management with a fixed clock."""

    def __init__(self, stores: Stores | None = None) -> None:
        self.stores = stores or in_memory()
        self.write_lock = WriteLock()
        self.now = NOW
        self.access = AccessControl(bytes(32), self.write_lock, lambda: self.now, lambda _: None)
        self.keys = self.access.keys

    async def open(self) -> "ApiKeysHarness":
        await self.access.open(self.stores)
        return self

    def finds(self, text: str) -> bool:
        return self.access.ring.find(text, self.now) is not None


async def test_api_key_create_key_is_valid_immediately_and_after_a_restart() -> None:
    harness = await ApiKeysHarness().open()
    key, text = await harness.keys.create(NewKey("ci"), "ada")
    assert (key.name, key.by, key.scopes, key.expires_at) == ("ci", "ada", ("tools:*",), NOW + 90 * DAY)
    assert harness.finds(text)
    assert text not in repr(key)
    assert (await ApiKeysHarness(harness.stores).open()).finds(text)
    assert not harness.finds(text.replace("tk_", "tk_x"))


async def test_api_key_revoke_key_is_invalid_immediately_and_after_a_restart() -> None:
    harness = await ApiKeysHarness().open()
    key, text = await harness.keys.create(NewKey("ci"), "ada")
    _, second = await harness.keys.create(NewKey("ci"), "ada")
    assert harness.finds(text)
    assert (await harness.keys.revoke(key.id)).revoked_at == NOW
    assert (harness.finds(text), harness.finds(second)) == (False, True)
    assert not (await ApiKeysHarness(harness.stores).open()).finds(text)
    assert [each.revoked_at for each in harness.keys.all] == [NOW, None]
    with pytest.raises(NotFound, match="toolhall key list"):
        await harness.keys.revoke("nothing")


@pytest.mark.parametrize(
    ("expires", "seconds"), [("90d", 90 * DAY), ("12h", DAY / 2), ("9999d", 9999 * DAY), ("never", None)]
)
async def test_api_key_create_expiry_follows_the_requested_duration(expires: str, seconds: float | None) -> None:
    harness = await ApiKeysHarness().open()
    key, text = await harness.keys.create(NewKey("ci", expires=expires), "ada")
    assert key.expires_at == (None if seconds is None else NOW + seconds)
    harness.now = NOW + 10_000 * DAY
    assert harness.finds(text) is (seconds is None)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": "local"}, "choose another"),
        ({"name": "Anonymous"}, "choose another"),
        ({"name": ""}, "1 to 64"),
        ({"name": "a" * 65}, "1 to 64"),
        ({"name": "corp:ada"}, "1 to 64"),
        ({"name": "-a"}, "1 to 64"),
        ({"name": "a\n"}, "1 to 64"),
        ({"name": "\uff41"}, "1 to 64"),
        ({"owner": ""}, "a person"),
        ({"owner": "a b"}, "a person"),
        ({"owner": "a\u202e"}, "a person"),
        ({"scopes": ["root"]}, "there is no scope 'root'"),
        ({"scopes": ["tools:a.b"]}, "there is no scope"),
        ({"scopes": ["admin "]}, "there is no scope"),
        ({"scopes": ["serve:"]}, "serve:TOOLKIT"),
        ({"scopes": ["serve:a.b"]}, "there is no scope"),
        ({"scopes": ["trusted:a"]}, "there is no scope"),
        ({"scopes": ["admin"] * 65}, "64 scopes at most"),
        ({"expires": ""}, "such as 90d"),
        ({"expires": "0d"}, "such as 90d"),
        ({"expires": "-1d"}, "such as 90d"),
        ({"expires": "90"}, "such as 90d"),
        ({"expires": "\u0669d"}, "such as 90d"),
    ],
)
async def test_api_key_create_with_invalid_members_raises_malformed_naming_the_valid_ones(
    wrong: dict[str, Any], said: str
) -> None:
    harness = await ApiKeysHarness().open()
    with pytest.raises(Malformed, match=said):
        await harness.keys.create(msgspec.convert({"name": "ci"} | wrong, NewKey), "ada")
    assert harness.keys.all == ()


async def test_api_key_create_above_max_keys_raises_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 1)
    harness = await ApiKeysHarness().open()
    await harness.keys.create(NewKey("ci"), "ada")
    with pytest.raises(Malformed, match="1 keys are kept at most"):
        await harness.keys.create(NewKey("ci"), "ada")


async def test_api_key_create_in_read_only_mode_is_denied_and_stores_nothing() -> None:
    harness = await ApiKeysHarness().open()
    harness.write_lock.read_only_reason = "several processes serve this hall"
    with pytest.raises(Denied, match="several processes"):
        await harness.keys.create(NewKey("ci"), "ada")
    assert harness.keys.all == await harness.stores.keys.all() == ()


class FailingApiKeyStore(MemoryApiKeyStore):
    """An API key store whose disk is full."""

    async def add(self, key: ApiKey) -> None:
        raise StoreFailed("the disk is full")

    async def used(self, moments: object) -> None:
        raise StoreFailed("the disk is full")


async def test_api_key_create_with_failing_store_raises_unavailable_and_adds_no_key() -> None:
    harness = await ApiKeysHarness(replace(in_memory(), keys=FailingApiKeyStore())).open()
    with pytest.raises(Unavailable):
        await harness.keys.create(NewKey("ci"), "ada")
    assert (harness.keys.all, len(harness.access.ring)) == ((), 0)


async def test_api_key_last_use_is_stored_in_the_background() -> None:
    harness = await ApiKeysHarness().open()
    key, text = await harness.keys.create(NewKey("ci"), "ada")
    harness.finds(text)
    assert harness.keys.all[0].last_used_at == NOW
    assert (await harness.stores.keys.all())[0].last_used_at is None, "no call waits for the disk"
    await asyncio.sleep(0)
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    harness.now += 1
    harness.finds(text)
    assert ((await harness.stores.keys.all())[0].last_used_at, harness.keys.all[0].last_used_at) == (NOW, NOW + 1)
    assert (await ApiKeysHarness(harness.stores).open()).keys.all[0].id == key.id
