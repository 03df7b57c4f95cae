"""Exactly one record for every call, however it ends; digests, never values."""

import asyncio
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.parts import Clock, call_of
from toolhall.app import Toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.content import Reply, Text
from toolhall.model.errors import ToolFailed, Unavailable
from toolhall.model.exchange import Asking, CallTool
from toolhall.model.question import Roots
from toolhall.model.record import Record
from toolhall.pipeline.audit import Audit
from toolhall.stores.journal import MemoryJournal

CANARY = "hunter2"


@tool
async def succeed(text: str = "") -> str:
    return f"{CANARY} {text}"


@tool
async def say_error() -> Reply:
    return Reply((Text(CANARY),), is_error=True)


@tool
async def fail() -> None:
    raise ToolFailed(CANARY)


@tool
async def crash() -> None:
    raise ValueError(CANARY)


@tool
async def unavailable() -> None:
    raise Unavailable(CANARY)


@tool(timeout=0.01)
async def hang() -> None:
    await asyncio.Event().wait()


@tool
async def wait() -> None:
    await asyncio.Event().wait()


@tool
async def ask(ctx: Context) -> None:
    raise Asking({"where": Roots()})


@tool
async def lie() -> int:
    return CANARY  # type: ignore[return-value]


@tool(level=9)
async def risky() -> None: ...


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    tools = (succeed, say_error, fail, crash, unavailable, hang, wait, ask, lie, risky)
    with Toolhall(*tools, config=Config(calls_per_second=0.001, call_burst=100)) as hall:
        yield hall


def records(hall: Toolhall) -> list[Record]:
    assert isinstance(hall.journal, MemoryJournal)
    return list(hall.journal.records)


async def answer(hall: Toolhall, name: str, caller: Caller = LOCAL, **arguments: Any) -> Any:
    return await hall.hall.answer(CallTool(name, arguments, "test", 42), caller)


WAYS_TO_END = [
    ("succeed", "ok"),
    ("say_error", "tool_error"),
    ("fail", "ToolFailed"),
    ("crash", "Crashed"),
    ("unavailable", "Unavailable"),
    ("hang", "TimedOut"),
    ("ask", "asked"),
    ("lie", "BadOutput"),
    ("risky", "NeedsVerification"),
    ("missing", "NotFound"),
]


@pytest.mark.parametrize(("name", "outcome"), WAYS_TO_END)
async def test_one_record_says_how_it_ended(hall: Toolhall, name: str, outcome: str) -> None:
    await answer(hall, name)
    (record,) = records(hall)
    assert record.outcome == outcome
    assert record.tool == ("missing" if name == "missing" else f"test_audit.{name}@0.1.0")
    assert (record.caller, record.dialect, record.bytes_in) == ("local", "test", 42)
    assert CANARY not in str(record)


async def test_refused_arguments_are_recorded(hall: Toolhall) -> None:
    await answer(hall, "succeed", text=7)
    (record,) = records(hall)
    assert (record.outcome, record.tool) == ("BadArguments", "test_audit.succeed@0.1.0")


async def test_a_limited_call_is_recorded(hall: Toolhall) -> None:
    for _ in range(101):
        await answer(hall, "succeed")
    assert [record.outcome for record in records(hall)] == ["ok"] * 100 + ["Limited"]


async def test_a_stranger_is_recorded(hall: Toolhall) -> None:
    await answer(hall, "succeed", Caller("stranger"))
    (record,) = records(hall)
    assert (record.caller, record.outcome, record.grant) == ("stranger", "Unauthenticated", None)


async def test_a_cancelled_call_is_recorded(hall: Toolhall) -> None:
    task = asyncio.ensure_future(answer(hall, "wait"))
    await asyncio.sleep(0)
    assert records(hall) == []
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (record,) = records(hall)
    assert record.outcome == "Cancelled"


async def test_the_record_names_the_grant_the_time_and_the_size(hall: Toolhall) -> None:
    await answer(hall, "succeed", text="x")
    (record,) = records(hall)
    assert record.grant == "profile:local"
    assert record.time > 1.7e9
    assert record.duration_us >= 0
    assert record.bytes_out == len(f'"{CANARY} x"')
    assert record.call.endswith("-1")


async def test_arguments_are_kept_as_a_digest_only(hall: Toolhall) -> None:
    await answer(hall, "succeed", text=CANARY)
    (record,) = records(hall)
    assert record.arguments_sha256 == hashlib.sha256(b'{"text":"hunter2"}').hexdigest()
    assert CANARY not in str(record)


def test_the_duration_is_in_microseconds() -> None:
    journal, timer = MemoryJournal(), Clock(1_000.25)
    Audit(journal, Clock(7.0), timer).write(call_of(), None, "ok")
    (record,) = journal.records
    assert (record.time, record.duration_us, record.bytes_out) == (7.0, 250_000, 0)


@pytest.mark.parametrize("name", ["fail", "missing", "ask"])
async def test_what_did_not_end_well_sent_nothing(hall: Toolhall, name: str) -> None:
    await answer(hall, name)
    (record,) = records(hall)
    assert record.bytes_out == 0


async def test_a_long_name_is_cut(hall: Toolhall) -> None:
    await answer(hall, "x" * 1_000)
    (record,) = records(hall)
    assert len(record.tool) == 128


async def test_ids_never_repeat(hall: Toolhall) -> None:
    for _ in range(50):
        await answer(hall, "succeed")
    assert len({record.call for record in records(hall)}) == 50
