"""Vaults for tests, with their keys and a clock that a test sets."""

from collections.abc import Sequence

from toolhall.model.secret import Secret
from toolhall.stores.vault.key_sources import KeyEncryptionKeys, StaticKey, format_key
from toolhall.stores.vault.store import VaultStore
from toolhall.stores.vault.vault import Vault

OLD, NEW = bytes(range(32)), bytes(range(32, 64))
VALUE = Secret("tk_canary9QwEr/R4nd0m+V4lu3")
START = 1_000_000.0


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


def static_keys(keys: Sequence[bytes] = (OLD,)) -> KeyEncryptionKeys:
    """Keys from a setting."""
    return KeyEncryptionKeys(tuple(keys), StaticKey(" ".join(map(format_key, keys)), "TOOLHALL_VAULT_KEY"))


async def open_vault(store: VaultStore, *keys: bytes, clock: Clock | None = None) -> Vault:
    """A vault over this store, with these keys."""
    vault = Vault(static_keys(keys or (OLD,)), clock or Clock())
    await vault.open(store)
    return vault
