# ruff: noqa: N802 - tests carry the names of their rows
"""B8, I13, J8: tasks of others, tasks without number, and what is read of them in the files."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from tests.harness.asgi_client import FORWARDED, post_json, send
from tests.harness.http_client import Response
from tests.harness.long_calls import accepted, asking, attempt, ended, opened, start, token_caller
from tests.harness.mcp_messages import NOVEMBER, initialize, modern_meta, modern_request, request
from toolhall import Context, Toolhall, tool
from toolhall.model.errors import Limited
from toolhall.model.json import Json, JsonObject, encode
from toolhall.registration.access import NewKey
from toolhall.stores import tasks as stored

MARK = "mark-8d2f6c1b"
FORM: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
UNKNOWN = "0" * 32
ALICE = token_caller("alice")
TASKS: JsonObject = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
Headers: TypeAlias = dict[str, str]
Ask: TypeAlias = Callable[[Toolhall, Headers, str], Awaitable[Response]]


@tool(effect="reads", task=True)
async def asks(ctx: Context, what: str) -> str:
    """Ask for a name."""
    given = await ctx.ask(f"Which name of {what}?", FORM, key="name")
    return f"{what} {given.value['name'] if given.accepted else given.action}"


@pytest.fixture
async def hall(tmp_path: Path) -> AsyncIterator[Toolhall]:
    async with Toolhall(asks) as made:
        yield made


async def bearer(hall: Toolhall, name: str, *scopes: str) -> Headers:
    _, secret = await hall.access.keys.create(NewKey(name, scopes=scopes or ("tools:*",)), "test")
    return {"authorization": f"Bearer {secret}", **FORWARDED}


def modern(method: str, params: JsonObject) -> Ask:
    """A request of MCP 2026-07-28."""

    async def ask(hall: Toolhall, headers: Headers, task_id: str) -> Response:
        body, named = modern_request(method, {"taskId": task_id, **params}, meta=modern_meta(TASKS))
        accept = {"accept": "application/json, text/event-stream"}
        return await post_json(hall, "/mcp", encode(body), named | accept | headers)

    return ask


def core(method: str) -> Ask:
    """A request of MCP 2025-11-25, in a session of its own."""

    async def ask(hall: Toolhall, headers: Headers, task_id: str) -> Response:
        usual = {"accept": "application/json, text/event-stream", "mcp-protocol-version": NOVEMBER, **headers}
        begun = await post_json(hall, "/mcp", encode(initialize(NOVEMBER)), usual)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        params: Json = {} if method == "tasks/list" else {"taskId": task_id}
        return await post_json(hall, "/mcp", encode(request(method, params)), usual | session)

    return ask


def rest(method: str, path: str, body: bytes = b"") -> Ask:
    """A request of REST."""

    async def ask(hall: Toolhall, headers: Headers, task_id: str) -> Response:
        kind = {"content-type": "application/json"} if body else {}
        return await send(hall, method, path.format(task_id), body, kind | headers)

    return ask


ANSWER: JsonObject = {"name": {"action": "accept", "content": {"name": "Eve"}}}
WAYS: dict[str, Ask] = {
    "2026-07-28 get": modern("tasks/get", {}),
    "2026-07-28 update": modern("tasks/update", {"inputResponses": ANSWER}),
    "2026-07-28 cancel": modern("tasks/cancel", {}),
    "2025-11-25 get": core("tasks/get"),
    "2025-11-25 result": core("tasks/result"),
    "2025-11-25 cancel": core("tasks/cancel"),
    "2025-11-25 list": core("tasks/list"),
    "rest list": rest("GET", "/tasks"),
    "rest get": rest("GET", "/tasks/{}"),
    "rest cancel": rest("DELETE", "/tasks/{}"),
    "rest input": rest("POST", "/tasks/{}/input", encode(ANSWER)),
}


@pytest.mark.threat("B8")
@pytest.mark.parametrize("way", WAYS)
async def test_B8_task_of_another_answers_like_one_that_never_was(hall: Toolhall, way: str) -> None:
    """Listed, read, answered and cancelled: the same bytes but for the id, and nothing happens to the task."""
    task = await asking(hall, await start(hall, "asks", caller=ALICE, what="tea"), ALICE)
    bob = await bearer(hall, "bob")
    theirs, unknown = [await WAYS[way](hall, bob, task_id) for task_id in (task.id, UNKNOWN)]
    assert theirs.status == unknown.status
    assert theirs.body.replace(task.id.encode(), UNKNOWN.encode()) == unknown.body
    assert b"tea" not in theirs.body
    assert "list" not in way or task.id.encode() not in theirs.body
    assert (await hall.tasks.find(task.id, ALICE)).state == "input_required"


@pytest.mark.threat("B8")
async def test_B8_task_of_a_user_is_not_of_another_user_of_the_same_caller(hall: Toolhall) -> None:
    carol, dave = (msgspec.structs.replace(ALICE, acting_for=user) for user in ("carol", "dave"))
    task = await start(hall, "asks", caller=carol, what="tea")
    assert [each.id for each in (await hall.tasks.page(carol))[0]] == [task.id]
    for other in (dave, ALICE):
        assert (await hall.tasks.page(other))[0] == ()
        assert await hall.tasks.own([task.id], other) == []


@pytest.mark.threat("I13")
async def test_I13_open_tasks_of_a_caller_are_limited_and_leave_room_for_others(hall: Toolhall) -> None:
    for _ in range(stored.MAX_OPEN_PER_OWNER):
        await start(hall, "asks", caller=ALICE, what="tea")
    refused = await attempt(hall, "asks", caller=ALICE, what="tea")
    assert isinstance(refused, Limited)
    await start(hall, "asks", caller=token_caller("bob"), what="tea")


@pytest.mark.threat("J8")
async def test_J8_nothing_of_100_tasks_can_be_read_in_the_files(tmp_path: Path) -> None:
    """Their arguments, questions, answers and results hold a mark, which no file of the folder has in any form."""
    async with opened(tmp_path, asks) as hall:
        for number in range(100):
            caller = token_caller(f"caller-{number}")
            task = await asking(hall, await start(hall, "asks", caller=caller, what=MARK), caller)
            if number % 2:
                await hall.tasks.answer(task.id, caller, {"name": accepted(name=MARK)})
                assert (await ended(hall, task, caller)).state == "completed"
        await hall.journal.flush()
        while_open = everything(tmp_path)
    for found in (while_open, everything(tmp_path)):
        assert b"caller-99" in found, "the folder has the tasks"
        for form in (MARK.encode(), MARK.encode().hex().encode(), base64.b64encode(MARK.encode())[:-4]):
            assert form not in found


def everything(folder: Path) -> bytes:
    """Every byte in a folder."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())
