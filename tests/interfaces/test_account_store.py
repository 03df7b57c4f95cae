"""What every store of connected accounts promises, whatever its engine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.account_rows import ENGINES, account, execute_sql, sqlite_engine, store_handles
from tests.interfaces.approval_rows import START, Clock
from toolhall.stores.accounts import NEW, Account, AccountStore
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE, Unstorable

RACERS = 50


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[AccountStore]:
    with ENGINES[request.param](tmp_path, clock) as accounts:
        yield accounts


async def save_new(store: AccountStore, **other: Any) -> Account:
    kept = await store.save(account(**other), NEW)
    assert kept is not None
    return kept


async def test_account_store_new_is_empty(store: AccountStore) -> None:
    assert (await store.all(), await store.all("alice")) == ((), ())
    assert (await store.find("alice", "mail"), await store.get("acc1")) == (None, None)
    assert not await store.remove("acc1")


async def test_account_store_saved_account_is_returned_unchanged(store: AccountStore) -> None:
    odd = "\u202e \U0001f6e0 '\"; DROP TABLE accounts; -- %s :by ?"
    whole = account(user=odd, provider=odd, issuer=odd, scopes=(odd, "", '","'), state="broken", refreshed_at=0.5)
    kept = await store.save(whole, NEW)
    assert kept == msgspec.structs.replace(whole, serial=1)
    assert await store.get("acc1") == await store.find(odd, odd) == kept
    bare = await save_new(store, id="acc2", scopes=(), sealed=b"", expires_at=None)
    assert await store.get("acc2") == bare


async def test_account_store_lists_accounts_by_user_and_age(store: AccountStore) -> None:
    second = await save_new(store, id="acc0", provider="chat", created_at=START + 1)
    other = await save_new(store, id="acc2", user="bob")
    first = await save_new(store)
    assert await store.all("alice") == (first, second)
    assert await store.all("carol") == ()
    assert await store.all() == (first, other, second)
    assert await store.find("bob", "mail") == other
    assert await store.find("bob", "chat") is None


async def test_account_store_removed_account_can_be_added_again(store: AccountStore) -> None:
    await save_new(store)
    assert [await store.remove("acc1"), await store.remove("acc1")] == [True, False]
    assert await store.find("alice", "mail") is None
    assert (await save_new(store, id="acc2")).serial == 1


async def test_account_store_save_with_an_old_serial_is_refused(store: AccountStore) -> None:
    first = await save_new(store)
    second = await store.save(msgspec.structs.replace(first, sealed=b"2", refreshed_at=START + 5), first.serial)
    assert second is not None
    assert second == msgspec.structs.replace(first, sealed=b"2", refreshed_at=START + 5, serial=2)
    assert await store.save(msgspec.structs.replace(first, sealed=b"3"), first.serial) is None
    assert await store.get("acc1") == second
    third = await store.save(msgspec.structs.replace(first, sealed=b"3"), second.serial)
    assert third is not None
    assert (third.sealed, third.serial) == (b"3", 3)


async def test_account_store_save_of_a_new_account_in_a_taken_place_is_refused(store: AccountStore) -> None:
    kept = await save_new(store)
    assert await store.save(account(sealed=b"same id"), NEW) is None
    assert await store.save(account(id="acc2", sealed=b"same user, same provider"), NEW) is None
    assert await store.all() == (kept,)


async def test_account_store_save_of_a_removed_account_is_refused(store: AccountStore) -> None:
    kept = await save_new(store)
    await store.remove("acc1")
    assert await store.save(kept, kept.serial) is None
    assert await store.all() == ()


async def test_account_store_save_that_moves_an_account_to_a_taken_place_is_refused(store: AccountStore) -> None:
    alice, bob = await save_new(store), await save_new(store, id="acc2", user="bob")
    assert await store.save(msgspec.structs.replace(bob, user="alice"), bob.serial) is None
    assert await store.all() == (alice, bob)


async def test_account_store_fifty_concurrent_refreshes_one_wins(store: AccountStore) -> None:
    kept = await save_new(store)
    tries = [msgspec.structs.replace(kept, sealed=b"%d" % number) for number in range(RACERS)]
    done = await asyncio.gather(*(store.save(each, kept.serial) for each in tries))
    (winner,) = [each for each in done if each is not None]
    assert await store.get("acc1") == winner
    assert winner.serial == kept.serial + 1


async def test_account_store_fifty_concurrent_additions_one_is_kept(store: AccountStore) -> None:
    done = await asyncio.gather(*(store.save(account(id=f"acc{number}"), NEW) for number in range(RACERS)))
    assert await store.all() == tuple(each for each in done if each is not None)
    assert sum(each is not None for each in done) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": "\x00"},
        {"user": "\ud800"},
        {"issuer": "x" * 3_000},
        {"scopes": ("x" * 3_000,)},
        {"scopes": ("x",) * 501},
        {"sealed": b"x" * 300_000},
        {"sealed": "text"},
        {"expires_at": float("nan")},
        {"created_at": -1.0},
        {"state": "connecting"},
    ],
)
async def test_account_store_invalid_field_is_unstorable(store: AccountStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        await store.save(account(**wrong), NEW)
    assert await store.all() == ()


async def test_account_store_of_every_engine_keeps_a_saved_account(stores: Stores) -> None:
    assert await stores.accounts.all() == ()
    kept = await save_new(stores.accounts)
    assert await stores.accounts.all() == (kept,)
    assert await stores.accounts.find("alice", "mail") == kept


# --- the file


async def test_account_store_in_sqlite_reopened_has_the_same_accounts(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        kept = await save_new(store)
    with sqlite_engine(tmp_path, clock) as store:
        assert await store.all() == (kept,)
        assert await store.save(kept, kept.serial) is not None


async def test_account_store_in_sqlite_concurrent_refreshes_of_several_threads_one_wins(
    tmp_path: Path, clock: Clock
) -> None:
    with store_handles(tmp_path, clock, 4) as stores:
        kept = await save_new(stores[0])
        for _ in range(10):
            racing = [each.save(kept, kept.serial) for each in stores * 3]
            (kept,) = [done for done in await asyncio.gather(*racing) if done is not None]
            assert [await each.get("acc1") for each in stores] == [kept] * 4


FORGERIES = (
    "UPDATE accounts SET user = 'bob'",
    "UPDATE accounts SET issuer = 'https://evil.example'",
    """UPDATE accounts SET scopes = '["read","send","admin"]'""",
    "UPDATE accounts SET sealed = x'00'",
    "UPDATE accounts SET state = 'connected'",
    "UPDATE accounts SET expires_at = expires_at + 1",
    "UPDATE accounts SET serial = serial + 1",
    "UPDATE accounts SET mac = x''",
)


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_account_store_in_sqlite_tampered_row_is_ignored_and_logged(
    tmp_path: Path, clock: Clock, forgery: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        kept = await save_new(store, state="broken")
    execute_sql(tmp_path, forgery)
    with sqlite_engine(tmp_path, clock) as store:
        for user in ("alice", "bob"):
            assert (await store.find(user, "mail"), await store.all(user)) == (None, ())
        assert (await store.get("acc1"), await store.all()) == (None, ())
        assert "the account 'acc1' was changed outside Toolhall" in caplog.text
        for serial in (kept.serial, kept.serial + 1):
            assert await store.save(kept, serial) is None, "it is no base for a change, either"


async def test_account_store_in_sqlite_row_copied_to_another_user_is_ignored(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        kept = await save_new(store)
    execute_sql(
        tmp_path,
        "INSERT INTO accounts SELECT 'acc2', 'bob', provider, issuer, scopes, sealed, expires_at, state, created_at,"
        " refreshed_at, serial, mac FROM accounts",
    )
    with sqlite_engine(tmp_path, clock) as store:
        assert await store.all() == (kept,)
        assert await store.find("bob", "mail") is None


@pytest.mark.parametrize("new_id", ["acc1", "acc2"])
async def test_account_store_in_sqlite_tampered_row_can_be_replaced(tmp_path: Path, clock: Clock, new_id: str) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        await save_new(store)
    execute_sql(tmp_path, "UPDATE accounts SET sealed = x'00'")
    with sqlite_engine(tmp_path, clock) as store:
        again = await save_new(store, id=new_id)
        assert await store.all() == (again,)


async def test_account_store_in_sqlite_tampered_row_can_be_removed(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        await save_new(store, sealed=b"the bytes to forget")
    execute_sql(tmp_path, "UPDATE accounts SET state = 'broken'")
    with sqlite_engine(tmp_path, clock) as store:
        assert await store.remove("acc1")
        assert not await store.remove("acc1")
    assert (tmp_path / DATABASE_FILE).exists()
