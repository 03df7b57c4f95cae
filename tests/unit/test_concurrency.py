"""BackgroundTasks, BoundedTaskGroup, SingleFlight, DeferredTasks and shielded_exclusive."""

import asyncio
import gc
import inspect
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from tests.harness.patience import patience
from toolhall.concurrency import (
    BackgroundTasks,
    BoundedTaskGroup,
    DeferredTasks,
    SingleFlight,
    StillRunning,
    shielded_exclusive,
)


async def test_background_task_without_other_references_runs_to_its_end() -> None:
    tasks, release, ended = BackgroundTasks(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await release.wait()
        ended.set()

    tasks.start(work())
    await asyncio.sleep(0)
    gc.collect()
    assert len(tasks) == 1
    release.set()
    await tasks.wait()
    assert (ended.is_set(), len(tasks)) == (True, 0)


async def test_background_tasks_wait_with_timeout_cancels_nothing() -> None:
    tasks, release = BackgroundTasks(), asyncio.Event()
    task = tasks.start(release.wait())
    await tasks.wait(0.01)
    assert not task.done()
    release.set()
    assert await task is True


async def test_run_shielded_with_cancelled_caller_finishes() -> None:
    tasks, release, ended = BackgroundTasks(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        await release.wait()
        ended.set()

    caller = asyncio.ensure_future(tasks.run_shielded(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    release.set()
    await tasks.wait()
    assert ended.is_set()


async def test_shutdown_after_the_grace_period_cancels_and_waits() -> None:
    tasks, cleaned = BackgroundTasks(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    tasks.start(work())
    await tasks.shutdown(0.01)
    assert (cleaned.is_set(), len(tasks)) == (True, 0)


async def test_bounded_group_when_full_waits_for_a_free_slot() -> None:
    group, release = BoundedTaskGroup(2), asyncio.Event()

    async def work() -> None:
        await release.wait()

    full = []
    for _ in range(2):
        await group.start(work())
        full.append(group.is_full)
    assert full == [False, True]
    third = asyncio.ensure_future(group.start(work()))
    await asyncio.sleep(0)
    assert not third.done()
    release.set()
    await asyncio.wait_for(await asyncio.wait_for(third, patience()), patience())
    await group.shutdown(10)
    assert not group.is_full


async def test_single_flight_with_several_callers_runs_once() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    runs: list[int] = []

    async def work() -> int:
        runs.append(1)
        await asyncio.sleep(0)
        return len(runs)

    assert await asyncio.gather(*(flights.run("a", work, patience()) for _ in range(3))) == [1, 1, 1]
    assert await flights.run("a", work, patience()) == 2


async def test_single_flight_with_impatient_caller_goes_on() -> None:
    flights: SingleFlight[str, int] = SingleFlight()
    release = asyncio.Event()

    async def work() -> int:
        await release.wait()
        return 1

    with pytest.raises(StillRunning):
        await flights.run("a", work, 0.01)
    waiting = asyncio.ensure_future(flights.run("a", work, patience()))
    await flights.wait("b", patience())
    release.set()
    assert await waiting == 1
    await flights.close()


async def test_single_flight_that_fails_raises_for_each_caller() -> None:
    flights: SingleFlight[str, int] = SingleFlight()

    async def work() -> int:
        await asyncio.sleep(0)
        raise TimeoutError("of the work itself")

    answers = await asyncio.gather(*(flights.run("a", work, patience()) for _ in range(2)), return_exceptions=True)
    assert [str(each) for each in answers] == ["of the work itself"] * 2


async def test_deferred_work_of_another_thread_runs_in_the_loop() -> None:
    deferred, ended = DeferredTasks(), asyncio.Event()
    threads: list[int] = []

    async def work() -> None:
        threads.append(threading.get_ident())
        if len(threads) == 2:
            ended.set()

    deferred.submit(work)
    await asyncio.sleep(0)
    assert threads == []
    deferred.start()
    await asyncio.to_thread(deferred.submit, work)
    await asyncio.wait_for(ended.wait(), patience())
    assert threads == [threading.get_ident()] * 2
    deferred.stop()


async def test_shielded_exclusive_runs_one_at_a_time_and_to_the_end() -> None:
    lock, release, order = asyncio.Lock(), asyncio.Event(), list[str]()

    async def change(name: str) -> str:
        order.append(f"{name} begins")
        await release.wait()
        order.append(f"{name} ends")
        return name

    first = asyncio.ensure_future(shielded_exclusive(lock, change("first")))
    second = asyncio.ensure_future(shielded_exclusive(lock, change("second")))
    third = asyncio.ensure_future(shielded_exclusive(lock, change("third")))
    for _ in range(3):
        await asyncio.sleep(0)
    first.cancel()
    second.cancel()
    release.set()
    assert await asyncio.wait_for(third, patience()) == "third"
    assert order == [f"{name} {what}" for name in ("first", "second", "third") for what in ("begins", "ends")]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning", "error::RuntimeWarning")
@pytest.mark.parametrize("turns", [0, 1, 2])
def test_shielded_exclusive_closes_what_never_got_its_turn(turns: int) -> None:
    """A process that ends while a change waits for the lock, or before its task began, warns of nothing."""
    waiting: list[Coroutine[Any, Any, None]] = []

    async def change() -> None:
        raise AssertionError("it never has its turn")

    async def main() -> None:
        lock = asyncio.Lock()
        await lock.acquire()
        waiting.append(change())
        task = asyncio.ensure_future(shielded_exclusive(lock, waiting[0]))
        for _ in range(turns):
            await asyncio.sleep(0)
        del task

    asyncio.run(main())
    assert [inspect.getcoroutinestate(each) for each in waiting] == [inspect.CORO_CLOSED]
