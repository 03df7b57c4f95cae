"""What every store of the links that connect accounts promises, whatever its engine."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.account_rows import ENGINES, MINUTES, execute_sql, link, sqlite_engine, store_handles
from tests.interfaces.approval_rows import START, Clock
from toolhall.stores import accounts as base
from toolhall.stores.accounts import AccountLink, AccountStore
from toolhall.stores.approvals import CoolingDown
from toolhall.stores.bundle import Stores
from toolhall.stores.common import Stale, Unstorable

BROWSER = "b" * 64
RACERS = 50


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[AccountStore]:
    with ENGINES[request.param](tmp_path, clock) as accounts:
        yield accounts


async def add_bound_link(store: AccountStore, **other: Any) -> AccountLink:
    await store.add_link(link(**other))
    done = await store.bind_link(link(**other).id, BROWSER, b"bound")
    assert done is not None
    return done


async def test_account_link_added_is_returned_unchanged(store: AccountStore) -> None:
    odd = "\u202e \U0001f6e0 '\"; DROP TABLE account_links; -- %s :by ?"
    for each in (link(), link(id="l2", caller=odd, user=odd, scopes=(odd, ""), tool=None, how="device", sealed=b"")):
        await store.add_link(each)
        assert await store.find_link(each.id) == each
    assert await store.find_link("l3") is None


async def test_account_link_with_a_taken_id_is_stale(store: AccountStore) -> None:
    await store.add_link(link())
    with pytest.raises(Stale):
        await store.add_link(link(caller="cd"))
    assert await store.find_link("l1") == link()


async def test_account_links_pending_are_listed_by_caller_and_age(store: AccountStore, clock: Clock) -> None:
    second, first, other = link(id="l0", created=START + 1), link(), link(id="l2", caller="cd")
    for each in (second, first, other, link(id="l3", expires=START + 1)):
        await store.add_link(each)
    await add_bound_link(store, id="l4")
    await store.claim_link("l4", BROWSER)
    clock.now += 1
    assert await store.pending_links("ci") == (first, second)
    assert await store.pending_links("cd") == (other,)
    assert await store.pending_links("alice") == ()


async def test_account_link_is_bound_claimed_and_completed(store: AccountStore) -> None:
    bound = await add_bound_link(store)
    assert bound == msgspec.structs.replace(link(), browser=BROWSER, sealed=b"bound")
    claimed = await store.claim_link("l1", BROWSER)
    assert claimed == msgspec.structs.replace(bound, state="claimed") == await store.find_link("l1")
    done = await store.end_link("l1", "completed")
    assert done == msgspec.structs.replace(bound, state="completed", sealed=b"") == await store.find_link("l1")


async def test_account_link_bound_again_can_be_claimed_only_by_the_last_browser(store: AccountStore) -> None:
    await add_bound_link(store)
    again = await store.bind_link("l1", "c" * 64, b"later")
    assert again is not None
    assert await store.claim_link("l1", BROWSER) is None
    assert await store.claim_link("l1", "c" * 64) == msgspec.structs.replace(again, state="claimed")


@pytest.mark.parametrize("stranger", ["", "c" * 64, BROWSER[:-1], BROWSER.upper()])
async def test_account_link_claim_by_another_browser_is_refused(store: AccountStore, stranger: str) -> None:
    bound = await add_bound_link(store)
    assert await store.claim_link("l1", stranger) is None
    assert await store.find_link("l1") == bound
    assert await store.claim_link("l1", BROWSER) is not None, "nor does it use the link up"


async def test_account_link_unbound_cannot_be_claimed(store: AccountStore) -> None:
    await store.add_link(link())
    assert [await store.claim_link("l1", each) for each in ("", BROWSER)] == [None, None]
    assert await store.find_link("l1") == link()


@pytest.mark.parametrize("how", ["device", "paste"])
async def test_account_link_of_device_or_paste_is_claimed_without_a_browser(store: AccountStore, how: str) -> None:
    await store.add_link(link(how=how))
    assert await store.claim_link("l1", BROWSER) is None
    claimed = await store.claim_link("l1", "")
    assert claimed == link(how=how, state="claimed")
    assert await store.claim_link("l1", "") is None


async def test_account_link_claimed_can_only_be_ended(store: AccountStore) -> None:
    await add_bound_link(store)
    claimed = await store.claim_link("l1", BROWSER)
    assert await store.claim_link("l1", BROWSER) is None
    assert await store.bind_link("l1", BROWSER, b"again") is None
    assert await store.find_link("l1") == claimed
    failed = await store.end_link("l1", "failed", "the provider said no")
    assert failed is not None
    assert (failed.state, failed.reason, failed.sealed) == ("failed", "the provider said no", b"")


async def test_account_link_ended_cannot_be_changed(store: AccountStore) -> None:
    await add_bound_link(store)
    await store.claim_link("l1", BROWSER)
    done = await store.end_link("l1", "completed")
    assert await store.end_link("l1", "failed", "too late") is None
    assert await store.bind_link("l1", BROWSER, b"") is None
    assert await store.claim_link("l1", BROWSER) is None
    assert await store.find_link("l1") == done


async def test_account_link_pending_can_fail_but_not_be_completed(store: AccountStore) -> None:
    await add_bound_link(store)
    assert await store.end_link("l1", "completed") is None
    assert (await store.end_link("l1", "failed", "cancelled")) is not None
    assert await store.claim_link("l1", BROWSER) is None
    assert [await store.end_link("l2", state) for state in ("completed", "failed")] == [None, None]


async def test_account_link_expired_is_gone(store: AccountStore, clock: Clock) -> None:
    await add_bound_link(store)
    clock.now += 10 * MINUTES
    assert await store.find_link("l1") is None
    assert await store.pending_links("ci") == ()
    assert await store.bind_link("l1", BROWSER, b"") is None
    assert await store.claim_link("l1", BROWSER) is None
    assert await store.end_link("l1", "failed", "late") is None
    await store.add_link(link(expires=clock.now + 1))
    assert await store.find_link("l1") is not None, "its row was swept, so its id is free"


async def test_account_link_expired_stays_gone_when_the_clock_is_set_back(store: AccountStore, clock: Clock) -> None:
    await add_bound_link(store)
    clock.now += 10 * MINUTES
    assert await store.find_link("l1") is None
    clock.now -= 10 * MINUTES
    assert await store.find_link("l1") is None
    assert await store.claim_link("l1", BROWSER) is None


async def test_account_link_claimed_in_time_may_be_completed_after_its_expiry(
    store: AccountStore, clock: Clock
) -> None:
    await add_bound_link(store)
    clock.now += 10 * MINUTES - 1
    await store.claim_link("l1", BROWSER)
    clock.now += 30
    assert await store.end_link("l1", "completed") is not None
    clock.now = START + 10 * MINUTES + base.RETENTION_SECONDS - 1
    found = await store.find_link("l1")
    assert found is not None
    assert found.state == "completed"
    clock.now += 1
    assert await store.find_link("l1") is None


async def test_account_links_of_a_user_above_twenty_are_refused(store: AccountStore, clock: Clock) -> None:
    for number in range(20):
        await store.add_link(link(id=f"l{number}", expires=START + 600 + number))
    clock.now += 10
    with pytest.raises(CoolingDown) as refused:
        await store.add_link(link(id="more"))
    assert (refused.value.reason, refused.value.seconds) == ("pending", 590)
    assert await store.find_link("more") is None
    await store.add_link(link(id="other", caller="cd"))
    await store.end_link("l5", "failed", "cancelled")
    await store.add_link(link(id="more"))
    clock.now = START + 600
    await store.add_link(link(id="again", expires=clock.now + 600))


@pytest.mark.threat("I8")
async def test_I8_account_links_of_one_user_do_not_count_for_another(store: AccountStore) -> None:  # noqa: N802
    """A program that acts for many has as many for each."""
    for number in range(20):
        await store.add_link(link(id=f"l{number}", caller="front", user="user0"))
    with pytest.raises(CoolingDown):
        await store.add_link(link(id="more", caller="front", user="user0"))
    for number in range(1, 22):
        await store.add_link(link(id=f"of {number}", caller="front", user=f"user{number}"))


@pytest.mark.threat("I8")
async def test_I8_account_links_of_a_caller_over_all_its_users_are_limited(  # noqa: N802
    store: AccountStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_PENDING_PER_CALLER", 3)
    for number in range(3):
        await store.add_link(link(id=f"l{number}", caller="front", user=f"user{number}"))
    with pytest.raises(CoolingDown) as refused:
        await store.add_link(link(id="more", caller="front", user="user3"))
    assert (refused.value.reason, refused.value.seconds) == ("pending", base.RETRY_SECONDS)
    await store.add_link(link(id="other", caller="back", user="user3"))


async def test_account_links_claimed_do_not_count_as_pending(store: AccountStore) -> None:
    for number in range(21):
        await add_bound_link(store, id=f"l{number}")
        assert await store.claim_link(f"l{number}", BROWSER) is not None


async def test_account_links_pending_in_total_are_limited(store: AccountStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_PENDING_TOTAL", 3)
    for number in range(3):
        await store.add_link(link(id=f"l{number}", caller=f"c{number}"))
    with pytest.raises(CoolingDown) as refused:
        await store.add_link(link(id="more", caller="c4"))
    assert (refused.value.reason, refused.value.seconds) == ("pending", base.RETRY_SECONDS)


async def test_account_links_above_the_maximum_remove_the_first_ended(
    store: AccountStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("accounts", "sql.accounts"):
        monkeypatch.setattr(f"toolhall.stores.{module}.MAX_STORED_LINKS", 5)
    await store.add_link(link(id="waits", expires=START + 1))
    for number in range(9):
        await store.add_link(link(id=f"l{number}", expires=START + 600 + number))
        await store.end_link(f"l{number}", "failed", "cancelled")
    kept = [number for number in range(9) if await store.find_link(f"l{number}")]
    assert kept == [5, 6, 7, 8]
    assert await store.find_link("waits") is not None


async def test_account_link_fifty_concurrent_claims_one_wins(store: AccountStore) -> None:
    for number in range(5):
        await add_bound_link(store, id=f"l{number}")
        found = await asyncio.gather(*(store.claim_link(f"l{number}", BROWSER) for _ in range(RACERS)))
        assert sum(each is not None for each in found) == 1


async def test_account_links_added_concurrently_are_limited_to_twenty(store: AccountStore) -> None:
    asked = [store.add_link(link(id=f"l{number}")) for number in range(RACERS)]
    done = await asyncio.gather(*asked, return_exceptions=True)
    assert [each for each in done if each is not None and not isinstance(each, CoolingDown)] == []
    assert (done.count(None), len(await store.pending_links("ci"))) == (20, 20)


@pytest.mark.parametrize(
    "wrong", [{"caller": "\x00"}, {"expires": float("inf")}, {"how": "pigeon"}, {"reason": "x" * 3_000}]
)
async def test_account_link_invalid_field_is_unstorable(store: AccountStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(Unstorable):
        await store.add_link(link(**wrong))
    assert await store.find_link("l1") is None


async def test_account_link_invalid_change_is_unstorable(store: AccountStore) -> None:
    bound = await add_bound_link(store)
    with pytest.raises(Unstorable):
        await store.bind_link("l1", "\ud800", b"")
    with pytest.raises(Unstorable):
        await store.end_link("l1", "failed", "a\x00b")
    assert await store.find_link("l1") == bound


async def test_account_link_store_of_every_engine_keeps_a_claim(stores: Stores) -> None:
    assert await stores.accounts.find_link("l1") is None
    assert await stores.accounts.pending_links("ci") == ()
    await add_bound_link(stores.accounts, created=2e9, expires=9e9)
    assert await stores.accounts.claim_link("l1", BROWSER) is not None
    assert await stores.accounts.claim_link("l1", BROWSER) is None


# --- the file


async def test_account_link_in_sqlite_claimed_stays_claimed_after_reopening(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        await add_bound_link(store)
        claimed = await store.claim_link("l1", BROWSER)
    with sqlite_engine(tmp_path, clock) as store:
        assert await store.find_link("l1") == claimed
        assert await store.claim_link("l1", BROWSER) is None


async def test_account_link_in_sqlite_concurrent_claims_of_several_threads_one_wins(
    tmp_path: Path, clock: Clock
) -> None:
    with store_handles(tmp_path, clock, 4) as stores:
        for number in range(20):
            await add_bound_link(stores[number % 4], id=f"l{number}")
            found = await asyncio.gather(*(each.claim_link(f"l{number}", BROWSER) for each in stores * 3))
            assert sum(each is not None for each in found) == 1


async def test_account_link_in_sqlite_restored_from_a_copy_cannot_be_claimed_again(
    tmp_path: Path, clock: Clock
) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        await add_bound_link(store)
        execute_sql(tmp_path, "CREATE TABLE copied AS SELECT * FROM account_links")
        assert await store.claim_link("l1", BROWSER) is not None
        execute_sql(tmp_path, "REPLACE INTO account_links SELECT * FROM copied")
        assert await store.find_link("l1") is None
        assert await store.claim_link("l1", BROWSER) is None
        assert await store.pending_links("ci") == ()


FORGERIES = (
    "UPDATE account_links SET state = 'pending'",
    "UPDATE account_links SET caller = 'mallory', user = 'mallory'",
    "UPDATE account_links SET issuer = 'https://evil.example'",
    "UPDATE account_links SET browser = '" + "c" * 64 + "'",
    "UPDATE account_links SET expires = expires + 1000",
    "UPDATE account_links SET how = 'paste', browser = ''",
)


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_account_link_in_sqlite_tampered_row_is_ignored_and_logged(
    tmp_path: Path, clock: Clock, forgery: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite_engine(tmp_path, clock) as store:
        await add_bound_link(store)
        await store.claim_link("l1", BROWSER)
    execute_sql(tmp_path, forgery)
    with sqlite_engine(tmp_path, clock) as store:
        assert await store.find_link("l1") is None
        assert [await store.claim_link("l1", each) for each in (BROWSER, "c" * 64, "")] == [None] * 3
        assert await store.bind_link("l1", BROWSER, b"") is None
        assert await store.end_link("l1", "completed") is None
        assert "the link 'l1' was changed outside Toolhall" in caplog.text
