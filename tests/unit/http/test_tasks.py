"""Long calls over REST: a call that is answered by 202, and the task that it became."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from tests.harness.asgi_client import FORWARDED, send, send_json
from tests.harness.patience import patience
from toolhall import Config, Context, Task, ToolFailed, Toolhall, tool
from toolhall.model.json import JsonObject

ASYNC = {"prefer": "respond-async"}
FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
UNKNOWN = "0" * 32


@tool(effect="reads")
async def plain() -> str:
    """Answer in line, always."""
    return "plain"


@tool(effect="reads", task=Task(required=True))
async def export(year: int = 2024) -> dict[str, int]:
    """Export a year."""
    return {"year": year}


@tool(effect="reads", task=True)
async def fails() -> None:
    """Fail."""
    raise ToolFailed("no luck")


@tool(effect="reads", task=True)
async def asks(ctx: Context) -> str:
    """Ask for a name."""
    given = await ctx.ask("Name?", FORM, key="name")
    return given.value["name"] if given.accepted else given.action


@tool(effect="reads", level=0, task=True)
async def unguarded() -> str:
    """Answer anybody."""
    return "done"


@pytest.fixture
async def hall() -> AsyncIterator[Toolhall]:
    async with Toolhall(plain, export, fails, asks) as opened:
        yield opened


async def started(hall: Toolhall, name: str, **arguments: Any) -> str:
    """The path of the task that a call became."""
    path = f"/tools/test_tasks/{name}"
    reply = await send(
        hall, "POST", path, msgspec.json.encode(arguments), {"content-type": "application/json", **ASYNC}
    )
    assert reply.status == 202, reply.body
    headers = dict(reply.headers)
    assert headers["preference-applied"] == "respond-async"
    assert int(headers["retry-after"]) >= 1
    state = msgspec.json.decode(reply.body)
    assert headers["location"] == f"/tasks/{state['id']}"
    return str(headers["location"])


async def seen(hall: Toolhall, path: str, *states: str) -> Any:
    """The task once it has one of these states."""
    async with asyncio.timeout(patience()):
        while True:
            status, state = await send_json(hall, path)
            if status == 200 and state["state"] in states:
                return state


async def test_call_that_prefers_not_to_wait_is_a_task(hall: Toolhall) -> None:
    done = await seen(hall, await started(hall, "export", year=1999), "completed")
    assert done["result"] == {"year": 1999}
    assert done["tool"] == "test_tasks.export@0.1.0"
    failed = await seen(hall, await started(hall, "fails"), "failed")
    assert failed["error"] == {"code": "tool_failed", "message": "no luck"}


async def test_preference_is_ignored_where_there_are_no_tasks(hall: Toolhall) -> None:
    assert await send_json(hall, "/tools/test_tasks/plain", "POST", {}, ASYNC) == (200, "plain")


async def test_tool_that_requires_a_task_needs_the_preference(hall: Toolhall) -> None:
    status, body = await send_json(hall, "/tools/test_tasks/export", "POST", {}, {"prefer": "wait=10"})
    assert (status, body["error"]["code"]) == (400, "unsupported")
    assert body["error"]["message"] == "this tool needs a client that supports tasks; send Prefer: respond-async"


async def test_refusal_comes_before_a_task(hall: Toolhall) -> None:
    status, body = await send_json(hall, "/tools/test_tasks/export", "POST", {"year": "x"}, ASYNC)
    assert (status, body["error"]["code"]) == (422, "bad_arguments")


async def test_question_is_answered_by_input(hall: Toolhall) -> None:
    path = await started(hall, "asks")
    asked = await seen(hall, path, "input_required")
    assert asked["questions"]["name"]["params"]["message"] == "Name?"
    wrong = {"name": {"action": "accept", "content": {}}}
    status, body = await send_json(hall, f"{path}/input", "POST", wrong)
    assert (status, body["error"]["code"]) == (422, "bad_arguments")
    assert (await send_json(hall, f"{path}/input", "POST", []))[0] == 400
    answer = {"name": {"action": "accept", "content": {"name": "Ada"}}, "other": 5}
    status, state = await send_json(hall, f"{path}/input", "POST", answer)
    assert (status, "questions" in state) == (200, False)
    assert (await seen(hall, path, "completed"))["result"] == "Ada"


async def test_task_is_cancelled_by_delete_and_listed(hall: Toolhall) -> None:
    path = await started(hall, "asks")
    await seen(hall, path, "input_required")
    status, state = await send_json(hall, path, "DELETE")
    assert (status, state["state"]) == (200, "cancelled")
    status, page = await send_json(hall, "/tasks")
    assert status == 200
    assert [each["id"] for each in page["tasks"]] == [state["id"]]
    assert page["nextCursor"] is None
    assert (await send_json(hall, "/tasks?state=x"))[0] == 400


async def test_list_is_refused_to_callers_that_cannot_be_told_apart_and_to_a_bad_cursor() -> None:
    async with Toolhall(unguarded, config=Config(allow_anonymous=True)) as hall:
        path = "/tools/test_tasks/unguarded"
        reply = await send(hall, "POST", path, b"{}", {"content-type": "application/json", **ASYNC, **FORWARDED})
        assert reply.status == 202, reply.body
        location = dict(reply.headers)["location"]
        assert (await send_json(hall, "/tasks", headers=FORWARDED))[0] == 401
        assert (await send_json(hall, location, headers=FORWARDED))[0] == 200, "who knows its id may look at it"
        for cursor in ("zzz", "%00"):
            status, body = await send_json(hall, f"/tasks?cursor={cursor}")
            assert (status, body["error"]["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/tasks/{UNKNOWN}"),
        ("DELETE", f"/tasks/{UNKNOWN}"),
        ("POST", f"/tasks/{UNKNOWN}/input"),
        ("POST", f"/tasks/{UNKNOWN}"),
        ("GET", f"/tasks/{UNKNOWN}/input"),
        ("GET", "/tasks/"),
    ],
)
async def test_unknown_task_is_not_found(hall: Toolhall, method: str, path: str) -> None:
    status, body = await send_json(hall, path, method, {} if method == "POST" else None)
    assert (status, body["error"]["code"]) == (404, "not_found")


async def test_openapi_describes_the_operations_of_long_calls(hall: Toolhall) -> None:
    _, document = await send_json(hall, "/openapi.json")
    described = {path: set(methods) for path, methods in document["paths"].items() if path.startswith("/tasks")}
    assert described == {"/tasks": {"get"}, "/tasks/{id}": {"get", "delete"}, "/tasks/{id}/input": {"post"}}
