"""MCP 2026-07-28: headers repeat what the body says, and the server believes neither alone."""

import json

import pytest

from tests.harness.http_client import Json, Message, send_bytes
from tests.harness.mcp_client import StatelessMcpClient as Http
from tests.harness.mcp_messages import MODERN, VERSION_KEY, modern_meta, modern_request, wrapped
from tests.harness.server_process import ServerProcess as Served

MISMATCH = -32020
TOOL = "probe_routed"


async def refused(http: Http, method: str, params: Message, **headers: str | None) -> None:
    """The request with these headers is refused as the revision says."""
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    reply = await http.modern(method, params, headers=changed)
    assert (reply.status, reply.error["code"], reply.answer["id"]) == (400, MISMATCH, 1), headers


async def routed(http: Http, arguments: Message, **headers: str) -> Json:
    """What the tool whose arguments are repeated in headers is called with."""
    changed = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    reply = await http.modern("tools/call", {"name": TOOL, "arguments": arguments}, headers=changed)
    assert reply.status == 200, reply
    return reply.result["structuredContent"]


async def unrouted(http: Http, arguments: Message, **headers: str) -> None:
    """A call of that tool which is refused."""
    changed = {f"Mcp-Param-{name}": value for name, value in headers.items()}
    reply = await http.modern("tools/call", {"name": TOOL, "arguments": arguments}, headers=changed)
    assert (reply.status, reply.error["code"], reply.answer["id"]) == (400, MISMATCH, 1), (arguments, headers)


@pytest.mark.requirement("M-32")
async def test_every_standard_header_must_be_there(http: Http) -> None:
    call = {"name": "probe_number"}
    await refused(http, "tools/list", {}, MCP_Protocol_Version=None)
    await refused(http, "tools/list", {}, Mcp_Method=None)
    await refused(http, "server/discover", {}, Mcp_Method=None)
    await refused(http, "subscriptions/listen", {"notifications": {}}, Mcp_Method=None)
    await refused(http, "tools/call", call, Mcp_Method=None)
    await refused(http, "tools/call", call, Mcp_Name=None)


@pytest.mark.requirement("M-32", "M-33")
async def test_a_header_that_says_something_else_is_refused(http: Http) -> None:
    call = {"name": "probe_number"}
    for version in ("2025-11-25", "2099-01-01", "", "2026-07-28x"):
        await refused(http, "tools/list", {}, MCP_Protocol_Version=version)
    for method in ("tools/call", "TOOLS/LIST", "tools/list2", "", "tools/list, tools/call"):
        await refused(http, "tools/list", {}, Mcp_Method=method)
    for name in ("probe_words", "PROBE_NUMBER", "", "probe_number probe_words", "=?BASE64?cHJvYmVfbnVtYmVy?="):
        await refused(http, "tools/call", call, Mcp_Name=name)


@pytest.mark.requirement("M-3", "M-32")
async def test_a_disagreement_about_the_version_comes_before_what_is_wrong_with_either(http: Http) -> None:
    for version in ("2099-01-01", "2025-11-25", "nonsense"):
        body = {**modern_meta(), VERSION_KEY: version}
        for header in (MODERN, "2098-01-01", None):
            reply = await http.modern("tools/list", meta=body, headers={"MCP-Protocol-Version": header})
            assert (reply.status, reply.error["code"]) == (400, MISMATCH)
        reply = await http.modern("tools/list", meta=body, headers={"MCP-Protocol-Version": version})
        assert (reply.status, reply.error["code"]) == (400, -32022)


@pytest.mark.requirement("M-33")
async def test_header_names_are_written_in_any_case_and_values_may_have_blanks_around(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": "probe_number"})
    for style in (str.lower, str.upper, str.title):
        assert (await http.send(body, {style(name): value for name, value in headers.items()})).status == 200


@pytest.mark.requirement("M-33")
async def test_blanks_around_a_value_do_not_belong_to_it(probe: Served) -> None:
    body, headers = modern_request("tools/call", {"name": "probe_number"})
    content = json.dumps(body).encode()
    usual = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    padded = "".join(f"{name}: \t {value} \t \r\n" for name, value in headers.items())
    head = await send_bytes(probe.origin, f"POST /mcp HTTP/1.1\r\n{usual}{padded}\r\n".encode() + content)
    assert head.startswith(b"HTTP/1.1 200 ")


@pytest.mark.requirement("M-32")
async def test_a_header_that_is_there_twice_is_refused(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": "probe_number"})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    for name, value in pairs:
        for second in (value, b"probe_words"):
            assert (await http.send(body, [*pairs, (name, second)])).status == 400, name


@pytest.mark.requirement("M-33")
async def test_a_name_in_base64_is_decoded_before_it_is_compared(http: Http) -> None:
    call = {"name": "probe_number"}
    reply = await http.modern("tools/call", call, headers={"Mcp-Name": wrapped("probe_number")})
    assert reply.result["structuredContent"] == 42
    strange = {"name": "wérkzeug ✓"}
    reply = await http.modern("tools/call", strange, headers={"Mcp-Name": wrapped("wérkzeug ✓")})
    assert (reply.status, reply.error["code"]) == (200, -32602), "the header is right; there is only no such tool"
    for bad in (wrapped("probe_words"), "=?base64?cHJvYmVfbnVtYmVy", "=?base64?%%%?=", "=?base64?cHJvYmVfbnVtYmV?="):
        await refused(http, "tools/call", call, Mcp_Name=bad)


@pytest.mark.requirement("M-32", "M-33")
async def test_bytes_that_no_header_may_hold_are_refused(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": "wérkzeug"}, headers={"Mcp-Name": None})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    for raw in ("wérkzeug".encode(), "wérkzeug".encode("latin-1")):
        reply = await http.send(body, [*pairs, (b"Mcp-Name", raw)])
        assert (reply.status, reply.error["code"]) == (400, MISMATCH)


@pytest.mark.requirement("M-34", "M-35")
async def test_an_argument_is_repeated_in_its_header(http: Http) -> None:
    assert await routed(http, {"region": "eu"}, Region="eu") == {"region": "eu"}
    assert await routed(http, {"count": 7}, Count="7") == {"count": 7}
    assert await routed(http, {"count": -7}, Count="-7") == {"count": -7}
    assert await routed(http, {"dry": True}, Dry="true") == {"dry": True}
    assert await routed(http, {"dry": False}, Dry="false") == {"dry": False}
    nested = {"place": {"city": "Oslo"}}
    assert await routed(http, nested, City="Oslo") == nested
    everything = {"region": "us", "count": 1, "dry": True, "place": {"city": "Rome"}, "shard": 3}
    assert await routed(http, everything, Region="us", Count="1", Dry="true", City="Rome") == everything


@pytest.mark.requirement("M-33", "M-35")
async def test_an_argument_that_no_header_can_hold_comes_in_base64(http: Http) -> None:
    for text in ("Hello, 世界", " padded ", "line1\nline2", "=?base64?literal?=", "", "tab\there"):
        assert await routed(http, {"region": text}, Region=wrapped(text)) == {"region": text}
    assert await routed(http, {"region": "plain"}, Region=wrapped("plain")) == {"region": "plain"}
    assert await routed(http, {"region": "=?base64?"}, Region="=?base64?") == {"region": "=?base64?"}, (
        "no end, no wrapping"
    )
    assert await routed(http, {"region": "SGVsbG8="}, Region="SGVsbG8=") == {"region": "SGVsbG8="}, "literal without it"


@pytest.mark.requirement("M-33")
async def test_numbers_are_compared_as_numbers(http: Http) -> None:
    assert await routed(http, {"count": 42}, Count="42.0") == {"count": 42}
    await unrouted(http, {"count": 42}, Count="43")
    await unrouted(http, {"count": 42}, Count="4_2")
    await unrouted(http, {"count": 42}, Count="forty-two")
    await unrouted(http, {"count": 42}, Count="nan")
    await unrouted(http, {"count": 42}, Count="")


@pytest.mark.requirement("M-35")
async def test_an_argument_without_its_header_or_with_another_value_is_refused(http: Http) -> None:
    await unrouted(http, {"region": "eu"})
    await unrouted(http, {"region": "eu"}, Region="us")
    await unrouted(http, {"region": "eu"}, Region="EU")
    await unrouted(http, {"region": "eu"}, Region="=?BASE64?ZXU=?=")
    await unrouted(http, {"region": "eu"}, Region="=?base64?ZXU?=")
    await unrouted(http, {"region": "eu"}, Region="=?base64?!!!?=")
    await unrouted(http, {"region": "eu"}, Region="=?base64?/w==?=")
    await unrouted(http, {"dry": True}, Dry="True")
    await unrouted(http, {"dry": True}, Dry="1")
    await unrouted(http, {"place": {"city": "Oslo"}})
    await unrouted(http, {"region": "eu", "count": 1}, Region="eu")


@pytest.mark.requirement("M-35")
async def test_an_argument_that_is_absent_or_null_needs_no_header(http: Http) -> None:
    assert await routed(http, {}) == {}
    assert await routed(http, {"place": {}}) == {"place": {}}
    assert await routed(http, {"shard": None}) == {"shard": None}
    reply = await http.modern("tools/call", {"name": TOOL, "arguments": {"region": None}})
    assert reply.status == 200
    assert reply.result["isError"] is True, "no header is missing; the schema does not allow null here"


@pytest.mark.requirement("M-35")
async def test_header_bytes_outside_ascii_are_refused(http: Http) -> None:
    body, headers = modern_request("tools/call", {"name": TOOL, "arguments": {"region": "Zürich"}})
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    reply = await http.send(body, [*pairs, (b"Mcp-Param-Region", "Zürich".encode())])
    assert (reply.status, reply.error["code"]) == (400, MISMATCH)


@pytest.mark.requirement("M-35")
async def test_headers_nobody_asked_for_mean_nothing(http: Http) -> None:
    reply = await http.modern(
        "tools/call", {"name": "probe_number"}, headers={"Mcp-Param-Region": "eu", "Mcp-Other": "x"}
    )
    assert reply.result["structuredContent"] == 42
    assert (await http.modern("tools/list", headers={"Mcp-Name": "anything"})).status == 200
