"""A tool server over a socket that it opened: called by the hall, in a real WebSocket."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from tests.unit.toolserver.handler_harness import EXECUTOR_LIMITS, request
from tests.unit.toolserver.tools import ExampleTool, Kit
from toolhall.authoring.definition import definitions_of
from toolhall.dialects.hub.lease_messages import HubRefusal, LeaseUnknown
from toolhall.toolserver.handler import CallHandler
from toolhall.toolserver.hub_websocket import WebSocketHubClient, open_hub_socket
from toolhall.toolserver.lease import HubUnavailable


class HubConnection:
    """The WebSocket connection on the side of the hall."""

    def __init__(self, connection: ServerConnection, server: WebSocketHubClient, handler: CallHandler) -> None:
        self.connection = connection
        self.server = server
        self.handler = handler

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
async def hub_connection(*targets: object, key: str = "the-key") -> AsyncGenerator[HubConnection]:
    handler = CallHandler([each for target in targets for each in definitions_of(target)], EXECUTOR_LIMITS)
    async with hall() as (url, connections), open_hub_socket(url, key, handler, 10_000) as server:
        serving = asyncio.create_task(server.serve())
        yield HubConnection(await connections.get(), server, handler)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    await handler.close()


async def test_hub_socket_connects_to_hub_with_key() -> None:
    async with hub_connection(Kit) as hub:
        asked = hub.connection.request
        assert asked is not None
        assert (asked.path, asked.headers["authorization"]) == ("/hub", "Bearer the-key")
        assert "permessage-deflate" not in asked.headers.get("sec-websocket-extensions", "")


async def test_hub_socket_calls_run_concurrently() -> None:
    kit = Kit()
    async with hub_connection(kit) as hub:
        await hub.say(request("waits", id="1"))
        await hub.say(request("add", {"a": 1}, id="2"))
        assert (await hub.hear())["id"] == "2"
        kit.gate.set()
        assert await hub.hear() == {
            "type": "tool_response",
            "id": "1",
            "result": {"result": "waited"},
            "error": None,
            "wrapped": True,
        }


async def test_hub_socket_carries_events_and_questions() -> None:
    async with hub_connection(Kit) as hub:
        await hub.say(request("tells"))
        said = [await hub.hear() for _ in range(5)]
        assert [each["type"] for each in said] == ["tool_progress", "tool_log"] * 2 + ["tool_response"]
        await hub.say(request("asks"))
        (key,) = (await hub.hear())["questions"]
        filled = {"kind": "filled", "action": "decline"}
        await hub.say({"type": "tool_answer", "id": "17", "number": 1, "answers": {key: filled}})
        assert (await hub.hear())["result"] == {"result": "decline"}


async def test_hub_socket_cancel_message_ends_call() -> None:
    kit = Kit()
    async with hub_connection(kit) as hub:
        await hub.say(request("waits"))
        await kit.begun.wait()
        await hub.say({"type": "request", "id": "c17", "method": "cancel", "params": {"id": "17"}})
        said = {each["id"]: each for each in (await hub.hear(), await hub.hear())}
        assert said["c17"]["result"] == {"status": "cancelled"}
        assert said["17"]["error"]["code"] == "CANCELLED"


async def test_hub_socket_close_cancels_calls() -> None:
    kit = Kit()
    async with hub_connection(kit) as hub:
        await hub.say(request("waits"))
        await kit.begun.wait()
        await hub.connection.close()
        await kit.left.wait()
        assert hub.handler.running == 0
        with pytest.raises(HubUnavailable):
            await hub.server.request("heartbeat", {})


async def test_hub_socket_carries_health_check() -> None:
    async with hub_connection(ExampleTool) as hub:
        await hub.say({"type": "request", "id": "h1", "method": "health_check", "params": {}})
        assert (await hub.hear())["result"]["components"] == {"tools": {"example-tool": "healthy"}}


async def test_hub_socket_carries_requests_to_hall() -> None:
    async with hub_connection(Kit) as hub:
        joining = asyncio.create_task(hub.server.request("join", {"server": "s"}))
        asked = await hub.hear()
        assert (asked["type"], asked["method"], asked["params"]) == ("request", "join", {"server": "s"})
        await hub.say({"type": "response", "id": "another", "result": {}, "error": None})
        await hub.say({"type": "response", "id": asked["id"], "result": {"lease": "l"}, "error": None})
        assert await joining == {"lease": "l"}
        beating = asyncio.create_task(hub.server.request("heartbeat", {}))
        unknown = {"code": "LEASE_UNKNOWN", "message": "?"}
        await hub.say({"type": "response", "id": (await hub.hear())["id"], "result": None, "error": unknown})
        with pytest.raises(LeaseUnknown):
            await beating


async def test_hub_socket_request_timeout_is_hub_unavailable() -> None:
    async with hub_connection(Kit) as hub:
        with pytest.raises(HubUnavailable, match="did not answer 'join'"):
            await hub.server.request("join", {}, 0.01)
        closed = asyncio.create_task(hub.server.request("join", {}))
        await hub.hear()
        await hub.connection.close()
        with pytest.raises(HubUnavailable, match="closed"):
            await closed


@pytest.mark.parametrize(
    "nonsense", ["{", "[]", "7", '{"type":"join"}', '{"type":"tool_progress","id":"17","progress":1}']
)
async def test_hub_socket_invalid_messages_are_ignored(nonsense: str) -> None:
    async with hub_connection(Kit) as hub:
        await hub.say(nonsense)
        await hub.say(request("add", {"a": 1}))
        assert (await hub.hear())["result"] == {"sum": 2}


async def test_hub_socket_oversized_message_closes_socket() -> None:
    async with hub_connection(Kit) as hub:
        await hub.say("x" * 20_000)
        await hub.connection.wait_closed()
        assert hub.connection.close_code == 1009


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

    handler = CallHandler([], EXECUTOR_LIMITS)
    async with hall(refuse) as (url, _):
        with pytest.raises(kind, match=said):
            async with open_hub_socket(url, "", handler, 10_000):
                pass
    await handler.close()


async def test_hub_socket_unreachable_hall_is_hub_unavailable() -> None:
    handler = CallHandler([], EXECUTOR_LIMITS)
    with pytest.raises(HubUnavailable, match="cannot be reached"):
        async with open_hub_socket("http://127.0.0.1:1", "", handler, 10_000):
            pass
    await handler.close()
