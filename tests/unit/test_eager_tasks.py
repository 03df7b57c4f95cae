"""EagerStarter: tasks that take their first step at once, on both event loops."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar
from typing import Any

import pytest
import uvloop

from toolhall.eager_tasks import EagerStarter

seen: ContextVar[str] = ContextVar("seen", default="nothing")
Work = Callable[[], Coroutine[Any, Any, Any]]
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Generator[asyncio.AbstractEventLoop]:
    loop = LOOPS[request.param]()
    yield loop
    loop.close()


def in_callback(loop: asyncio.AbstractEventLoop, act: Callable[[EagerStarter], Any]) -> Any:
    """What this returns when a callback of the loop calls it, where no task is current; a task is awaited."""
    result: asyncio.Future[Any] = loop.create_future()

    def callback() -> None:
        try:
            result.set_result(act(EagerStarter(loop, "test")))
        except BaseException as error:  # noqa: BLE001 - raised by the test
            result.set_exception(error)

    async def main() -> Any:
        found = await result
        return await found if isinstance(found, asyncio.Task) else found

    loop.call_soon(callback)
    return loop.run_until_complete(main())


def test_eager_task_takes_its_first_step_before_start_returns(loop: asyncio.AbstractEventLoop) -> None:
    steps: list[str] = []

    async def work() -> str:
        steps.append("first")
        await asyncio.sleep(0)
        steps.append("second")
        return "done"

    def act(starter: EagerStarter) -> asyncio.Task[str]:
        task = starter.start(work())
        steps.append("started")
        assert not task.done()
        assert asyncio.current_task(loop) is None
        return task

    assert in_callback(loop, act) == "done"
    assert steps == ["first", "started", "second"]


def test_eager_task_that_ends_in_its_first_step_is_done(loop: asyncio.AbstractEventLoop) -> None:
    async def work() -> int:
        return 3

    def act(starter: EagerStarter) -> int:
        task = starter.start(work())
        assert task.done()
        return task.result()

    assert in_callback(loop, act) == 3


def test_eager_task_is_the_current_task_in_its_first_step(loop: asyncio.AbstractEventLoop) -> None:
    async def work() -> "asyncio.Task[Any] | None":
        return asyncio.current_task()

    def act(starter: EagerStarter) -> bool:
        task = starter.start(work())
        assert task.get_name() == "test"
        return task.result() is task

    assert in_callback(loop, act)


def test_eager_task_may_begin_with_a_timeout(loop: asyncio.AbstractEventLoop) -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "timed out"
        return "never"

    assert in_callback(loop, lambda starter: starter.start(work())) == "timed out"


def test_eager_task_may_begin_with_a_task_group(loop: asyncio.AbstractEventLoop) -> None:
    async def part(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def work() -> list[int]:
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(part(number)) for number in range(3)]
        return [each.result() for each in parts]

    assert in_callback(loop, lambda starter: starter.start(work())) == [0, 1, 2]


def test_eager_task_passes_its_context_to_nobody(loop: asyncio.AbstractEventLoop) -> None:
    async def work(name: str) -> str:
        before = seen.get()
        seen.set(name)
        await asyncio.sleep(0)
        return f"{before}, then {seen.get()}"

    def act(starter: EagerStarter) -> "asyncio.Task[list[str]]":
        tasks = [starter.start(work("one")), starter.start(work("two"))]
        assert seen.get() == "nothing"
        seen.set("the callback")
        tasks.append(starter.start(work("three")))
        return loop.create_task(gather(tasks))

    async def gather(tasks: "list[asyncio.Task[str]]") -> list[str]:
        return await asyncio.gather(*tasks)

    assert in_callback(loop, act) == ["nothing, then one", "nothing, then two", "nothing, then three"]


def test_eager_task_started_by_another_task_has_the_context_of_the_starter(loop: asyncio.AbstractEventLoop) -> None:
    async def inner() -> str:
        return seen.get()

    async def outer(starter: EagerStarter) -> str:
        seen.set("outer")
        return await starter.start(inner())

    assert in_callback(loop, lambda starter: starter.start(outer(starter))) == "nothing"


def test_eager_task_runs_in_a_context_that_is_given_also_if_it_is_empty(loop: asyncio.AbstractEventLoop) -> None:
    """As the requests of a session do: each in its own context, never in that of whoever made the starter."""

    async def work() -> str:
        return seen.get()

    async def main() -> list[str]:
        seen.set("whoever made the starter")
        starter = EagerStarter(asyncio.get_running_loop(), "test")
        given = Context()
        given.run(seen.set, "given")
        return [await starter.start(work(), each) for each in (Context(), given)]

    assert loop.run_until_complete(main()) == ["nothing", "given"]


def test_eager_task_inside_a_task_takes_its_first_step_at_once(loop: asyncio.AbstractEventLoop) -> None:
    async def inner() -> asyncio.Task[object] | None:
        return asyncio.current_task()

    async def main() -> None:
        current = asyncio.current_task()
        task = EagerStarter(asyncio.get_running_loop(), "test").start(inner())
        assert task.done()
        assert task.result() is task
        assert asyncio.current_task() is current

    loop.run_until_complete(main())


def test_eager_task_inside_a_task_is_started_all_the_same(loop: asyncio.AbstractEventLoop) -> None:
    async def inner() -> str:
        await asyncio.sleep(0)
        return "inner"

    async def main() -> tuple[str, bool]:
        current = asyncio.current_task()
        task = EagerStarter(asyncio.get_running_loop(), "test").start(inner())
        return await task, asyncio.current_task() is current

    assert loop.run_until_complete(main()) == ("inner", True)


def test_eager_task_can_be_cancelled_after_its_first_step(loop: asyncio.AbstractEventLoop) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    def act(starter: EagerStarter) -> "asyncio.Task[None]":
        task = starter.start(work())
        task.cancel()
        return task

    with pytest.raises(asyncio.CancelledError):
        in_callback(loop, act)
    assert ended == ["cancelled"]


def test_eager_task_keeps_what_its_first_step_raises(loop: asyncio.AbstractEventLoop) -> None:
    async def work() -> None:
        raise KeyError("first step")

    def act(starter: EagerStarter) -> object:
        task = starter.start(work())
        assert task.done()
        return task.exception()

    assert isinstance(in_callback(loop, act), KeyError)


def test_eager_start_leaves_the_loop_as_it_was(loop: asyncio.AbstractEventLoop) -> None:
    def act(starter: EagerStarter) -> None:
        with pytest.raises(TypeError):
            starter.start("no coroutine")  # type: ignore[arg-type] # on purpose
        assert "call_soon" not in vars(loop)

    in_callback(loop, act)
    assert "call_soon" not in vars(loop)


def test_eager_start_lets_a_finalizer_schedule_callbacks(loop: asyncio.AbstractEventLoop) -> None:
    called: list[str] = []

    class Finalized:
        """Garbage whose finalizer runs whenever the collector does."""

        def __init__(self) -> None:
            self.cycle = self

        def __del__(self) -> None:
            loop.call_soon(called.append, "finalizer")

    class Collecting:
        """A name that runs the collector while the task is being made."""

        def __str__(self) -> str:
            gc.collect()
            return "test"

    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    def act(_: EagerStarter) -> "asyncio.Task[str]":
        Finalized()
        return EagerStarter(loop, Collecting()).start(work())  # type: ignore[arg-type] # on purpose

    assert in_callback(loop, act) == "done"
    assert called == ["finalizer"]
