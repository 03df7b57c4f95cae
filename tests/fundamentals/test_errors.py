"""When a tool fails: what it says on purpose reaches the caller, what it says by accident does not."""

import asyncio
import logging

import pytest

from toolhall import ToolFailed, ToolhallError, tool
from toolhall.testing import Client


async def test_tool_failed_message_reaches_the_caller() -> None:
    @tool
    def book() -> None:
        raise ToolFailed("the hotel is full; try another day")

    async with Client(book) as client:
        with pytest.raises(ToolFailed, match="the hotel is full; try another day"):
            await client.call(book)


async def test_tool_failed_detail_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def book() -> None:
        raise ToolFailed("the hotel is full", detail="room 101")

    async with Client(book) as client:
        with pytest.raises(ToolFailed) as caught:
            await client.call(book)
    assert "room 101" not in str(caught.value)
    assert "room 101" in caplog.text


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, OSError, asyncio.CancelledError, SystemExit])
async def test_other_exception_text_is_only_logged(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def leak() -> None:
        raise error("password=hunter2")

    async with Client(leak) as client:
        with caplog.at_level(logging.ERROR), pytest.raises(ToolFailed) as caught:
            await client.call(leak)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in caught.value.message
    assert "hunter2" in caplog.text


async def test_sync_tool_exception_text_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def leak() -> None:
        raise StopIteration("password=hunter2")

    async with Client(leak) as client:
        with pytest.raises(ToolFailed) as caught:
            await client.call(leak)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" in caplog.text


async def test_error_message_has_the_call_id(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def fail() -> None:
        raise ValueError

    async with Client(fail) as client:
        with pytest.raises(ToolFailed, match="the server's log has the details under call ") as caught:
            await client.call(fail)
    assert caught.value.message.rpartition(" ")[2] in caplog.text


async def test_every_error_is_a_toolhall_error() -> None:
    @tool
    def fail() -> None:
        raise ValueError

    async with Client(fail) as client:
        with pytest.raises(ToolhallError):
            await client.call(fail)
        with pytest.raises(ToolhallError):
            await client.call_named("fail", {"extra": 1})
        with pytest.raises(ToolhallError):
            await client.call_named("other", {})


async def test_hall_continues_after_a_failure() -> None:
    @tool
    def divide(a: int, b: int) -> float:
        return a / b

    async with Client(divide) as client:
        with pytest.raises(ToolFailed):
            await client.call(divide, 1, 0)
        assert await client.call(divide, 1, 2) == 0.5


async def test_error_message_has_no_terminal_escapes() -> None:
    @tool
    def fail() -> None:
        raise ToolFailed("\x1b[31mred\x1b[0m alert")

    async with Client(fail) as client:
        with pytest.raises(ToolFailed) as caught:
            await client.call(fail)
    assert (caught.value.message, str(caught.value)) == ("red alert", "red alert")
