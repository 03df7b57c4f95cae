"""Requests that a client writes: read back by the server half of the dialect."""

from typing import Any

import msgspec
import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.client_requests import (
    MetaWriter,
    argument_headers,
    encode_header_value,
    is_protocol_meta_key,
    method_headers,
    write_answer,
    write_cancellation,
    write_client_capabilities,
    write_notification,
    write_refusal,
    write_request,
)
from toolhall.dialects.mcp.protocol import (
    REVISION_2025_11_25,
    REVISION_2026_07_28,
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    read_message,
)
from toolhall.dialects.mcp.requests import check_headers, check_parameter_headers, read_request_meta
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import CLIENT_FEATURES
from toolhall.model.tool import HeaderParameter

INFO: JsonObject = {"name": "hall", "version": "1.0"}


def headers_of(lines: bytes) -> dict[bytes, bytes]:
    return {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines.split(b"\r\n")[:-1])}


WRITTEN: list[tuple[bytes, JsonObject]] = [
    (write_request(1, "tools/list", {}), {}),
    (write_request(1, "tools/list", {"cursor": "a"}), {"cursor": "a"}),
    (write_request(1, "tools/call", {"name": "t"}, b'{"a":1}'), {"name": "t", "arguments": {"a": 1}}),
    (write_request(1, "tools/call", {}, b"{}"), {"arguments": {}}),
    (write_request(1, "tools/list", {}, None, b'{"k":1}'), {"_meta": {"k": 1}}),
    (
        write_request(1, "tools/call", {"name": "t"}, b"{}", b'{"k":1}'),
        {"name": "t", "arguments": {}, "_meta": {"k": 1}},
    ),
]


@each_row(("body", "params"), WRITTEN)
def test_request_has_members_that_were_given(body: bytes, params: JsonObject) -> None:
    message = read_message(body)
    assert isinstance(message, JsonRpcRequest)
    assert (message.id, message.params) == (1, params)


def test_notification_and_answers_are_read_by_servers() -> None:
    assert read_message(write_notification("notifications/initialized", {})) == JsonRpcNotification(
        "notifications/initialized", {}
    )
    assert read_message(write_cancellation(7, "gone")) == JsonRpcNotification(
        "notifications/cancelled", {"requestId": 7, "reason": "gone"}
    )
    assert read_message(write_answer("q", {"roots": []})) == JsonRpcResponse("q", {"roots": []})
    refusal = read_message(write_refusal("q", -1, "no"))
    assert refusal == JsonRpcResponse("q", None, {"code": -1, "message": "no"})


@pytest.mark.parametrize("features", [(), ("elicitation",), ("elicitation.url",), CLIENT_FEATURES])
def test_declared_features_are_those_that_servers_read(features: tuple[str, ...]) -> None:
    meta = MetaWriter(REVISION_2026_07_28, INFO, features).write({}, None, None)
    request = read_message(write_request(1, "tools/list", {}, None, meta))
    assert isinstance(request, JsonRpcRequest)
    read = read_request_meta(request)
    assert read.features == tuple(each for each in CLIENT_FEATURES if each in features)
    assert (read.progress_token, read.log_level) == (None, None)
    assert write_client_capabilities(features) == read.capabilities


def test_stateless_meta_has_features_of_the_request_token_and_level() -> None:
    writer = MetaWriter(REVISION_2026_07_28, INFO, CLIENT_FEATURES)
    meta = msgspec.json.decode(writer.write({"traceparent": "t"}, ("roots",), 9))
    assert meta == {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": INFO,
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "progressToken": 9,
        "io.modelcontextprotocol/logLevel": "info",
        "traceparent": "t",
    }


@each_row(
    ("extra", "token", "written"),
    [
        ({}, None, None),
        ({}, 4, {"progressToken": 4}),
        ({"a": 1}, None, {"a": 1}),
        ({"a": 1}, 4, {"progressToken": 4, "a": 1}),
        ({"progressToken": "theirs", "io.modelcontextprotocol/logLevel": "debug"}, None, None),
    ],
)
def test_stateful_meta_has_only_what_was_given(extra: JsonObject, token: int | None, written: Any) -> None:
    meta = MetaWriter(REVISION_2025_11_25, INFO, CLIENT_FEATURES).write(extra, None, token)
    assert (msgspec.json.decode(meta) if meta else None) == written


@each_row(
    ("key", "reserved"),
    [
        ("progressToken", True),
        ("io.modelcontextprotocol/serverInfo", True),
        ("dev.mcp/x", True),
        ("mcp.dev/x", True),
        ("a.mcp.b/x", True),
        ("mcp/x", False),
        ("dev.toolhall/hops", False),
        ("traceparent", False),
    ],
)
def test_keys_of_the_protocol_are_known(key: str, reserved: bool) -> None:
    assert is_protocol_meta_key(key) is reserved


@pytest.mark.parametrize("name", ["add", "ß", "", " a", "a ", "=?base64?YQ==?=", "x\r\nEvil: 1", "a b", "\x7f"])
def test_name_header_is_read_as_the_name(name: str) -> None:
    meta = MetaWriter(REVISION_2026_07_28, INFO, ()).write({}, None, None)
    params = {"name": name}
    request = read_message(write_request(1, "tools/call", params, b"{}", meta))
    assert isinstance(request, JsonRpcRequest)
    headers = headers_of(method_headers("tools/call", params, None))
    assert set(headers) == {b"mcp-method", b"mcp-name"}
    check_headers({b"mcp-protocol-version": b"2026-07-28", **headers}, request, read_request_meta(request))


def test_method_without_name_has_no_name_header() -> None:
    assert method_headers("tools/list", {"name": "x"}, None) == b"Mcp-Method: tools/list\r\n"
    assert headers_of(method_headers("resources/read", {"uri": "a:b"}, None))[b"mcp-name"] == b"a:b"
    assert headers_of(method_headers("tools/call", {}, "t"))[b"mcp-name"] == b"t"


@pytest.mark.parametrize("value", ["x", "ü", True, False, 5, -(2**53 - 1), "", 2.5, "a\nb"])
def test_argument_header_is_read_as_the_argument(value: Json) -> None:
    parameters = (HeaderParameter("region", ("a", "b")),)
    arguments = {"a": {"b": value}}
    headers = {name.lower().encode(): text.encode() for name, text in argument_headers(parameters, arguments)}
    assert set(headers) == {b"mcp-param-region"}
    check_parameter_headers(headers, parameters, arguments)


@pytest.mark.parametrize("arguments", [{}, {"a": None}, {"a": {"b": None}}, {"a": [1]}])
def test_absent_argument_has_no_header(arguments: JsonObject) -> None:
    assert argument_headers((HeaderParameter("region", ("a", "b")),), arguments) == ()


def test_header_value_never_breaks_the_line() -> None:
    for text in ("a\r\nb", "\x00", "\ud800", "ü"):
        assert encode_header_value(text).isascii()
        assert encode_header_value(text).isprintable()
