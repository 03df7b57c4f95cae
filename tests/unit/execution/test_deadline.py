"""The time a tool has, which stands still while a person thinks."""

import asyncio
from contextlib import suppress

import pytest

from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.execution.deadline import Deadline
from toolhall.model.messages import Answered, Filled, Question
from toolhall.testing import Client

SHORT = 0.03


async def pause(seconds: float) -> None:
    """Real time passes, as the deadline counts it."""
    done = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, done.set)
    await done.wait()


async def test_deadline_cancels_after_start() -> None:
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


async def test_deadline_stopped_in_time_does_not_cancel() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    deadline.stop()
    await pause(SHORT * 2)
    assert deadline.cancel_count == 0


async def test_deadline_on_hold_does_not_expire() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    with deadline.hold(), deadline.hold():
        await pause(SHORT * 2)
    assert deadline.cancel_count == 0
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    deadline.stop()


async def test_deadline_nested_holds_count_once() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    with deadline.hold():
        await pause(SHORT * 2)
    assert deadline.cancel_count == 0
    deadline.stop()


async def test_deadline_after_hold_keeps_remaining_time() -> None:
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


async def test_deadline_hold_before_start_delays_it() -> None:
    deadline = Deadline(SHORT)
    with deadline.hold():
        deadline.start()
        await pause(SHORT * 2)
    assert deadline.cancel_count == 0
    deadline.stop()


async def test_deadline_hold_that_outlives_the_call_does_not_cancel() -> None:
    deadline = Deadline(SHORT)
    deadline.start()
    with deadline.hold():
        deadline.stop()
    await pause(SHORT * 2)
    assert deadline.cancel_count == 0


async def test_deadline_waits_while_a_person_answers() -> None:
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


async def test_deadlines_that_share_a_timer_expire_each_in_its_time() -> None:
    expired: list[float] = []

    async def wait(seconds: float) -> None:
        deadline = Deadline(seconds)
        deadline.start()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if deadline.cancel_count:
                expired.append(seconds)
        finally:
            deadline.stop()

    long, *others = [asyncio.create_task(wait(seconds)) for seconds in (60, SHORT * 3, SHORT, SHORT * 2)]
    await asyncio.gather(*others)
    assert expired == [SHORT, SHORT * 2, SHORT * 3]
    assert not long.done()
    long.cancel()
    await long
    assert len(expired) == 3


async def test_deadline_is_not_late_because_another_one_waits_for_its_second_cancellation() -> None:
    """That is due in a second; the loop's timer must not be armed for it alone."""
    loop = asyncio.get_running_loop()

    async def wait(seconds: float) -> float:
        deadline, start = Deadline(seconds), loop.time()
        deadline.start()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            while not deadline.grace_is_over() and seconds == SHORT:
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
        finally:
            deadline.stop()
        return loop.time() - start

    stubborn, other = await asyncio.gather(wait(SHORT), wait(SHORT * 5))
    assert other + SHORT < stubborn


async def test_deadline_added_while_a_later_one_runs_is_not_late() -> None:
    later, sooner = Deadline(60), Deadline(SHORT)
    later.start()
    sooner.start()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.Event().wait()
    assert (later.cancel_count, sooner.cancel_count) == (0, 1)
    sooner.stop()
    later.stop()
