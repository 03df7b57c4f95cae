# ruff: noqa: N802 - tests carry the names of their rows
"""G8: what a tool's exceptions say, and what it keeps to itself, goes to the log and to nobody else."""

import re

import pytest

from tests.harness.mcp_messages import MODERN, encoded, tool_call
from tests.harness.server_process import ServerProcess, eventually
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncMcpClient, SyncStdioMcpClient, call_tool, tool_value
from tests.recorded import recorded
from tests.threats.hostile_tools import CANARY, RAISES, RETURNS

SECRET = CANARY.encode()
ONLY_IN_THREADS = "interrupt"  # in the loop it means that the person at the keyboard wants to stop
UNWRITTEN = ("odd", "failed_from")  # one cannot be written down, the other says all that it wants to be said


def log_of(line: SyncMcpClient, server: ServerProcess, pipe: SyncStdioMcpClient) -> str:
    """The log of the server that a line leads to."""
    return pipe.log if line is pipe else server.log


@pytest.mark.threat("G8")
@pytest.mark.parametrize("tool", ["raises", "raises_in_thread"])
@pytest.mark.parametrize("how", [how for how in RAISES if how != ONLY_IN_THREADS])
def test_G8_secret_in_an_exception_of_a_tool_is_logged_but_not_sent(
    line: SyncMcpClient, server: ServerProcess, pipe: SyncStdioMcpClient, tool: str, how: str
) -> None:
    """However the secret is raised, the caller reads where to look, and only the log has it."""
    before = len(log_of(line, server, pipe))
    answer = call_tool(line, tool, how=how)
    assert answer.is_error
    assert SECRET not in line.seen
    logged = log_of(line, server, pipe)[before:]
    if how not in UNWRITTEN:
        assert CANARY in logged
    if found := re.search(r"under call (\S+)", answer.text):
        assert found[1] in logged
    assert tool_value(call_tool(line, "number", value=7)) == 7


@pytest.mark.threat("G8")
def test_G8_keyboard_interrupt_raised_in_a_tool_thread_ends_only_its_call(line: SyncMcpClient) -> None:
    """Nothing that a tool raises in a thread can end the server."""
    assert call_tool(line, "raises_in_thread", how=ONLY_IN_THREADS).is_error
    assert tool_value(call_tool(line, "number", value=7)) == 7


@pytest.mark.threat("G8")
@pytest.mark.parametrize("tool", ["returns", "promises"])
def test_G8_unserializable_tool_result_gets_one_answer_without_exception_text(line: SyncMcpClient, tool: str) -> None:
    """Whatever a tool returns, the request has one answer, and no exception's text is in it."""
    for how in RETURNS:
        answer = call_tool(line, tool, how=how)
        assert "result" in answer.message or answer.code == -32603, how
        assert SECRET not in line.seen, how
    assert tool_value(call_tool(line, "number", value=7)) == 7


@pytest.mark.threat("G8")
@pytest.mark.parametrize("tool", ["careful", "careless"])
def test_G8_argument_quoted_by_an_authors_validator_is_removed_from_the_error(line: SyncMcpClient, tool: str) -> None:
    """A validator of the author's own may quote the argument; what the caller reads are its words without that."""
    answer = call_tool(line, tool, order={"card": CANARY})
    assert answer.is_error
    assert "/order" in answer.text
    assert SECRET not in line.seen


@pytest.mark.threat("G8")
@pytest.mark.parametrize("tool", ["logs_badly", "logs_badly_in_thread", "asks_badly"])
def test_G8_unserializable_log_message_or_question_gets_one_answer_without_exception_text(
    line: SyncMcpClient, tool: str
) -> None:
    """The same for what a tool says while it runs."""
    message = tool_call(line.revision, tool)
    message["params"].setdefault("_meta", {})["io.modelcontextprotocol/logLevel"] = "debug"
    answer = line.ask(encoded(message))
    assert "result" in answer.message or answer.code == -32603
    assert SECRET not in line.seen
    assert tool_value(call_tool(line, "number", value=7)) == 7


@pytest.mark.threat("G8")
def test_G8_audit_records_hold_no_argument_or_exception_text(server: ServerProcess) -> None:
    """The record of a call names it and how it ended; its arguments are there as a digest only."""
    line = SyncHttpMcpClient(server.port, MODERN)
    call_tool(line, "nonce", nonce=CANARY)
    call_tool(line, CANARY[:6] + "-no-such-tool", nonce=CANARY)
    call_tool(line, "raises", how="text")
    assert eventually(lambda: any("no-such-tool" in record["tool"] for record in recorded(server.data)))
    assert eventually(lambda: recorded(server.data)[-1]["tool"].startswith("hostile_tools.raises"))
    assert CANARY not in str(recorded(server.data))


@pytest.mark.threat("G8")
def test_G8_stdio_output_of_all_earlier_tests_holds_no_secret(server: ServerProcess, pipe: SyncStdioMcpClient) -> None:
    """Whatever other tests have made the pipe say so far, the secret was not in it."""
    assert SECRET not in pipe.seen.replace(b'"nonce":"' + SECRET, b"")
