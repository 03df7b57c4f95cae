"""Long calls in a hall whose vault has no key, or has it no more."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.harness.asgi_client import send, send_json
from tests.harness.long_calls import accepted, asking, attempt, ended, left_by_kill, opened, start, until
from tests.harness.mcp_messages import modern_meta, modern_request
from toolhall import Config, Context, Task, Toolhall, tool
from toolhall.model.caller import LOCAL
from toolhall.model.errors import Unavailable
from toolhall.model.json import JsonObject
from toolhall.model.messages import CallTool, CompletedCall
from toolhall.model.secret import Secret
from toolhall.pipeline.tasks import run
from toolhall.stores.common import StoreFailed
from toolhall.stores.vault.key_sources import generate_key

EXTENSION = "io.modelcontextprotocol/tasks"
TAKES_TASKS = modern_meta({"extensions": {EXTENSION: {}}})
NAME: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}}


@tool(effect="reads", level=0, task=True)
async def offered() -> str:
    """Answer at once."""
    return "done"


@tool(effect="reads", level=0, task=Task(required=True))
async def required() -> str:
    """Answer as a task only."""
    return "done"


@tool(effect="reads", task=True)
async def endless() -> None:
    """Never end."""
    await asyncio.Event().wait()


@tool(effect="writes", task=True)
async def ask(ctx: Context) -> str:
    """Ask for a name."""
    return (await ctx.ask("Name?", NAME, key="name")).action


def config(data: Path, **settings: Any) -> Config:
    return Config(data=str(data), profile="server", allow_anonymous=True, **settings)


async def asked_by_mcp(hall: Toolhall, method: str, params: JsonObject | None = None) -> Any:
    body, headers = modern_request(method, params or {}, meta=TAKES_TASKS)
    reply = await send(hall, "POST", "/mcp", msgspec.json.encode(body), {"content-type": "application/json", **headers})
    return msgspec.json.decode(reply.body)


# --- where no task can be stored --------------------------------------------------------------------------------------


async def test_hall_that_cannot_store_tasks_says_so_at_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("WARNING", "toolhall.tasks"):
        async with Toolhall(offered, config=config(tmp_path / "with", vault_key=generate_key())):
            pass
        assert caplog.messages == []
        async with Toolhall(offered, config=config(tmp_path / "without")):
            pass
    (warning,) = caplog.messages
    assert warning.startswith("long calls cannot be stored")
    assert "set TOOLHALL_VAULT_KEY" in warning


@pytest.mark.parametrize("key", [True, False])
async def test_tasks_are_declared_where_they_can_be_stored(tmp_path: Path, key: bool) -> None:
    settings = {"vault_key": generate_key()} if key else {}
    async with Toolhall(offered, config=config(tmp_path, **settings)) as hall:
        discovered = await asked_by_mcp(hall, "server/discover")
        assert (EXTENSION in discovered["result"]["capabilities"].get("extensions", {})) is key
        got = await asked_by_mcp(hall, "tasks/get", {"taskId": "0" * 32})
        assert got["error"]["code"] == (-32602 if key else -32601)
        client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
        accept = {"accept": "application/json, text/event-stream"}
        _, core = await send_json(hall, "/mcp", "POST", initialize, accept)
        assert ("tasks" in core["result"]["capabilities"]) is key


async def test_tools_answer_in_line_or_are_refused_where_no_task_can_be_stored(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Toolhall(offered, required, config=config(tmp_path)) as hall:
        called = await asked_by_mcp(hall, "tools/call", {"name": "offered", "arguments": {}})
        assert called["result"]["content"] == [{"type": "text", "text": "done"}]
        assert called["result"]["resultType"] == "complete"
        path, prefer = "/tools/test_task_keys", {"prefer": "respond-async"}
        assert await send_json(hall, f"{path}/offered", "POST", {}, prefer) == (200, "done")
        caplog.clear()
        status, body = await send_json(hall, f"{path}/required", "POST", {}, prefer)
        assert (status, body["error"]["code"]) == (503, "unavailable")
        assert "tell its operator" in body["error"]["message"]
        assert "VAULT_KEY" not in str(body)
        assert any("set TOOLHALL_VAULT_KEY" in message for message in caplog.messages)
        refused = await attempt(hall, "required")
        assert isinstance(refused, Unavailable)
        assert isinstance(await attempt(hall, "offered"), CompletedCall)
        assert await hall.tasks.rows_of_all() == ()
        in_line = await hall.dispatcher.answer(CallTool("required", {}, "memory"), LOCAL)
        assert isinstance(in_line, Unavailable)


# --- where the key is gone --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [None, generate_key()], ids=["no key", "another key"])
async def test_hall_starts_without_the_key_of_its_tasks_which_have_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str | None
) -> None:
    monkeypatch.setattr(run, "SET_DOWN_SECONDS", 0.01)
    tools, key = (offered, endless, ask), generate_key()
    async with opened(tmp_path / "data", *tools, profile="server", vault_key=key) as hall:
        done = await ended(hall, await start(hall, "offered"))
        running = await start(hall, "endless")
        waiting = await asking(hall, await start(hall, "ask"))
        await until(lambda: hall.tasks.running == 1)
        left = left_by_kill(tmp_path / "data", tmp_path / "left")
    async with opened(left, *tools, profile="server", vault_key=other) as again:
        for task in (done, running, waiting):
            view = await ended(again, task)
            assert (view.state, view.status) == ("failed", "this task cannot be read any more")
            assert isinstance(view.outcome, Unavailable)
        assert len((await again.tasks.page(LOCAL))[0]) == 3, "what does not open does not hide the others"
    async with opened(left, *tools, profile="server", vault_key=key) as restored:
        states = {task.id: (await restored.tasks.find(task.id, LOCAL)).state for task in (done, running, waiting)}
        assert states == {done.id: "completed", running.id: "failed", waiting.id: "failed"}, "ends are final"
        await restored.tasks.answer(waiting.id, LOCAL, {"name": accepted(name="late")})
        assert (await restored.tasks.find(waiting.id, LOCAL)).state == "failed"


async def test_hall_with_secrets_does_not_start_without_their_key(tmp_path: Path) -> None:
    async with opened(tmp_path, offered, profile="server", vault_key=generate_key()) as hall:
        await ended(hall, await start(hall, "offered"))
        await hall.credentials.vault.set("KEY", Secret("value"), None, "me")
    with pytest.raises(StoreFailed, match="secrets are stored here"):
        async with opened(tmp_path, offered, profile="server"):
            pass
