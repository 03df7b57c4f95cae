"""No secret of a running call comes into the log, however it is raised or logged (threat G8)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.parts import call_of, tool_named
from toolhall.authoring.context import Patience
from toolhall.model.call import Call
from toolhall.model.errors import Crashed, ToolFailed
from toolhall.model.json import JsonObject
from toolhall.model.secret import Secret
from toolhall.model.secret_shapes import HIDDEN
from toolhall.model.tool import Tool
from toolhall.model.verdict import Allow
from toolhall.pipeline.check import Check
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.states import Equipped
from toolhall.registry.entry import compile_entry
from toolhall.runners.redactor import Redactor

SECRET = "Zq7-x9_Kw.v3"


class Doing:
    """A runner whose tool is a coroutine function of the test."""

    def __init__(self, work: Callable[[], Awaitable[object]]) -> None:
        self._work = work

    def run(self, tool: Tool, call: Call, arguments: JsonObject, patience: Patience) -> Awaitable[object]:
        return self._work()


def equipped(work: Callable[[], Awaitable[object]]) -> Equipped:
    entry = compile_entry(tool_named("pick"), Doing(work))
    return Equipped(call_of(), entry, Allow("test", 1), {}, None, Redactor((Secret(SECRET),)))


def said(caplog: pytest.LogCaptureFixture) -> str:
    """Everything that a handler could write of the records."""
    return "".join(f"{record.__dict__}{logging.Formatter().format(record)}" for record in caplog.records)


async def test_an_exception_is_logged_without_it(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        try:
            raise ValueError(SECRET.encode().hex())
        except ValueError:
            error = RuntimeError(f"cannot log in with {SECRET}")
            error.add_note(SECRET)
            raise error from None

    with pytest.raises(Crashed) as failure:
        await Run(10)(equipped(work))
    assert SECRET not in str(failure.value)
    assert SECRET not in said(caplog)
    assert f"RuntimeError: cannot log in with {HIDDEN}" in said(caplog)


@pytest.mark.parametrize("name", ["toolhall", "toolhall.run", "httpx", "a.tools.own"])
async def test_whatever_is_logged_meanwhile(caplog: pytest.LogCaptureFixture, name: str) -> None:
    async def work() -> None:
        logging.getLogger(name).error("%s and %r", SECRET, {"a": SECRET})
        logging.getLogger(name).error("%d", SECRET)  # cannot be written, and must not be printed instead
        await asyncio.to_thread(logging.getLogger(name).error, SECRET)

    await Run(10)(equipped(work))
    assert len(caplog.records) == 3
    assert SECRET not in said(caplog)


async def test_a_refusal_of_the_tools_own(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        raise ToolFailed(f"not with {SECRET}", detail=f"detail {SECRET}", prompt=f"prompt {SECRET}")

    with pytest.raises(ToolFailed) as failure:
        await Run(10)(equipped(work))
    error = failure.value
    assert (error.message, error.detail, error.prompt) == (f"not with {HIDDEN}", f"detail {HIDDEN}", f"prompt {HIDDEN}")
    assert error.args == (f"not with {HIDDEN}",)
    assert not caplog.records


async def test_a_message_that_is_cut_off_in_the_middle_of_it() -> None:
    async def work() -> None:
        raise ToolFailed("x" * (8_000 - 8) + SECRET)

    with pytest.raises(ToolFailed) as failure:
        await Run(10)(equipped(work))
    assert SECRET[:5] not in failure.value.message


async def test_a_result_that_cannot_be_written(caplog: pytest.LogCaptureFixture) -> None:
    class Odd:
        pass

    Odd.__name__ = SECRET

    async def work() -> object:
        return {"a": Odd()}

    raw = await Run(10)(equipped(work))
    with pytest.raises(Exception, match="cannot be written"):
        Check(1_000)(raw)
    assert caplog.records
    assert SECRET not in said(caplog)


async def test_a_result() -> None:
    async def work() -> object:
        return {"a": SECRET}

    raw = await Run(10)(equipped(work))
    assert Sanitize()(Check(1_000)(raw)).encoded == b'{"a":"[redacted]"}'
    assert raw.redactor is not None
    assert raw.redactor.count == 1


async def test_other_calls_log_as_before(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        return None

    await Run(10)(equipped(work))
    logging.getLogger("toolhall.run").error("%s", SECRET)
    assert caplog.records[-1].args == (SECRET,)
