"""Opening a session: which era a server speaks, both handshakes, the old transport, and what is no MCP server."""

import asyncio
import json
from typing import Any

import pytest

from tests.harness.call_trace import serving as serving_hall
from tests.harness.patience import patience
from tests.servers.http_mcp import LOCAL, MODERN, HttpMcpServer, Wire, serving
from tests.unit.mcp_client.session_client import LISTENING, QUIET, Events, Hooks, call, session_with
from toolhall import Context, tool
from toolhall.dialects.mcp.client_handshake import Era
from toolhall.dialects.mcp.client_questions import read_open_questions, retry_params, write_reply
from toolhall.dialects.mcp.client_results import ListReader, read_call_result
from toolhall.mcp_client.connect import open_session
from toolhall.mcp_client.session import (
    McpRequest,
    McpSession,
    NotAcceptable,
    NotSent,
    RateLimited,
    RequestLost,
    RpcError,
    SessionError,
    Unauthorized,
)
from toolhall.mcp_client.targets import ClientProfile, HttpTarget
from toolhall.model.content import Text
from toolhall.model.json import JsonObject
from toolhall.model.messages import Filled, LogEvent, ProgressEvent


async def refused(server: HttpMcpServer, **options: Any) -> SessionError:
    with pytest.raises(SessionError) as found:
        async with session_with(server, **options):
            pass
    return found.value


# --- eras -------------------------------------------------------------------------------------------------------------


async def test_known_legacy_server_is_not_asked_for_its_era() -> None:
    async with serving(HttpMcpServer("2025-11-25")) as server, session_with(server, era="legacy"):
        assert server.methods()[0] == "initialize"


async def test_legacy_server_that_became_modern_is_found_out() -> None:
    async with serving(HttpMcpServer(MODERN)) as server, session_with(server, era="legacy") as session:
        assert session.server.revision.name == MODERN
        assert server.methods()[:2] == ["initialize", "server/discover"]


async def test_modern_server_that_became_legacy_is_found_out() -> None:
    async with serving(HttpMcpServer("2025-06-18")) as server, session_with(server, era="modern") as session:
        assert session.server.revision.name == "2025-06-18"


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "401 Unauthorized"])
async def test_undecided_answer_is_no_era(status: str) -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        wire.send(b"later", status, "Retry-After: 3", "WWW-Authenticate: Bearer")

    server.on["server/discover"] = answer
    async with serving(server):
        error = await refused(server)
        assert isinstance(error, Unauthorized if status.startswith("401") else RateLimited)
        assert server.methods() == ["server/discover"]


async def test_server_that_lists_other_versions_is_named_with_them() -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        wire.error(-32022, status="400 Bad Request", data={"supported": versions})

    server.on["server/discover"] = answer
    async with serving(server):
        versions = ["2027-01-01"]
        error = await refused(server)
        assert isinstance(error, NotAcceptable)
        assert "2027-01-01" in error.reason
        versions = ["2027-01-01", "2025-11-25"]
        async with session_with(server) as session:
            assert session.server.revision.name == "2025-11-25"


async def test_server_that_is_silent_to_what_it_does_not_know_is_legacy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.mcp_client.connect.DISCOVER_SECONDS", 0.05)
    server = HttpMcpServer("2025-11-25")

    async def silent(wire: Wire) -> None:
        await wire.gone()

    server.on["server/discover"] = silent
    async with serving(server), session_with(server) as session:
        await session.request(call())


async def test_handshake_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.mcp_client.connect.HANDSHAKE_SECONDS", 0.05)
    server = HttpMcpServer("2025-11-25")

    async def silent(wire: Wire) -> None:
        await wire.gone()

    server.on["initialize"] = silent
    async with serving(server):
        error = await refused(server)
        assert isinstance(error, RequestLost)
        assert "handshake" in error.reason


@pytest.mark.parametrize("revision", ["1999-01-01", MODERN, None])
async def test_unknown_revision_is_refused_by_its_name(revision: str | None) -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        wire.result({"protocolVersion": revision, "capabilities": {}, "serverInfo": {}})

    server.on["initialize"] = answer
    async with serving(server):
        error = await refused(server)
        assert isinstance(error, NotAcceptable)
        assert repr(revision) in error.reason


async def test_log_level_is_set_where_the_server_logs() -> None:
    server = HttpMcpServer("2025-11-25", capabilities={"logging": {}})
    async with serving(server), session_with(server) as session:
        assert server.named("logging/setLevel")[0].message["params"] == {"level": "info"}
        assert session.server.has("logging")


async def test_handshake_may_be_answered_with_event_streams() -> None:
    server = HttpMcpServer("2025-11-25")

    async def discover(wire: Wire) -> None:
        wire.start_stream()
        wire.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})
        wire.event({"jsonrpc": "2.0", "id": wire.message["id"], "error": {"code": -32601, "message": "none"}})
        wire.end_stream()

    async def initialize(wire: Wire) -> None:
        wire.start_stream("Mcp-Session-Id: session-1")
        wire.chunk("id: 1\nretry: 10\ndata:\n\n")
        wire.event(wire.response({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}))
        wire.end_stream()

    server.on |= {"server/discover": discover, "initialize": initialize}
    async with serving(server), session_with(server) as session:
        await session.request(call())


# --- what is no MCP server --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "kind", "why"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", NotAcceptable, "text/html"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 6\r\n\r\n<html>", NotAcceptable, "URL of an MCP endpoint"),
        (b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n", NotAcceptable, "URL of an MCP endpoint"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", RequestLost, "HTTP 500"),
        (
            b"HTTP/1.1 301 Moved\r\nLocation: https://other.example/mcp?k=secret\r\nContent-Length: 0\r\n\r\n",
            NotAcceptable,
            "https://other.example/mcp)",
        ),
        (b"220 smtp.example ESMTP\r\n", RequestLost, "no HTTP"),
        (b"", RequestLost, "closed the connection"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000, RequestLost, "more around it"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n" + b" " * 70_000,
            NotAcceptable,
            "60000 bytes",
        ),
    ],
    ids=range(9),
)
async def test_what_is_no_server_says_what_it_is(answer: bytes, kind: type[SessionError], why: str) -> None:
    server = HttpMcpServer("2025-11-25")

    async def respond(wire: Wire) -> None:
        wire.write(answer)
        if b"Content-Length" not in answer:
            wire.cut()

    profile = ClientProfile(name="test", version="1", max_message_bytes=60_000)
    async with serving(server, respond):
        error = await refused(server, profile=profile)
        assert isinstance(error, kind), error
        assert why in error.reason
        assert "secret" not in error.reason


async def test_closed_port_and_forbidden_address_are_not_sent_to() -> None:
    async with serving(HttpMcpServer("2025-11-25")) as server:
        pass
    assert isinstance(await refused(server), NotSent)
    for url in ("http://169.254.169.254/mcp", "https://10.0.0.1/mcp", "http://example.com/mcp", "ftp://a.example"):
        with pytest.raises(NotAcceptable):
            await open_session(HttpTarget(url), QUIET, Events(), dialer=LOCAL)


@pytest.mark.parametrize("session_id", ["a b", "x" * 2_000, "\x01"])
async def test_session_id_that_cannot_be_sent_back_is_refused(session_id: str) -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}
        wire.result(result, f"Mcp-Session-Id: {session_id}")

    server.on["initialize"] = answer
    async with serving(server):
        assert isinstance(await refused(server), RequestLost)


# --- HTTP+SSE ---------------------------------------------------------------------------------------------------------


class OldServer(HttpMcpServer):
    """A server of 2024-11-05: answers come on the stream of the GET."""

    def __init__(self, endpoint: str = "/messages?id=1") -> None:
        super().__init__("2024-11-05")
        self.endpoint = endpoint
        self.stream: Wire
        self.on["GET"] = self._open

    async def answer(self, wire: Wire) -> None:
        if wire.method == "POST" and wire.path == "/mcp":
            self.seen.append(wire)
            wire.send(b"", "405 Method Not Allowed")
        elif wire.method == "POST" and "id" in wire.message and wire.rpc != "answer" and wire.rpc not in self.on:
            async with self._came:
                self.seen.append(wire)
                self._came.notify_all()
            wire.send(b"Accepted", "202 Accepted")
            if wire.rpc == "initialize":
                result: JsonObject = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {}}
            else:
                result = {"content": [{"type": "text", "text": json.dumps(wire.message["params"].get("arguments"))}]}
            self.stream.event(wire.response(result))
        else:
            await super().answer(wire)

    async def _open(self, wire: Wire) -> None:
        self.stream = wire
        wire.start_stream()
        wire.event(self.endpoint, "event: endpoint")


@pytest.mark.parametrize("transport", ["auto", "sse"])
async def test_old_transport_is_spoken(transport: Any) -> None:
    async with serving(OldServer()) as server:
        credentials = (("Authorization", "Bearer t"),)
        async with session_with(server, transport=transport, credentials=credentials) as session:
            texts = [read_call_result(await session.request(call(arguments=n))).content for n in range(3)]
            assert texts == [(Text(str(n)),) for n in range(3)]
            assert (session.server.revision.name, session.running) == ("2024-11-05", 0)
            for wire in [*server.named("GET"), *server.named("tools/call")]:
                assert wire.headers["authorization"] == "Bearer t"
            assert {wire.path for wire in server.named("tools/call")} == {"/messages?id=1"}
        assert not session.is_open


async def test_old_transport_is_not_tried_if_the_other_one_is_stated() -> None:
    async with serving(OldServer()) as server:
        assert isinstance(await refused(server, transport="http"), NotAcceptable)
        assert server.named("GET") == []


@pytest.mark.parametrize(
    "endpoint", ["https://evil.example/m", "//evil.example/m", "http://127.0.0.1:1/m", "file:///x", "http://["]
)
@pytest.mark.threat("E10")
async def test_endpoint_of_another_origin_is_refused(endpoint: str) -> None:
    async with serving(OldServer(endpoint)) as server:
        error = await refused(server, transport="sse")
        assert isinstance(error, NotAcceptable)
        assert server.methods() == ["GET"]


async def test_old_transport_passes_questions_progress_and_cancellation() -> None:
    server = OldServer()

    async def ask(wire: Wire) -> None:
        wire.send(b"", "202 Accepted")
        progress = {"progressToken": wire.message["id"], "progress": 1}
        server.stream.event({"method": "notifications/progress", "params": progress})
        server.stream.event({"id": 9, "method": "sampling/createMessage", "params": {}})

    async def take(wire: Wire) -> None:
        wire.send(b"", "202 Accepted")
        server.stream.event(server.named("tools/call")[0].response(wire.message))

    async def hang(wire: Wire) -> None:
        wire.send(b"", "202 Accepted")

    async def sample(method: str, params: JsonObject) -> JsonObject:
        assert (method, params) == ("sampling/createMessage", {})
        return {"role": "assistant"}

    async with serving(server), session_with(server, transport="sse", questions=sample) as session:
        server.on |= {"tools/call": ask, "answer": take}
        hooks = Hooks()
        result = await session.request(call(wants_events=True), hooks)
        assert json.loads(bytes(result))["result"] == {"role": "assistant"}
        assert hooks.heard == [ProgressEvent(1)]
        server.on["tools/call"] = hang
        task = asyncio.create_task(session.request(call()))
        sent = await server.until("tools/call", 2)
        task.cancel()
        notice = await server.until("notifications/cancelled")
        assert notice.message["params"]["requestId"] == sent.message["id"]


async def test_old_session_ends_with_its_stream() -> None:
    server = OldServer()

    async def cut(wire: Wire) -> None:
        wire.send(b"", "202 Accepted")
        server.stream.cut()

    server.on["tools/call"] = cut
    events = Events()
    async with serving(server), session_with(server, events, transport="sse") as session:
        with pytest.raises(RequestLost):
            await session.request(call())
        assert not session.is_open
        async with asyncio.timeout(patience()):
            happened = await events.happened.get()
        assert isinstance(happened, tuple)
        with pytest.raises(NotSent):
            await session.request(call())


# --- a hall -----------------------------------------------------------------------------------------------------------


@tool(effect="reads")
async def add(ctx: Context, a: int, b: int) -> int:
    """Add two numbers."""
    ctx.progress(1, 2, "adding")
    ctx.log("hello")
    return a + b


@tool(effect="reads")
async def greet(ctx: Context) -> str:
    """Ask for a name."""
    schema: JsonObject = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    reply = await ctx.ask("Who?", schema)
    return f"Hello {(reply.value or {}).get('name')}"


async def listed(session: McpSession) -> set[str]:
    reader = ListReader("tools/list")
    cursor = reader.add(await session.request(McpRequest(method="tools/list")))
    while cursor is not None:
        cursor = reader.add(await session.request(McpRequest(method="tools/list", params={"cursor": cursor})))
    return {each["name"] for each in reader.items}


async def greeting(session: McpSession) -> tuple[object, ...]:
    """Call the tool that asks, in whichever way the era has."""
    params: JsonObject = {"name": "greet", "arguments": {}}
    reply = Filled("accept", {"name": "Ada"})
    for _ in range(3):
        request = McpRequest(method="tools/call", params=params, name="greet")
        result = await session.request(request, Hooks(write_reply(reply)))
        open_questions = read_open_questions(result)
        if open_questions is None:
            return read_call_result(result).content
        params = retry_params(params, dict.fromkeys(open_questions.questions, reply), open_questions.state)
    raise AssertionError("it asks again and again")


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", MODERN])
async def test_hall_is_spoken_to_in_every_revision_that_it_serves(revision: str) -> None:
    async with serving_hall(add, greet) as (_, port):
        profile = ClientProfile(name="test", version="1", offered_revision=revision)
        target = HttpTarget(f"http://127.0.0.1:{port}/mcp")
        events = Events()
        era: Era = "modern" if revision == MODERN else "legacy"
        session = await open_session(target, profile, events, dialer=LOCAL, era=era)
        try:
            assert (session.server.revision.name, session.server.name) == (revision, "toolhall")
            assert {"add", "greet"} <= await listed(session)
            hooks = Hooks()
            result = read_call_result(
                await session.request(call("add", arguments={"a": 1, "b": 2}, wants_events=True), hooks)
            )
            assert (result.content, result.is_error) == ((Text("3"),), False)
            assert ProgressEvent(1, 2, "adding") in hooks.heard
            assert LogEvent("info", "hello", "add") in hooks.heard
            assert await greeting(session) == (Text("Hello Ada"),)
            with pytest.raises(RpcError) as found:
                await session.request(call("none"))
            assert found.value.code == -32602
        finally:
            await session.close()


async def test_listening_ends_with_the_session() -> None:
    for revision in ("2025-11-25", MODERN):
        async with serving(HttpMcpServer(revision)) as server, session_with(server, profile=LISTENING):
            await server.until("subscriptions/listen" if revision == MODERN else "GET")
