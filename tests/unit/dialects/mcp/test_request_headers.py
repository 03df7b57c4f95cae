"""Headers that must repeat the body (MCP 2026-07-28)."""

import base64
from typing import Any

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.protocol import REVISION_2026_07_28, JsonRpcRequest, McpRefusal
from toolhall.dialects.mcp.requests import RequestMeta, check_headers, check_parameter_headers, check_version_header
from toolhall.model.json import JsonObject
from toolhall.model.tool import HeaderParameter

VERSION = "io.modelcontextprotocol/protocolVersion"


def call(name: Any = "pick", version: Any = "2026-07-28") -> JsonRpcRequest:
    return JsonRpcRequest(1, "tools/call", {"name": name, "_meta": {VERSION: version}})


def headers(version: bytes = b"2026-07-28", method: bytes = b"tools/call", name: bytes = b"pick") -> dict[bytes, bytes]:
    return {b"mcp-protocol-version": version, b"mcp-method": method, b"mcp-name": name}


def wrapped(text: str) -> bytes:
    return b"=?base64?" + base64.b64encode(text.encode()) + b"?="


def check(sent: dict[bytes, bytes], request: JsonRpcRequest) -> None:
    check_headers(sent, request, RequestMeta(REVISION_2026_07_28, {}))


def refuse(sent: dict[bytes, bytes], request: JsonRpcRequest) -> str:
    with pytest.raises(McpRefusal) as caught:
        check(sent, request)
    assert (caught.value.code, caught.value.status) == (-32020, 400)
    return caught.value.message


def test_headers_equal_to_body_pass() -> None:
    check(headers(), call())


@pytest.mark.parametrize("name", [b"mcp-protocol-version", b"mcp-method", b"mcp-name"])
def test_headers_missing_is_refused(name: bytes) -> None:
    sent = headers()
    del sent[name]
    assert refuse(sent, call()) == f"the header {name.decode()} is missing"


@each_row(
    "changed",
    [
        {"version": b"2025-11-25"},
        {"method": b"tools/list"},
        {"method": b"TOOLS/CALL"},
        {"name": b"Pick"},
        {"name": b""},
    ],
)
def test_headers_different_is_refused(changed: Any) -> None:
    assert "differs from the body" in refuse(headers(**changed), call())


@pytest.mark.parametrize("name", [b" pick ", b"\tpick", wrapped("pick")])
def test_headers_whitespace_and_base64_are_decoded(name: bytes) -> None:
    check(headers(name=name), call())


def test_headers_non_ascii_name_needs_base64() -> None:
    check(headers(name=wrapped("wétter")), call("wétter"))
    assert "must be sent as =?base64?" in refuse(headers(name="wétter".encode()), call("wétter"))


@each_row("name", [b"=?base64?!!?=", b"=?base64?/w==?=", b"=?base64?cGljaw?=", b"=?base64?cGljax==?="])
def test_headers_invalid_base64_is_refused(name: bytes) -> None:
    assert refuse(headers(name=name), call()) == "the header mcp-name is not valid base64 of UTF-8"


@pytest.mark.parametrize("name", [b"=?BASE64?cGljaw==?=", b"=?base64?cGljaw==?= ", b"x=?base64?cGljaw==?="])
def test_headers_base64_marker_is_exact(name: bytes) -> None:
    if name.endswith(b" "):
        check(headers(name=name), call())
    else:
        assert "differs from" in refuse(headers(name=name), call())


def test_headers_base64_only_in_name() -> None:
    assert "differs from" in refuse(headers(method=wrapped("tools/call")), call())


@pytest.mark.parametrize("name", [b"pi\x00ck", b"pi\nck", b"pi\x7fck"])
def test_headers_control_characters_are_refused(name: bytes) -> None:
    assert "characters that must be sent as =?base64?" in refuse(headers(name=name), call())


def test_headers_method_without_name_needs_none() -> None:
    sent = {b"mcp-protocol-version": b"2026-07-28", b"mcp-method": b"tools/list"}
    check(sent, JsonRpcRequest(1, "tools/list", {"_meta": {VERSION: "2026-07-28"}}))


def test_headers_non_string_name_is_ignored() -> None:
    check(headers(), call(name=3))


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01"])
def test_version_header_different_is_refused_for_any_version(version: str) -> None:
    check_version_header(headers(version=version.encode()), call(version=version))
    with pytest.raises(McpRefusal, match="differs from the body"):
        check_version_header(headers(version=b"2024-11-05"), call(version=version))


@each_row("params", [{}, {"_meta": {}}, {"_meta": "x"}, {"_meta": {VERSION: 3}}])
def test_version_header_without_body_version_passes(params: JsonObject) -> None:
    check_version_header({}, JsonRpcRequest(1, "tools/call", params))


REGION = (HeaderParameter("region", ("place", "region")),)


def check_region(value: Any, **sent: bytes) -> None:
    arguments: JsonObject = {"place": {"region": value}}
    check_parameter_headers({f"mcp-param-{name}".encode(): text for name, text in sent.items()}, REGION, arguments)


EQUAL: list[tuple[Any, bytes]] = [
    ("eu", b"eu"),
    ("eu", b" eu "),
    ("eu", wrapped("eu")),
    ("é", wrapped("é")),
    ("", b""),
    (" x ", wrapped(" x ")),
    ("true", b"true"),
    (True, b"true"),
    (False, b"false"),
    (7, b"7"),
    (7, b"7.0"),
    (7, b"7e0"),
    (-7, b"-7"),
    (2**53 + 1, b"9007199254740993"),
    (700, b"7e2"),
]


@each_row(("value", "sent"), EQUAL)
def test_parameter_header_equal_passes(value: Any, sent: bytes) -> None:
    check_region(value, region=sent)


DIFFERENT: list[tuple[Any, bytes]] = [
    ("eu", b"EU"),
    ("eu", b"us"),
    (True, b"True"),
    (True, b"1"),
    (False, b""),
    (1, b"true"),
    (7, b"8"),
    (7, b""),
    (7, b"+7"),
    (7, b"007"),
    (7, b"0x7"),
    (10, b"1_0"),
    (7, b"7 7"),
    (7, b"nan"),
    (7, b"9" * 5_000),
    (2**53 + 1, b"9007199254740992"),
    ("7", b"7.0"),
    ([1], b"[1]"),
    ({}, b"{}"),
]


@each_row(("value", "sent"), DIFFERENT)
def test_parameter_header_different_is_refused(value: Any, sent: bytes) -> None:
    with pytest.raises(McpRefusal, match="the header mcp-param-region differs from the argument") as caught:
        check_region(value, region=sent)
    assert (caught.value.code, caught.value.status) == (-32020, 400)


def test_parameter_header_missing_is_refused() -> None:
    with pytest.raises(McpRefusal, match="the header mcp-param-region is missing"):
        check_region("eu")


@each_row("arguments", [{}, {"place": {}}, {"place": {"region": None}}, {"place": None}, {"place": "x"}])
def test_parameter_header_not_needed_for_null(arguments: JsonObject) -> None:
    check_parameter_headers({}, REGION, arguments)
