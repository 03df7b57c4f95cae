# ruff: noqa: N802 - tests carry the names of their rows
"""F7: a client that goes away, at whatever moment, leaves nothing behind in the server."""

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.http_client import HOST, Connection, healthy, http_request
from tests.harness.mcp_messages import LEGACY, MODERN, encoded, request_in, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, eventually
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool, tool_value
from tests.threats.served import stdio

EXECUTOR_THREADS = 8  # the event loop's own thread pool, which may grow to its size during any test


@contextmanager
def no_leaks(server: ServerProcess, sync_calls: int = 0) -> Generator[None]:
    """Check that the block leaves no task, descriptor or thread behind, and the server healthy.

    The server is shared with other tests, so all three are compared with what it held before. A call of a sync tool
    may add one thread to the pool, which keeps it.
    """
    line = SyncHttpMcpClient(server.port, MODERN)

    def held() -> tuple[int, int]:
        return tool_value(call_tool(line, "tasks")), server.fds

    before = held()
    threads = server.threads
    yield
    assert eventually(lambda: all(now <= then for now, then in zip(held(), before, strict=True)), patience()), (
        f"{held()} tasks and descriptors, {before} before"
    )
    assert server.threads <= threads + sync_calls + EXECUTOR_THREADS
    assert healthy(server.port)


@pytest.mark.threat("F7")
def test_F7_disconnect_at_every_byte_of_a_request_leaves_no_task_or_descriptor(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """Half a request is no request, wherever it was cut."""
    request = http.request(encoded(tool_call(http.revision, "sleeps", {"seconds": 0.01})))
    with no_leaks(server):
        for offset in range(len(request) + 1):
            connection = Connection(server.port)
            connection.send(request[:offset])
            if offset % 2:
                connection.close()
            else:
                connection.reset()


@pytest.mark.threat("F7")
def test_F7_disconnect_within_a_chunked_body_leaves_no_task_or_descriptor(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """The same where the body comes in pieces."""
    body = encoded(tool_call(http.revision, "touch"))
    head = http.request(body).partition(b"\r\n\r\n")[0].replace(b"Content-Length: %d" % len(body), b"X: y")
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    whole = head.replace(b"X: y", b"Transfer-Encoding: chunked") + b"\r\n\r\n" + chunks
    with no_leaks(server):
        for offset in range(len(head), len(whole), 5):
            with Connection(server.port) as connection:
                connection.send(whole[:offset])


@pytest.mark.threat("F7")
def test_F7_disconnect_at_every_stage_of_a_reply_leaves_no_task_or_descriptor(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """A stream of progress is left after its head, after every event, and while nothing is sent."""
    body = tool_call(http.revision, "steps", {"count": 6, "delay": 0.01})
    body["params"].setdefault("_meta", {})["progressToken"] = "t"
    request = http.request(encoded(body))
    with no_leaks(server):
        for parts in range(9):
            for rudely in (False, True):
                connection = Connection(server.port)
                connection.send(request)
                while parts and not connection.seen.endswith(b"0\r\n\r\n") and parts > connection.parts:
                    connection.part()
                (connection.reset if rudely else connection.close)()


@pytest.mark.threat("F7")
def test_F7_disconnect_while_a_tool_runs_leaves_no_task_or_descriptor(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """The call of the newest revision is cancelled; those of the older ones run to their end, which comes."""
    calls = 10
    with no_leaks(server, sync_calls=calls):
        for tool in ("sleeps", "naps"):
            for _ in range(calls):
                with Connection(server.port) as connection:
                    connection.send(http.request(encoded(tool_call(http.revision, tool, {"seconds": 0.3}))))


@pytest.mark.threat("F7")
def test_F7_disconnect_between_pipelined_requests_leaves_no_task_or_descriptor(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """Twenty requests at once, answers to some of them read."""
    request = http.request(encoded(tool_call(http.revision, "nonce", {"nonce": "n"})))
    with no_leaks(server):
        for read in range(0, 20, 4):
            with Connection(server.port) as connection:
                connection.send(request * 20)
                for _ in range(read):
                    assert connection.reply().status == 200


@pytest.mark.threat("F7")
def test_F7_dropped_subscription_streams_leave_no_task_or_descriptor(server: ServerProcess) -> None:
    """A hundred subscriptions are opened and dropped, more than one caller may hold at once."""
    line = SyncHttpMcpClient(server.port, MODERN)
    body = encoded(request_in(MODERN, "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    with no_leaks(server):
        for _ in range(2):
            connections = [Connection(server.port) for _ in range(60)]
            for connection in connections:
                connection.send(line.request(body))
            for connection in connections:
                assert b" 200 " in connection.head()
                connection.reset()
            assert eventually(lambda: tool_value(call_tool(line, "tasks")) < 20)


@pytest.mark.threat("F7")
@pytest.mark.parametrize("revision", LEGACY)
def test_F7_dropped_session_stream_can_be_opened_again_at_once(server: ServerProcess, revision: str) -> None:
    """A session whose stream was dropped may open it again at once, as often as it likes."""
    line = SyncHttpMcpClient(server.port, revision)
    headers = [("Host", HOST), ("Accept", "text/event-stream"), ("Mcp-Session-Id", line.session)]
    request = http_request("GET", "/mcp", headers)

    def opened() -> bool:
        with Connection(server.port) as connection:
            connection.send(request)
            return b" 200 " in connection.head()

    with no_leaks(server):
        for _ in range(20):
            assert eventually(opened), "the stream of a client that went away is still held"


@pytest.mark.threat("F7")
@pytest.mark.parametrize("cut", [0, 40, -1])
def test_F7_stdio_input_that_ends_within_a_message_ends_the_server_cleanly(tmp_path: Path, cut: int) -> None:
    """Over stdio the end of the input, even in the middle of a message, is the end of the server, and no fault."""
    with stdio(tmp_path) as line:
        whole = encoded(tool_call(MODERN, "number", {"value": 7})) + b"\n"
        assert line.process.stdin is not None
        line.process.stdin.write(whole[:cut] if cut else b"")
        line.process.stdin.close()
        assert line.process.wait(patience()) == 0
        assert "Traceback" not in line.log


@pytest.mark.threat("F7")
def test_F7_stdio_output_closed_by_the_client_ends_the_server(tmp_path: Path) -> None:
    """Over stdio a client that closed its end gets nothing more; the server ends."""
    with stdio(tmp_path) as line:
        assert tool_value(call_tool(line, "number", value=7)) == 7
        assert line.process.stdin is not None
        assert line.process.stdout is not None
        line.process.stdout.close()
        line.tell(encoded(tool_call(MODERN, "number", {"value": 7})))
        line.process.stdin.close()
        try:
            line.process.wait(patience())
        except subprocess.TimeoutExpired:
            pytest.fail("the server goes on for nobody")
        assert "Traceback" not in line.log
