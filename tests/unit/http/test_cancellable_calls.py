"""A later message cancels a call that waits, and nothing else."""

import asyncio

import pytest

from toolhall.http.call_context import CallKey, CancellableCalls
from toolhall.model.errors import Cancelled

ONE: CallKey = ("local", "", "1")
TWO: CallKey = ("local", "", "2")


async def forever() -> None:
    await asyncio.Event().wait()


async def at_once() -> int:
    return 7


async def waiting(cancellation: CancellableCalls, *keys: CallKey) -> "asyncio.Task[None]":
    """A call that waits."""
    task = asyncio.ensure_future(cancellation.run(keys, forever()))
    await asyncio.sleep(0)
    return task


async def test_run_without_suspending_is_not_registered() -> None:
    cancellation = CancellableCalls()
    assert await cancellation.run([ONE], at_once()) == 7
    assert not cancellation.cancel(ONE)


async def test_cancel_by_any_key_raises_cancelled() -> None:
    for key in (ONE, TWO):
        cancellation = CancellableCalls()
        task = await waiting(cancellation, ONE, TWO)
        assert cancellation.cancel(key)
        with pytest.raises(Cancelled):
            await task
        assert not cancellation.cancel(ONE)
        assert not cancellation.cancel(TWO)


async def test_cancel_shared_key_cancels_all_calls() -> None:
    cancellation = CancellableCalls()
    first, second, third = [await waiting(cancellation, ONE) for _ in range(3)]
    first.cancel()
    await asyncio.wait([first])
    assert cancellation.cancel(ONE)
    for task in (second, third):
        with pytest.raises(Cancelled):
            await task


async def test_cancel_twice_does_not_interrupt_cleanup() -> None:
    cancellation, cleaned = CancellableCalls(), asyncio.Event()

    async def careful() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            cleaned.set()

    task = asyncio.ensure_future(cancellation.run([ONE], careful()))
    await asyncio.sleep(0)
    assert cancellation.cancel(ONE)
    await asyncio.sleep(0)
    assert cancellation.cancel(ONE)
    with pytest.raises(Cancelled):
        await task
    assert cleaned.is_set()


async def test_cancel_ignored_by_tool_returns_result() -> None:
    cancellation = CancellableCalls()

    async def stubborn() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "done"
        return ""

    async def serve() -> tuple[str, int]:
        answer = await cancellation.run([ONE], stubborn())
        task = asyncio.current_task()
        assert task is not None
        return answer, task.cancelling()

    task = asyncio.ensure_future(serve())
    await asyncio.sleep(0)
    cancellation.cancel(ONE)
    assert await task == ("done", 0)


async def test_cancel_by_task_owner_propagates() -> None:
    cancellation = CancellableCalls()
    task = await waiting(cancellation, ONE)
    cancellation.cancel(ONE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
