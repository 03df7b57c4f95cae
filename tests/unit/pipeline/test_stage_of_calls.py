"""A record names the stage in which its call ended, for each of the ten, and the times of a call's stages add up."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.builders import Clock
from toolhall.app import Toolhall
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.config import Config
from toolhall.model.call_records import CALL_STAGES, AuditRecord, CallStage
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import ToolhallError, Unavailable
from toolhall.model.messages import CallTool, InputRequiredSignal, Roots
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.stage_times import FOLLOWING_CALLS, SAMPLED_CALLS, StageTimes
from toolhall.stores.audit.journal import MemoryJournal

ELSEWHERE = Caller("elsewhere", scopes=frozenset({"tools:Other"}), proof="token")  # may see the tools
SLOW_SECONDS = 0.02


@tool
async def succeed(text: str = "") -> str:
    return text


@tool(level=5)
async def sell() -> str:
    return "sold"


@tool(level=9)
async def risky() -> None: ...


@tool(secrets=["MISSING_SECRET"])
async def needy() -> None: ...


@tool
async def crash() -> None:
    raise ValueError


@tool
async def limited() -> None:
    raise Unavailable("the stage is run, whatever the tool raises")


@tool
async def ask(ctx: Context) -> None:
    raise InputRequiredSignal({"where": Roots()})


@tool
async def lie() -> int:
    return "no number"  # type: ignore[return-value]


@tool
async def slow() -> str:
    await asyncio.sleep(SLOW_SECONDS)
    return "done"


@tool
async def wait() -> None:
    await asyncio.Event().wait()


TOOLS = (succeed, sell, risky, needy, crash, limited, ask, lie, slow, wait)


def new_hall(**config: Any) -> Toolhall:
    hall = Toolhall(*TOOLS, config=Config(**config))
    hall.dispatcher.watch_calls(watched=True)
    return hall


@pytest.fixture
def hall() -> Iterator[Toolhall]:
    with new_hall() as hall:
        yield hall


def records(hall: Toolhall) -> list[AuditRecord]:
    assert isinstance(hall.journal, MemoryJournal)
    return list(hall.journal.records)


async def answer(hall: Toolhall, name: str, caller: Caller = LOCAL, **arguments: Any) -> Any:
    return await hall.dispatcher.answer(CallTool(name, arguments, "test"), caller)


async def end_of(hall: Toolhall, name: str, caller: Caller = LOCAL, **arguments: Any) -> AuditRecord:
    """Call a tool; the record of how it ended."""
    await answer(hall, name, caller, **arguments)
    return records(hall)[-1]


async def refused_by_limit() -> AuditRecord:
    with new_hall(calls_per_second=0.001, call_burst=1) as hall:
        await answer(hall, "succeed")
        return await end_of(hall, "succeed")


async def guesses_too_often() -> AuditRecord:
    with new_hall(calls_per_second=0.001, call_burst=1) as hall:
        await answer(hall, "missing")
        return await end_of(hall, "missing")


async def refused_by_audit() -> AuditRecord:
    """The intent of a call that changes something cannot be written."""
    with new_hall() as hall:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(MemoryJournal, "behind", ("a record is missing",))
            await answer(hall, "sell")
        return records(hall)[-1]


async def broken_in_sanitize() -> AuditRecord:
    with new_hall() as hall, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sanitize, "__call__", Clock.__call__)
        return await end_of(hall, "succeed")


async def cancelled() -> AuditRecord:
    with new_hall() as hall:
        task = asyncio.ensure_future(answer(hall, "wait"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return records(hall)[-1]


def called(name: str, caller: Caller = LOCAL, **arguments: Any) -> Callable[[], Coroutine[Any, Any, AuditRecord]]:
    async def call() -> AuditRecord:
        with new_hall() as hall:
            return await end_of(hall, name, caller, **arguments)

    return call


WAYS: list[tuple[CallStage, str, Callable[[], Coroutine[Any, Any, AuditRecord]]]] = [
    ("find", "NotFound", called("missing")),
    ("authorize", "Denied", called("succeed", ELSEWHERE)),
    ("limit", "Limited", refused_by_limit),
    ("limit", "Limited", guesses_too_often),
    ("validate", "BadArguments", called("succeed", text=7)),
    ("verify", "NeedsVerification", called("risky")),
    ("equip", "NeedsRequirement", called("needy")),
    ("run", "Crashed", called("crash")),
    ("run", "Unavailable", called("limited")),
    ("run", "asked", called("ask")),
    ("run", "Cancelled", cancelled),
    ("check", "BadOutput", called("lie")),
    ("sanitize", "Broken", broken_in_sanitize),
    ("audit", "Unavailable", refused_by_audit),
    ("audit", "ok", called("succeed")),
    ("audit", "ok", called("sell")),
]


def test_there_is_a_way_to_end_in_each_stage() -> None:
    assert {stage for stage, _, _ in WAYS} == set(CALL_STAGES)


@pytest.mark.parametrize(
    ("stage", "outcome", "end"),
    WAYS,
    ids=[f"{stage}-{outcome}-{number}" for number, (stage, outcome, _) in enumerate(WAYS)],
)
async def test_record_names_the_stage_in_which_the_call_ended_and_its_times_add_up(
    stage: CallStage, outcome: str, end: Callable[[], Coroutine[Any, Any, AuditRecord]]
) -> None:
    record = await end()
    assert (record.stage, record.outcome) == (stage, outcome)
    assert record.stages_us is not None
    assert len(record.stages_us) == len(CALL_STAGES)
    assert min(record.stages_us) >= 0
    assert sum(record.stages_us) == record.duration_us
    unreached = CALL_STAGES[CALL_STAGES.index(stage) + 1 : -1]  # the audit has its time in every call
    assert {record.stages_us[CALL_STAGES.index(each)] for each in unreached} <= {0}


async def test_time_of_the_run_stage_contains_the_wait_of_the_tool(hall: Toolhall) -> None:
    record = await end_of(hall, "slow")
    assert record.stages_us is not None
    assert record.stages_us[CALL_STAGES.index("run")] >= SLOW_SECONDS * 1e6
    assert record.stages_us[CALL_STAGES.index("run")] <= record.duration_us


async def test_intent_has_neither_a_stage_nor_times(hall: Toolhall) -> None:
    await answer(hall, "sell")
    intent, _ = records(hall)
    assert (intent.phase, intent.stage, intent.stages_us) == ("intent", None, None)


async def test_call_rejected_by_its_dialect_ended_before_a_tool_was_found(hall: Toolhall) -> None:
    hall.dispatcher.refuse(CallTool("succeed", {}, "test"), LOCAL, ToolhallError("not readable"))
    assert records(hall)[-1].stage == "find"


async def test_repeated_call_passed_all_stages_that_it_needs(hall: Toolhall) -> None:
    assert await hall.dispatcher.record_repeat(CallTool("succeed", {}, "test"), LOCAL) is None
    assert await hall.dispatcher.record_repeat(CallTool("succeed", {"text": 7}, "test"), LOCAL) is not None
    assert [record.stage for record in records(hall)] == ["audit", "validate"]


async def test_without_a_watcher_the_times_of_few_calls_are_taken(hall: Toolhall) -> None:
    hall.dispatcher.watch_calls(watched=False)
    for _ in range(2 * SAMPLED_CALLS):
        await answer(hall, "succeed")
    assert sum(record.stages_us is not None for record in records(hall)) == 2
    assert {record.stage for record in records(hall)} == {"audit"}


@pytest.mark.parametrize("bad", [("succeed", {"text": 7}), ("crash", {}), ("sell", {})])
async def test_the_times_of_calls_after_one_that_did_not_go_well_are_taken(
    hall: Toolhall, bad: tuple[str, dict[str, Any]]
) -> None:
    """Such calls come again; with the times of the next ones it is seen where they stop, and then few are taken."""
    hall.dispatcher.watch_calls(watched=False)
    name, arguments = bad
    caller = ELSEWHERE if name == "sell" else LOCAL
    await hall.dispatcher.answer(CallTool(name, arguments, "test"), caller)
    assert records(hall)[-1].stages_us is None
    await hall.dispatcher.answer(CallTool(name, arguments, "test"), caller)
    again = records(hall)[-1]
    assert again.outcome != "ok"
    assert again.stages_us is not None
    assert sum(again.stages_us) == again.duration_us
    before = len(records(hall))
    for _ in range(3 * FOLLOWING_CALLS):
        await answer(hall, "succeed")
    assert sum(record.stages_us is not None for record in records(hall)[before:]) == FOLLOWING_CALLS - 1


@given(
    st.lists(st.tuples(st.sampled_from(CALL_STAGES), st.floats(0, 1e3)), max_size=30),
    st.floats(0, 1e9),
)
def test_stage_times_add_up_to_the_duration_whatever_was_entered_when(
    entered: list[tuple[CallStage, float]], start: float
) -> None:
    clock = Clock(start)
    times = StageTimes(start, clock)
    for stage, seconds in entered:
        times.enter(stage)
        clock.now += seconds
    duration_us = int((clock.now - start) * 1e6)
    found = times.finish(clock.now, duration_us)
    assert sum(found) == duration_us
    assert min(found) >= 0
    for stage in CALL_STAGES:
        spent = sum(seconds for each, seconds in entered if each == stage)
        assert found[CALL_STAGES.index(stage)] == pytest.approx(spent * 1e6, abs=2 + start * 1e-8)
