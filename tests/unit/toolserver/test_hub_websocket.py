"""A tool server over a socket that it opened: called by the hall, in a real WebSocket."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.unit.toolserver.calling import MEANS, request
from tests.unit.toolserver.tools import ExampleTool, Kit
from toolhall.authoring.definition import definitions_of
from toolhall.dialects.hub.lease_messages import HubRefusal, LeaseUnknown
from toolhall.toolserver.handler import CallHandler
from toolhall.toolserver.hub_websocket import WebSocketHubClient, open_hub_socket
from toolhall.toolserver.lease import HubUnavailable


class Line:
    """The hall's end of the socket."""

    def __init__(self, connection: ServerConnection, server: WebSocketHubClient, desk: CallHandler) -> None:
        self.connection = connection
        self.server = server
        self.desk = desk

    async def say(self, message: Any) -> None:
        await self.connection.send(message if isinstance(message, str) else json.dumps(message))

    async def hear(self) -> Any:
        message = await self.connection.recv()
        assert isinstance(message, str), "messages are texts"
        return json.loads(message)


@asynccontextmanager
async def hall(
    accept: Callable[[ServerConnection, Any], Any] | None = None,
) -> AsyncGenerator[tuple[str, "asyncio.Queue[ServerConnection]"]]:
    connections: asyncio.Queue[ServerConnection] = asyncio.Queue()

    async def handle(connection: ServerConnection) -> None:
        connections.put_nowait(connection)
        await connection.wait_closed()

    async with serve(handle, "127.0.0.1", 0, process_request=accept, close_timeout=1) as server:
        (listening,) = server.sockets
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", connections


@asynccontextmanager
async def line_to(*targets: object, key: str = "the-key") -> AsyncGenerator[Line]:
    desk = CallHandler([each for target in targets for each in definitions_of(target)], MEANS)
    async with hall() as (url, connections), open_hub_socket(url, key, desk, 10_000) as server:
        serving = asyncio.create_task(server.serve())
        yield Line(await connections.get(), server, desk)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    await desk.close()


async def test_hub_socket_connects_to_hub_with_key() -> None:
    async with line_to(Kit) as line:
        asked = line.connection.request
        assert asked is not None
        assert (asked.path, asked.headers["authorization"]) == ("/hub", "Bearer the-key")
        assert "permessage-deflate" not in asked.headers.get("sec-websocket-extensions", "")


async def test_hub_socket_calls_run_concurrently() -> None:
    kit = Kit()
    async with line_to(kit) as line:
        await line.say(request("waits", id="1"))
        await line.say(request("add", {"a": 1}, id="2"))
        assert (await line.hear())["id"] == "2"
        kit.gate.set()
        assert await line.hear() == {
            "type": "tool_response",
            "id": "1",
            "result": {"result": "waited"},
            "error": None,
            "wrapped": True,
        }


async def test_hub_socket_carries_events_and_questions() -> None:
    async with line_to(Kit) as line:
        await line.say(request("tells"))
        said = [await line.hear() for _ in range(5)]
        assert [each["type"] for each in said] == ["tool_progress", "tool_log"] * 2 + ["tool_response"]
        await line.say(request("asks"))
        (key,) = (await line.hear())["questions"]
        filled = {"kind": "filled", "action": "decline"}
        await line.say({"type": "tool_answer", "id": "17", "number": 1, "answers": {key: filled}})
        assert (await line.hear())["result"] == {"result": "decline"}


async def test_hub_socket_cancel_message_ends_call() -> None:
    kit = Kit()
    async with line_to(kit) as line:
        await line.say(request("waits"))
        await kit.begun.wait()
        await line.say({"type": "request", "id": "c17", "method": "cancel", "params": {"id": "17"}})
        said = {each["id"]: each for each in (await line.hear(), await line.hear())}
        assert said["c17"]["result"] == {"status": "cancelled"}
        assert said["17"]["error"]["code"] == "CANCELLED"


async def test_hub_socket_close_cancels_calls() -> None:
    kit = Kit()
    async with line_to(kit) as line:
        await line.say(request("waits"))
        await kit.begun.wait()
        await line.connection.close()
        await kit.left.wait()
        assert line.desk.running == 0
        with pytest.raises(HubUnavailable):
            await line.server.request("heartbeat", {})


async def test_hub_socket_carries_health_check() -> None:
    async with line_to(ExampleTool) as line:
        await line.say({"type": "request", "id": "h1", "method": "health_check", "params": {}})
        assert (await line.hear())["result"]["components"] == {"tools": {"example-tool": "healthy"}}


async def test_hub_socket_carries_requests_to_hall() -> None:
    async with line_to(Kit) as line:
        joining = asyncio.create_task(line.server.request("join", {"server": "s"}))
        asked = await line.hear()
        assert (asked["type"], asked["method"], asked["params"]) == ("request", "join", {"server": "s"})
        await line.say({"type": "response", "id": "another", "result": {}, "error": None})
        await line.say({"type": "response", "id": asked["id"], "result": {"lease": "l"}, "error": None})
        assert await joining == {"lease": "l"}
        beating = asyncio.create_task(line.server.request("heartbeat", {}))
        unknown = {"code": "LEASE_UNKNOWN", "message": "?"}
        await line.say({"type": "response", "id": (await line.hear())["id"], "result": None, "error": unknown})
        with pytest.raises(LeaseUnknown):
            await beating


async def test_hub_socket_request_timeout_is_hub_unavailable() -> None:
    async with line_to(Kit) as line:
        with pytest.raises(HubUnavailable, match="did not answer 'join'"):
            await line.server.request("join", {}, 0.01)
        closed = asyncio.create_task(line.server.request("join", {}))
        await line.hear()
        await line.connection.close()
        with pytest.raises(HubUnavailable, match="closed"):
            await closed


@pytest.mark.parametrize(
    "nonsense", ["{", "[]", "7", '{"type":"join"}', '{"type":"tool_progress","id":"17","progress":1}']
)
async def test_hub_socket_invalid_messages_are_ignored(nonsense: str) -> None:
    async with line_to(Kit) as line:
        await line.say(nonsense)
        await line.say(request("add", {"a": 1}))
        assert (await line.hear())["result"] == {"sum": 2}


async def test_hub_socket_oversized_message_closes_socket() -> None:
    async with line_to(Kit) as line:
        await line.say("x" * 20_000)
        await line.connection.wait_closed()
        assert line.connection.close_code == 1009


@pytest.mark.parametrize(
    ("status", "body", "kind", "said"),
    [
        (
            401,
            '{"type":"response","id":null,"error":{"code":"UNAUTHENTICATED","message":"no key"}}',
            HubRefusal,
            "no key",
        ),
        (403, "", HubRefusal, "status 403"),
        (404, "<html>", HubRefusal, "status 404"),
        (302, "", HubRefusal, "sends on"),
        (503, "", HubUnavailable, "status 503"),
    ],
)
async def test_hub_socket_refused_connection_raises(status: int, body: str, kind: type[Exception], said: str) -> None:
    def refuse(connection: ServerConnection, _: Any) -> Any:
        refused = connection.respond(status, body)
        refused.headers["location"] = "ws://127.0.0.1:1/hub"
        return refused

    desk = CallHandler([], MEANS)
    async with hall(refuse) as (url, _):
        with pytest.raises(kind, match=said):
            async with open_hub_socket(url, "", desk, 10_000):
                pass
    await desk.close()


async def test_hub_socket_unreachable_hall_is_hub_unavailable() -> None:
    desk = CallHandler([], MEANS)
    with pytest.raises(HubUnavailable, match="cannot be reached"):
        async with open_hub_socket("http://127.0.0.1:1", "", desk, 10_000):
            pass
    await desk.close()
