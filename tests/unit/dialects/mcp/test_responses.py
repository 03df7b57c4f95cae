"""MCP responses as bytes: expected documents for every revision."""

import json
from typing import Any

import pytest

from tests.tables import each_row
from tests.unit.builders import tool_named
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_06_18,
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    REVISIONS,
    Revision,
    invalid_params,
    method_not_found,
)
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo, write_error
from toolhall.model.content import Image, Result, Text
from toolhall.model.errors import Broken, Denied, Limited, ToolFailed, ToolhallError, Unsupported
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import CompletedCall, InputRequired, Roots, ToolPage, WireResponse
from toolhall.model.tool import Output

SERVER = ServerInfo(name="hall", version="1.2.3", instructions="Ask nicely.")
INFO = {"name": "hall", "version": "1.2.3"}
MODERN_META = {"io.modelcontextprotocol/serverInfo": INFO}
COMPLETE = {"resultType": "complete", "_meta": MODERN_META}
every_revision = pytest.mark.parametrize("revision", REVISIONS.values(), ids=lambda revision: revision.name)
older = pytest.mark.parametrize(
    "revision", [REVISION_2025_06_18, REVISION_2025_11_25], ids=lambda revision: revision.name
)


def usual(revision: Revision) -> JsonObject:
    return COMPLETE if revision.stateless else {}


def result_of(wire: WireResponse, request_id: str | int = 1) -> Any:
    message = json.loads(wire.body)
    assert set(message) == {"jsonrpc", "id", "result"}
    assert (message["jsonrpc"], message["id"], wire.status) == ("2.0", request_id, 200)
    return message["result"]


@older
def test_initialize_result_by_revision(revision: Revision) -> None:
    assert result_of(McpEncoder(SERVER, revision).initialize_result("a", {"tool"}), "a") == {
        "protocolVersion": revision.name,
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "serverInfo": INFO,
        "instructions": "Ask nicely.",
    }


def test_initialize_result_without_instructions() -> None:
    found = result_of(
        McpEncoder(ServerInfo(name="hall", version="1"), REVISION_2025_11_25).initialize_result(1, {"tool"})
    )
    assert found["serverInfo"] == {"name": "hall", "version": "1"}
    assert "instructions" not in found


def test_discover_result_lists_versions() -> None:
    assert result_of(McpEncoder(SERVER, REVISION_2026_07_28).discover_result(1, {"tool"}, {})) == {
        "supportedVersions": ["2026-07-28", "2025-11-25", "2025-06-18"],
        "capabilities": {"tools": {"listChanged": True}, "logging": {}},
        "ttlMs": 60_000,
        "cacheScope": "public",
        "instructions": "Ask nicely.",
        **COMPLETE,
    }


@every_revision
def test_list_result_with_cursor(revision: Revision) -> None:
    page = ToolPage((tool_named("a"), tool_named("b")), "more", shared=True)
    found = result_of(McpEncoder(SERVER, revision).list_result(7, page), 7)
    assert [tool["name"] for tool in found.pop("tools")] == ["a", "b"]
    caching = {"ttlMs": 2_000, "cacheScope": "public"} if revision.stateless else {}
    assert found == {"nextCursor": "more", **caching, **usual(revision)}


def test_list_result_last_and_private_page() -> None:
    found = result_of(McpEncoder(SERVER, REVISION_2026_07_28).list_result(1, ToolPage((), None, shared=False)))
    assert found == {"tools": [], "ttlMs": 2_000, "cacheScope": "private", **COMPLETE}


def test_list_result_is_encoded_once_per_revision() -> None:
    page = ToolPage((tool_named("a"),), None, shared=True)
    for revision in REVISIONS.values():
        McpEncoder(SERVER, revision).list_result(1, page)
    kept = dict(page.encoded)
    assert set(kept) == set(REVISIONS)
    McpEncoder(SERVER, REVISION_2026_07_28).list_result("other", page)
    assert all(page.encoded[name] is kept[name] for name in kept)


def finished(result: Result, revision: Revision, output: Output | None = None) -> Any:
    answer = CompletedCall(tool_named("pick", output=output or Output()), result)
    return result_of(McpEncoder(SERVER, revision).call_result("ä", answer), "ä")


OBJECT = Output("schema", {"type": "object"})
ARRAY = Output("schema", {"type": "array"})


@every_revision
def test_call_result_object_is_structured_and_text(revision: Revision) -> None:
    assert finished(Result(b'{"a":"\\u00e9"}'), revision, OBJECT) == {
        "content": [{"type": "text", "text": '{"a":"\\u00e9"}'}],
        "structuredContent": {"a": "é"},
        **usual(revision),
    }


def test_call_result_any_value_is_structured_in_newest_revision() -> None:
    for encoded in (b"[1]", b"3", b"null", b'"text"'):
        found = finished(Result(encoded), REVISION_2026_07_28, ARRAY)
        assert found["structuredContent"] == json.loads(encoded)


@older
def test_call_result_older_revisions_wrap_with_schema(revision: Revision) -> None:
    assert finished(Result(b"[1]"), revision, ARRAY) == {
        "content": [{"type": "text", "text": "[1]"}],
        "structuredContent": {"result": [1]},
    }
    assert finished(Result(b'{"a":1}'), revision, Output("schema", {}))["structuredContent"] == {"result": {"a": 1}}


@older
def test_call_result_older_revisions_omit_non_objects(revision: Revision) -> None:
    assert finished(Result(b"[1]"), revision) == {"content": [{"type": "text", "text": "[1]"}]}
    assert finished(Result(b'{"a":1}'), revision)["structuredContent"] == {"a": 1}


@every_revision
def test_call_result_plain_text_is_one_block(revision: Revision) -> None:
    found = finished(Result(b'"hi \\"you\\""', text='hi "you"'), revision, Output("schema", {"type": "string"}))
    assert found == {"content": [{"type": "text", "text": 'hi "you"'}], **usual(revision)}


@every_revision
def test_call_result_nothing_is_empty_content(revision: Revision) -> None:
    assert finished(Result(None), revision, Output("none")) == {"content": [], **usual(revision)}


@every_revision
def test_call_result_content_value_meta_and_error(revision: Revision) -> None:
    result = Result(b'{"a":1}', (Text("one"), Image(b"x")), meta={"k": "v"}, is_error=True)
    meta = {"k": "v", **MODERN_META} if revision.stateless else {"k": "v"}
    assert finished(result, revision, OBJECT) == {
        "content": [{"type": "text", "text": "one"}, {"type": "image", "data": "eA==", "mimeType": "image/png"}],
        "structuredContent": {"a": 1},
        "isError": True,
        **usual(revision),
        "_meta": meta,
    }


@every_revision
@pytest.mark.parametrize("request_id", [0, -1, 2**53 + 1, "", 'qu"ote\\', "ü"])
def test_call_result_id_is_unchanged(revision: Revision, request_id: str | int) -> None:
    writer = McpEncoder(SERVER, revision)
    answer = CompletedCall(tool_named("pick"), Result(b'{"a":1}'))
    for wire in (
        writer.call_result(request_id, answer),
        writer.list_result(request_id, ToolPage((), None, shared=True)),
        writer.error(request_id, ToolFailed("no")),
        writer.error(request_id, Broken()),
    ):
        message = json.loads(wire.body)
        assert message["id"] == request_id
        assert type(message["id"]) is type(request_id)


def test_call_result_fast_path_equals_slow_path() -> None:
    """A plain value is put together from bytes; with meta it is encoded as a whole."""
    for revision in REVISIONS.values():
        quick = finished(Result(b'{"a":[1,"x"]}'), revision, OBJECT)
        long = finished(Result(b'{"a":[1,"x"]}', meta={"k": 1}), revision, OBJECT)
        long["_meta"].pop("k")
        assert quick == (long if revision.stateless else {key: part for key, part in long.items() if key != "_meta"})


def test_input_required_has_requests_and_state() -> None:
    found = result_of(
        McpEncoder(SERVER, REVISION_2026_07_28).input_required(1, InputRequired({"where": Roots()}), "sealed")
    )
    assert found == {
        "resultType": "input_required",
        "inputRequests": {"where": {"method": "roots/list", "params": {}}},
        "requestState": "sealed",
        "_meta": MODERN_META,
    }


@every_revision
def test_error_for_the_model_is_a_result(revision: Revision) -> None:
    found = result_of(McpEncoder(SERVER, revision).error(1, Denied("not yours")))
    meta = {"dev.toolhall/refused": "Denied", **(MODERN_META if revision.stateless else {})}
    assert found == {
        "content": [{"type": "text", "text": "not yours"}],
        "isError": True,
        **usual(revision),
        "_meta": meta,
    }


def error_of(wire: WireResponse) -> Any:
    message = json.loads(wire.body)
    assert "result" not in message
    return message["error"]


@every_revision
def test_error_of_the_protocol_is_json_rpc(revision: Revision) -> None:
    wire = McpEncoder(SERVER, revision).error(1, Limited(2.5))
    assert error_of(wire) == {
        "code": 42900,
        "message": "too many calls: try again in 2.5 seconds",
        "data": {"retryAfterMs": 2501},
    }
    assert (wire.status, wire.headers) == (429, ((b"retry-after", b"3"),))


@every_revision
def test_error_missing_capability_code_only_in_newest_revision(revision: Revision) -> None:
    wire = McpEncoder(SERVER, revision).error(1, Unsupported("roots"))
    if revision.stateless:
        assert error_of(wire)["code"] == -32021
        assert wire.status == 400
    else:
        assert result_of(wire)["isError"] is True


@each_row("error", [invalid_params("no"), method_not_found("x"), Broken(), ToolFailed("no")])
def test_error_without_id_omits_it(error: ToolhallError) -> None:
    message = json.loads(write_error(None, error).body)
    assert set(message) == {"jsonrpc", "error"}
    assert set(message["error"]) == {"code", "message"}


def test_notification_is_json_rpc() -> None:
    assert json.loads(McpEncoder(SERVER, REVISION_2025_06_18).notification("x/y", {"a": 1})) == {
        "jsonrpc": "2.0",
        "method": "x/y",
        "params": {"a": 1},
    }


def test_tools_list_changed_with_subscription() -> None:
    assert json.loads(McpEncoder(SERVER, REVISION_2025_06_18).list_changed("tool")) == {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {},
    }
    assert json.loads(McpEncoder(SERVER, REVISION_2026_07_28).list_changed("tool", 7))["params"] == {
        "_meta": {"io.modelcontextprotocol/subscriptionId": 7}
    }


@every_revision
def test_messages_never_contain_newlines(revision: Revision) -> None:
    """L-6: over stdio a message is one line."""
    result = Result(b'{"a":"x\\ny"}', (Text("line\nline\r\n\u2028"),), meta={"k": "a\nb"})
    assert b"\n" not in McpEncoder(SERVER, revision).call_result(1, CompletedCall(tool_named("pick"), result)).body


@every_revision
@pytest.mark.parametrize("value", [{"result": 3}, {"text": 'a "b" \u2028'}, {}])
def test_result_with_meta_has_the_bytes_of_a_result_that_is_encoded_as_a_whole(
    revision: Revision, value: JsonObject
) -> None:
    encoder, encoded = McpEncoder(SERVER, revision), encode(value)
    tool = tool_named("pick", output=Output("schema", {"type": "object"}))
    meta: JsonObject = {"dev.toolhall/source": {"tool": "Kit.pick@1.0.0"}, "io.modelcontextprotocol/serverInfo": "x"}
    whole: JsonObject = {"content": [{"type": "text", "text": encoded.decode()}], "structuredContent": value}
    answered = encoder.call_result("a", CompletedCall(tool, Result(encoded, meta=meta)))
    assert answered == encoder.response("a", whole | {"_meta": meta})
