# ruff: noqa: N802 - tests carry the names of their rows
"""F14: a request that two servers could read differently is refused, and never counts as two."""

import pytest

from tests.harness.http_client import Connection, healthy
from tests.harness.mcp_messages import MODERN, encoded, tool_call
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool, tool_value

BODY = encoded(tool_call(MODERN, "touch", {"note": "x"}))
HEAD = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: application/json\r\n"
    b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: touch\r\n"
)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
SECOND = HEAD + LENGTH + b"\r\n" + BODY


def chunks(size: bytes, end: bytes = b"\r\n0\r\n\r\n") -> bytes:
    """A chunked body whose only chunk says this of its size."""
    return HEAD + CHUNKED + b"\r\n" + size + b"\r\n" + BODY + end


# Each would be one request to one reader and another, or two, to the next.
CORPUS = {
    "length_and_chunks": HEAD + LENGTH + CHUNKED + b"\r\n" + CHUNKS,
    "chunks_and_length": HEAD + CHUNKED + LENGTH + b"\r\n" + CHUNKS,
    "zero_length_and_chunks": HEAD + b"Content-Length: 0\r\n" + CHUNKED + b"\r\n" + CHUNKS,
    "two_lengths": HEAD + LENGTH + b"Content-Length: 0\r\n\r\n" + BODY,
    "two_lengths_alike": HEAD + LENGTH + LENGTH + b"\r\n" + BODY,
    "list_of_lengths": HEAD + b"Content-Length: %d, %d\r\n\r\n" % (len(BODY), len(BODY)) + BODY,
    "signed_length": HEAD + b"Content-Length: +%d\r\n\r\n" % len(BODY) + BODY,
    "negative_length": HEAD + b"Content-Length: -1\r\n\r\n" + BODY,
    "hexadecimal_length": HEAD + b"Content-Length: 0x%x\r\n\r\n" % len(BODY) + BODY,
    "spaced_length": HEAD + b"Content-Length: 1 0\r\n\r\n" + BODY,
    "empty_length": HEAD + b"Content-Length: \r\n\r\n" + BODY,
    "huge_length": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + BODY,
    "very_long_length": HEAD + b"Content-Length: " + b"9" * 5_000 + b"\r\n\r\n" + BODY,
    "space_before_colon": HEAD + b"Content-Length : %d\r\n\r\n" % len(BODY) + BODY,
    "tab_before_colon": HEAD + b"Content-Length\t: %d\r\n\r\n" % len(BODY) + BODY,
    "space_before_colon_of_coding": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + CHUNKS,
    "folded_header": HEAD + LENGTH + b"X-A: a\r\n b\r\n\r\n" + BODY,
    "folded_coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n\r\n" + CHUNKS,
    "folded_first": HEAD.replace(b"\r\nHost", b"\r\n Host", 1) + LENGTH + b"\r\n" + BODY,
    "bare_line_feed": HEAD.replace(b"\r\n", b"\n") + LENGTH.replace(b"\r\n", b"\n") + b"\n" + BODY,
    "one_bare_line_feed": HEAD + b"X-A: a\n" + LENGTH + b"\r\n" + BODY,
    "bare_return": HEAD + b"X-A: a\rX-B: b\r\n" + LENGTH + b"\r\n" + BODY,
    "nul_in_header": HEAD + b"X-A: a\x00b\r\n" + LENGTH + b"\r\n" + BODY,
    "nul_in_name": HEAD + b"X\x00A: a\r\n" + LENGTH + b"\r\n" + BODY,
    "empty_name": HEAD + b": a\r\n" + LENGTH + b"\r\n" + BODY,
    "no_colon": HEAD + b"X-A\r\n" + LENGTH + b"\r\n" + BODY,
    "unknown_coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + CHUNKS,
    "coding_after_chunked": HEAD + b"Transfer-Encoding: chunked, identity\r\n\r\n" + CHUNKS,
    "coding_twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + CHUNKS,
    "two_codings": HEAD + CHUNKED + b"Transfer-Encoding: identity\r\n\r\n" + CHUNKS,
    "vertical_tab_coding": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n" + CHUNKS,
    "quoted_coding": HEAD + b'Transfer-Encoding: "chunked"\r\n\r\n' + CHUNKS,
    "chunk_of_no_size": chunks(b""),
    "chunk_of_bad_size": chunks(b"xyz"),
    "chunk_of_signed_size": chunks(b"+%x" % len(BODY)),
    "chunk_of_negative_size": chunks(b"-%x" % len(BODY)),
    "chunk_of_prefixed_size": chunks(b"0x%x" % len(BODY)),
    "chunk_of_spaced_size": chunks(b"%x " % len(BODY)),
    "chunk_of_huge_size": chunks(b"f" * 17),
    "chunk_too_small": chunks(b"%x" % (len(BODY) - 1)),
    "chunk_without_return": HEAD + CHUNKED + b"\r\n%x\n%s\n0\n\n" % (len(BODY), BODY),
    "chunk_without_end": chunks(b"%x" % len(BODY), b"0\r\n\r\n"),
    "version_0_9": b"POST /mcp\r\n\r\n",
    "version_1_2": HEAD.replace(b"1.1", b"1.2", 1) + LENGTH + b"\r\n" + BODY,
    "version_2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "lower_case_method": HEAD.replace(b"POST", b"post", 1) + LENGTH + b"\r\n" + BODY,
    "tab_in_line": HEAD.replace(b"POST ", b"POST\t", 1) + LENGTH + b"\r\n" + BODY,
    "space_in_path": HEAD.replace(b"/mcp", b"/m cp", 1) + LENGTH + b"\r\n" + BODY,
}


@pytest.mark.threat("F14")
@pytest.mark.parametrize("variant", CORPUS)
def test_F14_ambiguous_request_framing_gets_one_refusal_and_a_closed_connection(
    server: ServerProcess, variant: str
) -> None:
    """One refusal at most, then the connection ends; a second request behind it is never read."""
    line = SyncHttpMcpClient(server.port, MODERN)
    before = tool_value(call_tool(line, "touches"))
    with Connection(server.port) as connection:
        connection.send(CORPUS[variant])
        connection.send_if_open(SECOND)
        said = connection.rest()
    statuses = [int(part[:3]) for part in said.split(b"HTTP/1.1 ")[1:]]
    assert len(statuses) <= 1, f"two answers: {said!r}"
    assert all(400 <= status < 500 for status in statuses)
    assert tool_value(call_tool(line, "touches")) == before, "the tool ran"
    assert healthy(server.port)


@pytest.mark.threat("F14")
@pytest.mark.parametrize("framing", [LENGTH + b"\r\n" + BODY, CHUNKED + b"\r\n" + CHUNKS], ids=["length", "chunks"])
def test_F14_http_1_0_request_gets_one_answer_and_a_closed_connection(server: ServerProcess, framing: bytes) -> None:
    """HTTP/1.0 knows no chunks and no second request: it gets one answer."""
    with Connection(server.port) as connection:
        connection.send(HEAD.replace(b"1.1", b"1.0", 1) + framing)
        connection.send_if_open(SECOND)
        assert connection.rest().count(b"HTTP/1.1 ") <= 1


@pytest.mark.threat("F14")
@pytest.mark.parametrize("status", ["413", "415", "403", "421"])
def test_F14_body_of_a_refused_request_is_not_read_as_the_next_request(server: ServerProcess, status: str) -> None:
    """The body of a refused request is not read as the next request."""
    inner = SECOND
    refused = {
        "413": HEAD + b"Content-Length: 2000000\r\n\r\n" + inner,
        "415": HEAD.replace(b"application/json\r\nAccept", b"text/plain\r\nAccept")
        + b"Content-Length: %d\r\n\r\n" % len(inner)
        + inner,
        "403": HEAD + b"Origin: http://evil.example\r\nContent-Length: %d\r\n\r\n" % len(inner) + inner,
        "421": HEAD.replace(b"127.0.0.1", b"evil.example") + b"Content-Length: %d\r\n\r\n" % len(inner) + inner,
    }[status]
    line = SyncHttpMcpClient(server.port, MODERN)
    before = tool_value(call_tool(line, "touches"))
    with Connection(server.port) as connection:
        connection.send(refused)
        said = connection.rest()
    assert said.count(b"HTTP/1.1 ") == 1
    assert said.startswith(b"HTTP/1.1 " + status.encode())
    assert tool_value(call_tool(line, "touches")) == before


@pytest.mark.threat("F14")
def test_F14_pipelined_requests_are_answered_in_order(server: ServerProcess) -> None:
    """Two requests that are really two get two answers, each its own."""
    line = SyncHttpMcpClient(server.port, MODERN)
    first, second = (line.request(encoded(tool_call(MODERN, "nonce", {"nonce": nonce}))) for nonce in ("one", "two"))
    with Connection(server.port) as connection:
        connection.send(first + second)
        assert b'"one"' in connection.reply().body
        assert b'"two"' in connection.reply().body


@pytest.mark.threat("F14")
@pytest.mark.parametrize("size", [70_000, 1_000_000])
def test_F14_endless_request_header_is_refused_without_using_memory(server: ServerProcess, size: int) -> None:
    """Headers that do not end are cut off, and cost no memory."""
    peak = server.peak
    with Connection(server.port) as connection:
        connection.send(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ")
        connection.send_if_open(b"a" * size)
        connection.send_if_open(b"\r\nContent-Length: 0\r\n\r\n")
        said = connection.rest()
    assert said == b"" or b" 4" in said[:12]
    assert server.peak - peak < 16 * 1024 * 1024
    assert healthy(server.port)
