"""Who may see a task: its caller, for as long as it may call the tool; and nobody looks for others without limit."""

import asyncio
import base64
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.harness.long_calls import accepted, asking, ended, opened, row_when, start, text_of, until
from toolhall import Context, Toolhall, tool
from toolhall.model.caller import ANONYMOUS, LOCAL, Caller
from toolhall.model.errors import BadArguments, Denied, Limited, Malformed, NotFound, Unauthenticated
from toolhall.model.json import JsonObject
from toolhall.pipeline.tasks import engine, rights, run
from toolhall.registration.access import NewCondition, NewGrant, NewKey

LATER = time.time() + 3_600
ALICE = Caller("alice", proof="token", person="alice", scopes=frozenset({"tools:*"}), expires_at=LATER)
NAME: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}
UNKNOWN = "0" * 32
FORBID = NewGrant(callers="alice", tools="*", effect="forbid")


@tool(effect="writes", task=True)
async def ask(ctx: Context, city: str = "Oslo") -> str:
    """Ask for a name."""
    given = await ctx.ask("Name?", NAME, key="name")
    return f"{given.value['name']} in {city}"


@tool(effect="reads", level=0, task=True)
async def work() -> str:
    """Do something at once."""
    return "done"


@tool(effect="reads", task=True)
async def endless() -> None:
    """Never end."""
    await asyncio.Event().wait()


async def problem(looking: Awaitable[Any]) -> str:
    """The answer to somebody who gets no task."""
    with pytest.raises(NotFound) as refused:
        await looking
    return str(refused.value)


async def refused(look: Callable[[], Awaitable[Any]]) -> None:
    """Look until it is limited: the allowance grows meanwhile, far slower than it is used up."""
    with suppress(Limited):
        while True:
            with suppress(NotFound):
                await look()


LOOKS: dict[str, Callable[[Toolhall, str], Awaitable[Any]]] = {
    "find": lambda hall, task_id: hall.tasks.find(task_id, ALICE),
    "look": lambda hall, task_id: hall.tasks.look(task_id, ALICE),
    "wait": lambda hall, task_id: hall.tasks.wait(task_id, ALICE),
    "questions": lambda hall, task_id: hall.tasks.questions(task_id, ALICE),
    "cancel": lambda hall, task_id: hall.tasks.cancel(task_id, ALICE),
    "answer": lambda hall, task_id: hall.tasks.answer(task_id, ALICE, {"name": accepted(name="Ada")}),
}


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_tasks_are_listed_to_callers_only_that_can_be_told_apart() -> None:
    nobody = Caller("anonymous", address="192.0.2.1")
    async with opened(None, work, levels={"*": 0}, allow_anonymous=True) as hall:
        await hall.access.keys.create(NewKey(name="team", scopes=("tools:*",), shared=True), "local")
        team = hall.access.keys.current(Caller("team", proof="shared"))
        assert team is not None
        for caller, error in ((nobody, Unauthenticated), (ANONYMOUS, Unauthenticated), (team, Denied)):
            task = await ended(hall, await start(hall, "work", caller=caller), caller)
            assert not hall.tasks.can_list(caller)
            with pytest.raises(error):
                await hall.tasks.page(caller)
            assert (await hall.tasks.find(task.id, caller)).id == task.id, "who knows its id may look at it"
        mine = await start(hall, "work", caller=ALICE)
        assert [each.id for each in (await hall.tasks.page(ALICE))[0]] == [mine.id]


async def test_cursor_of_a_page_leads_to_the_next_one_and_any_other_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PAGE_SIZE", 2)
    async with opened(None, work) as hall:
        made = {(await start(hall, "work")).id for _ in range(5)}
        seen: list[str] = []
        cursor: str | None = None
        while True:
            page, cursor = await hall.tasks.page(LOCAL, cursor)
            seen += [each.id for each in page]
            if cursor is None:
                break
            assert not any(task_id in cursor for task_id in made), "it is opaque"
        assert sorted(seen) == sorted(made)
        for wrong in ("zzz", "\0", "é", seen[0], base64.urlsafe_b64encode(b"short").decode()):
            with pytest.raises(BadArguments, match="unknown cursor"):
                await hall.tasks.page(LOCAL, wrong)


# --- revoked ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", LOOKS)
async def test_task_of_a_tool_that_was_revoked_answers_like_an_unknown_one(tmp_path: Path, look: str) -> None:
    async with opened(tmp_path, ask, work) as hall:
        waiting = await asking(hall, await start(hall, "ask", caller=ALICE), ALICE)
        done = await ended(hall, await start(hall, "work", caller=ALICE), ALICE)
        forbidden = await hall.access.grants.add(FORBID, "me")
        for task in (done, waiting):
            assert await problem(LOOKS[look](hall, task.id)) == await problem(LOOKS[look](hall, UNKNOWN))
        assert (await hall.tasks.page(ALICE))[0] == ()
        assert await hall.tasks.own([done.id, waiting.id], ALICE) == []
        await hall.access.grants.remove(forbidden.id)
        assert text_of(await hall.tasks.find(done.id, ALICE)) == "done"


@pytest.mark.parametrize("door", ["questions", "answer"])
@pytest.mark.parametrize("set_down", [False, True])
async def test_answer_to_a_task_whose_tool_was_revoked_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_down: bool, door: str
) -> None:
    if set_down:
        monkeypatch.setattr(run, "SET_DOWN_SECONDS", 0.01)
    async with opened(tmp_path, ask) as hall:
        task = await asking(hall, await start(hall, "ask", caller=ALICE), ALICE)
        if set_down:
            await until(lambda: not hall.tasks.running)
        forbidden = await hall.access.grants.add(FORBID, "me")
        await problem(LOOKS[door](hall, task.id))
        await until(lambda: not hall.tasks.running)
        await hall.access.grants.remove(forbidden.id)
        view = await hall.tasks.find(task.id, ALICE)
    assert (view.state, type(view.outcome)) == ("failed", Malformed)
    assert view.status == "the caller of this task may no longer call its tool"


async def test_answer_with_a_weaker_credential_ends_nothing(tmp_path: Path) -> None:
    weaker = Caller("alice", proof="token", person="alice", scopes=frozenset({"tools:Other"}), expires_at=LATER)
    async with opened(tmp_path, ask, levels={"*": 4}) as hall:
        await hall.access.grants.add(NewGrant(callers="alice", tools="*"), "me")
        task = await asking(hall, await start(hall, "ask", caller=ALICE), ALICE)
        await problem(hall.tasks.answer(task.id, weaker, {"name": accepted(name="Eve")}))
        await hall.tasks.answer(task.id, ALICE, {"name": accepted(name="Ada")})
        assert text_of(await ended(hall, task, ALICE)) == "Ada in Oslo"


async def test_conditions_of_grants_are_met_by_the_arguments_of_the_task(tmp_path: Path) -> None:
    async with opened(tmp_path, ask, levels={"*": 4}) as hall:
        permitted = await hall.access.grants.add(NewGrant(callers="alice", tools="*"), "me")
        oslo, rome = [await start(hall, "ask", caller=ALICE, city=city) for city in ("Oslo", "Rome")]
        only_oslo = NewGrant(callers="alice", tools="*", conditions=[NewCondition(path="/city", equals="Oslo")])
        await hall.access.grants.add(only_oslo, "me")
        await hall.access.grants.remove(permitted.id)
        assert (await hall.tasks.find(oslo.id, ALICE)).id == oslo.id
        await problem(hall.tasks.find(rome.id, ALICE))
        assert [each.id for each in (await hall.tasks.page(ALICE))[0]] == [oslo.id]


async def test_result_that_is_waited_for_is_judged_when_it_is_there(tmp_path: Path) -> None:
    async with opened(tmp_path, endless) as hall:
        task = await start(hall, "endless", caller=ALICE)
        waiting = asyncio.create_task(hall.tasks.wait(task.id, ALICE))
        await asyncio.sleep(0)
        await hall.access.grants.add(FORBID, "me")
        assert not waiting.done()
        await hall.tasks.cancel_any(task.id)
        with pytest.raises(NotFound):
            await waiting


async def test_key_that_was_revoked_hears_nothing_more_of_its_task(tmp_path: Path) -> None:
    async with opened(tmp_path, ask) as hall:
        key, _ = await hall.access.keys.create(NewKey(name="ci", scopes=("tools:*",)), "local")
        caller = hall.access.keys.current(Caller("ci", proof="key"))
        assert caller is not None
        await start(hall, "ask", caller=caller)
        row = await row_when(hall, lambda row: row.state == "input_required")
        assert await hall.tasks.may_still_see(row, caller)
        await hall.access.keys.revoke(key.id)
        assert not await hall.tasks.may_still_see(row, caller)


# --- looks for unknown tasks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", LOOKS)
async def test_looks_for_unknown_tasks_are_limited_before_the_store_is_read(look: str) -> None:
    async with opened(None, work) as hall:
        done = await ended(hall, await start(hall, "work"))
        for number in range(int(rights.LOOKUP_RATE.burst)):
            await problem(LOOKS[look](hall, f"{number:032x}"))
        reads = 0
        find = hall.tasks.rows.store.find

        async def counted(task_id: str) -> Any:
            nonlocal reads
            reads += 1
            return await find(task_id)

        rows: Any = hall.tasks.rows.store
        rows.find = counted
        await refused(lambda: LOOKS[look](hall, UNKNOWN))
        allowed = reads
        with pytest.raises(Limited):
            await LOOKS[look](hall, UNKNOWN)
        assert reads == allowed
        assert (await hall.tasks.find(done.id, LOCAL)).id == done.id, "others are not concerned"


async def test_pages_and_followed_tasks_are_limited_too() -> None:
    async with opened(None, work) as hall:
        await start(hall, "work", caller=ALICE)
        await refused(lambda: hall.tasks.page(ALICE))
        with pytest.raises(Limited):
            await hall.tasks.own([f"{number:032x}" for number in range(100)], LOCAL, counted=True)
        assert await hall.tasks.own([f"{number:032x}" for number in range(100)], LOCAL) == []
