"""A later message cancels a call that waits, and nothing else."""

import asyncio

import pytest

from toolhall.http.cancellation import CallKey, CancellableCalls
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


async def test_what_answers_at_once_cannot_be_cancelled() -> None:
    cancellation = CancellableCalls()
    assert await cancellation.run([ONE], at_once()) == 7
    assert not cancellation.cancel(ONE)


async def test_either_key_cancels() -> None:
    for key in (ONE, TWO):
        cancellation = CancellableCalls()
        task = await waiting(cancellation, ONE, TWO)
        assert cancellation.cancel(key)
        with pytest.raises(Cancelled):
            await task
        assert not cancellation.cancel(ONE)
        assert not cancellation.cancel(TWO)


async def test_calls_of_one_key_end_together_and_one_that_ended_leaves_the_other_known() -> None:
    cancellation = CancellableCalls()
    first, second, third = [await waiting(cancellation, ONE) for _ in range(3)]
    first.cancel()
    await asyncio.wait([first])
    assert cancellation.cancel(ONE)
    for task in (second, third):
        with pytest.raises(Cancelled):
            await task


async def test_to_cancel_twice_does_not_disturb_the_cleaning_up() -> None:
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


async def test_what_goes_on_to_its_end_has_its_answer_and_its_task_is_not_cancelled() -> None:
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


async def test_whoever_ends_the_task_itself_is_not_answered() -> None:
    cancellation = CancellableCalls()
    task = await waiting(cancellation, ONE)
    cancellation.cancel(ONE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
