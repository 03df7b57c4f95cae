"""Python functions as tools: in the loop, or in a thread."""

import asyncio
import threading
from typing import Any

import pytest

from tests.harness.patience import patience
from tests.unit.builders import RecordingLink, call_of, entry_of
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.execution.deadline import Deadline
from toolhall.model.caller import Caller
from toolhall.model.errors import BadArguments
from toolhall.model.json import JsonObject
from toolhall.model.messages import LogEvent, ProgressEvent
from toolhall.model.secret import Secret
from toolhall.registry.snapshot import Entry


async def run(entry: Entry, arguments: JsonObject | None = None, **of_call: Any) -> object:
    return await entry.runner.run(entry.tool, call_of(arguments=arguments, **of_call), arguments or {}, Deadline(60))


async def test_function_runner_binds_arguments() -> None:
    @tool
    async def add(a: int, b: int = 2) -> int:
        return a + b

    with entry_of(add) as entry:
        assert await run(entry, {"a": 1}) == 3
        assert await run(entry, {"a": 1.0, "b": 3}) == 4


async def test_function_runner_unbindable_arguments_are_refused() -> None:
    @tool
    async def add(a: int) -> int:
        return a

    with entry_of(add) as entry, pytest.raises(BadArguments, match="/a: Expected `int`, got `str`"):
        await run(entry, {"a": "one"})


async def test_function_runner_async_function_runs_in_calling_task() -> None:
    @tool
    async def whose() -> Any:
        return asyncio.current_task()

    with entry_of(whose) as entry:
        assert await run(entry) is asyncio.current_task()


async def test_function_runner_sync_function_runs_in_thread() -> None:
    @tool
    def where() -> Any:
        return threading.current_thread()

    with entry_of(where) as entry:
        assert await run(entry) is not threading.current_thread()


async def test_function_runner_context_has_caller_and_tool() -> None:
    @tool
    async def who(ctx: Context) -> str:
        ctx.log("here")
        return ctx.caller.id

    link = RecordingLink()
    with entry_of(who) as entry:
        assert await run(entry, caller=Caller("ada"), link=link) == "ada"
    assert link.events == [LogEvent("info", "here", "who")]


async def test_function_runner_thread_events_arrive_in_loop() -> None:
    threads: list[threading.Thread] = []

    class Noting(RecordingLink):
        def emit(self, event: object) -> None:
            threads.append(threading.current_thread())

    @tool
    def copy(ctx: Context) -> None:
        ctx.progress(1)
        ctx.progress(2)

    with entry_of(copy) as entry:
        await run(entry, link=Noting())
        await asyncio.sleep(0)
    assert threads == [threading.current_thread()] * 2


async def test_function_runner_thread_can_use_link() -> None:
    @tool
    def able(ctx: Context) -> list[bool]:
        return [ctx.can("elicitation"), ctx.can("roots")]

    with entry_of(able) as entry:
        assert await run(entry, link=RecordingLink()) == [True, False]


@pytest.mark.parametrize("error", [ValueError("x"), StopAsyncIteration("x"), KeyError("x")], ids=repr)
async def test_function_runner_passes_exceptions_through(error: Exception) -> None:
    @tool
    def fail() -> None:
        raise error

    with entry_of(fail) as entry, pytest.raises(type(error)) as caught:
        await run(entry)
    assert caught.value is error


@pytest.mark.parametrize("error", [StopIteration("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
async def test_function_runner_exit_in_thread_does_not_stop_loop(error: BaseException) -> None:
    @tool
    def fail() -> None:
        raise error

    with entry_of(fail) as entry, pytest.raises(RuntimeError, match=f"the tool raised {type(error).__name__}"):
        await run(entry)


async def test_function_runner_cancelled_call_marks_context() -> None:
    started, noticed = threading.Event(), threading.Event()

    @tool
    def dig(ctx: Context) -> None:
        started.set()
        pause = threading.Event()
        while not ctx.cancelled and not pause.wait(0.005):
            pass
        noticed.set()

    with entry_of(dig) as entry:
        task = asyncio.ensure_future(run(entry))
        assert await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(noticed.wait, 10)


async def test_function_runner_late_thread_event_is_dropped() -> None:
    started, release, said = threading.Event(), threading.Event(), threading.Event()

    @tool
    def dig(ctx: Context) -> None:
        started.set()
        release.wait(patience())
        ctx.progress(1)
        said.set()

    link = RecordingLink()
    with entry_of(dig) as entry:
        task = asyncio.ensure_future(run(entry, link=link))
        assert await asyncio.to_thread(started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        assert await asyncio.to_thread(said.wait, 10)
        await asyncio.sleep(0)
    assert link.events == []


async def test_function_runner_events_before_end_arrive() -> None:
    @tool
    def quick(ctx: Context) -> None:
        ctx.progress(1)

    link = RecordingLink()
    with entry_of(quick) as entry:
        await run(entry, link=link)
    assert link.events == [ProgressEvent(1, None, None)]


@pytest.mark.threat("B3")
@pytest.mark.parametrize("is_async", [True, False])
async def test_B3_function_runner_caller_has_no_credential(is_async: bool) -> None:  # noqa: N802
    """A tool knows who calls; the credential stays outside, wherever the tool runs."""

    @tool
    async def known(ctx: Context) -> list[bool]:
        """Whether it sees the caller, and the credential."""
        return [ctx.caller.id == "ada", ctx.caller.credential is not None]

    @tool
    def known_in_thread(ctx: Context) -> list[bool]:
        """The same in a thread."""
        return [ctx.caller.id == "ada", ctx.caller.credential is not None]

    caller = Caller("ada", proof="key", credential=Secret("tk_0123456789"))
    with entry_of(known if is_async else known_in_thread) as entry:
        assert await entry.runner.run(entry.tool, call_of(caller=caller), {}, Deadline(5)) == [True, False]
