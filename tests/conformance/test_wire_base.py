"""JSON-RPC as MCP uses it: ids, notifications, errors, no batches, names in `_meta`."""

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from tests.harness.http_client import Json, Message
from tests.harness.mcp_client import HttpMcpClient, McpClient, StatelessMcpClient, StdioMcpClient
from tests.harness.mcp_messages import MODERN, initialize, modern_headers, modern_meta, modern_request, request

PARSE, INVALID, NO_METHOD, PARAMS = -32700, -32600, -32601, -32602


async def send_raw(talk: McpClient, body: bytes) -> tuple[int | None, Message]:
    """Send these bytes; the status, over HTTP, and the one message that comes back."""
    if isinstance(talk, HttpMcpClient):
        headers = modern_headers("ping") if talk.modern else talk.headers
        reply = await talk.http.send(body, headers)
        talk.check(reply.answer)
        return reply.status, reply.answer
    assert isinstance(talk, StdioMcpClient)
    await talk.write(body)
    return None, await talk.read()


@pytest.mark.requirement("J-1")
async def test_request_id_is_echoed_unchanged(talk: McpClient) -> None:
    for given in (0, -5, 7, 2**53 - 1, "", "text", "ünï ✓", "1"):
        heard = await talk.ask("tools/list", id=given)
        assert heard.message["id"] == given
        assert type(heard.message["id"]) is type(given)


@pytest.mark.requirement("J-1", "J-4")
async def test_request_id_of_a_wrong_type_is_refused(talk: McpClient) -> None:
    params = {"_meta": modern_meta()} if talk.modern else {}
    for given in (None, 1.5, True, [1], {"a": 1}):
        status, answer = await send_raw(talk, json.dumps(request("tools/list", params, given)).encode())
        assert answer["error"]["code"] == INVALID
        assert "id" not in answer, "an id that is none is not sent back"
        assert status in (None, 400)


@pytest.mark.requirement("J-1")
async def test_argument_text_in_utf8_is_returned_unchanged(talk: McpClient) -> None:
    text = 'naïve café ✓ 漢字 🎉 \u2028 \\ " \t'
    heard = await talk.call("probe_nonce", {"nonce": text})
    assert heard.result["structuredContent"] == {"nonce": text}
    assert json.loads(heard.text) == {"nonce": text}


@pytest.mark.requirement("J-2")
async def test_notification_gets_no_response(talk: McpClient) -> None:
    for method in (
        "notifications/initialized",
        "notifications/roots/list_changed",
        "notifications/nobody/knows",
        "odd",
    ):
        await talk.tell(method, {"what": "ever"})  # over HTTP this wants 202 without a body
    heard = await talk.ask("tools/list")
    assert "result" in heard.message, "the first message after the notifications is the answer to the request"


@pytest.mark.requirement("J-3")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_request_id_in_use_is_refused_and_the_first_request_still_answered(stdio: StdioMcpClient) -> None:
    await stdio.write(first := stdio.request("tools/call", {"name": "probe_hold", "arguments": {"key": "j3"}}, id=1))
    await stdio.write(stdio.request("tools/list", id=1))
    refused = await stdio.read()
    assert refused["id"] == 1
    assert refused["error"]["code"] == INVALID
    await stdio.write(
        release := stdio.request("tools/call", {"name": "probe_release", "arguments": {"key": "j3"}}, id=2)
    )
    answers = {answer["id"]: answer for answer in [await stdio.read(first), await stdio.read(release)]}
    assert answers[1]["result"]["structuredContent"] == {"fate": "released"}
    assert (await stdio.ask("tools/list", id=1)).result["tools"], "an id whose request has been answered is free again"


@pytest.mark.requirement("J-3")
async def test_request_id_sent_by_several_clients_names_several_requests(http: StatelessMcpClient) -> None:
    bodies = [modern_request("tools/call", {"name": "probe_nonce", "arguments": {"nonce": str(n)}}) for n in range(20)]
    replies = await asyncio.gather(*(http.send(*body) for body in bodies))
    assert [reply.result["structuredContent"]["nonce"] for reply in replies] == [str(n) for n in range(20)]
    assert {reply.answer["id"] for reply in replies} == {1}


NOT_MESSAGES = [
    (b'{"jsonrpc": "2.0", ', PARSE),
    (b"nonsense", PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}', PARSE),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 5_000 + b"1" + b"}" * 5_001, PARSE),
    (b'"text"', INVALID),
    (b"null", INVALID),
    (b"{}", INVALID),
    (b'{"jsonrpc":"2.0","id":1}', INVALID),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', INVALID),
    (b'{"id":1,"method":"ping"}', INVALID),
    (b'{"jsonrpc":"2.0","id":1,"method":7}', INVALID),
    (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}', INVALID),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":"text"}', PARAMS),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', PARAMS),
]


@pytest.mark.requirement("J-1", "J-4")
async def test_invalid_message_is_refused_with_its_error_code(talk: McpClient) -> None:
    for body, code in NOT_MESSAGES:
        status, answer = await send_raw(talk, body)
        assert answer["error"]["code"] == code, body[:80]
        assert status in (None, 400)
    assert (await talk.ask("tools/list")).result["tools"], "the server goes on"


@pytest.mark.requirement("J-4", "L-24", "L-32", "M-19", "M-24")
async def test_request_with_unknown_method_tool_or_cursor_gets_its_error_code(talk: McpClient) -> None:
    assert (await talk.ask("no/such/method")).error["code"] == NO_METHOD
    assert (await talk.ask("tools/call", {"name": "no_such_tool", "arguments": {}})).error["code"] == PARAMS
    assert (await talk.ask("tools/call", {"arguments": {}})).error["code"] == PARAMS
    assert (await talk.ask("tools/call", {"name": 7})).error["code"] == PARAMS
    assert (await talk.ask("tools/call", {"name": "probe_number", "arguments": [1]})).error["code"] == PARAMS
    assert (await talk.ask("tools/list", {"cursor": "no-such-cursor"})).error["code"] == PARAMS
    assert (await talk.ask("tools/list", {"cursor": 7})).error["code"] == PARAMS


@pytest.mark.requirement("J-6")
async def test_batch_is_refused(talk: McpClient) -> None:
    members = [request("tools/list", {"_meta": modern_meta()} if talk.modern else {}, number) for number in (1, 2)]
    status, answer = await send_raw(talk, json.dumps(members).encode())
    assert answer["error"]["code"] == INVALID
    assert status in (None, 400)
    assert (await talk.ask("tools/list", id=3)).message["id"] == 3, "no member of the batch was answered"


LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
KEY = re.compile(rf"(?:(?P<prefix>{LABEL}(?:\.{LABEL})*)/)?(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)?")
DEFINED = {"io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId"}


def meta_keys(value: Json) -> Iterator[str]:
    """Every key of every `_meta` in a value."""
    if isinstance(value, dict):
        yield from value.get("_meta", {})
        for part in value.values():
            yield from meta_keys(part)
    elif isinstance(value, list):
        for part in value:
            yield from meta_keys(part)


@pytest.mark.requirement("J-5", "MT-1")
async def test_meta_keys_of_the_server_are_well_formed_and_not_reserved(talk: McpClient) -> None:
    calls = [await talk.call(tool) for tool in ("probe_number", "probe_blocks", "probe_fail", "probe_guarded")]
    found = {key for value in [await talk.tools(), *(call.message for call in calls)] for key in meta_keys(value)}
    assert {"com.example/mark", "dev.toolhall/id"} <= found
    for key in found - DEFINED:
        match = KEY.fullmatch(key)
        assert match is not None, key
        labels = (match["prefix"] or "").split(".")
        assert not {"modelcontextprotocol", "mcp"} & set(labels), f"{key} is reserved"
    assert bool(DEFINED & found) is talk.modern, "the protocol's own keys belong to the newest revision"


@pytest.mark.requirement("J-5", "M-12")
async def test_meta_keys_of_the_client_are_accepted(talk: McpClient) -> None:
    trace = {
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "baggage": "a=1",
        "com.example/x": [1],
    }
    message = talk.request("tools/call", {"name": "probe_number"})
    message["params"]["_meta"] = {**message["params"].get("_meta", {}), **trace}
    heard = await talk.exchange(message)
    assert heard.text == "42"


async def test_batch_with_initialize_is_refused(http: StatelessMcpClient) -> None:
    reply = await http.send([initialize("2025-11-25")])
    assert reply.status == 400
    assert reply.error["code"] == INVALID
