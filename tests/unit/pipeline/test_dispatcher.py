"""The one door: it answers, and never raises."""

import asyncio
import logging
import time
from typing import Any

import pytest

from tests.unit.parts import Clock, Hearing, entry_named, entry_of
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
from toolhall.pipeline.limit import Limit, Rate, RateLimits
from toolhall.pipeline.pipeline import Pipeline, Stages
from toolhall.pipeline.policy import LevelPolicy
from toolhall.pipeline.run import Run
from toolhall.pipeline.sanitize import Sanitize
from toolhall.pipeline.validate import Check, Validate
from toolhall.pipeline.verify import Verify
from toolhall.registry.registry import Registry
from toolhall.registry.snapshot import Entry
from toolhall.stores.audit.journal import MemoryJournal

STRANGER = Caller("stranger", proof="key")
NAMES = ["find", "authorize", "limit", "validate", "verify", "equip", "run", "check", "sanitize"]


class Built:
    """A hall of real stages, some of them replaced by the test's own."""

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


async def test_a_call_is_answered_by_its_result_and_its_tool() -> None:
    @tool
    async def pick(n: int) -> int:
        return n + 1

    with entry_of(pick) as entry:
        answer = await Built(entry).call(n=1)
    assert isinstance(answer, CompletedCall)
    assert (answer.tool.name, answer.result.encoded) == ("pick", b"2")


async def test_an_error_is_an_answer() -> None:
    answer = await Built().call("missing")
    assert isinstance(answer, NotFound)


async def test_a_question_is_an_answer() -> None:
    @tool
    async def pick() -> None:
        raise InputRequiredSignal({"where": Roots()})

    with entry_of(pick) as entry:
        assert await Built(entry).call() == InputRequired({"where": Roots()})


async def test_details_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def pick() -> None:
        raise ToolFailed("it is full", detail="room 101")

    with entry_of(pick) as entry:
        answer = await Built(entry).call()
    assert isinstance(answer, ToolFailed)
    assert "ToolFailed: room 101" in caplog.text


async def test_without_details_there_is_nothing_to_log(caplog: pytest.LogCaptureFixture) -> None:
    await Built().call("missing")
    assert not caplog.records


async def test_a_costly_check_is_waited_for() -> None:
    @tool
    async def pick(n: int) -> int:
        return n

    class WaitingValidator(ProcessValidator):
        async def problems(self, schema: JsonObject, value: Json, size: int) -> list[Problem]:
            await asyncio.sleep(0)
            return []

    with entry_of(pick) as entry:
        hall = Built(entry, validate=Validate(WaitingValidator())).hall
        answer = await hall.answer(CallTool("pick", {"n": 1}, "test", 10**8), LOCAL)
    assert isinstance(answer, CompletedCall)


class Raising:
    """A stage with a fault."""

    def __call__(self, *_: object) -> Any:
        raise ZeroDivisionError("hunter2")


@pytest.mark.parametrize("stage", NAMES)
async def test_a_fault_of_ours_is_answered_and_logged(stage: str, caplog: pytest.LogCaptureFixture) -> None:
    built = Built(entry_named(), **{stage: Raising()})
    with caplog.at_level(logging.ERROR):
        answer = await built.call()
    assert isinstance(answer, Broken)
    assert "hunter2" not in answer.message
    assert "internal error while answering CallTool" in caplog.text
    assert "hunter2" in caplog.text
    (record,) = built.journal.records
    assert record.outcome == "Broken"


async def test_a_journal_that_fails_does_not_end_the_server(caplog: pytest.LogCaptureFixture) -> None:
    class Full(MemoryJournal):
        def append(self, record: object) -> None:
            raise OSError("no space left")

    answer = await Built(entry_named(), audit=Audit(Full(), Clock(), Clock())).call()
    assert isinstance(answer, Broken)
    assert "no space left" in caplog.text


async def test_a_cancellation_passes_through() -> None:
    @tool
    async def pick() -> None:
        await asyncio.Event().wait()

    with entry_of(pick) as entry:
        task = asyncio.ensure_future(Built(entry).call())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_events_go_to_the_link_of_the_call() -> None:
    @tool
    async def pick(ctx: Context) -> None:
        ctx.progress(1)

    link = Hearing()
    with entry_of(pick) as entry:
        await Built(entry).hall.answer(CallTool("pick", {}, "test"), LOCAL, link)
    assert link.events == [ProgressEvent(1, None, None)]


async def test_tools_are_listed_in_pages() -> None:
    hall = Built(*(entry_named(name) for name in "abc")).hall
    first = await hall.answer(ListTools(), LOCAL)
    assert isinstance(first, ToolPage)
    second = await hall.answer(ListTools(first.next_cursor), LOCAL)
    assert isinstance(second, ToolPage)
    assert [tool.name for tool in (*first.tools, *second.tools)] == ["a", "b", "c"]
    assert (first.shared, second.next_cursor) == (True, None)


async def test_a_bad_cursor_is_an_answer() -> None:
    assert isinstance(await Built().hall.answer(ListTools("!"), LOCAL), Malformed)


async def test_a_stranger_sees_nothing_and_its_page_is_its_own() -> None:
    hall = Built(entry_named(level=4)).hall
    page = await hall.answer(ListTools(), STRANGER)
    assert isinstance(page, ToolPage)
    assert (page.tools, page.shared) == ((), False)
    assert hall.find("pick", STRANGER) is None
    found = hall.find("pick", LOCAL)
    assert found is not None
    assert found.name == "pick"


def test_what_is_made_for_one_caller_outlives_another_of_its_credentials() -> None:
    hall, made = Built().hall, list[str]()
    narrow = Caller("stranger", proof="key", scopes=frozenset({"tools:Other"}))
    again = Caller("stranger", proof="key", credential=Secret("its second key"))
    for caller in (STRANGER, narrow, again, STRANGER, narrow):
        hall.cached_for(caller, "list", lambda: made.append(""))
    assert len(made) == 2
    hall.set_rules(NoRules())
    hall.cached_for(STRANGER, "list", lambda: made.append(""))
    assert len(made) == 3


async def test_stages_come_in_their_order() -> None:
    order: list[str] = []

    def noted(name: str, stage: Any) -> Any:
        def note(given: Any) -> Any:
            order.append(name)
            return stage(given)

        vars(note)["release"] = getattr(stage, "release", None)  # of the limit stage
        return note

    built = Built(entry_named())
    noting = {name: noted(name, stage) for name, stage in built.stages.items() if name in NAMES}
    assert isinstance(await Built(**noting).call(), CompletedCall)
    assert order == NAMES
