"""Calls over HTTP: one end or one loss for each, over connections that are kept, bounded and never mixed up."""

import asyncio
import json
from contextlib import suppress
from ipaddress import ip_address

import pytest

from tests.harness.patience import patience
from tests.unit.egress.loopback_server import fixed_resolver
from tests.unit.execution.remote.fake_tool_server import (
    LAST,
    LOCAL,
    STREAM,
    TOKEN,
    Answer,
    FakeToolServer,
    ServerConnection,
    chunk,
    fake_tool_server,
    http_response,
    progress,
    question,
    stream,
    tool_response,
    until,
)
from toolhall.dialects.hub.call_messages import CallEvent, ProgressMessage, QuestionMessage, ToolResponseMessage
from toolhall.egress.addresses import EgressAllowlist, EgressRefused
from toolhall.egress.connection_pool import MAX_CALL_CONNECTIONS, MAX_CONNECTIONS, MAX_WAITING
from toolhall.egress.exchange import ExchangeLost, ExchangeTooLarge
from toolhall.egress.resolver import Dialer
from toolhall.execution.remote.http_transport import HttpTransport
from toolhall.execution.remote.replica_transport import Transport
from toolhall.model.json import encode
from toolhall.model.secret import Secret

REQUEST = b'{"type":"tool_request","id":"1","tool":"A","method":"b","params":{}}'
HEALTHY = encode({"type": "response", "id": "h1", "result": {"status": "healthy"}, "error": None})
TAKEN = http_response(encode({"type": "response", "id": None, "result": {"status": "ok"}, "error": None}))


def saying(*parts: bytes) -> Answer:
    """Whatever is asked, these bytes; each part reaches the other side by itself."""

    async def answer(_: bytes, wire: ServerConnection) -> None:
        for part in parts:
            wire.write(part)
            await asyncio.sleep(0.001)  # so that they are read one by one; a test holds either way

    return answer


async def silent(_: bytes, wire: ServerConnection) -> None:
    await wire.gone.wait()


async def ignore_event(_: CallEvent) -> None:
    return None


async def lost(server: FakeToolServer, *, most_bytes: int = 10_000) -> ExchangeLost:
    """How one call is lost."""
    line = server.line(most_bytes)
    try:
        async with asyncio.timeout(patience()):
            with pytest.raises(ExchangeLost) as raised:
                await line.call(REQUEST, "1", ignore_event)
    finally:
        line.close()
    return raised.value


async def until_gone(server: FakeToolServer) -> None:
    async with asyncio.timeout(patience()):
        for wire in [*server.wires]:
            await wire.gone.wait()


async def test_http_transport_sequential_calls_share_connection() -> None:
    async with fake_tool_server(saying(http_response(tool_response("1", {"a": 1})))) as server:
        line: Transport = server.line()
        for _ in range(5):
            end = await line.call(REQUEST, "1", ignore_event)
            assert (end.id, end.result) == ("1", {"a": 1})
        line.close()
        assert server.connections == 1
        assert server.bodies == [REQUEST] * 5


async def test_http_transport_request_is_post_with_token() -> None:
    async with fake_tool_server(saying(http_response(tool_response("1")))) as server:
        line = HttpTransport(f"{server.url}/below/", Secret(TOKEN), LOCAL)
        await line.call(REQUEST, "1", ignore_event)
        line.close()
        assert server.heads[0].split("\r\n")[:3] == [
            "POST /below/hub HTTP/1.1",
            f"Host: 127.0.0.1:{server.port}",
            f"Authorization: Bearer {TOKEN}",
        ]
        assert TOKEN not in repr(line)


@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_http_transport_reports_arrive_in_order_for_any_chunking(size: int) -> None:
    reply = stream(progress("1", 1), b"", progress("1", 2), tool_response("1", {"a": 1}))
    parts = [reply[at : at + size] for at in range(0, len(reply), size)]
    heard: list[CallEvent] = []

    async def on_report(report: CallEvent) -> None:
        heard.append(report)

    async with fake_tool_server(saying(*parts)) as server:
        line = server.line()
        for _ in range(2):
            assert (await line.call(REQUEST, "1", on_report)).result == {"a": 1}
        line.close()
    assert heard == [ProgressMessage("1", 1), ProgressMessage("1", 2)] * 2


async def test_http_transport_late_last_chunk_keeps_connection() -> None:
    last = asyncio.Event()

    async def answer(_: bytes, wire: ServerConnection) -> None:
        wire.write(STREAM, chunk(tool_response("1") + b"\n"))
        await last.wait()
        wire.write(LAST)

    async with fake_tool_server(answer) as server:
        line = server.line()
        assert (await line.call(REQUEST, "1", ignore_event)).id == "1"  # here already
        last.set()
        await asyncio.gather(*server.tasks)
        await until(lambda: line.idle_count == 1)
        assert (await line.call(REQUEST, "1", ignore_event)).id == "1"
        line.close()
        assert server.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + http_response(tool_response("1")),
        http_response(tool_response("1"), status="503 Service Unavailable"),
        http_response(tool_response("1"), "connection: close"),
        http_response(b'{"type":"tool_error","code":"TOOL_ERROR","message":"no"}', status="400 Bad Request"),
        stream(tool_response("1")).replace(b"}\n\r\n", b"} \r\n"),  # no line break behind the last one
        STREAM.replace(b"transfer-encoding: chunked\r\n", b"") + tool_response("1") + b"\n",  # ends with its connection
    ],
    ids=["1xx", "a status of its own", "close", "a bare error", "no last line break", "no length"],
)
async def test_http_transport_accepts_response_framings(reply: bytes) -> None:
    async with fake_tool_server(saying(reply)) as server:
        line = server.line()
        for _ in range(2):
            async with asyncio.timeout(patience()):
                assert (await line.call(REQUEST, "1", ignore_event)).result is None
        line.close()
        assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", "no HTTP"),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n", "upgrades"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: %b\r\n" % (b"y" * 1000) * 70, "around it"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 4_000, "around it"),
        (STREAM + b"1;%b\r\n{\r\n" % (b"x" * 900) * 200, "around it"),
        (http_response(b""), "cannot be read"),
        (http_response(b"<html>"), "cannot be read"),
        (http_response(b"x" * 10_001), "more than 10000 bytes"),
        (STREAM + chunk(b"x" * 5_001) * 2, "more than 10000 bytes"),
        (STREAM + chunk(progress("1", 1) + b"\n") * 250, "more than 10000 bytes"),
        (stream(progress("1", 1)), "without its last message"),
        (stream(), "without its last message"),
        (http_response(tool_response("2")), "another call"),
        (stream(progress("2", 1)), "another call"),
        (http_response(HEALTHY), "not with a tool_response"),
    ],
)
async def test_http_transport_invalid_response_is_call_lost(reply: bytes, why: str) -> None:
    """The call may have run, and its connection is used for nothing else."""
    async with fake_tool_server(saying(reply)) as server:
        found = await lost(server)
        assert found.delivered
        assert why in found.reason
        assert isinstance(found, ExchangeTooLarge) == ("more than" in why)
        await until_gone(server)


@pytest.mark.threat("E3")
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent", "304 Not Modified"])
async def test_http_transport_redirect_is_refused(status: str) -> None:
    async with (
        fake_tool_server(silent) as trap,
        fake_tool_server(saying(http_response(b"", f"location: {trap.url}/hub", status=status))) as server,
    ):
        found = await lost(server)
        assert found.delivered
        assert "redirects" in found.reason
        assert trap.connections == 0


@pytest.mark.parametrize("cut", [0, 1, 30, -1])
@pytest.mark.parametrize("how", ["close", "reset"])
async def test_http_transport_early_close_is_call_lost(cut: int, how: str) -> None:
    reply = http_response(tool_response("1"))

    async def answer(_: bytes, wire: ServerConnection) -> None:
        wire.write(reply[:cut])
        wire.close() if how == "close" else wire.reset()

    async with fake_tool_server(answer) as server:
        found = await lost(server)
        assert found.delivered
        assert "before its answer was whole" in found.reason


async def test_http_transport_complete_response_survives_broken_connection() -> None:
    async def answer(_: bytes, wire: ServerConnection) -> None:
        wire.write(STREAM, chunk(progress("1", 1) + b"\n" + tool_response("1", {"a": 1}) + b"\n"))
        wire.close()

    async with fake_tool_server(answer) as server:
        line = server.line()
        assert (await line.call(REQUEST, "1", ignore_event)).result == {"a": 1}
        line.close()


@pytest.mark.parametrize(
    "parts",
    [(http_response(tool_response("1")) * 2,), (http_response(tool_response("1")), http_response(tool_response("1")))],
)
async def test_http_transport_second_response_is_ignored(parts: tuple[bytes, ...]) -> None:
    """It ends the connection; nobody gets what was meant for another, or for nobody."""
    async with fake_tool_server(saying(*parts)) as server:
        line = server.line()
        assert (await line.call(REQUEST, "1", ignore_event)).id == "1"
        await until_gone(server)
        assert server.connections == 1
        assert (await line.call(REQUEST, "1", ignore_event)).id == "1"
        assert server.connections == 2
        line.close()


@pytest.mark.parametrize("how", ["close", "reset", "talk"])
async def test_http_transport_closed_idle_connection_is_not_reused(how: str) -> None:
    """Not even if the loop has not seen that yet: the call goes over a new one, and is delivered once."""
    async with fake_tool_server(saying(http_response(tool_response("1")))) as server:
        line = server.line()
        await line.call(REQUEST, "1", ignore_event)
        (wire,) = server.wires
        if how == "talk":
            wire.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        else:
            getattr(wire, how)()
        await until(lambda: how == "talk" or wire.gone.is_set())
        await line.call(REQUEST, "1", ignore_event)
        assert (server.connections, len(server.bodies)) == (2, 2)
        line.close()


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_http_transport_none_of_several_closed_idle_connections_is_reused(how: str) -> None:
    """One poll looks at all of them; each call is delivered once."""
    async with fake_tool_server(saying(http_response(tool_response("1")))) as server:
        line = server.line()
        await asyncio.gather(*(line.call(REQUEST, "1", ignore_event) for _ in range(3)))
        for wire in [*server.wires]:
            getattr(wire, how)()
        await until_gone(server)
        await asyncio.gather(*(line.call(REQUEST, "1", ignore_event) for _ in range(3)))
        assert (server.connections, len(server.bodies)) == (6, 6)
        line.close()


async def test_http_transport_closed_connection_is_removed() -> None:
    async with fake_tool_server(saying(http_response(tool_response("1")))) as server:
        line = server.line()
        await line.call(REQUEST, "1", ignore_event)
        assert (line.open_count, line.idle_count) == (1, 1)
        next(iter(server.wires)).close()
        await until(lambda: line.open_count == 0)
        assert line.idle_count == 0
        line.close()


async def test_http_transport_stale_connection_is_not_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server is about to close it, and a call that meets that would be lost."""
    async with fake_tool_server(saying(http_response(tool_response("1")))) as server:
        line = server.line()
        await asyncio.gather(*(line.call(REQUEST, "1", ignore_event) for _ in range(3)))
        monkeypatch.setattr("toolhall.egress.connection_pool.IDLE_SECONDS", -1.0)
        await line.call(REQUEST, "1", ignore_event)
        assert server.connections == 4
        line.close()


async def test_http_transport_refused_connection_is_not_delivered() -> None:
    async with fake_tool_server(silent) as server:
        pass
    found = await lost(server)
    assert not found.delivered
    assert "cannot be reached" in found.reason


async def test_http_transport_failed_connect_frees_its_slot() -> None:
    async with fake_tool_server(silent) as server:
        pass
    line = server.line()
    async with asyncio.timeout(patience()):
        for _ in range(MAX_CALL_CONNECTIONS + 1):
            with pytest.raises(ExchangeLost, match="cannot be reached"):
                await line.call(REQUEST, "1", ignore_event)


async def test_http_transport_forbidden_address_is_not_connected() -> None:
    async with fake_tool_server(silent) as server:
        rebinding = Dialer(EgressAllowlist(), fixed_resolver(["127.0.0.1"]))
        line = HttpTransport(f"https://evil.example:{server.port}", Secret(TOKEN), rebinding)
        with pytest.raises(ExchangeLost, match="egress_allow") as raised:
            await line.call(REQUEST, "1", ignore_event)
        assert not raised.value.delivered
        assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.2:9", "http://10.0.0.1:9", "https://127.0.0.1:9/?a=b", "ftp://127.0.0.1", "http://[::1%25lo]:9"],
)
def test_http_transport_forbidden_url_is_refused(url: str) -> None:
    dial = Dialer(EgressAllowlist()).with_address(ip_address("192.168.0.7")) if "127.0.0.2" in url else LOCAL
    with pytest.raises(EgressRefused):
        HttpTransport(url, Secret(TOKEN), dial)


@pytest.mark.threat("E8")
def test_http_transport_token_cannot_inject_header() -> None:
    with pytest.raises(EgressRefused, match="line break"):
        HttpTransport("http://127.0.0.1:9", Secret("token\r\nX-Admin: yes"), LOCAL)


async def test_http_transport_cancelled_call_closes_connection() -> None:
    async with fake_tool_server(silent) as server:
        line = server.line()
        call = asyncio.ensure_future(line.call(REQUEST, "1", ignore_event))
        await until(lambda: bool(server.bodies))
        call.cancel()
        with suppress(asyncio.CancelledError):
            await call
        await until_gone(server)
        line.close()
    assert call.cancelled()


async def test_http_transport_answer_is_separate_request() -> None:
    answered = asyncio.Event()

    async def answer(body: bytes, wire: ServerConnection) -> None:
        if json.loads(body)["type"] == "tool_answer":
            wire.write(TAKEN)
            answered.set()
            return
        wire.write(STREAM, chunk(question("1", 1) + b"\n"))
        await answered.wait()
        wire.write(chunk(tool_response("1", {"a": 1}) + b"\n"), LAST)

    async def on_report(report: CallEvent) -> bytes:
        assert isinstance(report, QuestionMessage)
        return b'{"type":"tool_answer","id":"1","number":1}'

    async with fake_tool_server(answer) as server:
        line = server.line()
        assert (await line.call(REQUEST, "1", on_report)).result == {"a": 1}
        line.close()
        assert len(server.bodies) == 2


async def test_http_transport_lost_call_cancels_question() -> None:
    """A person may think for long: when the server is gone, the call ends at once."""
    asked = asyncio.Event()

    async def answer(_: bytes, wire: ServerConnection) -> None:
        wire.write(STREAM, chunk(question("1", 1) + b"\n"))
        await asked.wait()
        wire.reset()

    async def on_report(_: CallEvent) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with fake_tool_server(answer) as server:
        line = server.line()
        async with asyncio.timeout(patience()):
            with pytest.raises(ExchangeLost) as raised:
                await line.call(REQUEST, "1", on_report)
        assert raised.value.delivered
        line.close()


async def test_http_transport_handler_error_ends_call() -> None:
    async def on_report(_: CallEvent) -> None:
        raise TimeoutError("its own")

    async with fake_tool_server(saying(STREAM + chunk(question("1", 1) + b"\n"))) as server:
        line = server.line()
        with pytest.raises(TimeoutError, match="its own"):
            await line.call(REQUEST, "1", on_report)
        await until_gone(server)
        line.close()


async def test_http_transport_limits_connections_and_reserves_some() -> None:
    """When calls hold all that they may, the next ones wait; the hall's own questions still get through."""
    go = asyncio.Event()

    async def answer(body: bytes, wire: ServerConnection) -> None:
        if b"health" in body:
            wire.write(http_response(HEALTHY))
            return
        await go.wait()
        wire.write(http_response(tool_response("1")))

    async with fake_tool_server(answer) as server:
        line = server.line()
        calls = [asyncio.ensure_future(line.call(REQUEST, "1", ignore_event)) for _ in range(MAX_CALL_CONNECTIONS + 30)]
        await until(lambda: len(server.bodies) == MAX_CALL_CONNECTIONS)
        async with asyncio.timeout(patience()):
            assert (await line.request(b"health", "h1"))["result"] == {"status": "healthy"}
            assert server.connections <= MAX_CONNECTIONS
            calls.pop().cancel()  # one that waits
            go.set()
            await asyncio.gather(*calls)
        assert MAX_CALL_CONNECTIONS < server.connections <= MAX_CONNECTIONS
        line.close()


@pytest.mark.parametrize("waiting", [0, 20])
async def test_http_transport_calls_never_use_reserved_connections(waiting: int) -> None:
    """Neither one that becomes free while calls wait, nor one that is idle when the next call comes."""
    go, calling = asyncio.Event(), REQUEST

    async def answer(body: bytes, wire: ServerConnection) -> None:
        if body != calling:
            wire.write(http_response(HEALTHY))
            return
        await go.wait()
        wire.write(http_response(tool_response("1")))

    def call() -> asyncio.Future[ToolResponseMessage]:
        return asyncio.ensure_future(line.call(calling, "1", ignore_event))

    async with fake_tool_server(answer) as server, asyncio.timeout(patience()):
        line = server.line()
        calls = [call() for _ in range(MAX_CALL_CONNECTIONS + waiting)]
        await until(lambda: len(server.bodies) == MAX_CALL_CONNECTIONS)
        for _ in range(3):
            await asyncio.gather(*(line.request(b"health", "h1") for _ in range(20)))
            calls.append(call())
            await asyncio.sleep(0)
            assert line.idle_count == MAX_CONNECTIONS - MAX_CALL_CONNECTIONS
        assert server.bodies.count(calling) == MAX_CALL_CONNECTIONS
        go.set()
        await asyncio.gather(*calls)
        assert server.bodies.count(calling) == len(calls)
        assert server.connections == MAX_CONNECTIONS
        line.close()


async def test_http_transport_closed_connection_admits_next_call() -> None:
    """Also where there is an idle one already, which calls could not have until then."""
    at = asyncio.Event()

    async def answer(body: bytes, wire: ServerConnection) -> None:
        if b"health" in body:
            wire.write(http_response(HEALTHY))
            return
        await at.wait()
        wire.write(http_response(tool_response("1"), "connection: close"))

    async with fake_tool_server(answer) as server, asyncio.timeout(patience()):
        line = server.line()
        calls = [
            asyncio.ensure_future(line.call(REQUEST, "1", ignore_event)) for _ in range(2 * MAX_CALL_CONNECTIONS + 9)
        ]
        await until(lambda: len(server.bodies) == MAX_CALL_CONNECTIONS)
        await line.request(b"health", "h1")
        for call in calls[:3]:
            call.cancel()
        await until(lambda: len(server.bodies) == MAX_CALL_CONNECTIONS + 4)
        at.set()
        await asyncio.gather(*calls[3:])
        line.close()


async def test_http_transport_waiters_are_limited_and_fail_on_close() -> None:
    async with fake_tool_server(silent) as server:
        line = server.line()
        calls = [
            asyncio.ensure_future(line.call(REQUEST, "1", ignore_event))
            for _ in range(MAX_CALL_CONNECTIONS + MAX_WAITING + 1)
        ]
        async with asyncio.timeout(patience()):
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        await until(lambda: len(server.bodies) == MAX_CALL_CONNECTIONS)
        assert sum(call.done() for call in calls) == 1
        line.close()
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(end, ExchangeLost) for end in ends)
        delivered = [end.delivered for end in ends if isinstance(end, ExchangeLost)]
        assert (delivered.count(True), delivered.count(False)) == (MAX_CALL_CONNECTIONS, MAX_WAITING + 1)
        with pytest.raises(ExchangeLost, match="closed"):
            await line.call(REQUEST, "1", ignore_event)
        await until_gone(server)


async def test_http_transport_response_with_wrong_id_is_call_lost() -> None:
    async with fake_tool_server(saying(http_response(HEALTHY))) as server:
        line = server.line()
        with pytest.raises(ExchangeLost, match="something else"):
            await line.request(b"{}", "h2")
        line.close()
