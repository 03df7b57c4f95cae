"""`/api/tasks`: everybody's long calls for observers, and nothing of what callers sent or got."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.asgi_client import FORWARDED
from tests.harness.long_calls import accepted, asking, ended, start, token_caller
from tests.unit.http.api.management_client import Reply, manage
from tests.unit.http.api.test_described import check, described
from toolhall import Context, Task, ToolFailed, Toolhall, tool
from toolhall.config import Config
from toolhall.model.json import JsonObject
from toolhall.model.messages import TaskView
from toolhall.registration.access import NewKey

FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ALICE, BOB = token_caller("alice"), token_caller("bob", acting_for="carol")
MARK = "mark-8d2f6c"
UNKNOWN = "0" * 32


@tool(effect="reads", task=True)
async def asks(ctx: Context, what: str) -> str:
    """Ask for a name."""
    given = await ctx.ask("Which name?", FORM, key="name")
    return f"{what} {given.value['name'] if given.accepted else given.action}"


@tool(effect="writes", task=Task(required=True))
async def fails(what: str) -> None:
    """Fail."""
    raise ToolFailed(f"no luck with {what}")


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Toolhall]:
    async with Toolhall(asks, fails, config=Config(data=str(tmp_path / "data"))) as opened:
        yield opened


async def get(hall: Toolhall, target: str, headers: dict[str, str] | None = None) -> Reply:
    return await manage(hall, "GET", target, None, headers)


async def listed(hall: Toolhall, query: str = "") -> list[str]:
    reply = await get(hall, f"/api/tasks{query}")
    assert reply.status == 200, reply
    return [each["id"] for each in reply.body["tasks"]]


async def started(hall: Toolhall) -> tuple[TaskView, TaskView]:
    """One task that asks, and one that has failed."""
    waiting = await asking(hall, await start(hall, "asks", caller=ALICE, what=MARK), ALICE)
    return waiting, await ended(hall, await start(hall, "fails", caller=BOB, what=MARK), BOB)


async def key(hall: Toolhall, scope: str) -> dict[str, str]:
    _, secret = await hall.access.keys.create(NewKey(scope.partition(":")[0], scopes=(scope,)), "tests")
    return {"authorization": f"Bearer {secret}", **FORWARDED}


async def test_tasks_of_everybody_are_listed_newest_first(hall: Toolhall) -> None:
    waiting, failed = await started(hall)
    rows = (await get(hall, "/api/tasks")).body["tasks"]
    assert [each["id"] for each in rows] == [failed.id, waiting.id]
    shown = [{name: each[name] for name in ("tool", "caller", "actingFor", "dialect", "state")} for each in rows]
    assert shown == [
        {
            "tool": "test_managed_tasks.fails@0.1.0",
            "caller": "bob",
            "actingFor": "carol",
            "dialect": "memory",
            "state": "failed",
        },
        {
            "tool": "test_managed_tasks.asks@0.1.0",
            "caller": "alice",
            "actingFor": None,
            "dialect": "memory",
            "state": "input_required",
        },
    ]
    assert [each["questions"] for each in rows] == [[], ["Which name?"]]


async def test_tasks_are_filtered_and_paged(hall: Toolhall) -> None:
    waiting, failed = await started(hall)
    assert await listed(hall, "?state=failed") == await listed(hall, "?caller=bob") == [failed.id]
    assert await listed(hall, "?state=open") == await listed(hall, "?tool=test_managed_tasks.asks") == [waiting.id]
    assert await listed(hall, "?tool=test_managed_tasks.asks@0.1.0&caller=alice") == [waiting.id]
    assert await listed(hall, "?state=completed") == await listed(hall, "?caller=carol") == []
    first = (await get(hall, "/api/tasks?limit=1")).body
    assert [each["id"] for each in first["tasks"]] == [failed.id]
    second = (await get(hall, f"/api/tasks?limit=1&cursor={first['nextCursor']}")).body
    assert ([each["id"] for each in second["tasks"]], "nextCursor" in second) == ([waiting.id], False)


@pytest.mark.parametrize(
    ("query", "status"), [("?state=gone", 400), ("?limit=0", 400), ("?who=me", 400), ("?cursor=later", 404)]
)
async def test_tasks_refuse_what_they_do_not_know(hall: Toolhall, query: str, status: int) -> None:
    assert (await get(hall, f"/api/tasks{query}")).status == status


async def test_task_shows_no_argument_answer_or_result(hall: Toolhall) -> None:
    waiting, failed = await started(hall)
    await hall.tasks.answer(waiting.id, ALICE, {"name": accepted(name=MARK)})
    done = await ended(hall, waiting, ALICE)
    replies = [await get(hall, f"/api/tasks/{each}") for each in (done.id, failed.id)]
    assert [(each.body["state"], each.body["error"]) for each in replies] == [
        ("completed", None),
        ("failed", "tool_failed"),
    ]
    assert MARK not in str(replies) + str(await get(hall, "/api/tasks"))


async def test_task_is_cancelled_by_admins_and_audited(hall: Toolhall) -> None:
    waiting, _ = await started(hall)
    for _ in range(2):  # the second finds that it has ended
        reply = await manage(hall, "POST", f"/api/tasks/{waiting.id}/cancel", {})
        assert (reply.status, reply.body["state"], reply.body["questions"]) == (200, "cancelled", [])
    assert (await hall.tasks.find(waiting.id, ALICE)).state == "cancelled"
    await hall.journal.flush()
    found = (await get(hall, "/api/audit?tool=cancel*&limit=1")).body["records"]
    assert [(each["tool"], each["caller"], each["outcome"]) for each in found] == [
        (f"cancel task {waiting.id}", "local", "ok")
    ]


async def test_observer_sees_tasks_and_cancels_none(hall: Toolhall) -> None:
    waiting, _ = await started(hall)
    observer, caller = await key(hall, "observe"), await key(hall, "tools:*")
    assert (await get(hall, "/api/tasks", observer)).status == 200
    assert (await get(hall, f"/api/tasks/{waiting.id}", observer)).status == 200
    for headers, method, path in (
        (observer, "POST", f"/api/tasks/{waiting.id}/cancel"),
        (caller, "GET", "/api/tasks"),
        (caller, "GET", f"/api/tasks/{waiting.id}"),
        (caller, "GET", f"/api/tasks/{UNKNOWN}"),
        (caller, "POST", f"/api/tasks/{waiting.id}/cancel"),
        (caller, "POST", f"/api/tasks/{UNKNOWN}/cancel"),
    ):
        assert (await manage(hall, method, path, None, headers)).status == 403
    assert (await hall.tasks.find(waiting.id, ALICE)).state == "input_required"


async def test_replies_of_tasks_match_openapi(hall: Toolhall) -> None:
    waiting, failed = await started(hall)
    document: Any = await described(hall)
    for method, path, target in (
        ("get", "/api/tasks", "/api/tasks?limit=1"),
        ("get", "/api/tasks/{id}", f"/api/tasks/{waiting.id}"),
        ("get", "/api/tasks/{id}", f"/api/tasks/{failed.id}"),
        ("get", "/api/tasks/{id}", f"/api/tasks/{UNKNOWN}"),
        ("post", "/api/tasks/{id}/cancel", f"/api/tasks/{waiting.id}/cancel"),
        ("post", "/api/tasks/{id}/cancel", f"/api/tasks/{UNKNOWN}/cancel"),
    ):
        check(document, path, method, await manage(hall, method.upper(), target))
