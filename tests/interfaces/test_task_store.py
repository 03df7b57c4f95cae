"""What every store of tasks promises, whatever its engine."""

import asyncio
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.interfaces.approval_rows import ROOT_KEY, START, Clock, database
from toolhall.stores import tasks as base
from toolhall.stores.common import DATABASE_FILE
from toolhall.stores.crypto import RowMac
from toolhall.stores.sql.tasks import SqlTaskStore
from toolhall.stores.tasks import (
    LEASE_SECONDS,
    MemoryTaskStore,
    StoredTask,
    TaskCounts,
    TaskQuery,
    TaskStore,
    TooManyTasks,
)

ME, OTHER = "me", "other"
RACERS = 8


def task(**other: Any) -> StoredTask:
    """A task of alice's that this process runs."""
    plain: dict[str, Any] = {
        "id": "t1",
        "owner": "alice",
        "user_id": "alice",
        "tool": "House.paint@1.0.0",
        "dialect": "mcp@2026-07-28",
        "sealed_call": b"call",
        "attempt": 1,
        "holder": ME,
        "epoch": 1,
        "created_at": START,
        "updated_at": START,
        "expires_at": START + 3_600,
        "poll_ms": 1_000,
    }
    return StoredTask(**plain | other)


@contextmanager
def memory_engine(_: Path, clock: Clock, *, shared: bool) -> Generator[TaskStore]:
    yield MemoryTaskStore(clock, shared=shared)


@contextmanager
def sqlite_engine(folder: Path, clock: Clock, *, shared: bool) -> Generator[TaskStore]:
    with database(folder) as opened:
        yield SqlTaskStore(opened, RowMac(ROOT_KEY), clock, shared=shared)


ENGINES = {"memory": memory_engine, "sqlite": sqlite_engine}


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[TaskStore]:
    """A store that one process has to itself."""
    with ENGINES[request.param](tmp_path, clock, shared=False) as opened:
        yield opened


@pytest.fixture(params=ENGINES)
def shared_store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[TaskStore]:
    """A store in which several processes hold tasks."""
    with ENGINES[request.param](tmp_path, clock, shared=True) as opened:
        yield opened


async def test_task_store_returns_what_was_added_with_a_lease(store: TaskStore) -> None:
    added = await store.add(task())
    assert added == msgspec.structs.replace(task(), lease_until=START + LEASE_SECONDS)
    assert await store.find("t1") == added
    assert await store.find("t2") is None
    unheld = await store.add(task(id="t2", holder=None))
    assert unheld.lease_until == 0.0


FULL_ROW = task(
    state="input_required",
    sealed_memory=b"memory",
    sealed_status=b"\x00\xff",
    sealed_result=b"",
    user_id=None,
    serial=7,
)


async def test_task_store_keeps_every_field(store: TaskStore) -> None:
    added = await store.add(FULL_ROW)
    assert await store.find("t1") == added == msgspec.structs.replace(FULL_ROW, lease_until=added.lease_until)


async def test_task_store_pages_in_the_order_of_ids_by_owner(store: TaskStore) -> None:
    for number, owner in ((3, "alice"), (1, "bob"), (2, "alice")):
        await store.add(task(id=f"t{number}", owner=owner))
    assert [each.id for each in await store.page()] == ["t1", "t2", "t3"]
    assert [each.id for each in await store.page("alice")] == ["t2", "t3"]
    assert [each.id for each in await store.page("alice", after="t2")] == ["t3"]
    assert [each.id for each in await store.page(limit=2)] == ["t1", "t2"]
    assert await store.page("nobody") == ()


async def test_task_store_search_returns_the_newest_that_the_query_admits(store: TaskStore) -> None:
    for number, owner, other in (
        (1, "alice", {}),
        (2, "bob\nalice", {"tool": "House.paint@1.1.0"}),
        (3, "alice%", {"tool": "House.paint_all@1.0.0"}),
        (4, "alice\nbob", {"expires_at": START + 5}),
        (5, "alice", {"created_at": START}),
    ):
        await store.add(task(id=f"t{number}", owner=owner, **{"created_at": START + number, **other}))
    done = await store.find("t2")
    assert done is not None
    assert await store.swap(done, msgspec.structs.replace(done, state="completed"))

    async def found(limit: int = 10, **wanted: Any) -> list[str]:
        return [each.id for each in await store.search(TaskQuery(**wanted), limit)]

    assert await found() == ["t4", "t3", "t2", "t1", "t5"]
    assert await found(2) == ["t4", "t3"]
    assert await found(before=(START + 3, "t3")) == ["t2", "t1", "t5"]
    assert await found(before=(START + 3, "t4")) == ["t3", "t2", "t1", "t5"]
    assert await found(caller="alice") == ["t4", "t1", "t5"]
    assert await found(caller="alice%") == ["t3"]
    assert await found(tool="House.paint") == ["t4", "t2", "t1", "t5"]
    assert await found(tool="House.paint@1.1.0") == ["t2"]
    assert await found(tool="House_paint") == []
    assert await found(states=frozenset({"completed"})) == ["t2"]
    assert await found(states=frozenset()) == []
    assert await found(unexpired_at=START + 5) == ["t3", "t2", "t1", "t5"]


async def test_task_store_counts_open_tasks_by_state(store: TaskStore) -> None:
    assert await store.counts(START) == TaskCounts()
    for number in range(5):
        await store.add(task(id=f"t{number}", created_at=START + number, expires_at=START + 10 * number))
    for task_id, state in (("t1", "completed"), ("t2", "input_required")):
        found = await store.find(task_id)
        assert found is not None
        assert await store.swap(found, msgspec.structs.replace(found, state=state))
    assert await store.counts(START) == TaskCounts({"working": 2, "input_required": 1}, START + 2)
    assert await store.counts(START + 20) == TaskCounts({"working": 2}, START + 3)


async def test_task_store_swap_replaces_only_the_row_that_was_read(store: TaskStore) -> None:
    first = await store.add(task())
    second = await store.swap(first, msgspec.structs.replace(first, state="input_required", sealed_memory=b"m"))
    assert second is not None
    assert (second.state, second.sealed_memory, second.serial, second.epoch) == ("input_required", b"m", 1, 1)
    assert await store.swap(first, msgspec.structs.replace(first, state="completed")) is None
    assert await store.find("t1") == second


async def test_task_store_swap_never_changes_identity(store: TaskStore) -> None:
    first = await store.add(task())
    other = msgspec.structs.replace(first, id="t9", owner="mallory", epoch=9, serial=9)
    changed = await store.swap(first, other)
    assert changed is not None
    assert (changed.id, changed.owner, changed.epoch, changed.serial) == ("t1", "alice", 1, 1)


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_task_store_an_end_is_final(store: TaskStore, state: Any) -> None:
    first = await store.add(task())
    ended = await store.swap(first, msgspec.structs.replace(first, state=state, holder=None))
    assert ended is not None
    assert await store.swap(ended, msgspec.structs.replace(ended, state="working")) is None
    assert await store.claim(ended, OTHER) is None
    assert await store.find("t1") == ended


async def test_task_store_of_concurrent_swaps_one_succeeds(store: TaskStore) -> None:
    first = await store.add(task())
    wanted = [msgspec.structs.replace(first, sealed_memory=b"%d" % number) for number in range(RACERS)]
    ends = await asyncio.gather(*(store.swap(first, each) for each in wanted))
    (won,) = [each for each in ends if each is not None]
    assert await store.find("t1") == won


async def test_task_store_of_concurrent_claims_one_succeeds(shared_store: TaskStore) -> None:
    free = await shared_store.add(task(holder=None))
    ends = await asyncio.gather(*(shared_store.claim(free, f"p{number}") for number in range(RACERS)))
    (won,) = [each for each in ends if each is not None]
    assert (won.epoch, won.attempt) == (free.epoch + 1, free.attempt + 1)
    assert await shared_store.find("t1") == won


async def test_task_store_claim_raises_the_epoch_and_the_old_holder_writes_nothing(store: TaskStore) -> None:
    before = await store.add(task(holder=OTHER))  # a process that is gone: this one has the store to itself
    claimed = await store.claim(before, ME)
    assert claimed is not None
    assert (claimed.holder, claimed.epoch, claimed.attempt) == (ME, 2, 2)
    assert await store.swap(before, msgspec.structs.replace(before, state="completed")) is None


async def test_task_store_of_one_process_frees_what_others_held(store: TaskStore) -> None:
    await store.add(task(id="mine"))
    await store.add(task(id="theirs", holder=OTHER, created_at=START + 1))
    await store.add(task(id="nobody", holder=None))
    await store.add(task(id="ended", holder=None, state="failed"))
    assert [each.id for each in await store.claimable(ME)] == ["nobody", "theirs"]


async def test_task_store_shared_frees_a_task_once_its_lease_is_over(shared_store: TaskStore, clock: Clock) -> None:
    held = await shared_store.add(task(holder=OTHER))
    assert await shared_store.claimable(ME) == ()
    assert await shared_store.claim(held, ME) is None
    clock.now += LEASE_SECONDS - 1
    assert await shared_store.renew(OTHER) == {"t1": held.serial}
    clock.now += LEASE_SECONDS - 1
    assert await shared_store.claim(held, ME) is None
    clock.now += 1
    assert [each.id for each in await shared_store.claimable(ME)] == ["t1"]
    claimed = await shared_store.claim(held, ME)
    assert claimed is not None
    assert await shared_store.renew(OTHER) == {}
    assert await shared_store.renew(ME) == {"t1": claimed.serial}


async def test_task_store_renewing_a_lease_changes_nothing_else(store: TaskStore, clock: Clock) -> None:
    added = await store.add(task())
    clock.now += 10
    await store.renew(ME)
    assert await store.find("t1") == msgspec.structs.replace(added, lease_until=clock.now + LEASE_SECONDS)
    swapped = await store.swap(added, msgspec.structs.replace(added, sealed_status=b"s"))
    assert swapped is not None


async def test_task_store_sweep_deletes_what_has_expired(store: TaskStore) -> None:
    await store.add(task(id="old", expires_at=START + 1))
    await store.add(task(id="new", expires_at=START + 2))
    assert await store.sweep(START + 1) == ("old",)
    assert await store.sweep(START + 1) == ()
    assert [each.id for each in await store.page()] == ["new"]


async def test_task_store_limits_open_tasks_by_owner_and_in_total(
    store: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "MAX_OPEN_PER_OWNER", 2)
    monkeypatch.setattr(base, "MAX_OPEN", 3)
    first = await store.add(task(id="t1"))
    await store.add(task(id="t2"))
    with pytest.raises(TooManyTasks, match="owner: 2 tasks are open"):
        await store.add(task(id="t3"))
    await store.add(task(id="t3", owner="bob"))
    with pytest.raises(TooManyTasks, match="hall: 3 tasks are open"):
        await store.add(task(id="t4", owner="carol"))
    await store.swap(first, msgspec.structs.replace(first, state="completed", holder=None))
    await store.add(task(id="t4"))


@pytest.mark.parametrize(
    "statement",
    [
        "update tasks set state = 'working', sealed_result = null",
        "update tasks set owner = 'mallory'",
        "update tasks set tool = 'House.burn@1.0.0'",
        "update tasks set epoch = 1, serial = 0",
    ],
)
async def test_sql_task_store_ignores_a_row_that_another_program_changed(
    tmp_path: Path, clock: Clock, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    with sqlite_engine(tmp_path, clock, shared=False) as store:
        first = await store.add(task())
        ended = await store.swap(first, msgspec.structs.replace(first, state="completed", sealed_result=b"r"))
        assert ended is not None
        with closing(sqlite3.connect(tmp_path / DATABASE_FILE)) as connection, connection:
            connection.execute(statement)
        assert await store.find("t1") is None
        assert await store.page() == ()
        assert await store.claimable(OTHER) == ()
    assert "was changed outside Toolhall" in caplog.text
