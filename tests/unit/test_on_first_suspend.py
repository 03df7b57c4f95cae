"""`await on_first_suspend(work, hook)` equals `await work`, except that the hook is called at the first wait."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from toolhall.concurrency import on_first_suspend


class Pause:
    """Waits until it is resumed, by a value or by an exception."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __await__(self) -> Generator[str, Any, Any]:
        return (yield self._name)


async def awaiting(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def drive(awaitable: Awaitable[Any], *inputs: BaseException | None) -> list[object]:
    """What an event loop would see: what is waited for, and how it ends."""
    seen: list[object] = []
    steps: Any = awaiting(awaitable).__await__()
    try:
        seen.append(next(steps))
        for given in inputs:
            step = steps.throw(given) if given else next(steps)
            seen.append(step)
    except StopIteration as finished:
        seen.append(("returned", finished.value))
    except BaseException as error:  # noqa: BLE001 - every way to end is compared
        text = str(error).replace("generator ignored", "coroutine ignored")  # what the wrapper is made of
        seen.append(("raised", type(error), text))
    finally:
        with contextlib.suppress(RuntimeError):  # a coroutine that waits while it is closed
            steps.close()
    return seen


async def at_once() -> str:
    return "done"


async def fails_at_once() -> str:
    raise ValueError("at once")


async def waits_twice() -> str:
    await Pause("first")
    await Pause("second")
    return "done"


async def fails_later() -> str:
    await Pause("first")
    raise ValueError("later")


async def cleans_up() -> str:
    try:
        await Pause("first")
    finally:
        await Pause("cleaning")
    return "done"


async def refuses_to_end() -> str:
    for name in ("first", "second", "third"):
        try:
            await Pause(name)
        except asyncio.CancelledError:
            continue
    return "done after all"


async def turns_it_into_another() -> str:
    try:
        await Pause("first")
    except asyncio.CancelledError as error:
        raise ValueError("was cancelled") from error
    return "done"


WORKS = [at_once, fails_at_once, waits_twice, fails_later, cleans_up, refuses_to_end, turns_it_into_another]


def cancel() -> BaseException:
    return asyncio.CancelledError("enough")


INPUTS: list[list[Callable[[], BaseException] | None]] = [
    [],
    [None],
    [None, None, None],
    [cancel],
    [None, cancel],
    [cancel, cancel],
    [cancel, None, cancel],
    [cancel, cancel, cancel],
    [lambda: KeyboardInterrupt("stop")],
    [GeneratorExit],
]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
@pytest.mark.parametrize("inputs", INPUTS, ids=range(len(INPUTS)))
def test_on_first_suspend_equals_plain_await(
    work: Callable[[], Awaitable[str]], inputs: list[Callable[[], BaseException] | None]
) -> None:
    plain = drive(work(), *(given and given() for given in inputs))
    noticed = drive(on_first_suspend(work(), lambda: None), *(given and given() for given in inputs))
    assert noticed == plain


@pytest.mark.parametrize(("work", "waits"), [(at_once, 0), (fails_at_once, 0), (waits_twice, 1), (refuses_to_end, 1)])
def test_on_first_suspend_hook_is_called_at_first_wait_only(work: Callable[[], Awaitable[str]], waits: int) -> None:
    heard: list[str] = []
    drive(on_first_suspend(work(), lambda: heard.append("waiting")), None, None, None)
    assert len(heard) == waits


async def test_on_first_suspend_works_with_futures_tasks_and_timeouts() -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(future.set_result, 7)
    assert await on_first_suspend(future, lambda: None) == 7
    task = asyncio.create_task(asyncio.sleep(0, "slept"))
    assert await on_first_suspend(task, lambda: None) == "slept"
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await on_first_suspend(asyncio.Event().wait(), lambda: None)


async def test_on_first_suspend_cancelled_task_ends_as_without() -> None:
    task = asyncio.ensure_future(_await(on_first_suspend(asyncio.Event().wait(), lambda: None)))
    await asyncio.sleep(0)
    task.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await task


async def _await(work: Awaitable[Any]) -> Any:
    return await work
