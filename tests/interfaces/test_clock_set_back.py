"""Stores of approvals and factors never go back in time, also when the clock is set back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.approval_rows import ENGINES, START, Clock, factor, sqlite_engine, wanted
from toolhall.stores.approvals import ApprovalStore, Decision
from toolhall.stores.factors import FactorStore

YES = Decision("approved", "alice", "totp")
ApprovalAndFactorStores = tuple[ApprovalStore, FactorStore]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def both_stores(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[ApprovalAndFactorStores]:
    with ENGINES[request.param](tmp_path, clock) as stores:
        yield stores


async def test_approval_store_expired_approval_stays_expired_when_the_clock_is_set_back(
    both_stores: ApprovalAndFactorStores, clock: Clock
) -> None:
    store, _ = both_stores
    await store.claim(wanted(), "a1")
    await store.decide("a1", YES)
    for turned in (301, -600):
        clock.now += turned
        found = await store.find("a1")
        assert found is not None
        assert found.state == "expired"
    again = await store.claim(wanted(), "a2")
    assert (again.id, again.created >= START + 301) == ("a2", True)


async def test_approval_store_expired_request_is_undecidable_when_the_clock_is_set_back(
    both_stores: ApprovalAndFactorStores, clock: Clock
) -> None:
    store, _ = both_stores
    await store.claim(wanted(), "a1")
    clock.now += 301
    assert await store.pending() == ()
    clock.now -= 600
    assert (await store.pending(), await store.decide("a1", YES)) == ((), None)


async def test_factor_store_expired_invitation_stays_expired_when_the_clock_is_set_back(
    both_stores: ApprovalAndFactorStores, clock: Clock
) -> None:
    _, store = both_stores
    await store.add(factor(id="i1", kind="invitation", expires=START + 600))
    clock.now += 600
    assert await store.find("i1") is None
    clock.now -= 600
    assert (await store.find("i1"), await store.all()) == (None, ())
    assert not await store.add(factor(), "i1")


async def test_approval_store_reopened_does_not_go_behind_the_time_of_the_last_approval(
    tmp_path: Path, clock: Clock
) -> None:
    clock.now += 1_000
    with sqlite_engine(tmp_path, clock) as (store, _):
        await store.claim(wanted(caller="cd"), "a1")
    clock.now += 100
    with sqlite_engine(tmp_path, clock) as (store, _):
        await store.decide("a1", YES)
    clock.now = START
    with sqlite_engine(tmp_path, clock) as (store, _):
        asked = await store.claim(wanted(), "a2")
    assert START + 1_100 <= asked.created < START + 1_200


async def test_factor_store_reopened_does_not_go_behind_the_time_of_the_last_code(tmp_path: Path, clock: Clock) -> None:
    clock.now += 600
    with sqlite_engine(tmp_path, clock) as (_, store):
        await store.add(factor())
        assert await store.advance("f1", 5)
    clock.now = START
    with sqlite_engine(tmp_path, clock) as (_, store):
        await store.add(factor(id="i1", kind="invitation", expires=START + 600))
        assert await store.find("i1") is None
