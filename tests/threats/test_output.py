# ruff: noqa: N802 - tests carry the names of their rows
"""G2, G5, G6: what a tool returns is cleaned, held to its schema, and never too large."""

import re
from typing import Any

import pytest

from tests.harness.mcp_messages import MODERN, PREFIX, encoded, tool_call
from tests.harness.server_process import ServerProcess, eventually
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncMcpClient, SyncStdioMcpClient, call_tool, tool_value
from tests.threats.hostile_tools import CANARY, ESCAPES, LARGE, OSC_LINK

MIB = 1024 * 1024
# Control characters as they stand in JSON, and as they stand anywhere.
CONTROLS = re.compile(rb"\\u00[01][0-9a-fA-F]|\\[bf]|[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]")


def output_of(line: SyncMcpClient, message: Any) -> bytes:
    """Everything that came for one message."""
    before = len(line.seen)
    line.ask(encoded(message))
    return bytes(line.seen[before:])


@pytest.mark.threat("G2")
@pytest.mark.parametrize("where", ESCAPES)
def test_G2_terminal_escape_sequences_in_a_result_are_removed(line: SyncMcpClient, where: str) -> None:
    """A terminal or a model reads the words only, wherever in a result they stand."""
    said = output_of(line, tool_call(line.revision, "escapes", {"where": where}))
    assert b"click" in said
    assert not CONTROLS.search(said)
    assert b"evil.example" not in said


@pytest.mark.threat("G2")
def test_G2_terminal_escape_sequences_in_progress_and_log_notifications_are_removed(line: SyncMcpClient) -> None:
    """What a tool says while it runs reaches the same terminal."""
    message = tool_call(line.revision, "tells_escapes")
    message["params"].setdefault("_meta", {})["progressToken"] = 1
    if line.revision == MODERN:
        message["params"]["_meta"][f"{PREFIX}logLevel"] = "debug"
    said = output_of(line, message)
    assert b"notifications/progress" in said
    assert b"notifications/message" in said
    assert not CONTROLS.search(said)


@pytest.mark.threat("G2")
def test_G2_terminal_escape_sequences_of_the_caller_are_not_repeated_in_errors(line: SyncMcpClient) -> None:
    """What the caller sent is not played back to its terminal either."""
    evil = OSC_LINK[:60]
    for message in (
        tool_call(line.revision, "nothing", {evil: 1}),
        tool_call(line.revision, "touch", {evil: 1}),
        tool_call(line.revision, "long_names", {evil: {evil: 1}}),
    ):
        assert not CONTROLS.search(output_of(line, message))


@pytest.mark.threat("G5")
def test_G5_result_that_breaks_its_output_schema_is_an_error_without_the_value(
    line: SyncMcpClient, server: ServerProcess, pipe: SyncStdioMcpClient
) -> None:
    """A value that the output schema forbids is not passed on; the log says what was wrong with it, not the value."""
    answer = call_tool(line, "breaks_promise")
    assert answer.is_error
    assert "structuredContent" not in answer.result
    assert CANARY.encode() not in answer.raw
    log = pipe.log if line is pipe else server.log
    assert "broke its output schema" in log
    assert "/count" in log


@pytest.mark.threat("G6")
@pytest.mark.parametrize("how", LARGE)
def test_G6_result_of_fifty_megabytes_is_refused_and_freed(
    http: SyncHttpMcpClient, server: ServerProcess, how: str
) -> None:
    """Fifty megabytes are not passed on, and are gone from memory soon."""
    rss = server.rss
    answer = call_tool(http, "large", how=how, size=50_000_000)
    assert answer.is_error
    assert len(answer.raw) < 16 * 1024
    assert server.peak < 1024 * MIB
    assert eventually(lambda: tool_value(call_tool(http, "number", value=7)) == 7 and server.rss - rss < 100 * MIB)


@pytest.mark.threat("G6")
@pytest.mark.parametrize("how", LARGE)
def test_G6_result_over_the_limit_in_bytes_is_refused_in_any_script_and_block_count(
    line: SyncMcpClient, how: str
) -> None:
    """A little more than a megabyte is too much, in whatever letters and in however many blocks it comes."""
    assert call_tool(line, "large", how=how, size=1_100_000).is_error
    answer = call_tool(line, "large", how=how, size=4_000)
    assert answer.is_error == (how == "failed")
    assert len(answer.raw) > 1_000
