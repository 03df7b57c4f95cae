"""What every store of sealed secrets promises, whatever its engine."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from toolhall.stores.bundle import Stores
from toolhall.stores.common import Stale, Unstorable
from toolhall.stores.sqlite import open_sqlite
from toolhall.stores.vault.store import DataKey, SecretRow, VaultContents, VaultStore

ODD = "\u202e \U0001f6e0 '\"; DROP TABLE secrets; -- %s :by ?"


@pytest.fixture
def vault(stores: Stores) -> VaultStore:
    return stores.vault


def key(key_id: str = "k1", **other: Any) -> DataKey:
    plain: dict[str, Any] = {"tenant": "hall", "use": "secrets", "kek": "a", "wrapped": b"\x00w", "created_at": 1.5}
    return DataKey(id=key_id, **plain | other)


def row(name: str = "TOKEN", **other: Any) -> SecretRow:
    plain: dict[str, Any] = {
        "id": f"s-{name}-{other.get('user')}",
        "sealed": b"\x00\xff sealed",
        "dek": "k1",
        "hint": "0a1b2c3d",
        "by": "local",
        "created_at": 2.5,
        "changed_at": 3,
    }
    return SecretRow(name=name, **plain | other)


async def test_vault_store_new_is_empty(vault: VaultStore) -> None:
    assert await vault.all() == VaultContents()
    assert not await vault.remove("TOKEN", None)
    assert not await vault.shred("hall")
    assert await vault.all() == VaultContents()


async def test_vault_store_put_secret_is_returned_unchanged(vault: VaultStore) -> None:
    odd = row(ODD, id=ODD, user=ODD, sealed=bytes(range(256)), by=ODD, hint=ODD, created_at=1.25)
    await vault.put(odd, key())
    await vault.put(row())
    await vault.put(row(user="bob", id="s2"))
    assert await vault.all() == VaultContents((key(),), (odd, row(), row(user="bob", id="s2")))


async def test_vault_store_secret_name_is_unique_for_the_hall_and_for_each_user(vault: VaultStore) -> None:
    await vault.put(row(), key())
    for user in ("ada", "bob"):
        await vault.put(row(user=user))
    again = row(id="s-new", sealed=b"new", changed_at=9)
    await vault.put(again)
    assert set((await vault.all()).rows) == {again, row(user="ada"), row(user="bob")}
    assert await vault.remove("TOKEN", "ada")
    assert not await vault.remove("TOKEN", "ada")
    assert set((await vault.all()).rows) == {again, row(user="bob")}


async def test_vault_store_put_without_its_data_key_is_stale(vault: VaultStore) -> None:
    """Else a secret that comes while all keys are changed would be lost."""
    with pytest.raises(Stale):
        await vault.put(row())
    with pytest.raises(Stale):
        await vault.put(row(dek="k2"), key("k1"))
    assert await vault.all() == VaultContents()


async def test_vault_store_data_key_is_removed_with_the_last_secret_it_seals(vault: VaultStore) -> None:
    await vault.put(row("ONE"), key())
    await vault.put(row("TWO"))
    await vault.remove("ONE", None)
    assert (await vault.all()).keys == (key(),)
    await vault.put(row("TWO", dek="k2"), key("k2"))
    assert (await vault.all()).keys == (key("k2"),)
    await vault.remove("TWO", None)
    assert await vault.all() == VaultContents()


async def test_vault_store_data_key_for_records_is_kept(vault: VaultStore) -> None:
    records = key("r1", use="records", tenant="user:ada")
    await vault.add_data_key(records)
    await vault.put(row(), key())
    await vault.remove("TOKEN", None)
    assert await vault.all() == VaultContents((records,))
    with pytest.raises(Stale):
        await vault.add_data_key(records)


async def test_vault_store_replace_data_keys_replaces_everything_or_nothing(vault: VaultStore) -> None:
    await vault.put(row("ONE"), key())
    await vault.put(row("TWO"))
    before = await vault.all()
    after = VaultContents(
        (key("k2"),), tuple(msgspec.structs.replace(each, dek="k2", sealed=b"2") for each in before.rows)
    )
    await vault.put(row("THREE"))
    with pytest.raises(Stale):
        await vault.replace_data_keys(before, after)
    await vault.remove("THREE", None)
    await vault.replace_data_keys(before, after)
    assert await vault.all() == after
    with pytest.raises(Stale):
        await vault.replace_data_keys(before, before)
    assert await vault.all() == after


async def test_vault_store_replace_data_keys_concurrently_one_writer_wins(vault: VaultStore) -> None:
    await vault.put(row(), key())
    before = await vault.all()
    after = [VaultContents((key(f"n{number}"),), (row(dek=f"n{number}"),)) for number in range(8)]
    done = await asyncio.gather(*(vault.replace_data_keys(before, each) for each in after), return_exceptions=True)
    assert sum(isinstance(each, Stale) for each in done) == 7
    assert await vault.all() == after[done.index(None)]


async def test_vault_store_shred_removes_all_of_one_tenant_only(vault: VaultStore) -> None:
    ada = {"tenant": "user:ada"}
    await vault.put(row(), key())
    await vault.put(row(user="ada", dek="a1"), key("a1", **ada))
    await vault.add_data_key(key("a2", use="records", **ada))
    assert await vault.shred("user:ada")
    assert not await vault.shred("user:ada")
    assert await vault.all() == VaultContents((key(),), (row(),))
    assert await vault.shred("hall")
    assert await vault.all() == VaultContents()


@pytest.mark.parametrize(
    "wrong",
    [{"name": "\x00"}, {"user": ""}, {"user": "\ud800"}, {"by": "x" * 513}, {"changed_at": float("nan")}, {"id": ""}],
)
async def test_vault_store_invalid_field_is_unstorable(vault: VaultStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        await vault.put(msgspec.structs.replace(row(), **wrong), key())
    with pytest.raises(Unstorable):
        await vault.put(row(), key(use="other"))
    assert await vault.all() == VaultContents()


async def test_vault_store_reopened_has_the_same_contents(tmp_path: Path) -> None:
    stores = open_sqlite(tmp_path)
    await stores.vault.put(row(), key())
    stores.close()
    stores = open_sqlite(tmp_path)
    assert await stores.vault.all() == VaultContents((key(),), (row(),))
    stores.close()
