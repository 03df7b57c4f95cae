"""Long calls: what is promised of every task, in one process and over its end."""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

from tests.harness.long_calls import (
    PersonLink,
    accepted,
    asking,
    attempt,
    ended,
    left_by_kill,
    opened,
    row_when,
    start,
    text_of,
    until,
)
from tests.recorded import recorded
from toolhall import Context, Task, ToolFailed, tool
from toolhall.model.caller import LOCAL, Caller
from toolhall.model.content import Image, Resource, Result, Text
from toolhall.model.errors import (
    BadArguments,
    Limited,
    Malformed,
    NotFound,
    OutcomeUnknown,
    Retired,
    TimedOut,
    Unsupported,
)
from toolhall.model.messages import NULL_LINK, Answered, CallTool, CompletedCall, Form, Question, TaskView
from toolhall.pipeline.tasks import engine, records, run
from toolhall.pipeline.tasks.rights import MAX_POLL_BURST
from toolhall.pipeline.tasks.rows import TaskTerms
from toolhall.registration.access import NewKey
from toolhall.stores import tasks as stored
from toolhall.testing import Client

MARK = "m4rked-zebra"
ALICE, BOB = (Caller(name, proof="token", person=name, scopes=frozenset({"tools:*"})) for name in ("alice", "bob"))


class Sure(TypedDict):
    """A yes or a no."""

    sure: bool


class Steps:
    """What tools of a test did, in order, and a gate at which they wait."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.gate = asyncio.Event()


@pytest.fixture
async def steps() -> Steps:
    return Steps()


def did(steps: Steps, times: int) -> bool:
    """Whether so much was done."""
    return len(steps.done) >= times


def says(**content: Any) -> Callable[[str, Question], Answered]:
    """A person who fills in every form alike."""
    return lambda _key, _question: accepted(**content)


def waiting(steps: Steps, **options: Any) -> Any:
    """A tool that notes its run, waits at the gate, and returns a text."""

    stated: Any = {"task": True, **options}

    @tool(name="work", **stated)
    async def work(ctx: Context, text: str = "done") -> str:
        """Work until the gate is open."""
        steps.done.append("run")
        await steps.gate.wait()
        return text

    return work


def asker(steps: Steps, **options: Any) -> Any:
    """A tool that asks a person, once."""

    stated: Any = {"task": True, "effect": "writes", **options}

    @tool(name="ask", **stated)
    async def ask(ctx: Context) -> str:
        """Ask whether to go on."""
        steps.done.append("run")
        given = await ctx.ask("Really?", Sure, key="sure")
        steps.done.append("acted")
        return f"sure: {given.value['sure']}" if given.accepted else "not sure"

    return ask


# --- 1: durable before it is said -------------------------------------------------------------------------------------


async def test_task_is_stored_before_its_id_is_returned(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path / "data", waiting(steps)) as hall:
        task = await start(hall, "work")
        await until(lambda: steps.done)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        assert task.state == "working"
        steps.gate.set()
    async with opened(left, waiting(steps)) as again:
        assert (await ended(again, task)).state == "failed"


async def test_task_of_level_4_has_its_intent_recorded_before_its_row(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path / "data", waiting(steps, level=4)) as hall:
        seen: list[list[Any]] = []
        add = hall.tasks.rows.store.add

        async def watched(row: Any) -> Any:
            seen.append([record.get("phase") for record in recorded(tmp_path / "data")])
            return await add(row)

        rows: Any = hall.tasks.rows
        rows.store = _AddWatched(hall.tasks.rows.store, watched)
        steps.gate.set()
        assert (await ended(hall, await start(hall, "work"))).state == "completed"
    assert seen == [["intent"]]


class _AddWatched:
    """A store whose `add` is another function."""

    def __init__(self, store: Any, add: Any) -> None:
        self._store = store
        self.add = add

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_task_refused_before_it_runs_is_answered_in_line(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path / "data", waiting(steps)) as hall:
        assert isinstance(await attempt(hall, "work", text=5), BadArguments)
        assert isinstance(await attempt(hall, "nothing"), NotFound)
        assert await hall.tasks.rows_of_all() == ()
    assert steps.done == []


async def test_task_of_a_hall_without_a_folder_ends_with_its_process_and_the_log_says_so_once(
    steps: Steps, caplog: pytest.LogCaptureFixture
) -> None:
    steps.gate.set()
    with caplog.at_level("INFO", "toolhall.tasks"):
        async with opened(None, waiting(steps)) as hall:
            for _ in range(2):
                await ended(hall, await start(hall, "work"))
    assert caplog.messages == [
        "long calls are kept in memory and end with this process; set `data` to keep them in a folder"
    ]


async def test_task_that_cannot_be_stored_does_not_run(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path / "data", waiting(steps)) as hall:
        steps.gate.set()
        await ended(hall, await start(hall, "work"))
        with contextlib.closing(sqlite3.connect(tmp_path / "data" / "toolhall.db")) as other:
            other.execute("drop table tasks")
            refused = await attempt(hall, "work")
        assert refused.message == "a long call cannot be stored now, so it did not run"
    assert steps.done == ["run"]


# --- 2: at most once, at least once -----------------------------------------------------------------------------------


async def test_task_that_writes_is_not_run_again_after_a_kill(tmp_path: Path, steps: Steps) -> None:
    work = waiting(steps, effect="writes")
    async with opened(tmp_path / "data", work) as hall:
        task = await start(hall, "work")
        await until(lambda: steps.done)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        steps.gate.set()
    async with opened(left, work) as again:
        view = await ended(again, task)
    assert view.state == "failed"
    assert isinstance(view.outcome, OutcomeUnknown)
    assert view.status is not None
    assert "the outcome is not known" in view.status
    assert steps.done == ["run"]
    assert [record["outcome"] for record in recorded(left)] == ["OutcomeUnknown"]


@pytest.mark.parametrize(
    "options",
    [{"effect": "reads"}, {"effect": "writes", "task": Task(again=True)}],
    ids=["reads", "again"],
)
async def test_task_that_may_run_again_is_run_again_after_a_kill(
    tmp_path: Path, steps: Steps, options: dict[str, Any]
) -> None:
    work = waiting(steps, **options)
    async with opened(tmp_path / "data", work) as hall:
        task = await start(hall, "work", text="again")
        await until(lambda: steps.done)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        steps.gate.set()
    async with opened(left, work) as again:
        view = await ended(again, task)
    assert (view.state, text_of(view)) == ("completed", "again")
    assert steps.done == ["run", "run"]


async def test_task_is_run_three_times_more_at_most(tmp_path: Path, steps: Steps) -> None:
    work = waiting(steps, effect="reads")
    data = tmp_path / "data"
    task: TaskView | None = None
    for number in range(engine.MAX_REPEATS + 1):
        async with opened(data, work) as hall:
            task = task or await start(hall, "work")
            await until(partial(did, steps, number + 1))
            data = left_by_kill(data, tmp_path / f"left{number}")
    async with opened(data, work) as hall:
        assert task is not None
        assert isinstance((await ended(hall, task)).outcome, OutcomeUnknown)
    assert len(steps.done) == engine.MAX_REPEATS + 1


async def test_task_stopped_with_its_hall_goes_on_with_the_next_one(tmp_path: Path, steps: Steps) -> None:
    work = waiting(steps, effect="reads")
    async with opened(tmp_path, work) as hall:
        task = await start(hall, "work")
        await until(lambda: steps.done)
    steps.gate.set()
    async with opened(tmp_path, work) as again:
        assert (await ended(again, task)).state == "completed"
        (row,) = await again.tasks.rows_of_all()
        assert row.attempt == 1, "a run that was set down does not count"


async def test_task_that_writes_is_unknown_after_a_stop_that_did_not_wait(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "STOP_SECONDS", 0.01)
    work = waiting(steps, effect="writes")
    async with opened(tmp_path, work) as hall:
        task = await start(hall, "work")
        await until(lambda: steps.done)
    async with opened(tmp_path, work) as again:
        assert isinstance((await ended(again, task)).outcome, OutcomeUnknown)
    assert steps.done == ["run"]


def remembering(steps: Steps, **options: Any) -> Any:
    stated: Any = {"task": True, "effect": "reads", **options}

    @tool(name="gather", **stated)
    async def gather(ctx: Context) -> list[str]:
        """Gather in two steps."""

        async def step(name: str) -> Sure:
            steps.done.append(name)
            return {"sure": True}

        first = await ctx.once("first", step, "first")
        await steps.gate.wait()
        second = await ctx.once("second", step, "second")
        return [f"{first['sure']} {second['sure']}", str(ctx.task_id)]

    return gather


async def test_once_is_not_done_again_when_the_task_runs_again(tmp_path: Path, steps: Steps) -> None:
    gather = remembering(steps)
    async with opened(tmp_path / "data", gather) as hall:
        task = await start(hall, "gather")
        await until(lambda: steps.done)
        await row_when(hall, lambda row: row.serial > 0)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        steps.gate.set()
        await ended(hall, task)
    assert steps.done == ["first", "second"]
    async with opened(left, gather) as again:
        view = await ended(again, task)
    assert isinstance(view.outcome, CompletedCall)
    assert msgspec.json.decode(view.outcome.result.encoded or b"") == ["True True", task.id]
    assert steps.done == ["first", "second", "second"]


async def test_once_gives_the_first_run_what_every_later_one_gets() -> None:
    class Point(msgspec.Struct):
        x: int

    def point() -> Point:
        return Point(5)

    async def untyped():  # type: ignore[no-untyped-def]
        return (1, 2)

    context = Context()
    assert await context.once("point", point) == Point(5)
    assert await context.once("untyped", untyped) == [1, 2]
    with pytest.raises(ValueError, match="needs a key"):
        await context.once("", point)


# --- 3, 4: only the holder ends it, and ends are final ----------------------------------------------------------------


async def test_task_taken_over_by_another_process_is_not_written_by_the_first(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path, waiting(steps)) as hall:
        task = await start(hall, "work")
        row = await hall.tasks.rows.store.find(task.id)
        assert row is not None
        # As if this process had been paused past its lease.
        taken = await hall.tasks.rows.store.claim(msgspec.structs.replace(row), "another process")
        assert taken is not None
        steps.gate.set()
        await until(lambda: not hall.tasks.running)
        assert await hall.tasks.rows.store.find(task.id) == taken


async def test_task_cancelled_ends_at_once_and_for_good(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path, waiting(steps)) as hall:
        task = await start(hall, "work")
        cancelled = await hall.tasks.cancel(task.id, LOCAL)
        assert cancelled.state == "cancelled"
        await until(lambda: not hall.tasks.running)
        steps.gate.set()
        assert await hall.tasks.cancel(task.id, LOCAL) == cancelled
        assert await hall.tasks.answer(task.id, LOCAL, {"sure": accepted(sure=True)}) == cancelled
        assert await ended(hall, task) == cancelled
    assert [record["outcome"] for record in recorded(tmp_path)] == ["Cancelled"]


async def test_task_that_ignores_its_cancellation_stays_cancelled(tmp_path: Path, steps: Steps) -> None:
    @tool(task=True)
    async def stubborn(ctx: Context) -> str:
        """Go on, whatever happens."""
        steps.done.append("run")
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "done all the same"

    async with opened(tmp_path, stubborn) as hall:
        task = await start(hall, "stubborn")
        await until(lambda: steps.done)
        assert (await hall.tasks.cancel(task.id, LOCAL)).state == "cancelled"
        await until(lambda: not hall.tasks.running)
        assert (await ended(hall, task)).state == "cancelled"


# --- 5: sealed --------------------------------------------------------------------------------------------------------


async def test_task_leaves_nothing_readable_in_the_folder(tmp_path: Path, steps: Steps) -> None:
    @tool(task=True, effect="reads")
    async def tell(ctx: Context, text: str) -> str:
        """Repeat all that is said."""
        ctx.progress(1, 2, f"progress {text}")
        await ctx.once(f"key {text}", lambda: f"once {text}")
        given = await ctx.ask(
            f"question {text}", {"type": "object", "properties": {"name": {"type": "string"}}}, key="q"
        )
        return f"{text} {given.value['name']}"

    async with opened(tmp_path / "data", tell) as hall:
        task = await start(hall, "tell", text=MARK)
        await asking(hall, task)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        await hall.tasks.answer(task.id, LOCAL, {"q": accepted(name=MARK)})
        assert text_of(await ended(hall, task)) == f"{MARK} {MARK}"
    for folder in (left, tmp_path / "data"):
        found = [path.name for path in folder.rglob("*") if path.is_file() and MARK.encode() in path.read_bytes()]
        assert found == []


async def test_task_moved_to_another_owner_does_not_open(tmp_path: Path, steps: Steps) -> None:
    steps.gate.set()
    async with opened(tmp_path, waiting(steps)) as hall:
        view = await ended(hall, await start(hall, "work", caller=ALICE), ALICE)
        row = await hall.tasks.rows.store.find(view.id)
        assert row is not None
        moved = await hall.tasks.rows.view(msgspec.structs.replace(row, owner="bob"), lambda _: None)
        assert (moved.state, text_of(moved)) == ("failed", "this task cannot be read any more")


# --- 6: mine only -----------------------------------------------------------------------------------------------------


async def test_task_of_another_caller_an_expired_and_an_unknown_one_are_answered_alike(
    tmp_path: Path, steps: Steps
) -> None:
    async with opened(tmp_path, waiting(steps)) as hall:
        task = await start(hall, "work", caller=ALICE)
        old = await start(hall, "work", caller=BOB, terms=TaskTerms(keep=0.001))
        for task_id in (task.id, old.id, "0" * 32):
            for ask in (hall.tasks.find, hall.tasks.cancel, hall.tasks.wait):
                with pytest.raises(NotFound) as raised:
                    await ask(task_id, BOB)
                assert (type(raised.value), str(raised.value)) == (NotFound, "there is no such task")
            with pytest.raises(NotFound, match="there is no such task"):
                await hall.tasks.answer(task_id, BOB, {})
        assert await hall.tasks.page(BOB) == ((), None)
        (mine,), _ = await hall.tasks.page(ALICE)
        assert mine.id == task.id
        assert len(task.id) == 32
        acting = msgspec.structs.replace(ALICE, acting_for="carol")
        with pytest.raises(NotFound):
            await hall.tasks.find(task.id, acting)
        steps.gate.set()


# --- 7: bounded -------------------------------------------------------------------------------------------------------


async def test_task_beyond_the_limit_of_open_ones_is_refused(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MAX_OPEN_PER_OWNER", 2)
    async with opened(tmp_path, waiting(steps)) as hall:
        for _ in range(2):
            await start(hall, "work")
        assert isinstance(await attempt(hall, "work"), Limited)
        steps.gate.set()
    assert steps.done == ["run"] * 2


async def test_task_keeps_no_result_beyond_its_limit(steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_BYTES", 1_000)
    steps.gate.set()
    async with opened(None, waiting(steps)) as hall:
        view = await ended(hall, await start(hall, "work", text="x" * 2_000))
    assert (view.state, text_of(view)) == ("failed", "the result of a long call may have 1000 bytes at most")


async def test_task_remembers_no_more_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "MAX_BYTES", 1_000)

    @tool(task=True)
    async def hoard(ctx: Context) -> int:
        """Remember too much."""
        return len(await ctx.once("all", lambda: "x" * 2_000))

    async with opened(None, hoard) as hall:
        view = await ended(hall, await start(hall, "hoard"))
    assert view.state == "failed"
    assert text_of(view) == "questions, answers and results of ctx.once may have 1000 bytes together in one task"


async def test_task_is_kept_as_long_as_its_author_and_its_client_say(steps: Steps) -> None:
    steps.gate.set()
    async with opened(None, waiting(steps)) as hall:
        plain = await start(hall, "work")
        asked_for = await start(hall, "work", terms=TaskTerms(keep=60.0))
        too_long = await start(hall, "work", terms=TaskTerms(keep=1e9))
    assert [round(each.expires_at - each.created_at) for each in (plain, asked_for, too_long)] == [3_600, 60, 604_800]
    async with opened(None, waiting(steps, task=Task(keep=120.0, poll=0.25))) as hall:
        kept = await start(hall, "work")
        assert (round(kept.expires_at - kept.created_at), kept.poll) == (120, 0.25)
        done = await ended(hall, kept)
        assert done.expires_at >= done.updated_at + 299, "an outcome can be fetched for a while"


async def test_task_that_expires_is_stopped_and_deleted(steps: Steps) -> None:
    async with opened(None, waiting(steps)) as hall:
        task = await start(hall, "work", terms=TaskTerms(keep=0.001))
        await until(lambda: steps.done and hall.tasks.rows.clock() >= task.expires_at)
        await hall.tasks.sweep()
        await until(lambda: not hall.tasks.running)
        assert await hall.tasks.rows_of_all() == ()


async def test_task_looked_at_too_often_is_limited(steps: Steps) -> None:
    async with opened(None, waiting(steps)) as hall:
        task = await start(hall, "work")
        looks = (hall.tasks.find(task.id, LOCAL) for _ in range(MAX_POLL_BURST + 5))
        with pytest.raises(Limited) as raised:
            await asyncio.gather(*looks)
        assert raised.value.retry_after == 0.5
        steps.gate.set()


# --- 8, 9: questions, and waiting that costs nothing ------------------------------------------------------------------


async def test_question_of_a_task_is_open_until_it_is_answered(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path, asker(steps)) as hall:
        task = await asking(hall, await start(hall, "ask"))
        assert task.state == "input_required"
        (question,) = task.questions.values()
        assert isinstance(question, Form)
        ignored = await hall.tasks.answer(task.id, LOCAL, {"another": accepted(sure=True)})
        assert list(ignored.questions) == ["sure"]
        with pytest.raises(BadArguments, match="/sure"):
            await hall.tasks.answer(task.id, LOCAL, {"sure": accepted(sure="perhaps")})
        answered = await hall.tasks.answer(task.id, LOCAL, {"sure": accepted(sure=True)})
        assert (answered.state, answered.questions) == ("working", {})
        assert text_of(await ended(hall, task)) == "sure: True"
    assert steps.done == ["run", "acted"]


async def test_questions_asked_at_once_are_answered_one_by_one(tmp_path: Path) -> None:
    form = {"type": "object", "properties": {"name": {"type": "string"}}}

    @tool(task=True)
    async def both(ctx: Context) -> str:
        """Ask two things at once."""
        answers = await ctx.ask_all({"a": Form("A?", form), "b": Form("B?", form)})
        return ", ".join(sorted(answers))

    async with opened(tmp_path, both) as hall:
        task = await asking(hall, await start(hall, "both"))
        assert sorted(task.questions) == ["a", "b"]
        await hall.tasks.answer(task.id, LOCAL, {"b": accepted(name="x")})
        left = await hall.tasks.find(task.id, LOCAL)
        assert (left.state, list(left.questions)) == ("input_required", ["a"])
        await hall.tasks.answer(task.id, LOCAL, {"a": accepted(name="y"), "b": accepted(name="z")})
        assert text_of(await ended(hall, task)) == "a, b"


async def test_task_that_waits_long_is_set_down_and_run_again_with_the_answer(
    tmp_path: Path, steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "SET_DOWN_SECONDS", 0.01)
    async with opened(tmp_path, asker(steps)) as hall:
        task = await asking(hall, await start(hall, "ask"))
        await until(lambda: not hall.tasks.running)
        row = await hall.tasks.rows.store.find(task.id)
        assert row is not None
        assert (row.state, row.holder) == ("input_required", None)
        await hall.tasks.answer(task.id, LOCAL, {"sure": accepted(sure=False)})
        assert text_of(await ended(hall, task)) == "sure: False"
    assert steps.done == ["run", "run", "acted"]
    assert [record["outcome"] for record in recorded(tmp_path)] == ["asked", "ok"]


async def test_task_with_an_open_question_is_answered_after_a_kill(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path / "data", asker(steps)) as hall:
        task = await asking(hall, await start(hall, "ask"))
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
    async with opened(left, asker(steps)) as again:
        assert list((await asking(again, task)).questions) == ["sure"]
        await again.tasks.answer(task.id, LOCAL, {"sure": accepted(sure=True)})
        assert text_of(await ended(again, task)) == "sure: True"
    assert steps.done == ["run", "run", "acted"]


async def test_task_of_a_client_without_the_feature_cannot_ask(steps: Steps) -> None:
    async with opened(None, asker(steps)) as hall:
        view = await ended(hall, await start(hall, "ask", link=NULL_LINK))
    assert isinstance(view.outcome, Unsupported)


async def test_task_that_asks_is_kept_for_a_week(steps: Steps) -> None:
    async with opened(None, asker(steps)) as hall:
        task = await asking(hall, await start(hall, "ask"))
        assert round(task.expires_at - task.created_at) == 604_800
        short = await asking(hall, await start(hall, "ask", terms=TaskTerms(keep=60.0)))
        assert round(short.expires_at - short.created_at) == 60


# --- 10: versions, grants and credentials at a restart ----------------------------------------------------------------


async def test_task_whose_version_is_gone_names_its_successor(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path / "data", waiting(steps, effect="reads", version="1.0.0")) as hall:
        task = await start(hall, "work")
        await until(lambda: steps.done)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        steps.gate.set()
    async with opened(left, waiting(steps, effect="reads", version="2.0.0")) as again:
        view = await ended(again, task)
    assert isinstance(view.outcome, Retired)
    assert view.status == f"{task.tool}, with which this task was made, is gone; call {task.tool[:-5]}2.0.0 instead"
    assert steps.done == ["run"]


async def test_task_of_a_revoked_key_is_not_run_again(tmp_path: Path, steps: Steps) -> None:
    work = waiting(steps, effect="reads")
    async with opened(tmp_path / "data", work) as hall:
        key, _ = await hall.access.keys.create(NewKey(name="ci", scopes=("tools:*",)), "local")
        caller = hall.access.keys.current(Caller("ci", proof="key"))
        assert caller is not None
        await start(hall, "work", caller=caller)
        await until(lambda: steps.done)
        await hall.access.keys.revoke(key.id)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        steps.gate.set()
    async with opened(left, work) as again:
        view = await again.tasks.view(await row_when(again, lambda row: row.has_ended))
    assert isinstance(view.outcome, Malformed)
    assert view.status == "the credential with which this task was made is no longer valid"
    assert steps.done == ["run"]


async def test_task_is_judged_again_by_level_and_grants_after_a_kill(tmp_path: Path, steps: Steps) -> None:
    work = waiting(steps, effect="reads")
    async with opened(tmp_path / "data", work) as hall:
        task = await start(hall, "work", caller=ALICE)
        await until(lambda: steps.done)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        steps.gate.set()
    async with opened(left, work, levels={"*": 5}) as again:  # alice has no grant for it now
        assert (await row_when(again, lambda row: row.has_ended)).state == "failed"
        with pytest.raises(NotFound):
            await again.tasks.find(task.id, ALICE)
    assert steps.done == ["run"]


# --- in line and as a task --------------------------------------------------------------------------------------------


async def test_tool_that_offers_tasks_runs_in_line_without_one(steps: Steps) -> None:
    steps.gate.set()
    async with Client(waiting(steps)) as client:
        assert (await client.call_named("work", {})).text == "done"
        assert await client.hall.tasks.rows_of_all() == ()


async def test_tool_that_requires_a_task_is_refused_in_line(steps: Steps) -> None:
    async with opened(None, waiting(steps, task=Task(required=True))) as hall:
        refused = await hall.dispatcher.answer(CallTool("work", {}, "memory"), LOCAL, PersonLink())
    assert isinstance(refused, Unsupported)
    assert refused.message == "this tool needs a client that supports tasks"
    assert steps.done == []


def purge(steps: Steps) -> Any:
    @tool(name="purge", effect="writes", task=Task(required=True, after_questions=True))
    async def purge(ctx: Context) -> str:
        """Delete, after asking."""
        first = await ctx.once("count", lambda: 17)
        given = await ctx.ask("Really?", Sure, key="sure")
        if not given.value["sure"]:
            return "nothing was deleted"
        steps.done.append(f"task {ctx.task_id is not None}")
        await ctx.detach()
        steps.done.append(f"task {ctx.task_id is not None}")
        await steps.gate.wait()
        return f"{first} deleted"

    return purge


async def test_task_after_questions_begins_at_detach(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path, purge(steps)) as hall:
        answer = await attempt(hall, "purge", link=PersonLink(says(sure=False)))
        assert isinstance(answer, CompletedCall)
        assert answer.result.text == "nothing was deleted"
        assert await hall.tasks.rows_of_all() == ()
        task = await start(hall, "purge", link=PersonLink(says(sure=True)))
        steps.gate.set()
        assert text_of(await ended(hall, task)) == "17 deleted"
    assert steps.done == ["task False", "task True"]


async def test_task_after_questions_finds_its_early_answers_when_it_runs_again(tmp_path: Path, steps: Steps) -> None:
    tools = purge(steps)
    async with opened(tmp_path / "data", tools) as hall:
        task = await start(hall, "purge", link=PersonLink(says(sure=True)))
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
        row = await hall.tasks.rows.store.find(task.id)
        assert row is not None
        memory = await hall.tasks.rows.memory(row)
        assert sorted(memory.answered) == ["sure"]
        assert memory.results == {"count": b"17"}
        steps.gate.set()
    async with opened(left, tools) as again:
        assert isinstance((await ended(again, task)).outcome, OutcomeUnknown)


QUICK = Task(in_line=30.0)


async def test_quick_call_is_answered_in_line_where_the_author_says_so(tmp_path: Path, steps: Steps) -> None:
    steps.gate.set()
    async with opened(tmp_path, waiting(steps, task=QUICK), asker(steps, task=QUICK)) as hall:
        answer = await attempt(hall, "work")
        assert isinstance(answer, CompletedCall)
        assert await hall.tasks.rows_of_all() == ()
        asked = await start(hall, "ask")  # a question makes the row in any case
        assert list((await asking(hall, asked)).questions) == ["sure"]
        assert isinstance(await start(hall, "work", terms=TaskTerms(at_once=True)), TaskView)


async def test_quick_failure_slow_call_and_level_4_make_a_task_all_the_same(tmp_path: Path, steps: Steps) -> None:
    @tool(task=QUICK)
    async def fails() -> str:
        """Fail at once."""
        raise ToolFailed("no luck")

    async with opened(tmp_path, fails, waiting(steps, task=Task(in_line=0.01))) as hall:
        failed = await ended(hall, await start(hall, "fails"))
        assert (failed.state, text_of(failed)) == ("failed", "no luck")
        slow = await start(hall, "work")
        steps.gate.set()
        assert (await ended(hall, slow)).state == "completed"
    async with opened(tmp_path / "high", waiting(steps, level=4, task=QUICK)) as hall:
        assert isinstance(await start(hall, "work"), TaskView)


async def test_request_that_is_cancelled_before_its_task_is_made_runs_nothing(tmp_path: Path, steps: Steps) -> None:
    async with opened(tmp_path, purge(steps)) as hall:
        reached = asyncio.Event()

        class Slow(PersonLink):
            async def ask(self, questions: Any) -> Any:
                reached.set()
                await asyncio.Event().wait()

        request = asyncio.create_task(attempt(hall, "purge", link=Slow()))
        await reached.wait()
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert hall.tasks.running == 0
        assert await hall.tasks.rows_of_all() == ()


async def test_progress_of_a_task_becomes_its_status(tmp_path: Path, steps: Steps) -> None:
    @tool(task=True)
    async def count(ctx: Context) -> str:
        """Count."""
        ctx.progress(1, 3)
        ctx.log("not for tasks")
        await steps.gate.wait()
        return "done"

    async with opened(tmp_path, count) as hall:
        task = await start(hall, "count")
        row = await row_when(hall, lambda row: row.sealed_status is not None)
        assert (await hall.tasks.rows.view(row, lambda _: None)).status == "1 of 3"
        steps.gate.set()
        assert (await ended(hall, task)).state == "completed"


async def test_task_of_a_tool_with_a_timeout_ends_at_it() -> None:
    @tool(task=True, timeout=0.05)
    async def slow() -> None:
        """Take too long."""
        await asyncio.Event().wait()

    async with opened(None, slow) as hall:
        assert isinstance((await ended(hall, await start(hall, "slow"))).outcome, TimedOut)


async def test_task_of_a_tool_without_a_timeout_outlasts_the_halls_own(steps: Steps) -> None:
    async with opened(None, waiting(steps), call_timeout=0.05) as hall:
        task = await start(hall, "work")
        await asyncio.sleep(0.2)
        assert hall.tasks.running == 1
        steps.gate.set()
        assert (await ended(hall, task)).state == "completed"


@pytest.mark.parametrize(
    "error",
    [
        ToolFailed("no", retry_after=3.0, prompt="try later"),
        Unsupported("sampling"),
        Limited(5.0),
        OutcomeUnknown(),
        Retired("gone"),
        NotFound("none"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_outcome_restores_its_error(error: Any) -> None:
    restored = records.decode_outcome(records.encode_record(records.TaskOutcome.of(error))).error_or_result()
    assert type(restored) is type(error)
    assert restored.message == error.message
    for name in ("retry_after", "prompt", "feature"):
        assert getattr(restored, name, None) == getattr(error, name, None)


def test_outcome_restores_its_result() -> None:
    result = Result(
        b'{"a":1}', (Text("x"), Image(b"\x00\xff"), Resource(uri="a://b", content=b"\x01")), None, {"k": [1]}, True
    )
    tool_of = CompletedCall(None, result)  # type: ignore[arg-type]
    assert records.decode_outcome(records.encode_record(records.TaskOutcome.of(tool_of))).error_or_result() == result
