"""The dispatcher: it answers every request, and never raises."""

import asyncio
import logging
import time
from typing import Any

import pytest

from tests.unit.builders import Clock, RecordingLink, entry_named, entry_of
from toolhall.authoring.context import Context
from toolhall.authoring.declaration import tool
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.errors import Broken, Malformed, NotFound, Problem, ToolFailed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import (
    CallTool,
    CompletedCall,
    InputRequired,
    InputRequiredSignal,
    ListTools,
    ProgressEvent,
    Roots,
    ToolPage,
)
from toolhall.model.secret import Secret
from toolhall.pipeline.access_rules import NoRules
from toolhall.pipeline.audit import Audit
from toolhall.pipeline.dispatcher import Dispatcher
from toolhall.pipeline.equip import Equip
from toolhall.pipeline.find import Authorize, Find
from toolhall.pipeline.limit import Limit, RateLimits
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.rate_buckets import Rate
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Check, Validate
from toolhall.pipeline.verify import Verify
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry
from toolhall.stores.audit.journal import MemoryJournal

STRANGER = Caller("stranger", proof="key")
NAMES = ["find", "authorize", "limit", "validate", "verify", "equip", "run", "check", "sanitize"]


class DispatcherHarness:
    """A dispatcher with real stages, some of them replaced by the test."""

    def __init__(self, *entries: Entry, **replaced: Any) -> None:
        self.journal, self.registry, clock, policy = MemoryJournal(), Registry(2), Clock(), LevelPolicy(clock=Clock())
        self.registry.add(entries)
        self.stages: dict[str, Any] = {
            "find": Find(self.registry, policy, time.time),
            "authorize": Authorize(policy),
            "limit": Limit(RateLimits(caller=Rate(100, 100)), clock),
            "validate": Validate(ProcessValidator()),
            "verify": Verify(policy),
            "equip": Equip(),
            "run": Run(10),
            "check": Check(1_000_000),
            "sanitize": Sanitize(),
            "audit": Audit(self.journal, clock, clock),
        }
        pipeline = Pipeline(Stages(**{**self.stages, **replaced}))
        ids = iter(range(1, 1_000))
        self.hall = Dispatcher(self.registry, policy, pipeline, new_id=lambda: f"call-{next(ids)}", timer=clock)

    async def call(self, name: str = "pick", caller: Caller = LOCAL, **arguments: Any) -> Any:
        return await self.hall.answer(CallTool(name, arguments, "test"), caller)


async def test_dispatcher_answers_a_call_with_its_tool_and_result() -> None:
    @tool
    async def pick(n: int) -> int:
        return n + 1

    with entry_of(pick) as entry:
        answer = await DispatcherHarness(entry).call(n=1)
    assert isinstance(answer, CompletedCall)
    assert (answer.tool.name, answer.result.encoded) == ("pick", b"2")


async def test_dispatcher_returns_errors_of_stages_as_answers() -> None:
    answer = await DispatcherHarness().call("missing")
    assert isinstance(answer, NotFound)


async def test_dispatcher_returns_input_requests_of_a_tool_as_answers() -> None:
    @tool
    async def pick() -> None:
        raise InputRequiredSignal({"where": Roots()})

    with entry_of(pick) as entry:
        assert await DispatcherHarness(entry).call() == InputRequired({"where": Roots()})


async def test_dispatcher_logs_the_detail_of_an_error(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def pick() -> None:
        raise ToolFailed("it is full", detail="room 101")

    with entry_of(pick) as entry:
        answer = await DispatcherHarness(entry).call()
    assert isinstance(answer, ToolFailed)
    assert "ToolFailed: room 101" in caplog.text


async def test_dispatcher_logs_nothing_for_an_error_without_detail(caplog: pytest.LogCaptureFixture) -> None:
    await DispatcherHarness().call("missing")
    assert not caplog.records


async def test_dispatcher_awaits_validation_outside_the_event_loop() -> None:
    @tool
    async def pick(n: int) -> int:
        return n

    class WaitingValidator(ProcessValidator):
        async def problems(self, schema: JsonObject, value: Json, size: int) -> list[Problem]:
            await asyncio.sleep(0)
            return []

    with entry_of(pick) as entry:
        hall = DispatcherHarness(entry, validate=Validate(WaitingValidator())).hall
        answer = await hall.answer(CallTool("pick", {"n": 1}, "test", 10**8), LOCAL)
    assert isinstance(answer, CompletedCall)


class RaisingStage:
    """A stage that raises."""

    def __call__(self, *_: object) -> Any:
        raise ZeroDivisionError("hunter2")


@pytest.mark.parametrize("stage", NAMES)
async def test_dispatcher_answers_broken_and_logs_when_a_stage_raises(
    stage: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = DispatcherHarness(entry_named(), **{stage: RaisingStage()})
    with caplog.at_level(logging.ERROR):
        answer = await harness.call()
    assert isinstance(answer, Broken)
    assert "hunter2" not in answer.message
    assert "internal error while answering CallTool" in caplog.text
    assert "hunter2" in caplog.text
    (record,) = harness.journal.records
    assert record.outcome == "Broken"


async def test_dispatcher_answers_broken_and_logs_when_the_journal_fails(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryJournal):
        def append(self, record: object) -> None:
            raise OSError("no space left")

    answer = await DispatcherHarness(entry_named(), audit=Audit(Full(), Clock(), Clock())).call()
    assert isinstance(answer, Broken)
    assert "no space left" in caplog.text


async def test_dispatcher_propagates_cancellation() -> None:
    @tool
    async def pick() -> None:
        await asyncio.Event().wait()

    with entry_of(pick) as entry:
        task = asyncio.ensure_future(DispatcherHarness(entry).call())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_dispatcher_sends_progress_events_to_the_client_link_of_the_call() -> None:
    @tool
    async def pick(ctx: Context) -> None:
        ctx.progress(1)

    link = RecordingLink()
    with entry_of(pick) as entry:
        await DispatcherHarness(entry).hall.answer(CallTool("pick", {}, "test"), LOCAL, link)
    assert link.events == [ProgressEvent(1, None, None)]


async def test_dispatcher_lists_tools_in_pages_with_a_cursor() -> None:
    hall = DispatcherHarness(*(entry_named(name) for name in "abc")).hall
    first = await hall.answer(ListTools(), LOCAL)
    assert isinstance(first, ToolPage)
    second = await hall.answer(ListTools(first.next_cursor), LOCAL)
    assert isinstance(second, ToolPage)
    assert [tool.name for tool in (*first.tools, *second.tools)] == ["a", "b", "c"]
    assert (first.shared, second.next_cursor) == (True, None)


async def test_dispatcher_answers_an_invalid_cursor_with_malformed() -> None:
    assert isinstance(await DispatcherHarness().hall.answer(ListTools("!"), LOCAL), Malformed)


async def test_dispatcher_lists_no_hidden_tools_and_marks_the_page_as_not_shared() -> None:
    hall = DispatcherHarness(entry_named(level=4)).hall
    page = await hall.answer(ListTools(), STRANGER)
    assert isinstance(page, ToolPage)
    assert (page.tools, page.shared) == ((), False)
    assert hall.find("pick", STRANGER) is None
    found = hall.find("pick", LOCAL)
    assert found is not None
    assert found.name == "pick"


def test_dispatcher_cached_for_is_shared_by_equal_callers_and_cleared_by_new_rules() -> None:
    hall, made = DispatcherHarness().hall, list[str]()
    narrow = Caller("stranger", proof="key", scopes=frozenset({"tools:Other"}))
    again = Caller("stranger", proof="key", credential=Secret("its second key"))
    for caller in (STRANGER, narrow, again, STRANGER, narrow):
        hall.cached_for(caller, "list", lambda: made.append(""))
    assert len(made) == 2
    hall.set_rules(NoRules())
    hall.cached_for(STRANGER, "list", lambda: made.append(""))
    assert len(made) == 3


async def test_dispatcher_runs_the_stages_in_order() -> None:
    order: list[str] = []

    def noted(name: str, stage: Any) -> Any:
        def note(given: Any) -> Any:
            order.append(name)
            return stage(given)

        vars(note)["release"] = getattr(stage, "release", None)  # of the limit stage
        return note

    harness = DispatcherHarness(entry_named())
    noting = {name: noted(name, stage) for name, stage in harness.stages.items() if name in NAMES}
    assert isinstance(await DispatcherHarness(**noting).call(), CompletedCall)
    assert order == NAMES
