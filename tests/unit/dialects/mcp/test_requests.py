"""Params of MCP requests."""

from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.protocol import REVISION_2025_06_18, REVISION_2025_11_25, JsonRpcRequest, McpRefusal
from toolhall.dialects.mcp.requests import (
    VERSIONS_KEY,
    InitializeParams,
    ListToolsParams,
    read_call,
    read_initialize,
    read_list,
)
from toolhall.model.messages import CallTool


def request(**params: Any) -> JsonRpcRequest:
    return JsonRpcRequest(1, "any", params)


def test_read_initialize_valid_is_read() -> None:
    assert read_initialize(request(protocolVersion="2025-06-18", capabilities={"roots": {}})) == InitializeParams(
        REVISION_2025_06_18, {"roots": {}}
    )
    assert read_initialize(request(protocolVersion="1999-01-01", capabilities={})) == InitializeParams(
        REVISION_2025_11_25, {}
    )


@each_row(
    "params",
    [
        {},
        {"protocolVersion": "2025-06-18"},
        {"protocolVersion": 3, "capabilities": {}},
        {"protocolVersion": "x", "capabilities": []},
    ],
)
def test_read_initialize_invalid_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(McpRefusal) as caught:
        read_initialize(request(**params))
    assert caught.value.code == -32602


@each_row(
    ("params", "ask"),
    [
        ({}, ListToolsParams(None)),
        ({"cursor": None}, ListToolsParams(None)),
        ({"cursor": ""}, ListToolsParams("")),
        ({"cursor": "x"}, ListToolsParams("x")),
        ({"_meta": None}, ListToolsParams(None)),
        ({"_meta": {"other": 1}}, ListToolsParams(None)),
        ({"_meta": {VERSIONS_KEY: "all"}}, ListToolsParams(None, versions=True)),
        ({"cursor": "x", "_meta": {VERSIONS_KEY: "all"}}, ListToolsParams("x", versions=True)),
    ],
)
def test_read_list_valid_is_read(params: dict[str, Any], ask: ListToolsParams) -> None:
    assert read_list(request(**params)) == ask


@each_row("cursor", [1, [], {}, True])
def test_read_list_invalid_cursor_is_refused(cursor: Any) -> None:
    with pytest.raises(McpRefusal, match="cursor must be a string"):
        read_list(request(cursor=cursor))


@each_row("wish", [None, "", "ALL", "newest", True, 1, ["all"], {"all": True}])
def test_read_list_unknown_versions_value_is_refused(wish: Any) -> None:
    told = r'params\._meta\["dev\.toolhall/versions"\] must be "all"; leave it out'
    with pytest.raises(McpRefusal, match=told) as caught:
        read_list(request(_meta={VERSIONS_KEY: wish}))
    assert caught.value.code == -32602


@each_row(
    ("params", "arguments"),
    [
        ({"name": "pick"}, {}),
        ({"name": "pick", "arguments": None}, {}),
        ({"name": "pick", "arguments": {}}, {}),
        ({"name": "pick", "arguments": {"a": 1}, "_meta": {}}, {"a": 1}),
    ],
)
def test_read_call_valid_is_read(params: dict[str, Any], arguments: dict[str, Any]) -> None:
    assert read_call(request(**params), "mcp@2026-07-28", 99) == CallTool("pick", arguments, "mcp@2026-07-28", 99)


@each_row(
    ("params", "told"),
    [
        ({}, "params.name must be the name of a tool"),
        ({"name": 3}, "params.name must be the name of a tool"),
        ({"name": None}, "params.name must be the name of a tool"),
        ({"name": "pick", "arguments": []}, "params.arguments must be an object"),
        ({"name": "pick", "arguments": "{}"}, "params.arguments must be an object"),
        ({"name": "pick", "arguments": False}, "params.arguments must be an object"),
    ],
)
def test_read_call_invalid_is_refused(params: dict[str, Any], told: str) -> None:
    with pytest.raises(McpRefusal, match=told) as caught:
        read_call(request(**params), "mcp", 1)
    assert (caught.value.code, caught.value.status) == (-32602, 200)
