"""The watchdog: silent while the loop turns, and exact about who holds it up."""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.unit.builders import call_of
from toolhall.authoring.declaration import tool
from toolhall.authoring.definition import definitions_of
from toolhall.execution.function_runner import MAX_LOOP_BLOCKS, FunctionRunner
from toolhall.execution.loop_watchdog import CallActivity, Watchdog
from toolhall.execution.thread_pool import ThreadPool
from toolhall.model.caller import Allow
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Equipped
from toolhall.registry.snapshot import Entry, compile_entry


class WarningHandler(logging.Handler):
    """Opens the gate once it has heard a warning."""

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.messages: list[str] = []
        self._gate = gate

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self._gate.set()


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def warning_handler(gate: threading.Event) -> Iterator[WarningHandler]:
    handler = WarningHandler(gate)
    logging.getLogger("toolhall.watchdog").addHandler(handler)
    yield handler
    logging.getLogger("toolhall.watchdog").removeHandler(handler)


@pytest.fixture
async def watched() -> "WatchedLoop":
    return WatchedLoop()


class WatchedLoop:
    """A run with a watchdog over this loop."""

    def __init__(self) -> None:
        self.blocked: list[str] = []
        self.activity = CallActivity()
        self.watchdog = Watchdog(self.activity, Run.tool_of_frame, self.blocked.append)
        self.run = Run(60, self.activity)
        self.watchdog.watch()


def entry_of(function: Callable[..., object]) -> Entry:
    definition = next(definitions_of(function))
    return compile_entry(definition.tool, FunctionRunner(definition.body, ThreadPool(1)))


def equipped(entry: Entry) -> Equipped:
    fields: dict[str, Any] = {
        "call": call_of(),
        "entry": entry,
        "arguments": {},
        "verdict": Allow("test", 1),
        "secrets": (),
    }
    return Equipped(**{name: value for name, value in fields.items() if name in Equipped.__struct_fields__})


@pytest.mark.threat("I7")
async def test_I7_async_tool_that_blocks_the_event_loop_is_named_in_the_log_with_the_fix(  # noqa: N802
    gate: threading.Event, warning_handler: WarningHandler, watched: WatchedLoop
) -> None:
    """The watchdog notices a loop that stands still, and logs the tool, the stack and what to write instead."""

    @tool
    async def freeze() -> None:
        gate.wait(30)

    await watched.run(equipped(entry_of(freeze)))
    watched.watchdog.close()
    (said,) = warning_handler.messages
    assert "tool test_watchdog.freeze@0.1.0 holds up every other call" in said
    assert "write it with 'def' instead of 'async def', or with @tool(isolated=True)" in said
    assert "gate.wait(30)" in said
    assert watched.watchdog.stalls == 1


async def test_watchdog_logs_the_stack_when_other_code_blocks_the_event_loop(
    gate: threading.Event, warning_handler: WarningHandler, watched: WatchedLoop
) -> None:
    watched.activity.started += 1
    watched.activity.wake()
    gate.wait(30)
    watched.watchdog.close()
    assert warning_handler.messages[0].startswith("the loop has not turned for 100 ms; it hangs here:")


async def test_watchdog_logs_nothing_and_leaves_no_thread_after_calls_end(
    watched: WatchedLoop, warning_handler: WarningHandler
) -> None:
    @tool
    async def fine() -> None: ...

    @tool
    async def raises() -> None:
        raise ValueError

    await watched.run(equipped(entry_of(fine)))
    with pytest.raises(Exception, match="the tool failed"):
        await watched.run(equipped(entry_of(raises)))
    assert (watched.activity.started, watched.activity.running) == (2, 0)
    watched.watchdog.close()
    assert not any(thread.name == "toolhall-watchdog" for thread in threading.enumerate())


async def test_watchdog_starts_no_thread_without_a_call(watched: WatchedLoop) -> None:
    assert watched.activity.asleep
    await asyncio.sleep(0)
    assert not any(thread.name == "toolhall-watchdog" for thread in threading.enumerate())
    watched.watchdog.close()


def test_watchdog_ignores_an_event_loop_that_has_ended() -> None:
    async def begin() -> WatchedLoop:
        watched = WatchedLoop()
        watched.activity.started += 1
        watched.activity.wake()
        return watched

    watched = asyncio.run(begin())
    watched.watchdog.close()
    assert watched.watchdog.stalls == 0


async def test_async_tool_that_blocks_the_event_loop_repeatedly_is_moved_to_another_runner() -> None:
    @tool
    async def freeze() -> str:
        return "here"

    @tool
    async def thaw() -> str:
        return "there"

    definition = next(definitions_of(freeze))
    threads = ThreadPool(1)
    elsewhere = FunctionRunner(next(definitions_of(thaw)).body, threads)
    runner = FunctionRunner(definition.body, threads, lambda: elsewhere)
    answers: list[object] = []
    for _ in range(MAX_LOOP_BLOCKS):
        answers.append(await runner.run(definition.tool, call_of(), {}, _NoDeadline()))
        runner.record_loop_block(definition.tool)
    assert answers == ["here"] * MAX_LOOP_BLOCKS
    assert await runner.run(definition.tool, call_of(), {}, _NoDeadline()) == "there"


class _NoDeadline:
    def hold(self) -> AbstractContextManager[None]:
        raise AssertionError("nobody asks")
