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
    """Keys of a hall that stands still at one time."""

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


async def test_a_new_key_opens_at_once_and_after_a_restart() -> None:
    harness = await ApiKeysHarness().open()
    key, text = await harness.keys.create(NewKey("ci"), "ada")
    assert (key.name, key.by, key.scopes, key.expires_at) == ("ci", "ada", ("tools:*",), NOW + 90 * DAY)
    assert harness.finds(text)
    assert text not in repr(key)
    assert (await ApiKeysHarness(harness.stores).open()).finds(text)
    assert not harness.finds(text.replace("tk_", "tk_x"))


async def test_a_revoked_key_opens_nothing_at_once_and_after_a_restart() -> None:
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
async def test_when_it_expires(expires: str, seconds: float | None) -> None:
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
async def test_what_cannot_be_is_refused_with_what_can(wrong: dict[str, Any], said: str) -> None:
    harness = await ApiKeysHarness().open()
    with pytest.raises(Malformed, match=said):
        await harness.keys.create(msgspec.convert({"name": "ci"} | wrong, NewKey), "ada")
    assert harness.keys.all == ()


async def test_there_is_a_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEYS", 1)
    harness = await ApiKeysHarness().open()
    await harness.keys.create(NewKey("ci"), "ada")
    with pytest.raises(Malformed, match="1 keys are kept at most"):
        await harness.keys.create(NewKey("ci"), "ada")


async def test_where_nothing_may_be_changed_nothing_is() -> None:
    harness = await ApiKeysHarness().open()
    harness.write_lock.read_only_reason = "several processes serve this hall"
    with pytest.raises(Denied, match="several processes"):
        await harness.keys.create(NewKey("ci"), "ada")
    assert harness.keys.all == await harness.stores.keys.all() == ()


class Failing(MemoryApiKeyStore):
    """A disk that is full."""

    async def add(self, key: ApiKey) -> None:
        raise StoreFailed("the disk is full")

    async def used(self, moments: object) -> None:
        raise StoreFailed("the disk is full")


async def test_what_is_not_stored_opens_nothing() -> None:
    harness = await ApiKeysHarness(replace(in_memory(), keys=Failing())).open()
    with pytest.raises(Unavailable):
        await harness.keys.create(NewKey("ci"), "ada")
    assert (harness.keys.all, len(harness.access.ring)) == ((), 0)


async def test_uses_are_written_down_later() -> None:
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
