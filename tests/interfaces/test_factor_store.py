"""What every store of factors promises, whatever its engine."""

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.interfaces.approval_rows import ENGINES, START, Clock, factor, sqlite_engine
from toolhall.stores.bundle import Stores
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.factors import FactorStore


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[FactorStore]:
    with ENGINES[request.param](tmp_path, clock) as (_, factors):
        yield factors


async def test_factor_store_lists_factors_by_person_and_age(store: FactorStore) -> None:
    first, second = factor(), factor(id="f0", created_at=START + 1, kind="passkey")
    other = factor(id="f2", person="bob")
    for each in (second, other, first):
        assert await store.add(each)
    assert await store.all("alice") == (first, second)
    assert await store.all("bob") == (other,)
    assert await store.all("carol") == ()
    assert await store.all() == (first, other, second)
    assert not await store.add(first)


async def test_factor_store_removed_factor_cannot_be_removed_again(store: FactorStore) -> None:
    await store.add(factor())
    assert await store.remove("f1")
    assert not await store.remove("f1")
    assert await store.all() == ()


async def test_factor_store_find_returns_the_factor_with_the_id(store: FactorStore, clock: Clock) -> None:
    invitation = factor(id="i1", kind="invitation", expires=START + 600)
    for each in (factor(), invitation):
        await store.add(each)
    assert [await store.find(each) for each in ("f1", "i1", "f2")] == [factor(), invitation, None]
    clock.now += 600
    assert await store.find("i1") is None


async def test_factor_store_counter_that_does_not_rise_is_refused(store: FactorStore, clock: Clock) -> None:
    await store.add(factor())
    clock.now += 5
    assert [await store.advance("f1", counter) for counter in (7, 7, 6, 8)] == [True, False, False, True]
    assert await store.all() == (msgspec.structs.replace(factor(), counter=8, used_at=START + 5),)
    assert not await store.advance("nothing", 9)


async def test_factor_store_passkey_with_counter_zero_may_be_used_again(store: FactorStore) -> None:
    await store.add(factor(kind="passkey"))
    assert [await store.advance("f1", counter) for counter in (0, 0, 3, 0, 3)] == [True, True, True, False, False]


async def test_factor_store_one_code_used_concurrently_is_accepted_once(store: FactorStore) -> None:
    await store.add(factor())
    for step in range(1, 20):
        assert sum(await asyncio.gather(*(store.advance("f1", step) for _ in range(6)))) == 1


async def test_factor_store_invitation_is_used_once(store: FactorStore, clock: Clock) -> None:
    invitation = factor(id="i1", kind="invitation", expires=START + 600)
    await store.add(invitation)
    assert await store.all("alice") == (invitation,)
    new = factor(kind="passkey")
    assert await store.add(new, "i1")
    assert await store.all() == (new,)
    assert not await store.add(factor(id="f2"), "i1")
    assert await store.all() == (new,)


async def test_factor_store_invitation_for_a_taken_factor_id_is_kept(store: FactorStore) -> None:
    await store.add(factor())
    await store.add(factor(id="i1", kind="invitation", expires=START + 600))
    assert not await store.add(factor(), "i1")
    assert [each.id for each in await store.all()] == ["f1", "i1"]


async def test_factor_store_invitation_expires(store: FactorStore, clock: Clock) -> None:
    await store.add(factor(id="i1", kind="invitation", expires=START + 600))
    clock.now += 600
    assert await store.all() == ()
    assert not await store.add(factor(), "i1")


async def test_factor_store_attempts_above_five_in_five_minutes_must_wait(store: FactorStore, clock: Clock) -> None:
    for _ in range(5):
        assert await store.record_attempt("alice") == 0
        clock.now += 10
    assert await store.record_attempt("alice") == 250
    assert await store.record_attempt("bob") == 0
    clock.now += 250
    assert await store.record_attempt("alice") == 0
    assert await store.record_attempt("alice") == 10
    await store.reset_attempts("alice")
    assert await store.record_attempt("alice") == 0


async def test_factor_store_of_every_engine_keeps_an_added_factor(stores: Stores) -> None:
    assert await stores.factors.all() == ()
    assert await stores.factors.add(factor())
    assert [each.id for each in await stores.factors.all()] == ["f1"]


async def test_factor_store_row_copied_to_another_person_is_ignored(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as (_, store):
        await store.add(factor())
        await store.advance("f1", 5)
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute("INSERT INTO factors SELECT 'f2', 'bob', kind, secret, by, created_at, expires, counter,"
                           " used_at, mac FROM factors")  # fmt: skip
        connection.commit()
    with sqlite_engine(tmp_path, clock) as (_, store):
        assert [each.id for each in await store.all()] == ["f1"]


async def test_factor_store_row_with_a_lowered_counter_is_ignored(tmp_path: Path, clock: Clock) -> None:
    with sqlite_engine(tmp_path, clock) as (_, store):
        await store.add(factor())
        assert await store.advance("f1", 5)
        assert [each.counter for each in await store.all()] == [5]
    with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection:
        connection.execute("UPDATE factors SET counter = 4")
        connection.commit()
    with sqlite_engine(tmp_path, clock) as (_, store):
        assert not await store.advance("f1", 5)
        assert (await store.find("f1"), await store.all()) == (None, ())
