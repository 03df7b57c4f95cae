"""MCP 2026-07-28: headers repeat what the body says, and the server believes neither alone."""

import json

import pytest

from tests.conformance.judge import MODERN
from tests.conformance.serving import Served
from tests.conformance.wire import VERSION_KEY, Http, Json, Message, modern_meta, modern_request, send_bytes, wrapped

MISMATCH = -32020
TOOL = "probe_routed"


async def assert_header_mismatch(http: Http, method: str, params: Message, **headers: str | None) -> None:
    """Assert that the request with these headers is refused as a header mismatch."""
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await http.modern(method, params, headers=changed)
    assert (reply.status, reply.error["code"], reply.answer["id"]) == (400, MISMATCH, 1), headers


async def call_with_param_headers(http: Http, arguments: Message, **headers: str) -> Json:
    """Call the tool whose arguments are repeated in `Mcp-Param-*` headers; the arguments it got."""
    changed = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    reply = await http.modern("tools/call", {"name": TOOL, "arguments": arguments}, headers=changed)
    assert reply.status == 200, reply
    return reply.result["structuredContent"]


async def assert_param_headers_refused(http: Http, arguments: Message, **headers: str) -> None:
    """Assert that a call of that tool with these headers is refused."""
    changed = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    reply = await http.modern("tools/call", {"name": TOOL, "arguments": arguments}, headers=changed)
    assert (reply.status, reply.error["code"], reply.answer["id"]) == (400, MISMATCH, 1), (arguments, headers)


@pytest.mark.requirement("M-32")
async def test_standard_header_missing_is_refused(http: Http) -> None:
    call = {"name": "probe_number"}
    await assert_header_mismatch(http, "tools/list", {}, MCP_Protocol_Version=None)
    await assert_header_mismatch(http, "tools/list", {}, Mcp_Method=None)
    await assert_header_mismatch(http, "server/discover", {}, Mcp_Method=None)
    await assert_header_mismatch(http, "subscriptions/listen", {"notifications": {}}, Mcp_Method=None)
    await assert_header_mismatch(http, "tools/call", call, Mcp_Method=None)
    await assert_header_mismatch(http, "tools/call", call, Mcp_Name=None)


@pytest.mark.requirement("M-32", "M-33")
async def test_standard_header_that_contradicts_the_body_is_refused(http: Http) -> None:
    call = {"name": "probe_number"}
    for version in ("2025-11-25", "2099-01-01", "", "2026-07-28x"):
        await assert_header_mismatch(http, "tools/list", {}, MCP_Protocol_Version=version)
    for method in ("tools/call", "TOOLS/LIST", "tools/list2", "", "tools/list, tools/call"):
        await assert_header_mismatch(http, "tools/list", {}, Mcp_Method=method)
    for name in ("probe_words", "PROBE_NUMBER", "", "probe_number probe_words", "=?BASE64?cHJvYmVfbnVtYmVy?="):
        await assert_header_mismatch(http, "tools/call", call, Mcp_Name=name)


@pytest.mark.requirement("M-3", "M-32")
async def test_version_header_mismatch_is_reported_before_an_unsupported_version(http: Http) -> None:
    for version in ("2099-01-01", "2025-11-25", "nonsense"):
        body = {**modern_meta(), VERSION_KEY: version}
        for header in (MODERN, "2098-01-01", None):
            reply = await http.modern("tools/list", meta=body, headers={"MCP-Protocol-Version": header})
            assert (reply.status, reply.error["code"]) == (400, MISMATCH)
        reply = await http.modern("tools/list", meta=body, headers={"MCP-Protocol-Version": version})
        assert (reply.status, reply.error["code"]) == (400, -32022)


@pytest.mark.requirement("M-33")
async def test_header_names_in_any_case_are_accepted(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": "probe_number"})
    for style in (str.lower, str.upper, str.title):
        assert (await http.send(body, {style(name): value for name, value in headers.items()})).status == 200


@pytest.mark.requirement("M-33")
async def test_header_value_with_surrounding_whitespace_is_accepted(probe: Served) -> None:
    body, headers = modern_request("tools/call", {"name": "probe_number"})
    content = json.dumps(body).encode()
    usual = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    padded = "".join(f"{name}: \t {value} \t \r\n" for name, value in headers.items())
    head = await send_bytes(probe.origin, f"POST /mcp HTTP/1.1\r\n{usual}{padded}\r\n".encode() + content)
    assert head.startswith(b"HTTP/1.1 200 ")


@pytest.mark.requirement("M-32")
async def test_standard_header_sent_twice_is_refused(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": "probe_number"})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    for name, value in pairs:
        for second in (value, b"probe_words"):
            assert (await http.send(body, [*pairs, (name, second)])).status == 400, name


@pytest.mark.requirement("M-33")
async def test_name_header_in_base64_is_decoded_before_it_is_compared(http: Http) -> None:
    call = {"name": "probe_number"}
    reply = await http.modern("tools/call", call, headers={"Mcp-Name": wrapped("probe_number")})
    assert reply.result["structuredContent"] == 42
    strange = {"name": "wérkzeug ✓"}
    reply = await http.modern("tools/call", strange, headers={"Mcp-Name": wrapped("wérkzeug ✓")})
    assert (reply.status, reply.error["code"]) == (200, -32602), "the header is right; there is only no such tool"
    for bad in (wrapped("probe_words"), "=?base64?cHJvYmVfbnVtYmVy", "=?base64?%%%?=", "=?base64?cHJvYmVfbnVtYmV?="):
        await assert_header_mismatch(http, "tools/call", call, Mcp_Name=bad)


@pytest.mark.requirement("M-32", "M-33")
async def test_name_header_with_non_ascii_bytes_is_refused(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": "wérkzeug"}, headers={"Mcp-Name": None})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    for raw in ("wérkzeug".encode(), "wérkzeug".encode("latin-1")):
        reply = await http.send(body, [*pairs, (b"Mcp-Name", raw)])
        assert (reply.status, reply.error["code"]) == (400, MISMATCH)


@pytest.mark.requirement("M-34", "M-35")
async def test_param_header_equal_to_its_argument_is_accepted(http: Http) -> None:
    assert await call_with_param_headers(http, {"region": "eu"}, Region="eu") == {"region": "eu"}
    assert await call_with_param_headers(http, {"count": 7}, Count="7") == {"count": 7}
    assert await call_with_param_headers(http, {"count": -7}, Count="-7") == {"count": -7}
    assert await call_with_param_headers(http, {"dry": True}, Dry="true") == {"dry": True}
    assert await call_with_param_headers(http, {"dry": False}, Dry="false") == {"dry": False}
    nested = {"place": {"city": "Oslo"}}
    assert await call_with_param_headers(http, nested, City="Oslo") == nested
    everything = {"region": "us", "count": 1, "dry": True, "place": {"city": "Rome"}, "shard": 3}
    assert (
        await call_with_param_headers(http, everything, Region="us", Count="1", Dry="true", City="Rome") == everything
    )


@pytest.mark.requirement("M-33", "M-35")
async def test_param_header_in_base64_carries_any_text(http: Http) -> None:
    for text in ("Hello, 世界", " padded ", "line1\nline2", "=?base64?literal?=", "", "tab\there"):
        assert await call_with_param_headers(http, {"region": text}, Region=wrapped(text)) == {"region": text}
    assert await call_with_param_headers(http, {"region": "plain"}, Region=wrapped("plain")) == {"region": "plain"}
    assert await call_with_param_headers(http, {"region": "=?base64?"}, Region="=?base64?") == {
        "region": "=?base64?"
    }, "no end, no wrapping"
    assert await call_with_param_headers(http, {"region": "SGVsbG8="}, Region="SGVsbG8=") == {"region": "SGVsbG8="}, (
        "literal without it"
    )


@pytest.mark.requirement("M-33")
async def test_param_header_numbers_are_compared_by_value(http: Http) -> None:
    assert await call_with_param_headers(http, {"count": 42}, Count="42.0") == {"count": 42}
    await assert_param_headers_refused(http, {"count": 42}, Count="43")
    await assert_param_headers_refused(http, {"count": 42}, Count="4_2")
    await assert_param_headers_refused(http, {"count": 42}, Count="forty-two")
    await assert_param_headers_refused(http, {"count": 42}, Count="nan")
    await assert_param_headers_refused(http, {"count": 42}, Count="")


@pytest.mark.requirement("M-35")
async def test_param_header_missing_or_different_from_its_argument_is_refused(http: Http) -> None:
    await assert_param_headers_refused(http, {"region": "eu"})
    await assert_param_headers_refused(http, {"region": "eu"}, Region="us")
    await assert_param_headers_refused(http, {"region": "eu"}, Region="EU")
    await assert_param_headers_refused(http, {"region": "eu"}, Region="=?BASE64?ZXU=?=")
    await assert_param_headers_refused(http, {"region": "eu"}, Region="=?base64?ZXU?=")
    await assert_param_headers_refused(http, {"region": "eu"}, Region="=?base64?!!!?=")
    await assert_param_headers_refused(http, {"region": "eu"}, Region="=?base64?/w==?=")
    await assert_param_headers_refused(http, {"dry": True}, Dry="True")
    await assert_param_headers_refused(http, {"dry": True}, Dry="1")
    await assert_param_headers_refused(http, {"place": {"city": "Oslo"}})
    await assert_param_headers_refused(http, {"region": "eu", "count": 1}, Region="eu")


@pytest.mark.requirement("M-35")
async def test_param_header_of_an_absent_or_null_argument_is_not_needed(http: Http) -> None:
    assert await call_with_param_headers(http, {}) == {}
    assert await call_with_param_headers(http, {"place": {}}) == {"place": {}}
    assert await call_with_param_headers(http, {"shard": None}) == {"shard": None}
    reply = await http.modern("tools/call", {"name": TOOL, "arguments": {"region": None}})
    assert reply.status == 200
    assert reply.result["isError"] is True, "no header is missing; the schema does not allow null here"


@pytest.mark.requirement("M-35")
async def test_param_header_with_non_ascii_bytes_is_refused(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": TOOL, "arguments": {"region": "Zürich"}})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    reply = await http.send(body, [*pairs, (b"Mcp-Param-Region", "Zürich".encode())])
    assert (reply.status, reply.error["code"]) == (400, MISMATCH)


@pytest.mark.requirement("M-35")
async def test_param_header_that_no_parameter_declares_is_ignored(http: Http) -> None:
    reply = await http.modern(
        "tools/call", {"name": "probe_number"}, headers={"Mcp-Param-Region": "eu", "Mcp-Other": "x"}
    )
    assert reply.result["structuredContent"] == 42
    assert (await http.modern("tools/list", headers={"Mcp-Name": "anything"})).status == 200
