# ruff: noqa: N802 - tests carry the names of their rows
"""F1 to F6: messages that parsers disagree about, or that are made to cost much, are refused and cost little."""

import json
import re
from typing import Any

import pytest

from tests.harness.http_client import Connection, fetch
from tests.harness.mcp_messages import MODERN, McpAnswer, encoded, request_in, tool_call
from tests.harness.server_process import ServerProcess, eventually
from tests.harness.sync_mcp_client import (
    SyncHttpMcpClient,
    SyncMcpClient,
    SyncStdioMcpClient,
    call_tool,
    post,
    tool_value,
)

PARSE, INVALID = -32700, -32600
LIMIT = 1024 * 1024
MIB = 1024 * 1024


def touch_call(revision: str) -> str:
    """A right call of `touch`, as text to spoil."""
    return encoded(tool_call(revision, "touch", {"note": "x"})).decode()


def refused(line: SyncMcpClient, body: bytes, *codes: int) -> McpAnswer:
    """Send a bad message: refused with one of these codes, the tool did not run, the server goes on."""
    before = tool_value(call_tool(line, "touches"))
    answer = line.ask(body)
    assert answer.code in codes, answer
    assert answer.status in (400, None)
    assert tool_value(call_tool(line, "touches")) == before
    return answer


DUPLICATES = {
    "method": ('"method":', '"method":"tools/list","method":'),
    "same_value": ('"method":"tools/call"', '"method":"tools/call","method":"tools/call"'),
    "id": ('"id":1', '"id":2,"id":1'),
    "name": ('"name":"touch"', '"name":"touches","name":"touch"'),
    "argument": ('"note":"x"', '"note":"y","note":"x"'),
    "far_apart": ('"params":', '"params":{"name":"touches"},"params":'),
    "in_a_list": ('"x"', '[[{"a":1,"a":2}]]'),
    "colon_in_value": ('"note":"x"', '"note":"a:b","note":":"'),
    "escaped": ('"method":"tools/call"', '"method":"tools/call","\\u006dethod":"tools/call"'),
    "escaped_deep": ('"note":"x"', '"note":"x","n\\u006fte":"y"'),
    "escaped_both": ('"note":"x"', '"n\\u006Fte":"x","n\\u006fte":"y"'),
    "escaped_colon": ('"note":"x"', '"note":"x","note":"\\u003a\\u003a"'),
}


@pytest.mark.threat("F1")
@pytest.mark.parametrize("duplicate", DUPLICATES)
def test_F1_duplicate_json_keys_are_refused(line: SyncMcpClient, duplicate: str) -> None:
    """No reader of the same bytes can have seen another value under the same key."""
    corrupted = touch_call(line.revision).replace(*DUPLICATES[duplicate], 1)
    assert "twice" in refused(line, corrupted.encode(), PARSE).text


UNKNOWN_MEMBERS = {
    "case_twin": ('"method":', '"Method":"tools/list","method":'),
    "case_only": ('"method":', '"Method":'),
    "upper_id": ('"id":1', '"ID":1,"id":1'),
    "fold": ('"params":', '"param\u017f":{},"params":'),
    "fold_escaped": ('"params":', '"param\\u017f":{},"params":'),
    "fold_kelvin": ('"method":', '"\u212aey":1,"method":'),
    "unknown": ('"method":', '"extra":1,"method":'),
    "result_too": ('"method":', '"result":{},"method":'),
    "proto": ('"method":', '"__proto__":{},"method":'),
}


@pytest.mark.threat("F1")
@pytest.mark.parametrize("member", UNKNOWN_MEMBERS)
def test_F1_unknown_or_differently_cased_json_rpc_members_are_refused(line: SyncMcpClient, member: str) -> None:
    """Names of members are compared exactly, and there are no others."""
    corrupted = touch_call(line.revision).replace(*UNKNOWN_MEMBERS[member], 1)
    refused(line, corrupted.encode(), INVALID, PARSE)


NUMBERS = {
    "nan": "NaN",
    "infinity": "Infinity",
    "minus_infinity": "-Infinity",
    "overflow": "1e999",
    "minus_overflow": "-1e999",
    "long": "9" * 5_000,
    "long_negative": "-" + "9" * 5_000,
    "hexadecimal": "0x10",
    "leading_zero": "010",
    "plus": "+1",
    "bare_point": ".5",
}


@pytest.mark.threat("F2")
@pytest.mark.parametrize("number", NUMBERS)
def test_F2_number_that_is_not_a_finite_json_number_is_refused(line: SyncMcpClient, number: str) -> None:
    """What is no finite JSON number never reaches a tool."""
    refused(line, touch_call(line.revision).replace('"x"', NUMBERS[number], 1).encode(), PARSE)


@pytest.mark.threat("F2")
@pytest.mark.parametrize("number", [2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**64 - 1])
def test_F2_large_integers_keep_their_exact_value(line: SyncMcpClient, number: int) -> None:
    """No float on the way there or back."""
    assert call_tool(line, "number", value=number).text == str(number)


@pytest.mark.threat("F2")
def test_F2_message_full_of_long_integers_is_refused_with_little_cpu_time(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """Reading a long integer takes quadratic time, so a message full of them is refused unread."""
    numbers = ",".join(["9" * 4_000] * 250)
    body = touch_call(http.revision).replace('"x"', f"[{numbers}]", 1).encode()
    before = server.cpu
    for _ in range(5):
        refused(http, body, PARSE)
    assert server.cpu - before < 0.6


DEEP = {
    "lists": "[" * 100_000,
    "closed_lists": "[" * 100_000 + "]" * 100_000,
    "objects": '{"a":' * 100_000,
    "mixed": '[{"a":' * 50_000,
    "escaped": '{"\\u0061":' * 50_000,
    "just_too_deep": "[" * 67 + "]" * 67,
}


@pytest.mark.threat("F3")
@pytest.mark.parametrize("whole", [True, False], ids=["message", "argument"])
@pytest.mark.parametrize("shape", DEEP)
def test_F3_deeply_nested_json_is_refused(line: SyncMcpClient, shape: str, whole: bool) -> None:
    """Depth is no way to the end of the stack."""
    body = DEEP[shape] if whole else touch_call(line.revision).replace('"x"', DEEP[shape], 1)
    refused(line, body.encode(), PARSE)


@pytest.mark.threat("F3")
def test_F3_deeply_nested_json_is_refused_with_little_cpu_time_and_memory(server: ServerProcess) -> None:
    """Fifty such messages take little time and no memory."""
    line = SyncHttpMcpClient(server.port, MODERN)
    refused(line, b"[" * 100_000, PARSE)
    cpu, rss = server.cpu, server.rss
    for _ in range(50):
        assert line.ask(b"[" * 100_000).code == PARSE
    assert server.cpu - cpu < 50 * 0.02
    assert server.rss - rss < 10 * MIB


@pytest.mark.threat("F4")
def test_F4_body_with_an_oversized_content_length_is_refused_unread(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """The answer comes before a single byte of the body was sent."""
    head = post(server.port, b"", *http.headers(b"")).replace(b"Content-Length: 0", b"Content-Length: %d" % (LIMIT + 1))
    with Connection(server.port) as connection:
        connection.send(head)
        reply = connection.reply()
        assert (reply.status, reply.headers.get("connection")) == (413, "close")
        assert str(LIMIT) in reply.body.decode()
        assert connection.rest() == b""


@pytest.mark.threat("F4")
def test_F4_chunked_body_over_the_limit_is_refused_before_its_end(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """A chunked body says no length, so it is counted; what comes after is no second request."""
    head = post(server.port, b"", *http.headers(b"")).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
    peak = server.peak
    with Connection(server.port) as connection:
        connection.send(head)
        for _ in range(LIMIT // 65_536 + 1):  # never the chunk that would end it
            connection.send(chunk)
        reply = connection.reply()
        assert (reply.status, reply.headers.get("connection")) == (413, "close")
        assert connection.rest() == b""
    assert server.peak - peak < 32 * MIB


@pytest.mark.threat("F4")
def test_F4_body_of_exactly_the_size_limit_is_accepted(http: SyncHttpMcpClient) -> None:
    """A body of exactly the limit is read; only its content decides."""
    body = touch_call(http.revision).encode()
    assert not http.ask(body + b" " * (LIMIT - len(body))).is_error


@pytest.mark.threat("F4")
@pytest.mark.parametrize("size", [LIMIT + 1, 5 * LIMIT, 9 * LIMIT])
def test_F4_oversized_stdio_line_is_one_error_and_the_next_line_is_read(pipe: SyncStdioMcpClient, size: int) -> None:
    """Over stdio a message that is too long is one error, and the next line is a message again."""
    line = pipe.speak(MODERN)
    refused(line, b" " * (size - 2) + b"{}", INVALID)


LARGE_OBJECTS: dict[str, Any] = {
    "members": {f"key{count}": count for count in range(10_001)},
    "members_deep": [{f"key{count}": count} for count in range(10_001)],
    "long_key": {"k" * 5_000: 1},
    "long_key_among_many": {**{f"key{count}": count for count in range(1_000)}, "k" * 257: 1},
}


@pytest.mark.threat("F4")
@pytest.mark.parametrize("case", LARGE_OBJECTS)
def test_F4_json_with_too_many_or_too_long_keys_is_refused(line: SyncMcpClient, case: str) -> None:
    """Members are counted and their names measured."""
    body = touch_call(line.revision).replace('"x"', json.dumps(LARGE_OBJECTS[case]), 1)
    refused(line, body.encode(), PARSE)


@pytest.mark.threat("F4")
@pytest.mark.parametrize("filler", ["[]", "{}", '""', "1", "null", '{"a":1}', '"\\u0061"'])
def test_F4_largest_message_full_of_the_smallest_values_costs_little_cpu_time(
    server: ServerProcess, filler: str
) -> None:
    """A message as large as allowed, full of the smallest parts, costs a fraction of a second."""
    line = SyncHttpMcpClient(server.port, MODERN)
    crowd = ",".join([filler] * (1_000_000 // (len(filler) + 1)))
    body = encoded(tool_call(MODERN, "anything", {"value": "?"})).replace(b'"?"', f"[{crowd}]".encode())
    cpu = server.cpu
    line.ask(body)
    assert server.cpu - cpu < 0.8


TEXTS = {
    "invalid": b"\xff\xfe",
    "cut_off": b"\xe2\x82",
    "overlong": b"\xc0\x80",
    "raw_surrogate": b"\xed\xa0\x80",
    "beyond_unicode": b"\xf5\x80\x80\x80",
    "lone_surrogate": b"\\ud800",
    "lone_surrogate_upper": b"\\uD800x",
    "low_surrogate": b"\\udc00",
    "swapped_surrogates": b"\\udc00\\ud800",
    "nul": b"\x00",
    "escaped_nul": b"\\u0000",
    "control": b"\x1f",
}


@pytest.mark.threat("F5")
@pytest.mark.parametrize("text", TEXTS)
def test_F5_invalid_utf8_surrogate_or_control_character_is_refused(line: SyncMcpClient, text: str) -> None:
    """What is no text is refused before anybody reads it, wherever it stands."""
    right = touch_call(line.revision).encode()
    for place in (b'"x"', b'"note"', b'"tools/call"'):
        refused(line, right.replace(place, place[:-1] + TEXTS[text] + b'"', 1), PARSE)


@pytest.mark.threat("F5")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-32-be"])
def test_F5_message_in_another_encoding_than_utf8_is_refused(line: SyncMcpClient, encoding: str) -> None:
    """Only UTF-8 is read, and without a byte-order mark."""
    refused(line, touch_call(line.revision).encode(encoding), PARSE)


@pytest.mark.threat("F5")
def test_F5_escaped_backslash_before_a_unicode_escape_is_plain_text(line: SyncMcpClient) -> None:
    """The six characters of an escape are text when the backslash is itself escaped."""
    assert call_tool(line, "nonce", nonce="\\u0000 \\ud800").text == "\\u0000 \\ud800"


@pytest.mark.threat("F6")
@pytest.mark.parametrize("batch", ["[]", "[{}]", "[{},{}]", "[CALL]", "[CALL,CALL]", "[[CALL]]", "null", "7", '"CALL"'])
def test_F6_json_rpc_batch_is_refused(line: SyncMcpClient, batch: str) -> None:
    """One message at a time."""
    body = batch.replace('"CALL"', '"x"').replace("CALL", touch_call(line.revision))
    refused(line, body.encode(), INVALID)


REPLIES: dict[str, Any] = {
    "result": {"jsonrpc": "2.0", "id": 1, "result": {}},
    "error": {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}},
    "guessed": {"jsonrpc": "2.0", "id": "toolhall-1", "result": {"action": "accept", "content": {"colour": "red"}}},
    "odd_error": {"jsonrpc": "2.0", "id": "toolhall-1", "error": "no"},
    "cancel_list": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}},
    "cancel_object": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": {"a": 1}}},
    "cancel_nothing": {"jsonrpc": "2.0", "method": "notifications/cancelled"},
    "cancel_null": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": None}},
    "cancel_unknown": {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10**19}},
    "unknown": {"jsonrpc": "2.0", "method": "notifications/" + "x" * 1_000, "params": {"a": 1}},
    "initialized_again": {"jsonrpc": "2.0", "method": "notifications/initialized"},
}


@pytest.mark.threat("F6")
@pytest.mark.parametrize("reply", REPLIES)
def test_F6_unexpected_reply_or_notification_is_ignored(line: SyncMcpClient, reply: str) -> None:
    """A reply to nothing and a notice about nothing change nothing."""
    line.tell(encoded(REPLIES[reply]))
    assert tool_value(call_tool(line, "number", value=7)) == 7


BROKEN_REPLIES = [
    '{"jsonrpc":"2.0","id":1}',
    '{"jsonrpc":"2.0","id":1,"result":{},"error":{}}',
    '{"jsonrpc":"2.0","result":{}}',
]


@pytest.mark.threat("F6")
@pytest.mark.parametrize("reply", BROKEN_REPLIES)
def test_F6_malformed_json_rpc_reply_is_refused(line: SyncMcpClient, reply: str) -> None:
    """A reply without an id, or with both outcomes, or with none, is no message."""
    refused(line, reply.encode(), INVALID)


@pytest.mark.threat("F6")
def test_F6_thousand_notifications_over_http_leave_no_task_or_memory(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """A thousand notices on one connection are taken one by one and leave nothing behind."""
    notice = encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
    tasks, rss = tool_value(call_tool(http, "tasks")), server.rss
    with Connection(server.port) as connection:
        for _ in range(10):
            connection.send(http.request(notice) * 100)
            assert {connection.reply().status for _ in range(100)} == {202}
    assert eventually(lambda: tool_value(call_tool(http, "tasks")) <= tasks)
    assert server.rss - rss < 20 * MIB


@pytest.mark.threat("F6")
def test_F6_five_thousand_notifications_over_stdio_leave_the_next_request_answered(pipe: SyncStdioMcpClient) -> None:
    """The same over stdio: the next request is answered, and nothing else was said."""
    line = pipe.speak(MODERN)
    line.tell(b"\n".join([encoded(REPLIES["cancel_unknown"])] * 5_000))
    assert tool_value(call_tool(line, "number", value=7)) == 7


@pytest.mark.threat("F6")
def test_F6_cancellation_with_the_id_of_another_sessions_request_cancels_nothing(
    http: SyncHttpMcpClient, server: ServerProcess
) -> None:
    """A notice on one session or stateless connection does not end another's call with the same id."""
    if http.revision == MODERN:
        other = SyncHttpMcpClient(server.port, MODERN)
    else:
        other = SyncHttpMcpClient(server.port, http.revision)
        assert other.session != http.session
    with Connection(server.port) as connection:
        connection.send(http.request(encoded(tool_call(http.revision, "sleeps", {"seconds": 0.3}))))
        other.tell(encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}))
        assert re.search(rb"slept", connection.reply().body)


@pytest.mark.threat("F6")
def test_F6_request_id_that_is_no_string_or_integer_is_refused_and_not_echoed(line: SyncMcpClient) -> None:
    """Nothing else can be an id, and none is echoed that was not read as one."""
    for odd in ("null", "1.5", "true", "[1]", '{"a":1}', '"' + "x" * 300 + '"'):
        answer = line.ask(
            encoded(request_in(line.revision, "tools/list")).replace(b'"id":1', b'"id":' + odd.encode(), 1)
        )
        assert answer.code == INVALID
        assert "id" not in answer.message
        assert len(answer.raw) < 300


@pytest.mark.threat("F6")
def test_F6_content_type_other_than_json_is_refused_with_415(http: SyncHttpMcpClient, server: ServerProcess) -> None:
    """A form or plain text, which a web page may send anywhere, is not read."""
    body = touch_call(http.revision).encode()
    for kind in (
        b"text/plain",
        b"application/x-www-form-urlencoded",
        b"multipart/form-data",
        b"application/jsonx",
        b"",
    ):
        request = http.request(body).replace(b"Content-Type: application/json", b"Content-Type: " + kind)
        reply = fetch(server.port, request)
        assert (reply.status, b"application/json" in reply.body) == (415, True)
