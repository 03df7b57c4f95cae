"""Threads for sync tools: shared fairly, and lost ones are counted until they come back."""

import asyncio
import contextvars
import threading
from collections.abc import Iterator

import pytest

from tests.harness.patience import patience
from toolhall.execution.thread_pool import ThreadPool

NOW, LATER = 0.0, 600.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture
def threads() -> Iterator[ThreadPool]:
    made = ThreadPool(4)
    yield made
    made.close()


async def hang(
    threads: ThreadPool, gate: threading.Event, *, tool: str = "a", grace: float = NOW
) -> asyncio.Task[object]:
    """A call that has begun and will not end by itself."""
    begun = threading.Event()

    def work() -> None:
        begun.set()
        gate.wait(patience())

    task = asyncio.ensure_future(threads.run(tool, work, lambda: grace))
    assert await asyncio.to_thread(begun.wait, 10)
    return task


async def end(task: asyncio.Task[object]) -> None:
    task.cancel()
    await asyncio.wait([task])


async def come_back(threads: ThreadPool) -> None:
    while threads.abandoned:  # noqa: ASYNC110 - what ends is a thread
        await asyncio.sleep(0)


async def test_thread_pool_run_returns_result_or_raises_error(threads: ThreadPool) -> None:
    assert await threads.run("a", lambda: 3, lambda: NOW) == 3
    with pytest.raises(ZeroDivisionError):
        await threads.run("a", lambda: 1 / 0, lambda: NOW)


async def test_thread_pool_run_keeps_context_variables(threads: ThreadPool) -> None:
    variable = contextvars.ContextVar("variable", default=0)
    variable.set(7)
    assert await threads.run("a", variable.get, lambda: NOW) == 7


async def test_thread_pool_busy_tool_leaves_threads_for_others(threads: ThreadPool, gate: threading.Event) -> None:
    hanging = [await hang(threads, gate, tool=name) for name in ("a", "a", "b", "b")]
    third = asyncio.ensure_future(threads.run("a", lambda: 3, lambda: NOW))
    assert [await threads.run("c", lambda: 4, lambda: NOW) for _ in range(20)] == [4] * 20
    assert not third.done()
    gate.set()
    assert await third == 3
    await asyncio.gather(*hanging)


async def test_thread_pool_thread_past_deadline_is_abandoned_until_it_ends(
    threads: ThreadPool, gate: threading.Event
) -> None:
    for task in [await hang(threads, gate) for _ in range(2)]:
        await end(task)
    assert (threads.abandoned, threads.abandoned_by("a"), threads.abandoned_by("b")) == (2, 2, 0)
    assert await threads.run("a", lambda: 3, lambda: NOW) == 3
    gate.set()
    await come_back(threads)


async def test_thread_pool_cancelled_call_abandons_thread_after_grace(
    threads: ThreadPool, gate: threading.Event
) -> None:
    await end(await hang(threads, gate, grace=LATER))
    assert threads.abandoned == 0


async def test_thread_pool_hanging_thread_does_not_block_exit(threads: ThreadPool, gate: threading.Event) -> None:
    await end(await hang(threads, gate))
    threads.close()
    (left,) = (each for each in threading.enumerate() if each.name.startswith("toolhall-tool"))
    assert left.daemon
    gate.set()
    await asyncio.to_thread(left.join, 10)
