"""The key of a vault in the system's keyring: the real package `keyring`, with backends of our own."""

import sys
from collections.abc import Iterator

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringLocked

from tests.unit.stores.vault.vaults import NEW, OLD
from toolhall.stores.common import StoreFailed
from toolhall.stores.vault.key_sources import (
    KEYRING_ENTRY,
    KEYRING_SERVICE,
    KeyEncryptionKeys,
    NoKey,
    find_key_encryption_keys,
    format_key,
)


class FakeKeyring(KeyringBackend):
    """A keyring backend in memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


class LockedKeyring(FakeKeyring):
    """A keyring backend that is locked."""

    def get_password(self, service: str, username: str) -> str | None:
        raise KeyringLocked(f"locked, and it was asked for {service} {username}")


@pytest.fixture
def ring() -> Iterator[FakeKeyring]:
    before = keyring.get_keyring()
    using = FakeKeyring()
    keyring.set_keyring(using)
    yield using
    keyring.set_keyring(before)


def found() -> KeyEncryptionKeys | NoKey:
    return find_key_encryption_keys("keyring", None, profile="local", environment={})


def test_keyring_source_reads_the_keys_from_the_system_keyring(ring: FakeKeyring) -> None:
    ring.kept[KEYRING_SERVICE, KEYRING_ENTRY] = f"{format_key(NEW)} {format_key(OLD)}"
    keks = found()
    assert isinstance(keks, KeyEncryptionKeys)
    assert keks.keys == (NEW, OLD)


def test_keyring_source_creates_and_rotates_a_local_key_in_the_keyring(ring: FakeKeyring) -> None:
    none = found()
    assert isinstance(none, NoKey)
    made = none.create()
    assert ring.kept == {("toolhall", "vault-key"): format_key(made.keys[0])}
    assert none.create().keys == made.keys, "what is there is not made again"
    both = made.prepend(format_key(NEW))
    assert ring.kept[KEYRING_SERVICE, KEYRING_ENTRY] == f"{format_key(NEW)} {format_key(made.keys[0])}"
    both.keep_primary()
    assert ring.kept[KEYRING_SERVICE, KEYRING_ENTRY] == format_key(NEW)


def test_keyring_source_never_creates_a_server_key(ring: FakeKeyring) -> None:
    none = find_key_encryption_keys(" keyring\n", None, profile="server", environment={})
    assert isinstance(none, NoKey)
    with pytest.raises(StoreFailed, match="there is no key for the vault"):
        none.create()
    assert ring.kept == {}


@pytest.mark.parametrize("backend", [LockedKeyring, fail.Keyring], ids=["locked", "none"])
def test_keyring_source_locked_or_missing_keyring_raises_store_failed(
    ring: FakeKeyring, backend: type[KeyringBackend]
) -> None:
    keyring.set_keyring(backend())
    with pytest.raises(StoreFailed, match="unlock it, or set TOOLHALL_VAULT_KEY instead"):
        found()


def test_keyring_source_that_does_not_keep_the_key_raises_store_failed_on_create(ring: FakeKeyring) -> None:
    keyring.set_keyring(null.Keyring())  # type: ignore[no-untyped-call]
    none = found()
    assert isinstance(none, NoKey)
    with pytest.raises(StoreFailed, match="did not keep the vault key"):
        none.create()


def test_keyring_source_with_an_invalid_key_raises_store_failed(ring: FakeKeyring) -> None:
    ring.kept[KEYRING_SERVICE, KEYRING_ENTRY] = "hunter2"
    with pytest.raises(StoreFailed, match="the system's keyring holds something that is not a key"):
        found()


def test_keyring_source_without_the_keyring_package_names_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(StoreFailed, match=r"pip install 'toolhall\[keyring\]'"):
        found()
