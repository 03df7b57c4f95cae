"""What every store of approvals promises, whatever its engine."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.approval_rows import ENGINES, ROOT_KEY, START, Clock, database, sqlite_engine, wanted
from toolhall.stores import approvals as base
from toolhall.stores.approvals import Approval, ApprovalStore, CoolingDown, Decision
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.approvals import SqlApprovalStore

YES = Decision("approved", "alice", "totp")
NO = Decision("denied", "alice")
RACERS = 8


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[ApprovalStore]:
    with ENGINES[request.param](tmp_path, clock) as (approvals, _):
        yield approvals


async def claim_and_approve(store: ApprovalStore, new_id: str = "a1", **other: Any) -> Approval:
    found = await store.claim(wanted(**other), new_id)
    done = await store.decide(found.id, YES)
    assert done is not None
    return done


async def test_approval_store_repeated_claim_returns_the_pending_request(store: ApprovalStore, clock: Clock) -> None:
    first = await store.claim(wanted(), "a1")
    assert first == Approval(**msgspec.structs.asdict(wanted()), id="a1", created=START, expires=START + 300)
    assert await store.claim(wanted(), "a2") == first == await store.find("a1")
    assert await store.find("a2") is None
    assert await store.pending() == (first,)


async def test_approval_store_approval_is_consumed_once(store: ApprovalStore) -> None:
    done = await claim_and_approve(store)
    assert (done.state, done.approver, done.method, done.decided_at) == ("approved", "alice", "totp", START)
    used = await store.claim(wanted(), "a2")
    assert (used.id, used.state) == ("a1", "consumed")
    assert await store.find("a1") == used
    again = await store.claim(wanted(), "a3")
    assert (again.id, again.state) == ("a3", "pending")


OTHERS = {
    "how": "second_person",
    "caller": "cd",
    "person": "bob",
    "acting_for": "carol",
    "tool": "House.burn@1.0.1",
    "definition_sha256": "e" * 64,
    "code_sha256": "c" * 64,
    "arguments_sha256": "b" * 64,
}


@pytest.mark.parametrize("member", OTHERS)
async def test_approval_store_approval_is_not_consumed_by_a_different_request(
    store: ApprovalStore, member: str
) -> None:
    await claim_and_approve(store)
    other = await store.claim(wanted(**{member: OTHERS[member]}), "a2")
    assert (other.id, other.state) == ("a2", "pending")
    assert (await store.claim(wanted(), "a3")).state == "consumed"


async def test_approval_store_approval_expires_after_five_minutes(store: ApprovalStore, clock: Clock) -> None:
    await claim_and_approve(store)
    clock.now += 300
    found = await store.find("a1")
    assert found is not None
    assert found.state == "expired"
    assert (await store.claim(wanted(), "a2")).id == "a2"


async def test_approval_store_expired_request_cannot_be_decided(store: ApprovalStore, clock: Clock) -> None:
    await store.claim(wanted(), "a1")
    clock.now += 300
    assert await store.decide("a1", YES) is None
    assert await store.pending() == ()
    assert (await store.claim(wanted(), "a2")).state == "pending"


async def test_approval_store_decision_cannot_be_changed(store: ApprovalStore) -> None:
    assert await store.decide("nothing", YES) is None
    await store.claim(wanted(), "a1")
    assert await store.decide("a1", NO) is not None
    assert await store.decide("a1", YES) is None
    found = await store.find("a1")
    assert found is not None
    assert found.state == "denied"


async def test_approval_store_step_up_is_reusable_for_fifteen_minutes(store: ApprovalStore, clock: Clock) -> None:
    await claim_and_approve(store, how="step_up")
    clock.now += 899
    for tool in ("House.burn@1.0.0", "House.flood@2.0.0"):
        found = await store.claim(wanted(how="step_up", tool=tool, arguments_sha256="c"), "a2")
        assert (found.id, found.state) == ("a1", "approved")
    for other in ({"caller": "cd"}, {"acting_for": "carol"}):
        assert (await store.claim(wanted(how="step_up", **other), f"a3{other}")).state == "pending"
    assert (await store.claim(wanted(how="approval"), "a4")).state == "pending"
    clock.now += 1
    assert (await store.claim(wanted(how="step_up"), "a5")).state == "pending"


async def test_approval_store_fourth_pending_request_of_a_caller_is_refused(store: ApprovalStore, clock: Clock) -> None:
    for number in range(3):
        await store.claim(wanted(arguments_sha256=str(number)), f"a{number}")
        clock.now += 10
    with pytest.raises(CoolingDown) as refused:
        await store.claim(wanted(arguments_sha256="4"), "a4")
    assert (refused.value.reason, refused.value.seconds) == ("pending", 270)
    assert (await store.claim(wanted(arguments_sha256="1"), "a5")).id == "a1"
    assert (await store.claim(wanted(caller="cd"), "a6")).id == "a6"
    clock.now += 270
    assert (await store.claim(wanted(arguments_sha256="4"), "a4")).id == "a4"


async def test_approval_store_request_after_a_denial_is_refused_for_a_minute(
    store: ApprovalStore, clock: Clock
) -> None:
    await store.claim(wanted(), "a1")
    await store.decide("a1", NO)
    clock.now += 20
    for other in ({}, {"arguments_sha256": "b"}, {"tool": "House.burn@1.1.0"}):
        with pytest.raises(CoolingDown) as refused:
            await store.claim(wanted(**other), "a2")
        assert (refused.value.reason, refused.value.seconds) == ("denied", 40)
    assert (await store.claim(wanted(tool="House.flood@1.0.0"), "a3")).state == "pending"
    assert (await store.claim(wanted(caller="cd"), "a4")).state == "pending"
    clock.now += 40
    assert (await store.claim(wanted(), "a5")).state == "pending"


async def test_approval_store_last_approved_returns_the_newest_of_the_same_caller_and_tool(
    store: ApprovalStore, clock: Clock
) -> None:
    first = await store.claim(wanted(shown=b"1"), "a0")
    assert await store.last_approved(first) is None
    await store.decide("a0", YES)
    await store.claim(wanted(), "used")
    clock.now += 1
    await claim_and_approve(store, "a1", tool="House.burn@0.9.0", shown=b"2")
    await claim_and_approve(store, "a2", tool="House.burnt@1.0.0", shown=b"3")
    await claim_and_approve(store, "a3", caller="cd", shown=b"4")
    now = await store.claim(wanted(), "a4")
    last = await store.last_approved(now)
    assert last is not None
    assert last.shown == b"2"


async def test_approval_store_request_is_removed_after_its_retention(store: ApprovalStore, clock: Clock) -> None:
    await store.claim(wanted(), "a1")
    clock.now += 300 + base.RETENTION_SECONDS
    await store.claim(wanted(caller="cd"), "a2")
    assert await store.find("a1") is None


async def test_approval_store_above_its_maximum_removes_the_first_expired(
    store: ApprovalStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("approvals", "sql.approvals"):
        monkeypatch.setattr(f"toolhall.stores.{module}.MAX_STORED", 5)
    for number in range(9):
        await store.claim(wanted(), f"a{number}")
        clock.now += 300
    kept = [number for number in range(9) if await store.find(f"a{number}")]
    assert kept == [4, 5, 6, 7, 8]


async def test_approval_store_concurrent_claims_one_consumes_the_approval(store: ApprovalStore) -> None:
    for number in range(10):
        await claim_and_approve(store, f"a{number}", arguments_sha256=str(number))
        same = wanted(arguments_sha256=str(number))
        found = await asyncio.gather(*(store.claim(same, f"b{number}-{each}") for each in range(RACERS)))
        assert sorted(each.state for each in found) == ["consumed"] + ["pending"] * (RACERS - 1)
        assert len({each.id for each in found}) == 2
        await store.decide(next(each.id for each in found if each.state == "pending"), YES)
        await store.claim(same, "rest")


async def test_approval_store_of_every_engine_keeps_an_approval(stores: Stores) -> None:
    assert await stores.approvals.pending() == ()
    assert await stores.approvals.find("a1") is None
    await claim_and_approve(stores.approvals)
    assert (await stores.approvals.claim(wanted(), "a2")).state == "consumed"


# --- the file


async def test_approval_store_in_sqlite_reopened_has_the_same_approvals(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as (store, _):
        await claim_and_approve(store)
    with sqlite_engine(tmp_path, clock) as (store, _):
        assert (await store.claim(wanted(), "a2")).state == "consumed"
    with sqlite_engine(tmp_path, clock) as (store, _):
        assert (await store.claim(wanted(), "a3")).state == "pending"


async def test_approval_store_in_sqlite_two_connections_never_consume_one_approval_twice(
    tmp_path: Path, clock: Clock
) -> None:
    """P3: each connection has a thread of its own, and both reach for the same row, a hundred times by four."""
    with database(tmp_path) as one, database(tmp_path) as two:
        handles = [SqlApprovalStore(each, RowMac(ROOT_KEY), clock) for each in (one, two)]
        for each in (one, two):  # races, not disks, are the point
            await each.run(
                lambda connection: connection.connection.cursor().execute("PRAGMA synchronous = OFF").close()
            )
        doubles = 0
        for number in range(100):
            same = wanted(arguments_sha256=str(number))
            asked = await handles[number % 2].claim(same, f"a{number}")
            await handles[number % 2].decide(asked.id, YES)
            found = await asyncio.gather(*(store.claim(same, f"b{number}") for store in handles * 2))
            doubles += sum(each.state == "consumed" for each in found) != 1
            clock.now += 301
        assert doubles == 0


FORGERIES = (
    "UPDATE approvals SET state = 'approved', approver = 'alice', method = 'totp', decided_at = created",
    "UPDATE approvals SET state = 'approved', expires = expires + 1000",
    "UPDATE approvals SET arguments_sha256 = '" + "b" * 64 + "', state = 'approved'",
)


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_approval_store_in_sqlite_forged_approval_is_ignored(tmp_path: Path, clock: Clock, forgery: str) -> None:
    with sqlite_engine(tmp_path, clock) as (store, _):
        await store.claim(wanted(), "a1")
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute(forgery)
        connection.commit()
    with sqlite_engine(tmp_path, clock) as (store, _):
        assert await store.find("a1") is None
        for other in ({}, {"arguments_sha256": "b" * 64}):
            assert (await store.claim(wanted(**other), f"a2{other}")).state == "pending"
        assert await store.decide("a1", YES) is None


USED = (
    "UPDATE approvals SET state = 'approved'",
    "UPDATE approvals SET state = 'approved', decided_at = created",
    "UPDATE approvals SET state = 'pending', approver = NULL, method = NULL, decided_at = NULL",
)


@pytest.mark.parametrize("forgery", USED)
async def test_approval_store_in_sqlite_consumed_approval_reset_by_hand_is_ignored(
    tmp_path: Path, clock: Clock, forgery: str
) -> None:
    with sqlite_engine(tmp_path, clock) as (store, _):
        await claim_and_approve(store)
        used = await store.claim(wanted(), "a2")
        assert await store.find("a1") == used
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute(forgery)
        connection.commit()
    with sqlite_engine(tmp_path, clock) as (store, _):
        assert await store.find("a1") is None
        assert (await store.claim(wanted(), "a3")).id == "a3"


async def test_approval_store_in_sqlite_approval_moved_to_another_caller_is_ignored(
    tmp_path: Path, clock: Clock
) -> None:
    with sqlite_engine(tmp_path, clock) as (store, _):
        await claim_and_approve(store)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute("UPDATE approvals SET caller = 'bob', person = 'bob'")
        connection.commit()
    with sqlite_engine(tmp_path, clock) as (store, _):
        assert (await store.claim(wanted(caller="bob", person="bob"), "a2")).state == "pending"


async def test_approval_store_keeps_the_reason_of_a_no_and_tells_it(store: ApprovalStore) -> None:
    found = await store.claim(wanted(), "a1")
    denied = await store.decide(found.id, Decision("denied", "alice", None, "not today"))
    assert denied is not None
    assert (await store.find("a1"), denied.reason) == (denied, "not today")
    with pytest.raises(CoolingDown) as refused:
        await store.claim(wanted(arguments_sha256="b" * 64), "a2")
    assert (refused.value.reason, refused.value.words) == ("denied", "not today")


async def test_approval_store_lists_decided_approvals_newest_first(store: ApprovalStore, clock: Clock) -> None:
    await store.claim(wanted(caller="waits"), "a0")
    for number in (1, 2, 3):
        clock.now += 10
        await claim_and_approve(store, f"a{number}", caller=f"c{number}")
    assert [each.id for each in await store.decided(START + 20)] == ["a3", "a2"]
    clock.now += 10_000
    assert [(each.id, each.state) for each in await store.decided(0)] == [
        ("a3", "expired"),
        ("a2", "expired"),
        ("a1", "expired"),
    ]


async def test_approval_store_preview_changes_nothing_and_says_what_a_claim_does(
    store: ApprovalStore, clock: Clock
) -> None:
    assert await store.preview(wanted()) is False
    assert await store.pending() == ()
    await claim_and_approve(store)
    assert [await store.preview(wanted()) for _ in range(2)] == [True, True]
    assert (await store.claim(wanted(), "a2")).state == "consumed"
    assert await store.preview(wanted()) is False
    no = await store.claim(wanted(), "a3")
    assert await store.preview(wanted()) is False, "it waits already"
    await store.decide(no.id, NO)
    with pytest.raises(CoolingDown):
        await store.preview(wanted())
    clock.now += 61
    assert await store.preview(wanted()) is False
