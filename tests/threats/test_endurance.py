# ruff: noqa: N802 - tests carry the names of their rows
"""I7: a tool that blocks, spins or will not end takes nobody else's time, and its caller is answered."""

import time

import pytest

from tests.harness.http_client import Connection
from tests.harness.mcp_messages import MODERN, encoded
from tests.harness.mcp_messages import request_in as message
from tests.harness.mcp_messages import tool_call as calling
from tests.harness.server_process import ServerProcess as Served
from tests.harness.sync_mcp_client import SyncHttpMcpClient as HttpLine
from tests.harness.sync_mcp_client import SyncMcpClient as Line
from tests.harness.sync_mcp_client import answer_of
from tests.harness.sync_mcp_client import call_tool as call
from tests.harness.sync_mcp_client import tool_value as value

PING = encoded(message(MODERN, "server/discover"))
LATE_SECONDS = 3.0  # usual are a few milliseconds, but the machine may be busy with other things


def worst_ping(server: Served, busy: list[Connection]) -> float:
    """The longest that anybody else had to wait until all of these were answered."""
    line, worst = HttpLine(server.port, MODERN), 0.0
    with Connection(server.port) as other:
        while not all(connection.answered for connection in busy):
            started = time.monotonic()
            other.send(line.request(PING))
            assert other.reply().status == 200
            worst = max(worst, time.monotonic() - started)
    return worst


@pytest.mark.threat("I7")
@pytest.mark.parametrize(("tool", "seconds", "words"), [("blocks", 4.0, "0.5 seconds"), ("spins", 0.5, "spun")])
def test_I7_blocking_or_spinning_sync_tool_does_not_delay_other_callers(
    http: HttpLine, server: Served, tool: str, seconds: float, words: str
) -> None:
    """Others are answered meanwhile; the caller of a tool that blocks is answered at the tool's deadline."""
    busy = [Connection(server.port) for _ in range(3)]
    started = time.monotonic()
    for connection in busy:
        connection.send(http.request(encoded(calling(http.revision, tool, {"seconds": seconds}))))
    assert worst_ping(server, busy) < LATE_SECONDS
    if tool == "blocks":
        assert 0.4 < time.monotonic() - started < 3.5
    for connection in busy:
        assert words in answer_of(connection.reply()).text
        connection.close()


@pytest.mark.threat("I7")
def test_I7_more_blocked_calls_than_threads_are_answered_at_their_deadline(server: Served) -> None:
    """Calls that find no thread are answered at their deadline too, and threads that come free are used again."""
    line = HttpLine(server.port, MODERN)
    busy = [Connection(server.port) for _ in range(40)]
    for connection in busy:
        connection.send(line.request(encoded(calling(MODERN, "blocks", {"seconds": 1.0}))))
    assert worst_ping(server, busy) < LATE_SECONDS
    for connection in busy:
        assert answer_of(connection.reply()).is_error
        connection.close()
    answers = (call(line, "blocks", seconds=0.0) for _ in range(20))
    assert any(not answer.is_error for answer in answers)


@pytest.mark.threat("I7")
@pytest.mark.parametrize(("times", "seconds"), [(0, 0.3), (1, 1.3)])
def test_I7_tool_that_ignores_cancellation_is_cancelled_again_and_reported_as_timeout(
    line: Line, times: int, seconds: float
) -> None:
    """It is cancelled again until it ends; the caller reads that it took too long."""
    started = time.monotonic()
    answer = call(line, "stubborn", times=times)
    assert answer.is_error
    assert "0.3 seconds" in answer.text
    assert seconds - 0.1 < time.monotonic() - started < seconds + 5
    assert value(call(line, "number", value=7)) == 7


@pytest.mark.threat("I7")
def test_I7_tool_that_ignores_the_disconnect_of_its_caller_does_not_block_the_next_call(server: Served) -> None:
    """A client that hangs up on a tool that ignores it is not waited for."""
    line = HttpLine(server.port, MODERN)
    with Connection(server.port) as connection:
        connection.send(line.request(encoded(calling(MODERN, "stubborn", {"times": 1}))))
    assert value(call(line, "number", value=7)) == 7
