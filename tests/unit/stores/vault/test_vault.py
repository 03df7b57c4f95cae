"""The vault: what is set is got, by whom it belongs to, for as long as it is there."""

import asyncio
import gc
import logging

import msgspec
import pytest

from tests.unit.stores.vault.vaults import NEW, OLD, START, VALUE, Clock, open_vault, static_keys
from toolhall.model.errors import Malformed
from toolhall.model.secret import Secret
from toolhall.stores.common import StoreFailed
from toolhall.stores.vault import vault as module
from toolhall.stores.vault.envelope import DecryptionFailed
from toolhall.stores.vault.key_sources import find_key_encryption_keys
from toolhall.stores.vault.store import MemoryVaultStore, SecretRow, VaultContents
from toolhall.stores.vault.vault import CACHE_SECONDS, KEY_LIFETIME_SECONDS, SecretInfo, Vault

ADAS = Secret("ada's own value")


async def test_vault_get_returns_a_set_secret_also_after_a_restart() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    assert vault.get("TOKEN") is None
    await vault.set("TOKEN", VALUE, None, "local")
    assert vault.get("TOKEN") == VALUE
    assert (await open_vault(store)).get("TOKEN") == VALUE


async def test_vault_get_prefers_a_users_own_secret_and_hides_it_from_other_users() -> None:
    vault = await open_vault(MemoryVaultStore())
    await vault.set("TOKEN", VALUE, None, "local")
    await vault.set("TOKEN", ADAS, "ada", "ada")
    await vault.set("MINE", ADAS, "ada", "ada")
    assert [vault.get("TOKEN", user) for user in ("ada", "bob", None)] == [ADAS, VALUE, VALUE]
    assert [vault.get("MINE", user) for user in ("ada", "bob", None, "")] == [ADAS, None, None, None]
    assert await vault.remove("TOKEN", "ada")
    assert vault.get("TOKEN", "ada") == VALUE


async def test_vault_list_contains_metadata_and_hint_but_no_part_of_the_value() -> None:
    clock = Clock()
    vault = await open_vault(MemoryVaultStore(), clock=clock)
    await vault.set("TOKEN", VALUE, None, "ada")
    (first,) = await vault.list()
    assert first == SecretInfo(
        name="TOKEN", user=None, hint=first.hint, by="ada", created_at=START, changed_at=START, usable=True
    )
    clock.now += 5
    await vault.set("TOKEN", ADAS, None, "bob")
    (second,) = await vault.list()
    assert (second.by, second.created_at, second.changed_at) == ("bob", START, START + 5)
    assert second.hint != first.hint
    await vault.set("TOKEN", VALUE, None, "ada")
    assert [each.hint for each in await vault.list()] == [first.hint], "the same value has the same hint"
    for part in (VALUE.reveal()[:4], VALUE.reveal()[-4:], ADAS.reveal()[-4:]):
        assert part not in f"{first} {second}"


async def test_vault_remove_deletes_the_secret_and_its_data_key() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    await vault.set("TOKEN", VALUE, None, "local")
    vault.get("TOKEN")
    assert await vault.remove("TOKEN")
    assert not await vault.remove("TOKEN")
    assert (vault.get("TOKEN"), await vault.list(), await store.all()) == (None, (), VaultContents())


@pytest.mark.parametrize("name", ["A", "_", "a.b-c_9", "A" * 128, "__proto__"])
async def test_vault_set_accepts_valid_names(name: str) -> None:
    vault = await open_vault(MemoryVaultStore())
    await vault.set(name, VALUE, None, "local")
    assert vault.get(name) == VALUE


@pytest.mark.parametrize("name", ["", "9A", "-A", ".A", "A B", "A\n", "Ä", "A/B", "A" * 129, "A\x00", "\ud800"])
async def test_vault_set_with_an_invalid_name_raises_malformed(name: str) -> None:
    vault = await open_vault(MemoryVaultStore())
    with pytest.raises(Malformed, match="such as TWILIO_API_KEY"):
        await vault.set(name, VALUE, None, "local")
    assert await vault.list() == ()


@pytest.mark.parametrize("value", ["1234", "x" * 65_536, "ü" * 32_768, "a\x00b\n\r\u202e", "\U0001f6e0" * 4])
async def test_vault_set_accepts_values_up_to_64_kib(value: str) -> None:
    vault = await open_vault(MemoryVaultStore())
    await vault.set("TOKEN", Secret(value), None, "local")
    found = vault.get("TOKEN")
    assert found is not None
    assert found.reveal() == value


@pytest.mark.parametrize("value", ["x" * 65_537, "ü" * 32_769, "what \ud800"], ids=["long", "long in UTF-8", "half"])
async def test_vault_set_with_an_invalid_value_raises_malformed_without_repeating_it(value: str) -> None:
    vault = await open_vault(MemoryVaultStore())
    with pytest.raises(Malformed) as raised:
        await vault.set("TOKEN", Secret(value), None, "local")
    assert value[:5] not in f"{raised.value!r} {raised.value.__cause__!r} {raised.value.detail}"


@pytest.mark.parametrize("user", ["", "x" * 257, "\x00", "\ud800"])
async def test_vault_set_with_an_invalid_user_raises_malformed(user: str) -> None:
    vault = await open_vault(MemoryVaultStore())
    with pytest.raises(Malformed, match="1 to 256 characters"):
        await vault.set("TOKEN", VALUE, user, "local")


# --- how long it stays open


async def test_vault_get_returns_the_same_object_until_the_cache_expires() -> None:
    clock = Clock()
    vault = await open_vault(MemoryVaultStore(), clock=clock)
    await vault.set("TOKEN", VALUE, None, "local")
    first = vault.get("TOKEN")
    assert first is not None
    assert first.derived(len) == 27
    clock.now += CACHE_SECONDS - 0.1
    await vault.set("OTHER", VALUE, None, "local")
    assert vault.get("TOKEN", "ada") is first, "also after another secret was set"
    clock.now += 0.1
    again = vault.get("TOKEN")
    assert again is not first
    assert again == first


async def test_vault_cache_drops_plaintext_secrets_by_timer_and_on_close(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CACHE_SECONDS", 0.0)
    vault = await open_vault(MemoryVaultStore())
    value = "only ever in this test"
    await vault.set("TOKEN", Secret(value), None, "local")
    vault.get("TOKEN")
    assert count_secrets(value) == 1
    await run_due_timers()
    assert not count_secrets(value)
    assert vault.get("TOKEN") == Secret(value)
    vault.close()
    assert not count_secrets(value)


async def run_due_timers() -> None:
    """Wait until every timer that is due has fired."""
    rung = asyncio.Event()
    asyncio.get_running_loop().call_later(0, rung.set)
    await rung.wait()


def count_secrets(value: str) -> int:
    """How many of this process's secrets have this value; the collector knows them by who holds them."""
    gc.collect()
    held = {id(part): part for each in gc.get_objects() for part in gc.get_referents(each) if type(part) is Secret}
    return sum(each.reveal() == value for each in held.values())


def test_vault_get_works_without_a_running_event_loop() -> None:
    vault = asyncio.run(_with_token())
    assert vault.get("TOKEN") == VALUE


async def _with_token() -> Vault:
    vault = await open_vault(MemoryVaultStore())
    await vault.set("TOKEN", VALUE, None, "local")
    return vault


def test_vault_cache_drops_plaintext_secrets_in_another_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    vault = asyncio.run(_with_token())

    async def asked() -> None:
        assert vault.get("TOKEN") == VALUE

    async def asked_and_closed() -> None:
        assert vault.get("TOKEN") == VALUE
        assert count_secrets(VALUE.reveal()) == 2
        await run_due_timers()
        assert count_secrets(VALUE.reveal()) == 1, "the one at the top of this file"

    asyncio.run(asked())  # that loop ends before its alarm rings
    vault.close()
    monkeypatch.setattr(module, "CACHE_SECONDS", 0.0)
    asyncio.run(asked_and_closed())


# --- no key, another key, other hands


async def test_empty_vault_without_key_opens_and_set_raises_store_failed() -> None:
    vault = Vault(find_key_encryption_keys(None, None, profile="server", environment={}))
    await vault.open(MemoryVaultStore())
    assert (vault.get("TOKEN"), await vault.list()) == (None, ())
    with pytest.raises(StoreFailed, match="set TOOLHALL_VAULT_KEY"):
        await vault.set("TOKEN", VALUE, None, "local")
    with pytest.raises(StoreFailed, match="set TOOLHALL_VAULT_KEY"):
        await vault.sealer("user:ada")


@pytest.mark.parametrize("sealing", ["secret", "record"])
async def test_vault_with_secrets_but_without_their_key_does_not_open(sealing: str) -> None:
    """Also if only others keep what was sealed: without its key it would seem to be broken."""
    store = MemoryVaultStore()
    vault = await open_vault(store)
    if sealing == "secret":
        await vault.set("TOKEN", VALUE, None, "local")
    else:
        await vault.sealer("user:ada")
    with pytest.raises(StoreFailed, match=r"key that decrypts them is missing: restore it; .* set TOOLHALL_VAULT_KEY"):
        await Vault(find_key_encryption_keys(None, None, profile="local", environment={})).open(store)
    with pytest.raises(StoreFailed, match=r"another vault key encrypted \([0-9a-f]{16}\): restore that key"):
        await open_vault(store, NEW)
    await open_vault(store, NEW, OLD)


async def test_remove_orphans_deletes_only_secrets_of_missing_keys() -> None:
    store = MemoryVaultStore()
    lost, kept = await open_vault(store, OLD), await open_vault(store, NEW, OLD)
    await lost.set("LOST", VALUE, None, "local")
    await kept.set("KEPT", VALUE, "ada", "local")
    assert await Vault(static_keys([NEW])).remove_orphans(store) == 1
    vault = await open_vault(store, NEW)
    assert (vault.get("LOST"), vault.get("KEPT", "ada")) == (None, VALUE)
    assert await Vault(find_key_encryption_keys(None, None, profile="local", environment={})).remove_orphans(store) == 1
    assert await store.all() == VaultContents()


@pytest.mark.parametrize("change", ["moved", "renamed", "cut", "flipped", "of another key"])
async def test_vault_row_that_fails_decryption_is_unusable_and_other_rows_are_readable(
    change: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Here by someone who can even make the codes of rows: the sealed value itself says whose it is."""
    store = MemoryVaultStore()
    vault = await open_vault(store)
    for name, user in (("TOKEN", "ada"), ("OTHER", "ada"), ("TOKEN", "bob")):
        await vault.set(name, Secret(f"{name} of {user}"), user, "local")
    before = await store.all()
    ada = next(row for row in before.rows if (row.name, row.user) == ("TOKEN", "ada"))
    bob = next(row for row in before.rows if row.user == "bob")
    changed: dict[str, SecretRow] = {
        "moved": msgspec.structs.replace(bob, sealed=ada.sealed, dek=ada.dek),
        "renamed": msgspec.structs.replace(ada, id="x", user="bob"),
        "cut": msgspec.structs.replace(bob, sealed=bob.sealed[:-1]),
        "flipped": msgspec.structs.replace(bob, sealed=bob.sealed[:-1] + bytes([bob.sealed[-1] ^ 1])),
        "of another key": msgspec.structs.replace(bob, dek=ada.dek),
    }
    rows = tuple(changed[change] if row == bob else row for row in before.rows)
    await store.replace_data_keys(before, VaultContents(before.keys, rows))
    with caplog.at_level(logging.ERROR):
        again = await open_vault(store)
    assert again.get("TOKEN", "bob") is None
    assert "the secret TOKEN of bob is refused" in caplog.text
    assert (again.get("TOKEN", "ada"), again.get("OTHER", "ada")) == (Secret("TOKEN of ada"), Secret("OTHER of ada"))
    assert {each.user: each.usable for each in await again.list() if each.name == "TOKEN"} == {
        "ada": True,
        "bob": False,
    }
    await again.rotate()
    assert again.get("TOKEN", "bob") is None
    await again.set("TOKEN", VALUE, "bob", "local")
    assert again.get("TOKEN", "bob") == VALUE


async def test_vault_unreadable_secret_of_a_user_does_not_fall_back_to_the_shared_one() -> None:
    """Who has one of their own is not served with another by accident; until it is set anew, or removed."""
    store = MemoryVaultStore()
    vault = await open_vault(store)
    await vault.set("TOKEN", VALUE, None, "local")
    await vault.set("TOKEN", ADAS, "ada", "ada")
    before = await store.all()
    rows = tuple(msgspec.structs.replace(row, sealed=row.sealed[:-1]) if row.user else row for row in before.rows)
    await store.replace_data_keys(before, VaultContents(before.keys, rows))
    await vault.refresh()
    assert [vault.get("TOKEN", user) for user in ("ada", "bob", None)] == [None, VALUE, VALUE]
    assert {each.user: each.usable for each in await vault.list()} == {None: True, "ada": False}
    await vault.rotate()
    assert vault.get("TOKEN", "ada") is None
    await vault.set("TOKEN", ADAS, "ada", "ada")
    assert vault.get("TOKEN", "ada") == ADAS
    assert await vault.remove("TOKEN", "ada")
    assert vault.get("TOKEN", "ada") == VALUE


async def test_vault_data_key_that_fails_to_unwrap_affects_only_its_own_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    await vault.set("TOKEN", VALUE, None, "local")
    await vault.set("TOKEN", ADAS, "ada", "local")
    before = await store.all()
    keys = tuple(
        msgspec.structs.replace(key, wrapped=before.keys[1 - number].wrapped) if key.tenant == "hall" else key
        for number, key in enumerate(before.keys)
    )
    await store.replace_data_keys(before, VaultContents(keys, before.rows))
    with caplog.at_level(logging.ERROR):
        again = await open_vault(store)
    assert (again.get("TOKEN"), again.get("TOKEN", "ada")) == (None, ADAS)
    assert "of hall is left out" in caplog.text
    assert VALUE.reveal() not in caplog.text


# --- records of others


async def test_vault_sealer_opens_records_only_for_their_tenant_and_bound_data() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    ada, bob = await vault.sealer("user:ada"), await vault.sealer("user:bob")
    sealed = ada.seal(b"tokens", "google", "a1")
    assert ada.open(sealed, "google", "a1") == b"tokens"
    assert (await (await open_vault(store)).sealer("user:ada")).open(sealed, "google", "a1") == b"tokens"
    for sealer, bound in ((ada, ("google", "a2")), (ada, ()), (bob, ("google", "a1")), (bob, ())):
        with pytest.raises(DecryptionFailed):
            sealer.open(sealed, *bound)
    for wrong in (b"", b"v1", sealed[:-1], b"v2" + sealed[2:]):
        with pytest.raises(DecryptionFailed):
            ada.open(wrong, "google", "a1")


async def test_vault_sealer_cannot_open_a_secret_of_the_same_user() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    await vault.set("TOKEN", VALUE, "ada", "local")
    (row,) = (await store.all()).rows
    with pytest.raises(DecryptionFailed):
        (await vault.sealer("user:ada")).open(row.sealed, "ada", "secret", "TOKEN", row.id)


async def test_vault_shred_makes_secrets_and_records_of_a_tenant_unreadable() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    sealer = await vault.sealer("user:ada")
    sealed = sealer.seal(b"tokens", "a1")
    await vault.set("TOKEN", ADAS, "ada", "local")
    await vault.set("TOKEN", VALUE, None, "local")
    assert await vault.shred("user:ada")
    assert vault.get("TOKEN", "ada") == VALUE
    with pytest.raises(DecryptionFailed):
        sealer.open(sealed, "a1")
    with pytest.raises(StoreFailed, match="were shredded just now; try again"):
        sealer.seal(b"more", "a1")
    with pytest.raises(DecryptionFailed):
        await (await vault.sealer("user:ada")).open_with_refresh(sealed, "a1")


async def test_vault_data_key_past_its_lifetime_opens_but_no_longer_seals() -> None:
    clock, store = Clock(), MemoryVaultStore()
    vault = await open_vault(store, clock=clock)
    sealer = await vault.sealer("user:ada")
    sealed = sealer.seal(b"tokens", "a1")
    await vault.set("OLD", VALUE, None, "local")
    clock.now += KEY_LIFETIME_SECONDS
    sealer = await vault.sealer("user:ada")
    await vault.set("NEW", VALUE, None, "local")
    assert sealer.seal(b"tokens", "a1")[2:10] != sealed[2:10]
    assert sealer.open(sealed, "a1") == b"tokens"
    assert len({row.dek for row in (await store.all()).rows}) == 2
    assert vault.get("OLD") == vault.get("NEW") == VALUE


async def test_vault_concurrent_sets_lose_no_secret() -> None:
    store = MemoryVaultStore()
    vault = await open_vault(store)
    await asyncio.gather(*(vault.set(f"T{number}", VALUE, None, "local") for number in range(20)))
    assert len(await vault.list()) == 20
    assert len((await store.all()).keys) == 1


async def test_vault_set_cancelled_by_its_caller_is_completed() -> None:
    vault = await open_vault(MemoryVaultStore())
    setting = asyncio.create_task(vault.set("TOKEN", VALUE, None, "local"))
    await asyncio.sleep(0)
    setting.cancel()
    await vault.refresh()
    assert setting.cancelled()
    assert vault.get("TOKEN") == VALUE
