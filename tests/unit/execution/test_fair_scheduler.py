"""Places and shares: no tool takes what the others need, and no place is ever lost by the count."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolhall.execution import thread_pool
from toolhall.execution.thread_pool import FairScheduler, SchedulerLimits
from toolhall.model.errors import Unavailable

SMALL = SchedulerLimits(shared=4, per_tool=2, total=6)


async def entered(places: FairScheduler, tool: str) -> bool:
    """Whether it gets a place at once."""
    task = asyncio.ensure_future(places.acquire(tool))
    await asyncio.sleep(0)
    if not task.done():
        task.cancel()
        await asyncio.wait([task])
        return False
    await task
    return True


async def test_fair_scheduler_tool_is_limited_to_its_share() -> None:
    places = FairScheduler(SMALL)
    assert [await entered(places, "a") for _ in range(3)] == [True, True, False]
    places.release("a")
    assert await entered(places, "a")


async def test_fair_scheduler_first_slot_of_a_tool_uses_reserve() -> None:
    places = FairScheduler(SMALL)
    for tool in ("a", "a", "b", "b"):
        assert await entered(places, tool)
    assert not await entered(places, "a")
    assert [await entered(places, tool) for tool in ("c", "c", "d", "e")] == [True, False, True, False]


async def test_fair_scheduler_abandoned_slot_no_longer_counts_for_tool() -> None:
    places = FairScheduler(SMALL)
    assert [await entered(places, "a") for _ in range(2)] == [True, True]
    places.abandon("a")
    assert (places.running, places.abandoned, places.abandoned_by("a"), places.abandoned_by("b")) == (1, 1, 1, 0)
    assert [await entered(places, "a") for _ in range(2)] == [True, False]
    places.release("a", was_abandoned=True)
    assert (places.running, places.abandoned) == (2, 0)


async def test_fair_scheduler_released_slot_goes_to_waiter() -> None:
    places = FairScheduler(SMALL)
    for _ in range(2):
        await places.acquire("a")
    waiting = asyncio.ensure_future(places.acquire("a"))
    await asyncio.sleep(0)
    places.release("a")
    await waiting
    assert places.running == 2


async def test_fair_scheduler_slot_granted_to_cancelled_waiter_is_released() -> None:
    places = FairScheduler(SMALL)
    for _ in range(2):
        await places.acquire("a")
    waiting = asyncio.ensure_future(places.acquire("a"))
    await asyncio.sleep(0)
    places.release("a")
    waiting.cancel()
    await asyncio.wait([waiting])
    assert places.running == 1


async def test_fair_scheduler_too_many_waiters_raise_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "_MAX_WAITING", 1)
    places = FairScheduler(SMALL)
    for _ in range(2):
        await places.acquire("a")
    waiting = asyncio.ensure_future(places.acquire("a"))
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="already wait for this tool"):
        await places.acquire("a")
    waiting.cancel()
    await asyncio.wait([waiting])


def test_fair_scheduler_waiter_of_closed_loop_takes_no_slot() -> None:
    places = FairScheduler(SMALL)

    async def fill() -> None:
        for _ in range(2):
            await places.acquire("a")

    loop = asyncio.new_event_loop()
    loop.run_until_complete(fill())
    abandoned: Any = places.acquire("a")
    task = loop.create_task(abandoned)
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    places.release("a")
    assert places.running == 1
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # it is left behind on purpose
    abandoned.close()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["acquire", "release", "abandon", "end", "cancel"]))))
def test_fair_scheduler_random_steps_keep_counts_exact(steps: list[tuple[str, str]]) -> None:
    asyncio.run(_walk(steps))


async def _walk(steps: list[tuple[str, str]]) -> None:
    places, lost = FairScheduler(SMALL), Counter[str]()
    tasks: dict[str, list[asyncio.Task[None]]] = {"a": [], "b": [], "c": []}
    for tool, step in steps:
        inside = [task for task in tasks[tool] if task.done()]
        if step == "acquire":
            tasks[tool].append(asyncio.ensure_future(places.acquire(tool)))
        elif step == "cancel" and len(inside) < len(tasks[tool]):
            task = next(task for task in tasks[tool] if not task.done())
            task.cancel()
            tasks[tool].remove(task)
        elif step in ("release", "abandon") and inside:
            tasks[tool].remove(inside[0])
            getattr(places, step)(tool)
            lost[tool] += step == "abandon"
        elif step == "end" and lost[tool]:
            lost[tool] -= 1
            places.release(tool, was_abandoned=True)
        for _ in range(3):
            await asyncio.sleep(0)
        running = {name: sum(task.done() for task in each) for name, each in tasks.items()}
        assert (places.running, places.abandoned) == (sum(running.values()), lost.total())
        assert places.running + places.abandoned <= SMALL.total
        assert all(count <= SMALL.per_tool for count in running.values())
    for each in tasks.values():
        for task in each:
            task.cancel()
    await asyncio.gather(*(task for each in tasks.values() for task in each), return_exceptions=True)
