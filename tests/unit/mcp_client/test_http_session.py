"""Sessions over streamable HTTP: both eras, streams, questions, cancellation, resumption and lost sessions."""

import asyncio
import json

import pytest

from tests.harness.patience import patience
from tests.servers.http_mcp import MODERN, SESSION, HttpMcpServer, Wire, serving
from tests.unit.mcp_client.session_client import LISTENING, ROOTED, Events, Hooks, call, session_with
from toolhall.dialects.mcp.client_results import read_call_result
from toolhall.mcp_client.session import (
    McpRequest,
    NotAcceptable,
    NotSent,
    RateLimited,
    RequestLost,
    ResponseTooLarge,
    RpcError,
    SessionExpired,
    Unauthorized,
)
from toolhall.mcp_client.targets import ClientProfile
from toolhall.model.content import Text
from toolhall.model.errors import ToolFailed, Unsupported
from toolhall.model.json import JsonObject
from toolhall.model.messages import LogEvent, ProgressEvent

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]
RESULT: JsonObject = {"content": []}
each_revision = pytest.mark.parametrize("revision", [*LEGACY, MODERN])
each_legacy = pytest.mark.parametrize("revision", LEGACY)
each_era = pytest.mark.parametrize("revision", ["2025-11-25", MODERN])


async def next_event(events: Events) -> object:
    async with asyncio.timeout(patience()):
        return await events.happened.get()


@each_revision
async def test_call_is_answered_in_every_revision(revision: str) -> None:
    async with serving(HttpMcpServer(revision)) as server, session_with(server) as session:
        for number in range(3):
            result = await session.request(call(arguments={"a": number}))
            assert read_call_result(result).content == (Text(json.dumps({"a": number})),)
        assert (session.server.revision.name, session.server.name) == (revision, "scripted")
        assert session.server.has("tools", "listChanged")
        assert (session.is_open, session.running) == (True, 0)
    assert (session.is_open, session.running) == (False, 0)
    with pytest.raises(NotSent, match="closed"):
        await session.request(call())


@each_legacy
async def test_legacy_requests_state_session_and_revision(revision: str) -> None:
    async with serving(HttpMcpServer(revision)) as server:
        async with session_with(server, credentials=(("Authorization", "Bearer t"),)) as session:
            await session.request(call())
        assert server.methods() == [
            "server/discover",
            "initialize",
            "notifications/initialized",
            "tools/call",
            "DELETE",
        ]
        for wire in server.seen[2:]:
            assert wire.headers["mcp-session-id"] == SESSION
            assert wire.headers.get("mcp-protocol-version") == (None if revision == "2025-03-26" else revision)
            assert wire.headers["authorization"] == "Bearer t"
        assert "mcp-session-id" not in server.seen[1].headers


async def test_server_without_sessions_is_sent_none() -> None:
    async with serving(HttpMcpServer("2025-11-25", has_sessions=False)) as server:
        async with session_with(server) as session:
            await session.request(call())
        assert "DELETE" not in server.methods()
        assert all("mcp-session-id" not in wire.headers for wire in server.seen)


async def test_modern_requests_say_everything() -> None:
    async with serving(HttpMcpServer(MODERN)) as server, session_with(server) as session:
        await session.request(
            call(
                "größe",
                argument_headers=(("Mcp-Param-region", "eu"),),
                credentials=(("Authorization", "Bearer a"),),
                features=("roots",),
                meta={"traceparent": "00-1-2-03"},
                wants_events=True,
            )
        )
        wire = server.named("tools/call")[0]
        assert wire.headers["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
        assert (wire.headers["mcp-param-region"], wire.headers["authorization"]) == ("eu", "Bearer a")
        meta = wire.message["params"]["_meta"]
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}
        assert (meta["traceparent"], meta["progressToken"]) == ("00-1-2-03", wire.message["id"])
        await session.request(call())
        again = server.named("tools/call")[1]
        assert "authorization" not in again.headers
        assert server.connections <= 2


@each_revision
async def test_events_of_a_call_reach_its_hooks(revision: str) -> None:
    async def answer(wire: Wire) -> None:
        wire.start_stream()
        token = wire.message["params"]["_meta"]["progressToken"]
        wire.event({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2}})
        wire.event({"method": "notifications/progress", "params": {"progressToken": 999, "progress": 9}})
        wire.chunk(": keep-alive\n\n")
        wire.event({"method": "notifications/message", "params": {"level": "info", "data": "hi"}})
        wire.event("not json")
        wire.end_stream()

    async def good(wire: Wire) -> None:
        token = wire.message["params"]["_meta"]["progressToken"]
        wire.start_stream()
        progress = {"method": "notifications/progress", "params": {"progressToken": token, "progress": 1, "total": 2}}
        log = {"method": "notifications/message", "params": {"level": "info", "data": "hi"}}
        if revision == "2025-03-26":
            wire.event([progress, log])
        else:
            wire.event(progress)
            wire.event(log)
        wire.event({"method": "notifications/progress", "params": {"progressToken": 999, "progress": 9}})
        wire.chunk(": keep-alive\n\n")
        wire.event(wire.response(RESULT))
        wire.end_stream()

    server = HttpMcpServer(revision)
    async with serving(server), session_with(server) as session:
        server.on["tools/call"] = good
        hooks = Hooks()
        await session.request(call(wants_events=True), hooks)
        assert hooks.heard == [ProgressEvent(1, 2), LogEvent("info", "hi")]
        server.on["tools/call"] = answer
        with pytest.raises(RequestLost, match="no MCP"):
            await session.request(call(wants_events=True), hooks)


@each_era
async def test_many_calls_run_at_a_time(revision: str) -> None:
    async with serving(HttpMcpServer(revision)) as server, session_with(server) as session:
        results = await asyncio.gather(*(session.request(call(arguments={"n": each})) for each in range(50)))
        texts = [read_call_result(result).content for result in results]
        assert texts == [(Text(json.dumps({"n": each})),) for each in range(50)]


# --- questions --------------------------------------------------------------------------------------------------------


async def ask(wire: Wire, server: HttpMcpServer, **question: object) -> None:
    """Ask on the stream of a call, and give the answer as its result."""
    answered = len(server.named("answer"))
    wire.start_stream()
    wire.event({"jsonrpc": "2.0", "id": "q1", **question})
    reply = await server.until("answer", answered + 1)
    wire.event(wire.response({"content": [], "structuredContent": reply.message}))
    wire.end_stream()


QUESTION = {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}}


@each_legacy
async def test_question_of_a_call_is_answered(revision: str) -> None:
    server = HttpMcpServer(revision)
    server.on["tools/call"] = lambda wire: ask(wire, server, **QUESTION)
    async with serving(server), session_with(server) as session:
        hooks = Hooks({"action": "decline"})
        structured = read_call_result(await session.request(call(), hooks)).structured
        assert structured is not None
        assert json.loads(bytes(structured)) == {"jsonrpc": "2.0", "id": "q1", "result": {"action": "decline"}}
        assert hooks.heard == [("elicitation/create", QUESTION["params"])]


@pytest.mark.parametrize(
    ("reply", "code"), [(Unsupported("sampling"), -32601), (ToolFailed("nobody is there"), -32603)]
)
async def test_question_that_cannot_be_answered_is_refused(reply: Exception, code: int) -> None:
    server = HttpMcpServer("2025-11-25")
    server.on["tools/call"] = lambda wire: ask(wire, server, **QUESTION)
    async with serving(server), session_with(server) as session:
        await session.request(call(), Hooks(reply))
        assert (await server.until("answer")).message["error"]["code"] == code


async def test_ping_is_answered_and_other_methods_are_refused() -> None:
    server = HttpMcpServer("2025-11-25")
    async with serving(server), session_with(server) as session:
        server.on["tools/call"] = lambda wire: ask(wire, server, method="ping")
        await session.request(call())
        server.on["tools/call"] = lambda wire: ask(wire, server, method="tools/list")
        await session.request(call())
        assert server.named("answer")[0].message["result"] == {}
        assert (await server.until("answer", 2)).message["error"]["code"] == -32601


async def test_question_ends_with_its_call() -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        wire.start_stream()
        wire.event({"jsonrpc": "2.0", "id": 5, **QUESTION})
        await hooks.asked.wait()
        wire.event(wire.response(RESULT))
        wire.end_stream()

    server.on["tools/call"] = answer
    async with serving(server), session_with(server) as session:
        hooks = Hooks()
        await session.request(call(), hooks)
        async with asyncio.timeout(patience()):
            await hooks.withdrawn.wait()
        assert server.named("answer") == []


async def test_modern_server_that_asks_is_ignored() -> None:
    async def answer(wire: Wire) -> None:
        wire.start_stream()
        wire.event({"jsonrpc": "2.0", "id": 5, **QUESTION})
        wire.event(wire.response(RESULT))
        wire.end_stream()

    server = HttpMcpServer(MODERN)
    server.on["tools/call"] = answer
    async with serving(server), session_with(server) as session:
        hooks = Hooks()
        await session.request(call(), hooks)
        assert hooks.heard == []


# --- cancelling -------------------------------------------------------------------------------------------------------


async def test_modern_call_is_cancelled_by_closing_its_stream() -> None:
    server = HttpMcpServer(MODERN)
    cancelled = asyncio.Event()

    async def answer(wire: Wire) -> None:
        wire.start_stream()
        await wire.gone()
        cancelled.set()

    server.on["tools/call"] = answer
    async with serving(server), session_with(server) as session:
        task = asyncio.create_task(session.request(call()))
        await server.until("tools/call")
        task.cancel()
        async with asyncio.timeout(patience()):
            await cancelled.wait()
        assert session.running == 0
        del server.on["tools/call"]
        await session.request(call())


async def test_legacy_call_is_cancelled_by_a_message() -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        wire.start_stream()
        await server.until("notifications/cancelled")
        wire.event(wire.response(RESULT))
        wire.end_stream()

    server.on["tools/call"] = answer
    async with serving(server), session_with(server) as session:
        task = asyncio.create_task(session.request(call()))
        sent = await server.until("tools/call")
        task.cancel()
        notice = await server.until("notifications/cancelled")
        assert notice.message["params"]["requestId"] == sent.message["id"]
        assert notice.headers["mcp-session-id"] == SESSION
        with pytest.raises(asyncio.CancelledError):
            await task
        del server.on["tools/call"]
        await session.request(call())


async def test_cancelled_call_that_goes_on_loses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolhall.mcp_client.http_session.CANCEL_SECONDS", 0.05)
    server = HttpMcpServer("2025-11-25")
    gone = asyncio.Event()

    async def answer(wire: Wire) -> None:
        wire.start_stream()
        await wire.gone()
        gone.set()

    server.on["tools/call"] = answer
    async with serving(server), session_with(server) as session:
        task = asyncio.create_task(session.request(call()))
        await server.until("tools/call")
        task.cancel()
        async with asyncio.timeout(patience()):
            await gone.wait()


# --- lost streams, lost sessions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25"])
async def test_broken_stream_is_resumed_behind_its_last_event(revision: str) -> None:
    server = HttpMcpServer(revision)

    async def answer(wire: Wire) -> None:
        wire.start_stream()
        wire.chunk("id: 7\nretry: 10\ndata:\n\n")
        wire.end_stream()

    async def resume(wire: Wire) -> None:
        assert wire.headers["last-event-id"] == ("7" if len(server.named("GET")) == 1 else "8")
        asked = server.named("tools/call")[0]
        wire.start_stream()
        if len(server.named("GET")) == 1:
            progress = {"progressToken": asked.message["id"], "progress": 1}
            wire.event({"method": "notifications/progress", "params": progress}, "id: 8")
            wire.cut()
            return
        wire.event(asked.response(RESULT), "id: 9")
        wire.end_stream()

    server.on |= {"tools/call": answer, "GET": resume}
    async with serving(server), session_with(server) as session:
        hooks = Hooks()
        await session.request(call(wants_events=True), hooks)
        assert hooks.heard == [ProgressEvent(1)]
        assert len(server.named("tools/call")) == 1


async def test_stream_that_cannot_be_resumed_is_lost() -> None:
    server = HttpMcpServer("2025-11-25")

    async def with_id(wire: Wire) -> None:
        wire.start_stream()
        wire.event({"method": "notifications/x"}, "id: 7", "retry: 1")
        wire.cut()

    async def without_id(wire: Wire) -> None:
        wire.start_stream()
        wire.cut()

    async with serving(server), session_with(server) as session:
        server.on["tools/call"] = without_id
        with pytest.raises(RequestLost):
            await session.request(call())
        server.on["tools/call"] = with_id
        with pytest.raises(RequestLost):
            await session.request(call())
        assert len(server.named("GET")) == 1
        assert not vars(session)["hears_changes"]  # so its lists are fetched again now and then


async def test_modern_stream_is_never_resumed() -> None:
    server = HttpMcpServer(MODERN)

    async def answer(wire: Wire) -> None:
        wire.start_stream()
        wire.event({"method": "notifications/x"}, "id: 7")
        wire.cut()

    server.on["tools/call"] = answer
    async with serving(server), session_with(server) as session:
        with pytest.raises(RequestLost):
            await session.request(call())
        assert server.named("GET") == []


@pytest.mark.parametrize(
    ("status", "code"),
    [("404 Not Found", None), ("404 Not Found", -32600), ("400 Bad Request", -32000), ("400 Bad Request", -32001)],
)
async def test_forgotten_session_is_expired(status: str, code: int | None) -> None:
    server = HttpMcpServer("2025-11-25")

    async def answer(wire: Wire) -> None:
        if code is None:
            wire.send(b"<html>", status)
        else:
            wire.json({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": "no session"}}, status)

    async with serving(server), session_with(server) as session:
        server.on["tools/call"] = answer
        with pytest.raises(SessionExpired):
            await session.request(call())
        assert not session.is_open
        with pytest.raises(NotSent):
            await session.request(call())


@each_era
async def test_refusals_say_whether_the_call_ran(revision: str) -> None:
    server = HttpMcpServer(revision)
    async with serving(server), session_with(server) as session:

        async def refused(status: str, *headers: str) -> Exception:
            async def answer(wire: Wire) -> None:
                wire.send(b"why\r\n", status, *headers)

            server.on["tools/call"] = answer
            with pytest.raises(Exception, match="HTTP") as found:
                await session.request(call())
            return found.value

        unauthorized = await refused("401 Unauthorized", 'WWW-Authenticate: Bearer scope="a"')
        assert isinstance(unauthorized, Unauthorized)
        assert (unauthorized.status, unauthorized.challenge) == (401, 'Bearer scope="a"')
        assert isinstance(await refused("403 Forbidden"), Unauthorized)
        limited = await refused("429 Too Many Requests", "Retry-After: 7")
        assert isinstance(limited, RateLimited)
        assert limited.retry_after == 7
        later = await refused("503 Service Unavailable", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT")
        assert isinstance(later, RateLimited)
        assert later.retry_after == 0
        assert isinstance(await refused("503 Service Unavailable"), RequestLost)
        assert isinstance(await refused("500 Internal Server Error"), RequestLost)
        assert session.is_open


@each_era
async def test_error_is_the_servers_own_whatever_its_status(revision: str) -> None:
    server = HttpMcpServer(revision)
    async with serving(server), session_with(server) as session:
        for status in ("200 OK", "400 Bad Request", "500 Internal Server Error"):

            async def answer(wire: Wire, status: str = status) -> None:
                wire.error(-32602, "bad\x1b[31m name", status, data={"a": 1})

            server.on["tools/call"] = answer
            with pytest.raises(RpcError) as found:
                await session.request(call())
            assert (found.value.code, found.value.reason, found.value.data) == (-32602, "bad name", {"a": 1})


async def test_renewed_credential_is_sent_with_everything() -> None:
    server = HttpMcpServer("2025-11-25")
    async with serving(server), session_with(server, credentials=(("Authorization", "Bearer 1"),)) as session:
        await session.request(call(credentials=(("Authorization", "Bearer 2"),)))
        await session.notify("notifications/roots/list_changed", {})
        notice = await server.until("notifications/roots/list_changed")
        assert notice.headers["authorization"] == "Bearer 2"


# --- hostile answers --------------------------------------------------------------------------------------------------


@each_era
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: https://evil.example/?secret=1\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 8\r\n\r\ndata: {\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: {\n\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
    ids=range(10),
)
async def test_hostile_answer_is_a_lost_call(revision: str, answer: bytes) -> None:
    server = HttpMcpServer(revision)

    async def say(wire: Wire) -> None:
        wire.write(answer)
        if not answer.startswith(b"HTTP/1.1 20"):
            wire.cut()

    async with serving(server), session_with(server) as session:
        server.on["tools/call"] = say
        with pytest.raises((RequestLost, NotAcceptable)) as found:
            await session.request(call())
        assert "secret" not in found.value.reason
        del server.on["tools/call"]
        await session.request(call())


@each_era
async def test_answers_are_bounded(revision: str) -> None:
    server = HttpMcpServer(revision)
    profile = ClientProfile(name="test", version="1", listens=False, max_message_bytes=20_000)

    async def large_text(wire: Wire) -> None:
        wire.result({"content": [{"type": "text", "text": "x" * 30_000}]})

    async def large_event(wire: Wire) -> None:
        wire.start_stream()
        for _ in range(40):
            wire.chunk("data: " + "x" * 1_000)

    async def endless_events(wire: Wire) -> None:
        wire.start_stream()
        wire.chunk("data: x\n" * 30_000)

    async with serving(server), session_with(server, profile=profile) as session:
        for answer in (large_text, large_event, endless_events):
            server.on["tools/call"] = answer
            with pytest.raises(ResponseTooLarge, match="20000"):
                await session.request(call())


async def test_header_that_would_break_the_line_is_not_sent() -> None:
    server = HttpMcpServer(MODERN)
    async with serving(server), session_with(server) as session:
        with pytest.raises(Exception, match="cannot be sent") as found:
            await session.request(call(credentials=(("Authorization", "Bearer secret\r\nX: y"),)))
        assert "secret" not in str(found.value)
        assert server.named("tools/call") == []


# --- what belongs to no request ---------------------------------------------------------------------------------------


async def test_legacy_stream_tells_of_changes_and_is_opened_again() -> None:
    server = HttpMcpServer("2025-11-25")

    async def stream(wire: Wire) -> None:
        wire.start_stream()
        wire.event({"method": "notifications/tools/list_changed"}, f"id: {len(server.named('GET'))}", "retry: 10")
        if len(server.named("GET")) == 1:
            wire.cut()
        else:
            wire.event({"method": "notifications/resources/updated", "params": {"uri": "a:b"}})
            wire.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})
            wire.event({"id": 3, "method": "roots/list"})

    server.on["GET"] = stream

    async def roots(method: str, params: object) -> dict[str, object]:
        assert (method, params) == ("roots/list", {})
        return {"roots": []}

    events = Events()
    async with serving(server), session_with(server, events, profile=ROOTED, questions=roots) as session:
        found = [await next_event(events) for _ in range(4)]
        assert found == ["tools", "tools", ("updated", "a:b"), LogEvent("info", 1)]
        assert vars(session)["hears_changes"]
        assert server.named("GET")[1].headers["last-event-id"] == "1"
        assert (await server.until("answer")).message == {"jsonrpc": "2.0", "id": 3, "result": {"roots": []}}
        assert bytes(await session.request(McpRequest(method="resources/subscribe", params={"uri": "a:b"}))) == b"{}"


async def test_server_without_that_stream_is_not_asked_again() -> None:
    server = HttpMcpServer("2025-11-25")
    async with serving(server), session_with(server, profile=LISTENING) as session:
        await server.until("GET")
        await session.request(call())
        assert len(server.named("GET")) == 1


async def test_modern_server_is_listened_to_for_what_it_offers() -> None:
    server = HttpMcpServer(MODERN)
    streams: list[Wire] = []

    async def listen(wire: Wire) -> None:
        streams.append(wire)
        wire.start_stream()
        wire.event({"method": "notifications/tools/list_changed"})
        if "resourceSubscriptions" in wire.message["params"]["notifications"]:
            wire.event({"method": "notifications/resources/updated", "params": {"uri": "a:b"}})

    server.on["subscriptions/listen"] = listen
    events = Events()
    own = (("Authorization", "Bearer hall"),)
    async with serving(server), session_with(server, events, profile=LISTENING, credentials=own) as session:
        assert await next_event(events) == "tools"
        assert streams[0].message["params"]["notifications"] == {"toolsListChanged": True}
        assert streams[0].headers["authorization"] == "Bearer hall"
        subscribe = McpRequest(
            method="resources/subscribe", params={"uri": "a:b"}, credentials=(("Authorization", "Bearer caller"),)
        )
        assert bytes(await session.request(subscribe)) == b"{}"
        assert await next_event(events) == "tools"
        assert await next_event(events) == ("updated", "a:b")
        assert streams[1].headers["authorization"] == "Bearer hall"
    assert server.named("resources/subscribe") == []


async def test_refused_stream_is_opened_with_the_renewed_credential() -> None:
    server = HttpMcpServer("2025-11-25")

    async def stream(wire: Wire) -> None:
        if wire.headers.get("authorization") != "Bearer 2":
            wire.send(b"", "401 Unauthorized")
        else:
            wire.start_stream()
            wire.event({"method": "notifications/prompts/list_changed"})

    server.on["GET"] = stream
    events = Events()
    async with serving(server), session_with(server, events, profile=LISTENING) as session:
        await server.until("GET")
        await session.request(call())
        while server.methods().count("GET") < 2:
            await session.request(call(credentials=(("Authorization", "Bearer 2"),)))
        assert await next_event(events) == "prompts"


async def test_subscription_without_a_uri_is_refused() -> None:
    async with serving(HttpMcpServer(MODERN)) as server, session_with(server) as session:
        with pytest.raises(RpcError, match="URI"):
            await session.request(McpRequest(method="resources/subscribe"))
        assert session.running == 0
