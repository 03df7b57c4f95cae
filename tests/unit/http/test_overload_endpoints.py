"""A hall whose every place is taken by calls of its tool servers hears them all the same, and loses none."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.docs.test_dialects import posted
from tests.harness.asgi_client import send_json
from tests.unit.execution.remote.fake_tool_server import (
    ServerConnection,
    fake_tool_server,
    http_response,
    tool_response,
    until,
)
from tests.unit.execution.remote.fake_transports import eventually
from toolhall import Config, Toolhall
from toolhall.http.request_slots import ConcurrencyLimiter
from toolhall.http.websocket import MAX_CONCURRENT_CALLS, MAX_CONCURRENT_LEASE_MESSAGES
from toolhall.model.caller import LOCAL
from toolhall.model.json import encode
from toolhall.pipeline.limit import Concurrency
from toolhall.registration.access import NewKey

PLACES = 1  # one caller gets no more than half of more
NO_END = 600.0  # how long a message waits for a slot
CREATE = {"name": "create", "dev.toolhall/tool": {"level": 1}}
DECLARED = {"tool": {"name": "Calendar", "version": "1.0.0", "capabilities": {"methods": [CREATE]}}}
JOIN = {"server": "calendars", "replica": "replica-0123456789", "tools": [DECLARED]}
CALL = {"type": "tool_request", "id": "7", "tool": "Calendar", "method": "create", "params": {}}


def request(number: str, method: str, **params: Any) -> dict[str, Any]:
    return {"type": "request", "id": number, "method": method, "params": params}


class ToolSocket:
    """A tool server's side of a WebSocket to a hall."""

    def __init__(self) -> None:
        self._sent: asyncio.Queue[Any] = asyncio.Queue()
        self.heard: list[Any] = []
        self._sent.put_nowait({"type": "websocket.connect"})

    def say(self, message: Any) -> None:
        self._sent.put_nowait({"type": "websocket.receive", "text": json.dumps(message)})

    def hang_up(self) -> None:
        self._sent.put_nowait({"type": "websocket.disconnect"})

    async def receive(self) -> Any:
        return await self._sent.get()

    async def send(self, part: Any) -> None:
        if "text" in part:
            self.heard.append(json.loads(part["text"]))

    @property
    def calls(self) -> list[str]:
        return [each["id"] for each in self.heard if each["type"] == "tool_request"]

    async def answer(self, number: str) -> Any:
        """To a request of ours."""
        await eventually(lambda: any(each.get("id") == number for each in self.heard))
        return next(each for each in self.heard if each.get("id") == number)


@asynccontextmanager
async def open_socket(hall: Toolhall, **headers: str) -> AsyncGenerator[ToolSocket]:
    server = ToolSocket()
    pairs = [(name.encode(), said.encode()) for name, said in ({"host": "localhost"} | headers).items()]
    scope = {"type": "websocket", "path": "/hub", "headers": pairs, "client": None}
    serving = asyncio.create_task(hall(scope, server.receive, server.send))
    try:
        yield server
    finally:
        server.hang_up()
        await serving


async def fill_slots(hall: Toolhall, places: int = PLACES) -> "list[asyncio.Task[Any]]":
    """Every place has a call in it."""
    calls = [asyncio.create_task(send_json(hall, "/hub", "POST", CALL)) for _ in range(places)]
    await until(lambda: hall.http.limiter.running == places)
    return calls


async def test_websocket_of_full_hall_reads_everything() -> None:
    with Toolhall(config=Config(concurrency=Concurrency(total=PLACES))) as hall:
        hall.http.limiter = ConcurrencyLimiter(PLACES, NO_END)
        async with open_socket(hall) as server:
            server.say(request("j", "join", **JOIN))
            lease = (await server.answer("j"))["result"]["lease"]
            calls = await fill_slots(hall)
            await eventually(lambda: len(server.calls) == PLACES)
            server.say(request("b", "heartbeat", lease=lease))
            assert (await server.answer("b"))["result"]["status"] == "ok"
            server.say(request("h", "health_check"))  # waits for a slot
            server.say(request("l", "leave", lease=lease))
            for call_id in server.calls:
                server.say({"type": "tool_response", "id": call_id, "result": {"done": True}, "error": None})
            assert [status for status, _ in await asyncio.gather(*calls)] == [200] * PLACES
            assert (await server.answer("l"))["result"] == {"status": "left", "running": 0}
            assert (await server.answer("h"))["result"]["status"]
        assert hall.http.limiter.running == 0


async def test_websocket_join_to_full_hall_succeeds() -> None:
    with Toolhall(config=Config(concurrency=Concurrency(total=1))) as hall:
        async with open_socket(hall) as first, open_socket(hall) as second:
            first.say(request("j", "join", **JOIN))
            await first.answer("j")
            (call,) = await fill_slots(hall, 1)
            second.say(request("j", "join", **JOIN | {"replica": "another-0123456789"}))
            assert "lease" in (await second.answer("j"))["result"]
            first.hang_up()
            assert (await call)[0] == 503


@pytest.mark.parametrize(
    ("method", "most"), [("leave", MAX_CONCURRENT_LEASE_MESSAGES), ("health_check", MAX_CONCURRENT_CALLS)]
)
async def test_websocket_excess_messages_are_rejected_singly(method: str, most: int) -> None:
    with Toolhall(config=Config(concurrency=Concurrency(total=1))) as hall:
        hall.http.limiter = ConcurrencyLimiter(1, NO_END)
        async with open_socket(hall) as server:
            server.say(request("j", "join", **JOIN))
            lease = (await server.answer("j"))["result"]["lease"]
            (call,) = await fill_slots(hall, 1)
            await eventually(lambda: bool(server.calls))
            for number in range(most + 1):
                server.say(request(f"m{number}", method, lease=lease))
            turned_away = await server.answer(f"m{most}")
            assert turned_away["error"]["code"] == "RATE_LIMITED"
            assert turned_away["type"] == "response"
            server.say({"type": "tool_response", "id": server.calls[0], "result": {}, "error": None})
            assert (await call)[0] == 200
            assert (await server.answer("m0"))["error"] is None


async def test_websocket_of_ordinary_caller_waits_for_slot() -> None:
    """Else whoever has a key could have messages read that nobody counts."""
    config = Config(profile="server", concurrency=Concurrency(total=1))
    with Toolhall(config=config) as hall:
        _, by = await create_key(hall, "ci")
        hall.http.limiter = admission = ConcurrencyLimiter(1, NO_END)
        async with open_socket(hall, **by) as server:
            slot = admission.try_acquire(LOCAL, "/hub")
            assert slot is not None
            server.say(request("j", "join", **JOIN))
            for _ in range(50):
                await asyncio.sleep(0)
            assert server.heard == []
            slot.release(LOCAL.id)
            assert (await server.answer("j"))["error"]["code"] == "FORBIDDEN"


class ListeningToolServer:
    """A tool server that listens: it answers probes, and calls when a test says so."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.calls = 0

    async def __call__(self, body: bytes, wire: ServerConnection) -> None:
        message = json.loads(body)
        if message["type"] == "request":
            result = {"status": "healthy", "components": {"tools": {}}}
            wire.write(
                http_response(encode({"type": "response", "id": message["id"], "result": result, "error": None}))
            )
            return
        self.calls += 1
        await self.gate.wait()
        wire.write(http_response(tool_response(message["id"], {"done": True})))


async def create_key(hall: Toolhall, name: str, *scopes: str) -> tuple[str, dict[str, str]]:
    key, text = await hall.access.keys.create(NewKey(name, scopes=scopes), "test")
    return key.id, {"authorization": f"Bearer {text}"}


@pytest.mark.parametrize("revoked", [False, True])
async def test_http_replica_survives_rejected_heartbeats(revoked: bool) -> None:
    """Unless its key was revoked: then nothing that it says would be heard anyway."""
    server = ListeningToolServer()
    config = Config(profile="server", concurrency=Concurrency(total=PLACES), egress_allow=("127.0.0.1",))
    async with fake_tool_server(server) as listening:
        with Toolhall(config=config) as hall:
            await hall.open()
            key, by = await create_key(hall, "calendars", "serve:Calendar", "trusted")
            _, boss = await create_key(hall, "boss", "admin", "tools:*")
            place = {"url": listening.url, "token": "token-0123456789"}
            _, joined = await send_json(hall, "/hub", "POST", request("j", "join", **JOIN, **place), by)
            beat = request("b", "heartbeat", lease=joined["result"]["lease"])
            calls = [asyncio.create_task(send_json(hall, "/hub", "POST", CALL, boss)) for _ in range(PLACES)]
            await until(lambda: server.calls == PLACES)
            assert (await send_json(hall, "/hub", "POST", beat, by))[0] == 503
            (replica,) = hall.tool_servers.pools
            await until(lambda: replica.last_probe_succeeded)
            if revoked:
                await hall.access.keys.revoke(key)
            for _ in range(3):
                replica.last_seen -= 16
                hall.tool_servers.leases.expire()
            assert len(hall.tool_servers.pools) == (0 if revoked else 1)
            server.gate.set()
            assert [status for status, _ in await asyncio.gather(*calls)] == [503 if revoked else 200] * PLACES
            await hall.settle()


async def test_http_replica_that_is_silent_is_removed() -> None:
    server = ListeningToolServer()
    async with fake_tool_server(server) as listening:
        with Toolhall(config=Config(concurrency=Concurrency(total=1))) as hall:
            place = {"url": listening.url, "token": "token-0123456789"}
            hall.tool_servers.leases.is_overloaded = lambda: True
            found = await posted(hall, "/hub", encode(request("j", "join", **JOIN, **place)))
            assert "lease" in found["result"]
            (replica,) = hall.tool_servers.pools
            replica.record_probe("healthy", {})
            replica.record_probe_failure()
            replica.last_seen -= 16
            hall.tool_servers.leases.expire()
            assert len(hall.tool_servers.pools) == 0
