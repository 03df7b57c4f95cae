# ruff: noqa: N802 - tests carry the names of their rows
"""I7: a tool that blocks, spins or will not end takes nobody else's time, and its caller is answered."""

import time
from typing import NamedTuple

import pytest

from tests.harness.http_client import Connection
from tests.harness.lateness import Lateness, measured_lateness
from tests.harness.mcp_messages import MODERN, encoded, request_in, tool_call
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncMcpClient, answer_of, call_tool, tool_value

PING = encoded(request_in(MODERN, "server/discover"))
SOON = 0.25  # seconds; usual are a few milliseconds
DEADLINE = 0.5  # of the tool that blocks
WORKER_START = 1.0  # a tool that blocks too many threads goes on in worker processes, which must be started


class Ping(NamedTuple):
    """A request of somebody else, and its answer."""

    started: float
    ended: float


def pings_during(server: ServerProcess, busy: list[Connection]) -> list[Ping]:
    """Somebody else asks for something simple, again and again, until all of these are answered."""
    line, pings = SyncHttpMcpClient(server.port, MODERN), list[Ping]()
    with Connection(server.port) as other:
        while not all(connection.answered for connection in busy):
            started = time.monotonic()
            other.send(line.request(PING))
            assert other.reply().status == 200
            pings.append(Ping(started, time.monotonic()))
    return pings


def worst(pings: list[Ping], machine: Lateness) -> float:
    """The longest that somebody else had to wait, without what the machine itself was late."""
    return max(ended - started - machine.late(SOON, started, ended) for started, ended in pings)


@pytest.mark.threat("I7")
@pytest.mark.parametrize(("tool", "seconds", "words"), [("blocks", 4.0, "0.5 seconds"), ("spins", 0.5, "spun")])
def test_I7_blocking_or_spinning_sync_tool_does_not_delay_other_callers(
    http: SyncHttpMcpClient, server: ServerProcess, tool: str, seconds: float, words: str
) -> None:
    """Others are answered meanwhile; the caller of a tool that blocks is answered at the tool's deadline."""
    busy = [Connection(server.port) for _ in range(3)]
    with measured_lateness() as machine:
        started = time.monotonic()
        for connection in busy:
            connection.send(http.request(encoded(tool_call(http.revision, tool, {"seconds": seconds}))))
        pings = pings_during(server, busy)
    assert worst(pings, machine) < SOON
    if tool == "blocks":
        ended = pings[-1].ended
        late = WORKER_START + machine.late(WORKER_START, started, ended)
        assert DEADLINE - 0.1 < ended - started < DEADLINE + late
    for connection in busy:
        assert words in answer_of(connection.reply()).text
        connection.close()


@pytest.mark.threat("I7")
def test_I7_more_blocked_calls_than_threads_are_answered_at_their_deadline(server: ServerProcess) -> None:
    """Calls that find no thread are answered at their deadline too, and threads that come free are used again."""
    line = SyncHttpMcpClient(server.port, MODERN)
    busy = [Connection(server.port) for _ in range(40)]
    with measured_lateness() as machine:
        for connection in busy:
            connection.send(line.request(encoded(tool_call(MODERN, "blocks", {"seconds": 1.0}))))
        pings = pings_during(server, busy)
    assert worst(pings, machine) < SOON
    for connection in busy:
        assert answer_of(connection.reply()).is_error
        connection.close()
    answers = (call_tool(line, "blocks", seconds=0.0) for _ in range(20))
    assert any(not answer.is_error for answer in answers)


@pytest.mark.threat("I7")
@pytest.mark.parametrize(("times", "seconds"), [(0, 0.3), (1, 1.3)])
def test_I7_tool_that_ignores_cancellation_is_cancelled_again_and_reported_as_timeout(
    line: SyncMcpClient, times: int, seconds: float
) -> None:
    """It is cancelled again until it ends; the caller reads that it took too long."""
    assert tool_value(call_tool(line, "number", value=7)) == 7  # so the server has started
    with measured_lateness() as machine:
        started = time.monotonic()
        answer = call_tool(line, "stubborn", times=times)
        ended = time.monotonic()
    assert answer.is_error
    assert "0.3 seconds" in answer.text
    assert seconds - 0.1 < ended - started < seconds + SOON + machine.late(SOON, started, ended)
    assert tool_value(call_tool(line, "number", value=7)) == 7


@pytest.mark.threat("I7")
def test_I7_tool_that_ignores_the_disconnect_of_its_caller_does_not_block_the_next_call(server: ServerProcess) -> None:
    """A client that hangs up on a tool that ignores it is not waited for."""
    line = SyncHttpMcpClient(server.port, MODERN)
    with Connection(server.port) as connection:
        connection.send(line.request(encoded(tool_call(MODERN, "stubborn", {"times": 1}))))
    assert tool_value(call_tool(line, "number", value=7)) == 7
