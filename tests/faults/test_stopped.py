"""A server that is told to stop ends its streams properly, finishes what runs, writes its records, and is gone soon."""

import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.http_client import HOST, Connection, http_request, parse_messages
from tests.harness.lateness import measured_lateness
from tests.harness.mcp_messages import LEGACY, MODERN, PREFIX, REVISIONS, encoded, request_in, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient, answer_of, call_tool, tool_value
from tests.recorded import recorded
from tests.threats.served import serving, stdio
from tests.unit.stores.audit.audit_logs import verified_with_store

SOON = 1.0  # seconds, beside what still runs; usual is a fifth of that
END_OF_CHUNKS = b"0\r\n\r\n"

both_signals = pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])


@contextmanager
def ending_soon(process: "subprocess.Popen[bytes]", running: float = 0.0) -> Generator[None]:
    """What is told to end in this block ends well, in no more time than it and what still runs need on this machine."""
    with measured_lateness() as machine:
        started = time.monotonic()
        yield
        assert process.wait(patience()) == 0
        ended = time.monotonic()
    assert ended - started < running + SOON + machine.late(SOON, started, ended)


def stopped_soon(server: ServerProcess, how: signal.Signals = signal.SIGTERM, running: float = 0.0) -> None:
    """Stop it: it ends well, and in time."""
    with ending_soon(server.process, running):
        server.process.send_signal(how)
    assert "Traceback" not in server.log


def listening(server: ServerProcess) -> Connection:
    """An open subscription, acknowledged."""
    line = SyncHttpMcpClient(server.port, MODERN)
    body = encoded(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="sub"))
    connection = Connection(server.port)
    connection.send(line.request(body))
    connection.until(b"acknowledged")
    return connection


@both_signals
def test_stopping_server_sends_listen_streams_their_final_result(tmp_path: Path, how: signal.Signals) -> None:
    """MCP 2026-07-28: a subscription that the server ends is answered, then closed."""
    with serving(tmp_path) as server:
        streams = [listening(server) for _ in range(3)]
        stopped_soon(server, how)
        for stream in streams:
            rest = stream.rest()
            stream.close()
            (final,) = parse_messages(rest)
            assert (final["id"], final["result"]["resultType"]) == ("sub", "complete")
            assert final["result"]["_meta"][f"{PREFIX}subscriptionId"] == "sub"
            assert rest.endswith(END_OF_CHUNKS)


@pytest.mark.parametrize("revision", LEGACY)
def test_stopping_server_ends_get_streams(tmp_path: Path, revision: str) -> None:
    """The standing streams of the older revisions end as streams do, so that clients know."""
    with serving(tmp_path) as server:
        line = SyncHttpMcpClient(server.port, revision)
        headers = [("Host", HOST), ("Accept", "text/event-stream"), ("Mcp-Session-Id", line.session)]
        with Connection(server.port) as connection:
            connection.send(http_request("GET", "/mcp", headers))
            assert b" 200 " in connection.head()
            stopped_soon(server)
            assert connection.rest().endswith(END_OF_CHUNKS)


@pytest.mark.parametrize("revision", REVISIONS)
def test_stopping_server_answers_running_calls(tmp_path: Path, revision: str) -> None:
    """What was begun is finished: a plain reply, and a stream of progress with its answer."""
    with serving(tmp_path) as server:
        line = SyncHttpMcpClient(server.port, revision)
        stepping = tool_call(revision, "steps", {"count": 5, "delay": 0.2})
        stepping["params"].setdefault("_meta", {})["progressToken"] = 1
        with Connection(server.port) as plain, Connection(server.port) as stream:
            plain.send(line.request(encoded(tool_call(revision, "sleeps", {"seconds": 1.0}))))
            stream.send(line.request(encoded(stepping)))
            assert b" 200 " in stream.head()
            stopped_soon(server, running=1.0)
            assert answer_of(plain.reply()).text == "slept"
            assert parse_messages(stream.rest())[-1]["result"]["content"][0]["text"] == "done"


@pytest.mark.parametrize("revision", LEGACY)
def test_stopping_server_does_not_wait_for_an_open_elicitation(tmp_path: Path, revision: str) -> None:
    """A tool that waits for a person's reply hears that none will come, and its caller gets an answer."""
    with serving(tmp_path) as server:
        line = SyncHttpMcpClient(server.port, revision)
        with Connection(server.port) as connection:
            connection.send(line.request(encoded(tool_call(revision, "paint", {"wall": "north"}))))
            connection.until(b"elicitation/create")
            stopped_soon(server)
            assert parse_messages(connection.rest())[-1]["result"]["isError"]


def test_stopping_server_accepts_no_new_calls(tmp_path: Path) -> None:
    """While it finishes what runs, nobody else is let in."""
    with serving(tmp_path) as server:
        line = SyncHttpMcpClient(server.port, MODERN)
        with Connection(server.port) as running:
            running.send(line.request(encoded(tool_call(MODERN, "sleeps", {"seconds": 1.5}))))
            assert tool_value(call_tool(line, "number", value=7)) == 7
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            with pytest.raises(ConnectionError):
                call_tool(line, "number", value=7)
            assert answer_of(running.reply()).text == "slept"
        assert server.process.wait(patience()) == 0


def test_stopping_server_does_not_wait_for_a_blocked_thread(tmp_path: Path) -> None:
    """A tool that sleeps in a thread long after its caller was answered cannot keep the process alive."""
    with serving(tmp_path) as server:
        assert "0.5 seconds" in call_tool(SyncHttpMcpClient(server.port, MODERN), "blocks", seconds=60).text
        stopped_soon(server)


def test_stopping_server_does_not_wait_for_idle_or_half_sent_requests(tmp_path: Path) -> None:
    """Nor can connections that were opened and never used, or half used."""
    with serving(tmp_path) as server:
        line = SyncHttpMcpClient(server.port, MODERN)
        request = line.request(encoded(tool_call(MODERN, "number", {"value": 7})))
        connections = [Connection(server.port) for _ in range(6)]
        for connection, sent in zip(
            connections, (b"", request[:30], request, request[:-40], b"GET", b"\r\n"), strict=True
        ):
            connection.send(sent)
        assert tool_value(call_tool(line, "number", value=7)) == 7  # so what was sent before has arrived
        stopped_soon(server)
        for connection in connections:
            connection.close()


def test_stopped_server_has_recorded_every_call(tmp_path: Path) -> None:
    """Each call that was answered has its record once the server has stopped."""
    with serving(tmp_path) as server:
        lines = [SyncHttpMcpClient(server.port, revision) for revision in REVISIONS]
        for count in range(150):
            call_tool(lines[count % 3], "number", value=count)
        stopped_soon(server)
    assert [record["outcome"] for record in recorded(tmp_path / "data")] == ["ok"] * 150
    assert verified_with_store(tmp_path / "data").good


@both_signals
def test_stdio_server_exits_on_a_signal(tmp_path: Path, how: signal.Signals) -> None:
    """Over stdio a signal ends the server as well."""
    with stdio(tmp_path) as line:
        assert tool_value(call_tool(line, "number", value=7)) == 7
        with ending_soon(line.process):
            line.process.send_signal(how)
        assert "Traceback" not in line.log


def test_stdio_server_answers_running_calls_before_it_exits(tmp_path: Path) -> None:
    """The end of the input leaves running calls the time to answer."""
    with stdio(tmp_path) as line:
        assert tool_value(call_tool(line, "number", value=7)) == 7
        assert line.process.stdin is not None
        with ending_soon(line.process, running=0.5):
            line.tell(encoded(tool_call(MODERN, "sleeps", {"seconds": 0.5})))
            line.process.stdin.close()
            assert b"slept" in line.line()
