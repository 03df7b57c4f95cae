"""A tool server over real HTTP: one reply or many lines, the token, and calls that end with their connection."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from tests.unit.toolserver.handler_harness import EXECUTOR_LIMITS, request
from tests.unit.toolserver.tools import ExampleTool, Kit
from toolhall.authoring.definition import definitions_of
from toolhall.server.request_cycle import RequestCycle
from toolhall.server.tool_server import EmbeddedServer, JoinOptions, ServedToolServer
from toolhall.toolserver.handler import CallHandler
from toolhall.toolserver.http import ToolServerApp

TOKEN = "the-token-of-the-hall"
MAX_BODY = 10_000


class Client(httpx2.AsyncClient):
    """The hall."""

    handler: CallHandler

    async def say(self, message: Any, **options: Any) -> Any:
        reply = await self.post("/hub", json=message, **options)
        assert reply.headers["content-type"] == "application/json"
        return reply.json()


@asynccontextmanager
async def served(*targets: object, most: int = 256) -> AsyncGenerator[Client]:
    handler = CallHandler([each for target in targets for each in definitions_of(target)], EXECUTOR_LIMITS, most)
    terms = JoinOptions("http://127.0.0.1:1", "", "test", MAX_BODY)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = EmbeddedServer(ServedToolServer(ToolServerApp(handler, TOKEN, MAX_BODY), terms))
        serving = asyncio.create_task(server.serve([listening]))
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        async with Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False) as client:
            client.handler = handler
            yield client
        server.stop()
        await serving
        await handler.close()


async def test_tool_server_app_call_without_events_is_one_response() -> None:
    async with served(Kit) as hall:
        reply = await hall.post("/hub", json=request("add", {"a": 1}))
    assert (reply.status_code, reply.headers["content-type"]) == (200, "application/json")
    assert int(reply.headers["content-length"]) == len(reply.content)
    assert reply.json() == {"type": "tool_response", "id": "17", "result": {"sum": 2}, "error": None}


async def test_tool_server_app_response_is_written_by_the_server_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send_json = RequestCycle.send_json

    def counted(cycle: RequestCycle, status: int, body: bytes) -> bool:
        sent.append(status)
        return send_json(cycle, status, body)

    monkeypatch.setattr(RequestCycle, "send_json", counted)
    async with served(Kit) as hall:
        await hall.say(request("add", {"a": 1}))
    assert sent == [200]


async def test_tool_server_app_call_with_events_is_ndjson() -> None:
    async with served(Kit) as hall, hall.stream("POST", "/hub", json=request("tells")) as reply:
        assert (reply.status_code, reply.headers["content-type"]) == (200, "application/x-ndjson")
        assert "content-length" not in reply.headers
        lines = [json.loads(line) async for line in reply.aiter_lines()]
    assert [line["type"] for line in lines] == ["tool_progress", "tool_log"] * 2 + ["tool_response"]
    assert lines[-1]["result"] == {"result": "told"}


async def test_tool_server_app_question_is_answered_by_another_request() -> None:
    async with served(Kit) as hall, hall.stream("POST", "/hub", json=request("asks")) as reply:
        lines = reply.aiter_lines()
        question = json.loads(await anext(lines))
        (key,) = question["questions"]
        filled = {"kind": "filled", "action": "accept", "content": {"name": "Ann"}}
        answer = {"type": "tool_answer", "id": "17", "number": 1, "answers": {key: filled}}
        assert await hall.say(answer) == {"type": "response", "id": None, "result": {"status": "ok"}, "error": None}
        assert (await hall.say(answer))["error"]["code"] == "INVALID_PARAMS"
        assert json.loads(await anext(lines))["result"] == {"result": "Ann"}


async def test_tool_server_app_disconnect_cancels_call() -> None:
    kit = Kit()
    async with served(kit) as hall:
        calling = asyncio.create_task(hall.say(request("waits")))
        await kit.begun.wait()
        calling.cancel()
        await kit.left.wait()
        assert hall.handler.running == 0
        assert (await hall.say(request("add", {"a": 1})))["result"] == {"sum": 2}


async def test_tool_server_app_disconnect_cancels_streaming_call() -> None:
    kit = Kit()
    async with served(kit) as hall:
        async with hall.stream("POST", "/hub", json=request("asks")) as reply:
            await anext(reply.aiter_lines())
            assert hall.handler.running == 1
        await kit.left.wait()
        assert hall.handler.running == 0


async def test_tool_server_app_cancel_request_ends_call() -> None:
    kit = Kit()
    async with served(kit) as hall:
        calling = asyncio.create_task(hall.say(request("waits")))
        await kit.begun.wait()
        cancel = {"type": "request", "id": "c17", "method": "cancel", "params": {"id": "17"}}
        assert (await hall.say(cancel))["result"] == {"status": "cancelled"}
        assert (await calling)["error"]["code"] == "CANCELLED"


@pytest.mark.parametrize("credential", [None, "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer"])
async def test_tool_server_app_without_token_is_refused(credential: str | None) -> None:
    kit = Kit()
    async with served(kit) as hall:
        del hall.headers["authorization"]
        headers = {} if credential is None else {"authorization": credential}
        for message in (request("waits"), {"type": "request", "id": "h", "method": "health_check", "params": {}}):
            reply = await hall.post("/hub", json=message, headers=headers)
            assert reply.status_code == 401
            assert reply.json()["error"]["code"] == "UNAUTHENTICATED"
            assert TOKEN not in reply.text
    assert not kit.begun.is_set()


async def test_tool_server_app_repeated_token_is_refused() -> None:
    async with served(Kit) as hall:
        headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other")]
        del hall.headers["authorization"]
        assert (await hall.post("/hub", json=request("word"), headers=headers)).status_code == 400


async def test_tool_server_app_health_needs_no_token() -> None:
    example = ExampleTool()
    async with served(Kit, example) as hall:
        asked = {"type": "request", "id": "h1", "method": "health_check", "params": {}}
        body = {"status": "healthy", "components": {"tools": {"Kit": "healthy", "example-tool": "healthy"}}}
        assert await hall.say(asked) == {"type": "response", "id": "h1", "result": body, "error": None}
        del hall.headers["authorization"]
        assert (await hall.get("/health")).json() == body
        assert (await hall.get("/health/live")).json() == {"status": "alive"}


async def test_tool_server_app_unhealthy_is_503() -> None:
    example = ExampleTool()
    example.health = {"status": "unhealthy"}
    async with served(Kit, example) as hall:
        reply = await hall.get("/health")
        assert (reply.status_code, reply.json()["status"]) == (503, "unhealthy")
        assert (await hall.get("/health/live")).status_code == 200


@pytest.mark.parametrize("method", ["add", "crashes", "fails"])
async def test_tool_server_app_status_follows_error(method: str) -> None:
    async with served(Kit) as hall:
        reply = await hall.post("/hub", json=request(method))
    assert reply.status_code == (500 if method == "crashes" else 400)
    assert reply.json()["type"] == "tool_response"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/hub", b"", 405),
        ("POST", "/health", b"{}", 405),
        ("GET", "/", b"", 404),
        ("POST", "/hub", b"{", 400),
        ("POST", "/hub", b"[]", 400),
        ("POST", "/hub", b'{"type":"tool_request","id":17}', 400),
        ("POST", "/hub", b'{"type":"join"}', 400),
        ("POST", "/hub", b"\xff", 400),
        ("POST", "/hub", b" " * (MAX_BODY + 1), 413),
        ("POST", "/hub", b"[" * 5000, 400),
    ],
)
async def test_tool_server_app_invalid_message_is_refused(method: str, path: str, body: bytes, status: int) -> None:
    async with served(Kit) as hall:
        reply = await hall.request(method, path, content=body, headers={"content-type": "application/json"})
        assert reply.status_code == status
        assert reply.json()["error"]["message"]
        assert (await hall.say(request("add", {"a": 1})))["error"] is None


async def test_tool_server_app_many_concurrent_calls_get_responses() -> None:
    async with served(Kit) as hall:
        calls = [hall.say(request("add", {"a": number}, id=str(number))) for number in range(200)]
        answers = await asyncio.gather(*calls)
    assert [(each["id"], each["result"]["sum"]) for each in answers] == [(str(n), n + 1) for n in range(200)]


async def test_tool_server_app_refuses_websocket() -> None:
    upgrade = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    async with served(Kit) as hall:
        headers = {**upgrade, "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ=="}
        assert (await hall.get("/hub", headers=headers)).status_code == 403
