"""Changing the keys of a vault: nothing is lost, whenever it is interrupted and whoever comes between."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

from tests.unit.stores.vault.vaults import NEW, OLD, VALUE, Clock, open_vault
from toolhall.model.secret import Secret
from toolhall.stores.bundle import Stores
from toolhall.stores.common import StoreFailed
from toolhall.stores.sqlite import open_sqlite
from toolhall.stores.vault.envelope import DecryptionFailed, kek_id
from toolhall.stores.vault.key_sources import (
    VAULT_KEY_FILE,
    KeyEncryptionKeys,
    KeyFile,
    NoKey,
    find_key_encryption_keys,
    format_key,
    generate_key,
)
from toolhall.stores.vault.store import DataKey, MemoryVaultStore, SecretRow, VaultContents
from toolhall.stores.vault.vault import Vault

USERS = (None, "ada", "bob")


async def fill(vault: Vault) -> None:
    for user in USERS:
        for name in ("ONE", "TWO"):
            await vault.set(name, Secret(f"{name} of {user}"), user, "local")


def is_complete(vault: Vault) -> bool:
    return all(vault.get(name, user) == Secret(f"{name} of {user}") for user in USERS for name in ("ONE", "TWO"))


def keks_in(folder: Path) -> KeyEncryptionKeys | NoKey:
    return find_key_encryption_keys(None, folder, profile="local", environment={})


async def in_folder(stores: Stores, folder: Path) -> Vault:
    vault = Vault(keks_in(folder), Clock())
    await vault.open(stores.vault)
    return vault


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    opened_here = open_sqlite(tmp_path)
    yield opened_here
    opened_here.close()


async def test_rotate_with_old_and_new_key_makes_the_old_key_unnecessary() -> None:
    store = MemoryVaultStore()
    await fill(await open_vault(store, OLD))
    vault = await open_vault(store, NEW, OLD)
    assert is_complete(vault)
    assert {key.kek for key in (await store.all()).keys} == {kek_id(OLD)}
    before = await store.all()
    assert await vault.rotate() == 6
    after = await store.all()
    assert is_complete(vault)
    assert {key.kek for key in after.keys} == {kek_id(NEW)}
    assert not {key.id for key in before.keys} & {key.id for key in after.keys}
    assert not {row.sealed for row in before.rows} & {row.sealed for row in after.rows}
    assert [(row.id, row.hint, row.changed_at) for row in after.rows] == [
        (row.id, row.hint, row.changed_at) for row in before.rows
    ]
    assert is_complete(await open_vault(store, NEW))
    with pytest.raises(StoreFailed, match="another vault key encrypted"):
        await open_vault(store, OLD)


async def test_rotate_keeps_sealed_records_readable_and_seals_with_a_new_data_key() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store, OLD)
    sealer = await vault.sealer("user:ada")
    sealed = sealer.seal(b"tokens", "a1")
    vault = await open_vault(store, NEW, OLD)
    mine = await vault.sealer("user:ada")
    await vault.rotate()
    assert mine.open(sealed, "a1") == b"tokens"
    again = mine.seal(b"tokens", "a1")
    assert again[2:10] != sealed[2:10]
    with pytest.raises(DecryptionFailed):
        sealer.open(again, "a1")
    alone = await (await open_vault(store, NEW)).sealer("user:ada")
    assert (alone.open(sealed, "a1"), alone.open(again, "a1")) == (b"tokens", b"tokens")


async def test_open_with_refresh_finds_a_data_key_of_another_process(stores: Stores, tmp_path: Path) -> None:
    one, other = await in_folder(stores, tmp_path), await in_folder(stores, tmp_path)
    theirs = await other.sealer("user:ada")
    mine = await one.sealer("user:ada")
    await one.rotate(generate_key())
    sealed = mine.seal(b"tokens", "a1")
    with pytest.raises(DecryptionFailed):
        theirs.open(sealed, "a1")
    assert await theirs.open_with_refresh(sealed, "a1") == b"tokens"


async def test_rotate_with_a_new_key_replaces_the_key_file(stores: Stores, tmp_path: Path) -> None:
    vault = await in_folder(stores, tmp_path)
    await fill(vault)
    assert await vault.rotate(format_key(NEW)) == 6
    found = keks_in(tmp_path)
    assert isinstance(found, KeyEncryptionKeys)
    assert found.keys == (NEW,)
    assert is_complete(vault)
    assert is_complete(await in_folder(stores, tmp_path))


async def test_rotate_with_a_new_key_refuses_a_key_from_a_setting_and_changes_nothing() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store, OLD)
    await fill(vault)
    before = await store.all()
    with pytest.raises(StoreFailed, match="put the new key before the old one"):
        await vault.rotate(format_key(NEW))
    assert (await store.all(), is_complete(vault)) == (before, True)


async def test_rotate_interrupted_by_power_loss_at_any_statement_keeps_all_secrets_readable(
    stores: Stores, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The folder as it is before every statement is what a machine would find after a power loss there."""
    vault = await in_folder(stores, tmp_path)
    await fill(vault)
    copies = tmp_path_factory.mktemp("copies")
    seen: set[tuple[bytes, ...]] = set()

    def copy(*_: object) -> None:
        shutil.copytree(tmp_path, copies / str(len(list(copies.iterdir()))))

    event.listen(Engine, "before_cursor_execute", copy)
    event.listen(Engine, "commit", copy)
    try:
        await vault.rotate(format_key(NEW))
    finally:
        event.remove(Engine, "before_cursor_execute", copy)
        event.remove(Engine, "commit", copy)
    copy()
    for folder in copies.iterdir():
        left = open_sqlite(folder)
        try:
            again = await in_folder(left, folder)
            assert is_complete(again), folder
            found = keks_in(folder)
            assert isinstance(found, KeyEncryptionKeys)
            seen.add(found.keys)
            await again.rotate()  # and it can be done again
            assert is_complete(again)
        finally:
            left.close()
    assert len(list(copies.iterdir())) > 20
    assert len(seen) == 2, "with both keys while it lasts, and with the new one alone"


async def test_rotate_that_fails_half_way_changes_nothing(stores: Stores, tmp_path: Path) -> None:
    vault = await in_folder(stores, tmp_path)
    await fill(vault)
    before = await stores.vault.all()
    count = 0

    def fail(*given: Any) -> None:
        nonlocal count
        count += "INSERT INTO secrets" in given[2]
        if count == 3:
            raise OSError(28, "No space left on device")

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        with pytest.raises(StoreFailed, match="No space left"):
            await vault.rotate(format_key(NEW))
    finally:
        event.remove(Engine, "before_cursor_execute", fail)
    assert count == 3
    assert await stores.vault.all() == before
    assert is_complete(vault)
    assert is_complete(await in_folder(stores, tmp_path))
    assert await vault.rotate(generate_key()) == 6


# --- several processes


class InterruptedStore(MemoryVaultStore):
    """A vault store that runs an action just before, or just after, it stores the next data key."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], Awaitable[Any]] | None = None
        self.after: Callable[[], Awaitable[Any]] | None = None

    async def put(self, row: SecretRow, key: DataKey | None = None) -> None:
        await self._take("before")
        await super().put(row, key)
        await self._take("after")

    async def add_data_key(self, key: DataKey) -> None:
        await self._take("before")
        await super().add_data_key(key)
        await self._take("after")

    async def _take(self, when: str) -> None:
        happens: Callable[[], Awaitable[Any]] | None = getattr(self, when)
        if happens is not None:
            setattr(self, when, None)
            await happens()


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["secret", "first of a user", "record"])
async def test_secret_stored_while_another_process_rotates_stays_readable(tmp_path: Path, when: str, what: str) -> None:
    """The old key is dropped at the end, and nothing may be left that only the old key opens."""
    KeyFile(tmp_path / VAULT_KEY_FILE).create(OLD)
    store = InterruptedStore()
    one, other = Vault(keks_in(tmp_path)), Vault(keks_in(tmp_path))
    await one.open(store)
    await fill(one)
    await other.open(store)
    setattr(store, when, lambda: other.rotate(format_key(NEW)))
    if what == "record":
        await one.sealer("user:carol")
    else:
        await one.set("NEW", VALUE, None if what == "secret" else "carol", "local")
    assert {key.kek for key in (await store.all()).keys} == {kek_id(NEW)}
    again = Vault(keks_in(tmp_path))
    await again.open(store)
    for vault in (one, again):
        assert is_complete(vault)
        assert what == "record" or vault.get("NEW", None if what == "secret" else "carol") == VALUE


async def test_concurrent_rotations_and_sets_lose_no_secret(tmp_path: Path) -> None:
    store = MemoryVaultStore()
    one, other = await open_vault(store, OLD), await open_vault(store, OLD)
    await fill(one)
    await asyncio.gather(one.rotate(), other.set("NEW", VALUE, None, "local"), one.rotate(), other.rotate())
    await one.refresh()
    await other.refresh()
    assert is_complete(one)
    assert is_complete(other)
    assert one.get("NEW") == other.get("NEW") == VALUE


async def test_vault_refresh_finds_the_first_key_and_secrets_of_another_process(stores: Stores, tmp_path: Path) -> None:
    one, other = await in_folder(stores, tmp_path), await in_folder(stores, tmp_path)
    await one.set("TOKEN", VALUE, None, "local")
    assert other.get("TOKEN") is None
    await other.refresh()
    assert other.get("TOKEN") == VALUE
    await one.rotate(generate_key())
    await other.refresh()
    assert other.get("TOKEN") == VALUE
    await other.set("TOKEN", Secret("another"), "ada", "local")
    await one.refresh()
    assert one.get("TOKEN", "ada") == Secret("another")


async def test_first_secrets_set_concurrently_by_two_processes_are_both_readable(
    stores: Stores, tmp_path: Path
) -> None:
    one, other = await in_folder(stores, tmp_path), await in_folder(stores, tmp_path)
    await asyncio.gather(one.set("ONE", VALUE, None, "a"), other.set("TWO", VALUE, None, "b"))
    again = await in_folder(stores, tmp_path)
    assert again.get("ONE") == again.get("TWO") == VALUE


async def test_deleted_vault_key_file_is_not_created_again_while_secrets_exist(stores: Stores, tmp_path: Path) -> None:
    """What it sealed would be lost with the process."""
    vault = await in_folder(stores, tmp_path)
    await fill(vault)
    (tmp_path / VAULT_KEY_FILE).unlink()
    with pytest.raises(StoreFailed, match="gone from its source; restore it"):
        await vault.set("NEW", VALUE, "carol", "local")
    with pytest.raises(StoreFailed, match="gone from its source; restore it"):
        await vault.rotate()
    assert not (tmp_path / VAULT_KEY_FILE).exists()
    assert is_complete(vault)


async def test_rotate_of_an_empty_vault_does_nothing() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    assert await vault.rotate() == 0
    assert await store.all() == VaultContents()
