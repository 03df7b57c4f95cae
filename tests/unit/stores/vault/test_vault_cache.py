"""What a vault unwraps again after a change: what is new, and nothing else."""

import pytest

from tests.unit.stores.vault.vaults import NEW, OLD, VALUE, open_vault
from toolhall.stores.vault.envelope import Envelope, UnwrappedKey
from toolhall.stores.vault.store import DataKey, MemoryVaultStore

USERS = 30


@pytest.fixture
def unwrapped(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose keys were unwrapped, each time."""
    tenants: list[str] = []
    unwrap = Envelope.unwrap

    def counted(self: Envelope, key: DataKey) -> UnwrappedKey:
        tenants.append(key.tenant)
        return unwrap(self, key)

    monkeypatch.setattr(Envelope, "unwrap", counted)
    return tenants


async def test_vault_unwraps_only_new_data_keys_after_a_change(unwrapped: list[str]) -> None:
    """Else linking an account would take longer with everybody who has linked one."""
    store = MemoryVaultStore()
    vault, other = await open_vault(store), await open_vault(store)
    for number in range(USERS):
        await vault.sealer(f"user:{number}")
    await other.refresh()
    unwrapped.clear()
    await vault.sealer("user:more")
    assert unwrapped == ["user:more"]
    await other.refresh()
    assert unwrapped == ["user:more"] * 2, "also in another process that follows"
    await vault.set("TOKEN", VALUE, None, "local")
    assert unwrapped[2:] == ["hall"]
    await vault.remove("TOKEN")
    assert await vault.shred("user:more")
    assert len(unwrapped) == 3, "what goes needs no key"


async def test_vault_unwraps_a_rewrapped_data_key_again(unwrapped: list[str]) -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store, OLD)
    sealed = (await vault.sealer("user:ada")).seal(b"tokens", "a1")
    other = await open_vault(store, NEW, OLD)
    await other.rotate()
    unwrapped.clear()
    vault = await open_vault(store, NEW)
    assert unwrapped == ["user:ada"] * 2, "the old one and the one that seals from now on"
    assert (await vault.sealer("user:ada")).open(sealed, "a1") == b"tokens"
