"""The time a tool has, which stands still while a person thinks."""

import asyncio

import pytest

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.execution.deadline import Deadline
from toolhall.model.questions import Answered, Filled, Question
from toolhall.testing import Client

SHORT = 0.03


async def pause(seconds: float) -> None:
    """Real time passes, as the deadline counts it."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, done.set)
    await done.wait()


async def test_time_counts_from_the_start() -> None:
    deadline = Deadline(SHORT)
    await pause(SHORT * 2)
    deadline.start()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert deadline.cancel_count == 1
    deadline.stop()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_who_ends_in_time_is_left_alone() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    deadline.stop()
    await pause(SHORT * 2)
    assert deadline.cancel_count == 0


async def test_time_stands_still_while_it_is_held() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    with deadline.hold(), deadline.hold():
        await pause(SHORT * 2)
    assert deadline.cancel_count == 0
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    deadline.stop()


async def test_one_hold_is_enough() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    with deadline.hold():
        await pause(SHORT * 2)
    assert deadline.cancel_count == 0
    deadline.stop()


async def test_after_a_hold_only_the_rest_of_the_time_is_left() -> None:
    deadline, loop = Deadline(0.2), asyncio.get_running_loop()
    start = loop.time()
    deadline.start()
    await pause(0.1)
    with deadline.hold():
        held = loop.time() - start
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    deadline.stop()
    assert held >= 0.1
    assert loop.time() - start < held + 0.2


async def test_a_hold_before_the_start_counts_too() -> None:
    deadline = Deadline(SHORT)
    with deadline.hold():
        deadline.start()
        await pause(SHORT * 2)
    assert deadline.cancel_count == 0
    deadline.stop()


async def test_a_hold_that_outlives_the_tool_cancels_nobody() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    with deadline.hold():
        deadline.stop()
    await pause(SHORT * 2)
    assert deadline.cancel_count == 0


async def test_a_person_may_take_longer_than_the_tool() -> None:
    class Slow(Client):
        async def ask(self, questions: object) -> dict[str, Answered]:
            await pause(SHORT * 3)
            return {"form_1": Filled("decline")}

    @tool(timeout=SHORT)
    async def order(ctx: Context) -> str:
        return (await ctx.ask("Which?", {"type": "object", "properties": {}})).action

    def never(_: str, __: Question) -> Answered:
        raise AssertionError

    async with Slow(order, answers=never) as client:
        assert await client.call(order) == "decline"
