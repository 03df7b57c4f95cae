"""Decoding of JSON-RPC messages."""

import json
from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.protocol import (
    JsonRpcNotification,
    JsonRpcRequest,
    JsonRpcResponse,
    McpDecodeError,
    read_message,
)


def body(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


READABLE: list[tuple[bytes, Any]] = [
    (body(id=1, method="ping"), JsonRpcRequest(1, "ping", {})),
    (body(id="a", method="ping"), JsonRpcRequest("a", "ping", {})),
    (body(id=0, method="ping"), JsonRpcRequest(0, "ping", {})),
    (body(id=-1, method="ping"), JsonRpcRequest(-1, "ping", {})),
    (body(id="", method="ping"), JsonRpcRequest("", "ping", {})),
    (body(id=2**53 + 1, method="ping"), JsonRpcRequest(2**53 + 1, "ping", {})),
    (body(id=1, method="tools/call", params={"name": "a"}), JsonRpcRequest(1, "tools/call", {"name": "a"})),
    (body(id=1, method="ping", params=None), JsonRpcRequest(1, "ping", {})),
    (body(method="notifications/initialized"), JsonRpcNotification("notifications/initialized", {})),
    (body(method="x", params={"a": 1}), JsonRpcNotification("x", {"a": 1})),
    (body(id=1, result={}), JsonRpcResponse(1, {}, None)),
    (body(id=1, result=None), JsonRpcResponse(1, None, None)),
    (body(id="a", error={"code": -1, "message": "no"}), JsonRpcResponse("a", None, {"code": -1, "message": "no"})),
    (body(id=1, error="odd"), JsonRpcResponse(1, None, None)),
]


@each_row(("message", "read"), READABLE)
def test_read_message_valid_is_read(message: bytes, read: Any) -> None:
    found = read_message(message)
    assert found == read
    assert type(found) is type(read)


UNREADABLE: list[tuple[bytes, int, str | int | None]] = [
    (b"", -32700, None),
    (b"{", -32700, None),
    (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700, None),
    (b'"text"', -32600, None),
    (b"[]", -32600, None),
    (b"[" + body(id=1, method="ping") + b"]", -32600, None),
    (b"{}", -32600, None),
    (b'{"id":7,"method":"ping"}', -32600, 7),
    (b'{"jsonrpc":"1.0","id":7,"method":"ping"}', -32600, 7),
    (b'{"jsonrpc":2.0,"id":7,"method":"ping"}', -32600, 7),
    (body(id=None, method="ping"), -32600, None),
    (body(id=1.5, method="ping"), -32600, None),
    (body(id=1.0, method="ping"), -32600, None),
    (body(id=True, method="ping"), -32600, None),
    (body(id=[1], method="ping"), -32600, None),
    (body(id={}, method="ping"), -32600, None),
    (body(id="x" * 257, method="ping"), -32600, None),
    (body(id=7, method=3), -32600, 7),
    (body(id=7, method=None), -32600, 7),
    (body(id=7, Method="ping"), -32600, 7),
    (body(id=7, method="ping", Params={}), -32600, 7),
    (body(id=7, method="ping", extra=1), -32600, 7),
    (body(id=7, method="ping", result={}), -32600, 7),
    (body(id=7, method="ping", params=[]), -32602, 7),
    (body(id=7, method="ping", params="x"), -32602, 7),
    (body(method="ping", params=[1]), -32602, None),
    (body(id=7), -32600, 7),
    (body(id=7, result={}, error={}), -32600, 7),
    (body(id=7, result={}, extra=1), -32600, 7),
    (body(result={}), -32600, None),
    (body(error={"code": 1, "message": "x"}), -32600, None),
    ('{"jsonrpc":"2.0","id":7,"method":"ping","param\u017f":{}}'.encode(), -32600, 7),
]


@each_row(("message", "code", "known"), UNREADABLE)
def test_read_message_invalid_has_code_and_id(message: bytes, code: int, known: str | int | None) -> None:
    with pytest.raises(McpDecodeError) as caught:
        read_message(message)
    assert (caught.value.refusal.code, caught.value.id) == (code, known)
    assert caught.value.refusal.status == 400
    assert str(caught.value) == caught.value.refusal.message


def test_read_message_unknown_member_is_truncated() -> None:
    with pytest.raises(McpDecodeError) as caught:
        read_message(body(id=1, method="ping", **{"x" * 200: 1}))
    assert "x" * 64 in str(caught.value)
    assert "x" * 65 not in str(caught.value)
