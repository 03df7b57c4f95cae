"""The HTTP side: one endpoint, its methods and statuses, foreign pages kept out."""

import asyncio
import json

import pytest

from tests.harness.http_client import Message, StreamingResponse, send_bytes
from tests.harness.mcp_client import HttpMcpClient, StatelessMcpClient, http_mcp_client
from tests.harness.mcp_messages import (
    LEGACY,
    MODERN,
    REVISIONS,
    initialize,
    modern_meta,
    modern_request,
    notification,
    request,
)
from tests.harness.server_process import ServerProcess

FOREIGN_ORIGINS = (
    "http://evil.example.com",
    "https://localhost.evil.example.com",
    "null",
    "http://127.0.0.1.nip.io",
    "x",
    "http://localhost:1",
)
OWN_HOSTS = ("localhost", "localhost:3000", "127.0.0.1:8000", "[::1]:9")


def opening(revision: str) -> tuple[Message, dict[str, str]]:
    """A request that needs nothing before it, in each revision."""
    return modern_request("tools/list") if revision == MODERN else (initialize(revision), {})


# --- who may call -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-8", "M-28")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_foreign_origin_is_403(http: StatelessMcpClient, revision: str) -> None:
    body, headers = opening(revision)
    for origin in FOREIGN_ORIGINS:
        reply = await http.send(body, {**headers, "Origin": origin})
        assert reply.status == 403, origin
        assert "mcp-session-id" not in reply.headers
        assert "access-control-allow-origin" not in reply.headers
    for host in OWN_HOSTS:
        own = {**headers, "Host": host, "Origin": f"http://{host}"}
        assert (await http.send(body, own)).status == 200, host


@pytest.mark.requirement("L-8", "M-28")
async def test_foreign_origin_is_403_for_every_http_method(session: HttpMcpClient) -> None:
    foreign = {**session.headers, "Origin": "http://evil.example.com"}
    for method, body in (("GET", None), ("DELETE", None), ("OPTIONS", None), ("POST", request("ping"))):
        assert (await session.http.send(body, foreign, method)).status == 403
    assert (await session.ask("ping")).result == {}, "the session was not ended from outside"


@pytest.mark.requirement("L-8", "M-28")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_foreign_host_is_refused(http: StatelessMcpClient, revision: str) -> None:
    body, headers = opening(revision)
    for host in ("evil.example.com", "localhost.evil.example.com", "127.0.0.1.nip.io:80", "a b", "localhost:99999999"):
        assert 400 <= (await http.send(body, {**headers, "Host": host})).status < 500, host
    for host in ("localhost", "localhost:1234", "LOCALHOST", "127.0.0.1:1", "[::1]:8000"):
        assert (await http.send(body, {**headers, "Host": host})).status == 200, host


# --- what is sent to the endpoint -------------------------------------------------------------------------------------


@pytest.mark.requirement("L-7", "L-10", "M-28", "M-30")
@pytest.mark.parametrize("revision", REVISIONS)
async def test_response_is_json_or_an_event_stream_if_progress_was_requested(
    probe: ServerProcess, revision: str
) -> None:
    async with http_mcp_client(probe.origin, revision) as talk:
        async with talk.open(talk.request("tools/list")) as plain:
            assert (plain.status, plain.headers["content-type"]) == (200, "application/json")
        call = {"name": "probe_nonce", "arguments": {"nonce": "n"}}
        async with talk.open(talk.request("tools/call", call)) as quiet:
            assert quiet.headers["content-type"] == "application/json", "nobody asked to hear of progress"
        async with talk.open(talk.request("tools/call", call, token="t")) as streamed:
            assert (streamed.status, streamed.headers["content-type"]) == (200, "text/event-stream")
            assert streamed.headers["x-accel-buffering"] == "no"
            assert "no-cache" in streamed.headers["cache-control"]
            messages = [event.message for event in await streamed.rest() if event.message]
    assert [message.get("method") for message in messages] == ["notifications/progress", None], "and then it ends"


@pytest.mark.requirement("L-10", "M-30", "J-2")
async def test_notification_or_response_is_202_without_a_body(session: HttpMcpClient) -> None:
    response = {"jsonrpc": "2.0", "id": "nobody-asked", "result": {}}
    for message in (notification("notifications/initialized"), notification("x/y"), response):
        reply = await session.http.send(message, session.headers)
        assert (reply.status, reply.body) == (202, b"")
        reply = await session.http.send(message, {"MCP-Protocol-Version": MODERN})
        assert (reply.status, reply.body) == (202, b"")


@pytest.mark.requirement("L-10", "M-30")
async def test_notification_malformed_or_without_a_session_is_400(http: StatelessMcpClient) -> None:
    reply = await http.send(notification("notifications/initialized"), {"MCP-Protocol-Version": LEGACY[-1]})
    assert reply.status == 400, "there is no session that it could belong to"
    assert "id" not in reply.answer
    assert (await http.send(b'{"jsonrpc":"2.0","method":5}')).status == 400


@pytest.mark.requirement("L-10", "M-30")
async def test_request_body_of_another_media_type_is_415(http: StatelessMcpClient) -> None:
    body, headers = modern_request("tools/list")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        assert (await http.send(body, {**headers, "Content-Type": kind})).status == 415, kind
    for kind in ("application/json; charset=utf-8", "Application/JSON"):
        assert (await http.send(body, {**headers, "Content-Type": kind})).status == 200, kind
    assert (await http.send(body, {**headers, "Content-Encoding": "gzip"})).status == 415


@pytest.mark.requirement("L-35", "M-26")
async def test_request_body_above_the_size_limit_is_413_before_it_is_read(
    probe: ServerProcess, http: StatelessMcpClient
) -> None:
    for announced in (b"Content-Length: 1000000000", b"Content-Length: 1048577"):
        head = b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + announced + b"\r\n\r\n{"
        assert (await send_bytes(probe.origin, head)).startswith(b"HTTP/1.1 413 ")
    assert (await http.modern("tools/list")).status == 200


@pytest.mark.requirement("L-10", "M-30")
async def test_request_body_in_chunks_is_read_up_to_the_size_limit(probe: ServerProcess) -> None:
    body, headers = modern_request("tools/list")
    lines = {"Host": "localhost", "Content-Type": "application/json", "Transfer-Encoding": "chunked", **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    content = json.dumps(body)
    chunks = "".join(f"{len(part):x}\r\n{part}\r\n" for part in (content[:10], content[10:], ""))
    flood = f"{1_100_000:x}\r\n{'x' * 1_100_000}\r\n"
    for sent, status in ((chunks, b"200"), (flood, b"413")):
        reply = await send_bytes(probe.origin, f"POST /mcp HTTP/1.1\r\n{head}\r\n{sent}".encode())
        assert reply.startswith(b"HTTP/1.1 " + status)


# --- GET and DELETE ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("L-7", "L-14")
async def test_get_with_a_session_opens_an_event_stream(session: HttpMcpClient) -> None:
    async with session.http.open(None, session.headers, "GET") as listening:
        assert (listening.status, listening.headers["content-type"]) == (200, "text/event-stream")


@pytest.mark.requirement("L-7", "L-14", "L-17", "M-29")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"])
async def test_http_methods_other_than_post_without_a_session_are_405(http: StatelessMcpClient, method: str) -> None:
    for headers in ({}, {"MCP-Protocol-Version": MODERN}, {"Last-Event-ID": "c1-1"}):
        reply = await http.send(None, headers, method)
        assert reply.status == 405
        assert "POST" in reply.headers["allow"]


@pytest.mark.requirement("M-29")
async def test_newest_revision_ignores_session_ids_and_event_ids(session: HttpMcpClient) -> None:
    old = {"Mcp-Session-Id": session.headers["Mcp-Session-Id"], "Last-Event-ID": "c1-0"}
    reply = await session.http.modern("tools/list", headers=old)
    assert reply.status == 200
    assert "mcp-session-id" not in reply.headers
    call = {"name": "probe_nonce", "arguments": {"nonce": "n"}}
    streamed = await session.http.modern("tools/call", call, meta=modern_meta(progressToken=1), headers=old)
    assert "mcp-session-id" not in streamed.headers
    assert [event.id for event in streamed.events] == [None, None], "an id would promise that one can come back"
    assert [event.retry for event in streamed.events] == [None, None]
    for method in ("GET", "DELETE"):
        headers = {**old, "MCP-Protocol-Version": MODERN}
        assert (await session.http.send(None, headers, method)).status == 405
    assert (await session.ask("ping")).result == {}, "the session was not touched"


@pytest.mark.requirement("L-7", "M-28")
async def test_mcp_request_on_another_path_is_404(http: StatelessMcpClient) -> None:
    body, headers = modern_request("tools/list")
    for path in ("/mcp/", "/mcp/x", "/MCP", "/sse", "/messages"):
        assert (await http.send(body, headers, path=path)).status == 404, path
    for path in ("/", "//mcp"):  # the second is read as a host and the first page
        assert (await http.send(body, headers, path=path)).status == 405, path


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("M-30", "M-39", "M-46")
async def test_event_stream_carries_messages_of_its_own_request_only(probe: ServerProcess) -> None:
    async with http_mcp_client(probe.origin, MODERN) as talk:

        async def call(number: int) -> list[str]:
            params = {"name": "probe_nonce", "arguments": {"nonce": f"n{number}"}}
            async with talk.open(talk.request("tools/call", params, id=1, token=f"t{number}")) as reply:
                progress, answer = await reply.message(), await reply.message()
                assert await reply.rest() == []
            return [progress["params"]["progressToken"], answer["result"]["structuredContent"]["nonce"]]

        heard = await asyncio.gather(*(call(number) for number in range(30)))
    assert heard == [[f"t{number}", f"n{number}"] for number in range(30)]


@pytest.mark.requirement("M-30")
async def test_client_that_accepts_no_event_stream_gets_json(http: StatelessMcpClient) -> None:
    call = {"name": "probe_nonce", "arguments": {"nonce": "n"}}
    body, headers = modern_request("tools/call", call, meta=modern_meta(progressToken=1))
    reply = await http.send(body, {**headers, "Accept": "application/json"})
    assert json.loads(reply.body)["result"]["structuredContent"] == {"nonce": "n"}


@pytest.mark.requirement("L-10")
async def test_event_streams_of_one_session_are_all_answered(session: HttpMcpClient) -> None:
    async def read(reply: StreamingResponse) -> object:
        return (await reply.message())["params"]["progressToken"], (await reply.message())["result"][
            "structuredContent"
        ]

    calls = [
        session.request("tools/call", {"name": "probe_nonce", "arguments": {"nonce": str(n)}}, token=n)
        for n in range(3)
    ]
    async with session.open(calls[0]) as one, session.open(calls[1]) as two, session.open(calls[2]) as three:
        heard = await asyncio.gather(*map(read, (three, one, two)))
    assert heard == [(2, {"nonce": "2"}), (0, {"nonce": "0"}), (1, {"nonce": "1"})]
