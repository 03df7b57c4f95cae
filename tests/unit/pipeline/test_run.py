"""Running a tool: deadline, cancellation, and exceptions that tell the caller nothing."""

import asyncio
import contextlib
import logging
import traceback
from collections.abc import Awaitable, Callable

import pytest

from tests.harness.patience import patience
from tests.unit.builders import call_of, tool_named
from toolhall.authoring.context import PausableDeadline
from toolhall.egress.addresses import EgressRefused
from toolhall.egress.urls import parse_url
from toolhall.execution.worker_protocol import WorkerToolError
from toolhall.model.caller import Allow
from toolhall.model.errors import Crashed, Denied, TimedOut, ToolFailed, ToolhallError
from toolhall.model.json import JsonObject
from toolhall.model.messages import Call, InputRequiredSignal, Roots
from toolhall.model.tool import Tool
from toolhall.pipeline.run import Run
from toolhall.pipeline.states import Equipped, Raw
from toolhall.registry.snapshot import compile_entry


class CoroutineRunner:
    """A runner whose tool is a coroutine function of the test."""

    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work

    def run(self, tool: Tool, call: Call, arguments: JsonObject, deadline: PausableDeadline) -> Awaitable[object]:
        return self._work()


def equipped(work: Callable[[], Awaitable[object]], timeout: float | None = None) -> Equipped:
    return Equipped(
        call_of(), compile_entry(tool_named("pick", timeout=timeout), CoroutineRunner(work)), Allow("test"), {}
    )


async def forever() -> None:
    await asyncio.Event().wait()


async def test_run_returns_the_value_of_the_tool() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return "done"

    raw = await Run(10)(equipped(work))
    assert isinstance(raw, Raw)
    assert raw.value == "done"


async def test_run_default_deadline_raises_timed_out() -> None:
    with pytest.raises(TimedOut, match=r"the tool did not finish within 0\.02 seconds"):
        await Run(0.02)(equipped(forever))


async def test_run_timeout_of_the_tool_overrides_the_default_deadline() -> None:
    with pytest.raises(TimedOut, match=r"within 0\.02 seconds"):
        await Run(60)(equipped(forever, timeout=0.02))


async def test_run_deadline_leaves_no_pending_cancellation_in_the_task() -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(TimedOut):
        await Run(0.02)(equipped(forever))
    assert task.cancelling() == 0
    await asyncio.sleep(0)


async def test_run_tool_past_its_deadline_can_clean_up() -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    with pytest.raises(TimedOut):
        await Run(0.02)(equipped(work))
    assert cleaned == ["up"]


async def test_run_returns_the_value_of_a_tool_that_suppresses_its_deadline_and_finishes() -> None:
    async def work() -> str:
        with contextlib.suppress(asyncio.CancelledError):
            await forever()
        return "partial"

    task = asyncio.current_task()
    assert task is not None
    assert (await Run(0.02)(equipped(work))).value == "partial"
    assert task.cancelling() == 0


async def test_run_cancels_a_tool_that_ignores_its_deadline_a_second_time() -> None:
    async def work() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            await forever()

    async with asyncio.timeout(patience()):
        with pytest.raises(TimedOut):
            await Run(0.02)(equipped(work))


async def test_run_cancels_the_deadline_timer_of_a_finished_tool() -> None:
    before = len(getattr(asyncio.get_running_loop(), "_scheduled", []))

    async def work() -> None:
        await asyncio.sleep(0)

    await Run(1_000)(equipped(work))
    left = [timer for timer in getattr(asyncio.get_running_loop(), "_scheduled", []) if not timer.cancelled()]
    assert len(left) <= before


async def test_run_cancellation_unwinds_the_tool_and_propagates() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            ended.append("ended")

    task = asyncio.ensure_future(Run(60)(equipped(work)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["ended"]


async def test_run_cancellation_before_the_first_step_propagates() -> None:
    task = asyncio.ensure_future(Run(60)(equipped(forever)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "error",
    [
        ValueError("hunter2"),
        KeyError("hunter2"),
        TimeoutError("hunter2"),
        RecursionError("hunter2"),
        asyncio.CancelledError("hunter2"),
        SystemExit("hunter2"),
        BaseExceptionGroup("hunter2", [asyncio.CancelledError("hunter2")]),
        ExceptionGroup("hunter2", [ValueError("hunter2")]),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("waits", [False, True], ids=["at once", "later"])
async def test_run_exception_text_of_a_tool_is_logged_and_not_sent_to_the_caller(
    error: BaseException, waits: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        if waits:
            await asyncio.sleep(0)
        raise error

    with caplog.at_level(logging.ERROR), pytest.raises(ToolFailed) as caught:
        await Run(10)(equipped(work))
    assert caught.value.message == "the tool failed; the server's log has the details under call call-1"
    assert "hunter2" in caplog.text
    assert "Kit.pick@1.0.0 failed in call call-1" in caplog.text


async def test_run_logged_traceback_begins_in_the_tools_code(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ValueError("hunter2")

    with pytest.raises(Crashed):
        await Run(10)(equipped(work))
    assert caplog.text.partition("(most recent call last):\n")[2].startswith(f'  File "{__file__}"')


@pytest.mark.parametrize("explain", [True, False], ids=["local", "server"])
@pytest.mark.parametrize("isolated", [False, True], ids=["here", "in a process"])
async def test_run_refused_egress_names_the_setting_only_when_explain_is_set(explain: bool, isolated: bool) -> None:
    async def work() -> None:
        try:
            parse_url("https://10.1.2.3:8443/wiki")
        except EgressRefused as refused:
            if isolated:
                raise WorkerToolError(traceback.format_exc()) from None
            raise RuntimeError("hunter2") from refused

    with pytest.raises(Crashed) as caught:
        await Run(10, explain=explain)(equipped(work))
    assert ("adds '10.1.2.3:8443' to egress_allow" in caught.value.message) is explain
    assert "hunter2" not in caught.value.message


async def test_run_exception_before_the_first_step_raises_tool_failed(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> Awaitable[object]:
        raise ValueError("hunter2")

    with pytest.raises(ToolFailed) as caught:
        await Run(10)(equipped(work))
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("error", [ToolFailed("the hotel is full"), Denied("not yours")], ids=repr)
async def test_run_passes_toolhall_errors_of_a_tool_on_and_logs_nothing(
    error: ToolhallError, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await Run(10)(equipped(work))
    assert caught.value is error
    assert not caplog.records


async def test_run_removes_escape_sequences_from_the_message_of_a_tool_error() -> None:
    async def work() -> None:
        raise ToolFailed("\x1b[31mred\x07 alert", detail="\x1b[31mfor the log")

    with pytest.raises(ToolFailed) as caught:
        await Run(10)(equipped(work))
    assert (caught.value.message, str(caught.value)) == ("red alert", "red alert")


async def test_run_propagates_the_input_required_signal_of_a_tool() -> None:
    async def work() -> None:
        raise InputRequiredSignal({"where": Roots()})

    with pytest.raises(InputRequiredSignal):
        await Run(10)(equipped(work))


async def test_run_abandons_and_closes_a_tool_that_ignores_every_cancellation() -> None:
    """It is told at its deadline and once more; then the caller is answered, and the tool is driven no further."""
    ended: list[str] = []

    async def stubborn() -> str:
        try:
            while True:
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(3600)
        finally:
            ended.append("closed")

    async with asyncio.timeout(patience()):
        with pytest.raises(TimedOut):
            await Run(0.05)(equipped(stubborn))
    assert ended == ["closed"]
