"""Sync tools that never return: what their threads cost, and what becomes of the tool."""

import asyncio

import pytest

from tests.threats import isolated_tools as tools
from tests.unit.builders import call_of
from toolhall.authoring.declaration import tool
from toolhall.authoring.definition import definitions_of
from toolhall.execution.deadline import Deadline
from toolhall.execution.executor import ExecutorLimits, FunctionExecutor
from toolhall.execution.function_runner import MAX_ABANDONED_THREADS, FunctionRunner
from toolhall.execution.thread_pool import ThreadPool
from toolhall.model.errors import Unavailable


async def wait_for_threads(threads: ThreadPool) -> None:
    while threads.abandoned:  # noqa: ASYNC110 - what ends is a thread
        await asyncio.sleep(0)


async def abandon_threads(runner: FunctionRunner, count: int) -> None:
    """So many calls that hang until their time is up."""
    definition = next(definitions_of(tools.stuck))
    for _ in range(count):
        deadline = Deadline(0.01)
        task = asyncio.ensure_future(_timed(runner.run(definition.tool, call_of(), {"hang": True}, deadline), deadline))
        with pytest.raises(asyncio.CancelledError):
            await task


async def _timed(work: object, deadline: Deadline) -> object:
    deadline.start()
    try:
        return await work  # type: ignore[misc]
    finally:
        deadline.stop()


@pytest.mark.threat("R11")
async def test_R11_sync_tool_that_hangs_in_four_threads_is_moved_to_a_worker_process() -> None:  # noqa: N802
    """After four threads were lost, the next call of a tool runs in a process, which can be killed."""
    executor = FunctionExecutor(ExecutorLimits(threads=16, default_timeout=60), lambda _: None)
    definition = next(definitions_of(tools.stuck))
    runner = executor.runner_for(definition)
    assert isinstance(runner, FunctionRunner)
    try:
        here = await runner.run(definition.tool, call_of(), {"hang": False}, Deadline(60))
        await abandon_threads(runner, MAX_ABANDONED_THREADS)
        assert await runner.run(definition.tool, call_of(), {"hang": False}, Deadline(60)) != here
    finally:
        tools.GATE.set()
        await wait_for_threads(executor.thread_pool)
        tools.GATE.clear()
        executor.close()


@pytest.mark.threat("R11")
async def test_R11_hanging_tool_that_cannot_be_moved_is_unavailable_until_its_threads_return() -> None:  # noqa: N802
    """A tool that no other process can find is unavailable while four of its threads hang, and then works again."""

    @tool
    def stuck(hang: bool) -> bool:
        return tools.GATE.wait(60) if hang else False

    threads = ThreadPool(16)
    definition = next(definitions_of(stuck))
    runner = FunctionRunner(definition.body, threads, lambda: None)
    tool_of = next(definitions_of(tools.stuck)).tool
    try:
        await abandon_threads(runner, MAX_ABANDONED_THREADS)
        with pytest.raises(Unavailable, match="4 earlier calls of this tool still hang"):
            await runner.run(tool_of, call_of(), {"hang": False}, Deadline(60))
        tools.GATE.set()
        await wait_for_threads(threads)
        assert await runner.run(tool_of, call_of(), {"hang": False}, Deadline(60)) is False
    finally:
        tools.GATE.set()
        await wait_for_threads(threads)
        tools.GATE.clear()
        threads.close()
