# ruff: noqa: N802 - tests carry the names of their rows
"""B2, B14, B16 to B18, I9: who may send, under which name, and headers that must say what the body says."""

import base64
import gzip
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.harness.http_client import HOST, Connection, Header, Response, fetch, http_request
from tests.harness.mcp_messages import LEGACY, MODERN, PREFIX, REVISIONS, McpAnswer, encoded, request_in, tool_call
from tests.harness.patience import patience
from tests.harness.server_process import ServerProcess, environment, toolhall
from tests.harness.sync_mcp_client import SyncHttpMcpClient, answer_of, call_tool, tool_value

TOUCH = encoded(tool_call(MODERN, "touch"))
MODERN_HEADERS = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "touch")]
MISMATCH = -32020


def sent(server: ServerProcess, headers: Sequence[Header], body: bytes = TOUCH, path: str = "/mcp") -> Response:
    """A POST with exactly these headers and those that any body needs."""
    needed = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    return fetch(server.port, http_request("POST", path, [*headers, *needed], body))


def touched(server: ServerProcess) -> int:
    """How often the tool ran."""
    return int(tool_value(call_tool(SyncHttpMcpClient(server.port, MODERN), "touches")))


HOSTS: dict[str, tuple[list[str], int]] = {
    "missing": ([], 400),
    "empty": ([""], 400),
    "doubled": ([HOST, HOST], 400),
    "two": ([HOST, "evil.example"], 400),
    "foreign": (["evil.example"], 421),
    "foreign_with_port": (["evil.example:8000"], 421),
    "rebound": (["127.0.0.1.nip.io"], 421),
    "below_localhost": (["evil.localhost"], 421),
    "prefix": (["localhost.evil.example"], 421),
    "trailing_dot": (["localhost."], 421),
    "trailing_dot_ip": (["127.0.0.1."], 421),
    "userinfo": (["localhost@evil.example"], 400),
    "userinfo_before": (["evil@localhost"], 400),
    "path": (["127.0.0.1/health?"], 400),
    "bad_host": (["x/health?"], 400),
    "query": (["127.0.0.1?x=1"], 400),
    "fragment": (["127.0.0.1#"], 400),
    "backslash": (["127.0.0.1\\evil"], 400),
    "list": (["127.0.0.1, evil.example"], 400),
    "scheme": (["http://127.0.0.1"], 400),
    "bad_port": (["127.0.0.1:http"], 400),
    "empty_port": (["127.0.0.1:"], 400),
    "long_port": (["127.0.0.1:123456"], 400),
    "port_twice": (["127.0.0.1:80:80"], 400),
    "other_loopback": (["127.0.0.2"], 421),
    "decimal": (["2130706433"], 421),
    "hexadecimal": (["0x7f.1"], 421),
    "any": (["0.0.0.0"], 421),
    "ipv6_bare": (["::1"], 400),
    "ipv6_other": (["[::2]"], 421),
    "ipv6_zone": (["[::1%25lo]"], 400),
    "unicode": (["loc\u00e4lhost"], 400),
    "tab": (["127.0.0.1\tx"], 400),
    "long": (["a" * 10_000], 421),
}


@pytest.mark.threat("B2")
@pytest.mark.threat("B14")
@pytest.mark.parametrize("case", HOSTS)
def test_B2_B14_missing_duplicate_or_foreign_host_header_is_refused(server: ServerProcess, case: str) -> None:
    """Exactly one Host, and one of ours; the path is never taken from it."""
    hosts, status = HOSTS[case]
    before = touched(server)
    for path in ("/mcp", "/health", "/nothing"):
        reply = sent(server, [("Host", host) for host in hosts] + MODERN_HEADERS, path=path)
        assert reply.status == status
        assert b"healthy" not in reply.body
        assert len(reply.body) < 300
    assert touched(server) == before


@pytest.mark.threat("B14")
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:65535", "[::1]", "[::1]:8000"])
def test_B14_loopback_host_header_with_any_port_is_served(server: ServerProcess, host: str) -> None:
    """The names of this machine, with any port, are served."""
    assert sent(server, [("Host", host), *MODERN_HEADERS]).status == 200


ORIGINS: dict[str, list[str]] = {
    "foreign": ["http://evil.example"],
    "secure": ["https://evil.example"],
    "null": ["null"],
    "empty": [""],
    "doubled": ["http://localhost", "http://localhost"],
    "two": ["http://localhost", "http://evil.example"],
    "list": ["http://localhost http://evil.example"],
    "rebound": ["http://127.0.0.1.nip.io"],
    "prefix": ["http://localhost.evil.example"],
    "below_localhost": ["http://evil.localhost"],
    "trailing_dot": ["http://localhost."],
    "userinfo": ["http://localhost@evil.example"],
    "path": ["http://localhost/"],
    "no_scheme": ["localhost"],
    "other_scheme": ["file://localhost"],
    "extension": ["chrome-extension://localhost"],
    "unicode": ["http://loc\u00e4lhost"],
}


@pytest.mark.threat("B14")
@pytest.mark.parametrize("case", ORIGINS)
def test_B14_call_with_a_foreign_origin_header_is_refused(
    http: SyncHttpMcpClient, server: ServerProcess, case: str
) -> None:
    """A web page of another site may not call, whatever revision it speaks; a right Host does not help it."""
    before = touched(server)
    body = encoded(tool_call(http.revision, "touch"))
    origins = [("Origin", origin) for origin in ORIGINS[case]]
    reply = sent(server, [("Host", HOST), *http.headers(body), *origins], body)
    assert reply.status == (400 if len(origins) > 1 else 403)
    assert reply.headers.get("access-control-allow-origin") is None
    assert touched(server) == before


@pytest.mark.threat("B14")
@pytest.mark.parametrize("host", ["localhost:3000", "127.0.0.1", "[::1]:8000"])
def test_B14_origin_header_is_accepted_only_when_it_equals_the_requested_host_and_port(
    server: ServerProcess, host: str
) -> None:
    """A page of the very address that is asked may call; one of another port may not, and no page with a wrong Host."""
    origin = ("Origin", f"http://{host}")
    assert sent(server, [("Host", host), origin, *MODERN_HEADERS]).status == 200
    assert sent(server, [("Host", "localhost:3001"), origin, *MODERN_HEADERS]).status == 403
    assert sent(server, [("Host", "evil.example"), origin, *MODERN_HEADERS]).status == 421


@pytest.mark.threat("B14")
@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost", None])
def test_B14_websocket_upgrade_on_http_only_paths_is_refused(server: ServerProcess, origin: str | None) -> None:
    """There is no WebSocket here, for anybody."""
    upgrade = [
        ("Host", HOST),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", base64.b64encode(bytes(16)).decode()),
        *([("Origin", origin)] if origin else []),
    ]
    for path in ("/mcp", "/health", "/"):
        reply = fetch(server.port, http_request("GET", path, upgrade))
        assert reply.status != 101
        assert reply.status >= 400 or path == "/health"


@pytest.mark.threat("B14")
def test_B14_cors_preflight_of_a_foreign_origin_is_refused(server: ServerProcess) -> None:
    """A browser that asks whether it may call cross-site hears no."""
    asks = [("Host", HOST), ("Origin", "http://evil.example"), ("Access-Control-Request-Method", "POST")]
    reply = fetch(server.port, http_request("OPTIONS", "/mcp", asks))
    assert reply.status == 403
    assert reply.headers.get("access-control-allow-origin") is None


@pytest.mark.threat("B2")
@pytest.mark.parametrize("path", ["//mcp", "/mcp/", "/./mcp", "/x/../mcp", "/mcp;x", "/mcp%00", "/MCP", "/mcp%2f", "*"])
def test_B2_alternative_spelling_of_the_endpoint_path_is_not_found(server: ServerProcess, path: str) -> None:
    """No other way to write the path leads to the endpoint."""
    before = touched(server)
    assert sent(server, [("Host", HOST), *MODERN_HEADERS], path=path).status in (400, 404)
    assert touched(server) == before


@pytest.mark.threat("B2")
def test_B2_absolute_request_target_does_not_replace_the_host_header(server: ServerProcess) -> None:
    """A target with a host of its own is no way around the Host header."""
    reply = sent(server, [("Host", "evil.example"), *MODERN_HEADERS], path=f"http://{HOST}/mcp")
    assert reply.status >= 400


@pytest.mark.threat("B16")
@pytest.mark.parametrize("host", ["0.0.0.0", "example.com"])
def test_B16_server_on_a_non_loopback_address_without_credentials_does_not_start(tmp_path: Path, host: str) -> None:
    """To listen where others can reach needs credentials; the server does not start, and says so."""
    ended = subprocess.run(
        toolhall("serve", "--host", host, "--port", "0", "--json"),
        capture_output=True,
        timeout=patience(),
        check=False,
        env=environment(tmp_path, {}),
        cwd=tmp_path,
    )
    said = ended.stderr.decode()
    assert (ended.returncode, ended.stdout) == (78, b""), said
    assert host in said
    assert "credential" in said


def wrapped(text: str) -> str:
    """A header value in the newest revision's base64 form."""
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


# The headers that say something other than the body, which calls `touch`.
MISMATCHES: dict[str, list[Header]] = {
    "other_name": [("Mcp-Name", "touches")],
    "other_case": [("Mcp-Name", "Touch")],
    "empty_name": [("Mcp-Name", "")],
    "no_name": [("Mcp-Name", "-")],
    "quoted_name": [("Mcp-Name", '"touch"')],
    "id_as_name": [("Mcp-Name", "hostile_tools.touch@0.1.0")],
    "other_method": [("Mcp-Method", "tools/list")],
    "method_in_other_case": [("Mcp-Method", "Tools/Call")],
    "wrapped_method": [("Mcp-Method", wrapped("tools/call"))],
    "no_method": [("Mcp-Method", "-")],
    "other_version": [("MCP-Protocol-Version", "2025-11-25")],
    "unknown_version": [("MCP-Protocol-Version", "2099-01-01")],
    "no_version": [("MCP-Protocol-Version", "-")],
    "wrapped_other": [("Mcp-Name", wrapped("touches"))],
    "not_base64": [("Mcp-Name", "=?base64?!!!?=")],
    "unpadded": [("Mcp-Name", "=?base64?dG91Y2g?=")],
    "spare_bits": [("Mcp-Name", "=?base64?dG91Y2h=?=")],
    "over_padded": [("Mcp-Name", "=?base64?dG91Y2g===?=")],
    "space_inside": [("Mcp-Name", "=?base64?dG91 Y2g=?=")],
    "url_alphabet": [("Mcp-Name", "=?base64?dG91Y2g_?=")],
    "upper_case_marker": [("Mcp-Name", "=?BASE64?dG91Y2g=?=")],
    "twice_wrapped": [("Mcp-Name", wrapped(wrapped("touch")))],
    "not_utf8": [("Mcp-Name", "=?base64?/w==?=")],
    "latin_1": [("Mcp-Name", "touch\u00e4")],
    "c1": [("Mcp-Name", "touch\u0085")],
}


@pytest.mark.threat("B17")
@pytest.mark.parametrize("case", MISMATCHES)
def test_B17_mcp_headers_that_differ_from_the_body_are_refused(server: ServerProcess, case: str) -> None:
    """What a proxy decides by the headers is what the server does by the body, or nothing."""
    before = touched(server)
    changed = dict(MISMATCHES[case])
    headers = [(name, changed.get(name, usual)) for name, usual in MODERN_HEADERS]
    reply = sent(server, [("Host", HOST), *((name, said) for name, said in headers if said != "-")])
    answer = answer_of(reply)
    assert (reply.status, answer.code) == (400, MISMATCH), answer
    assert next(iter(changed)).lower() in answer.text
    assert touched(server) == before


@pytest.mark.threat("B17")
@pytest.mark.parametrize("name", ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "mcp-name", "MCP-METHOD"])
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "different"])
def test_B17_duplicate_mcp_header_is_refused(server: ServerProcess, name: str, alike: bool) -> None:
    """Of two headers nobody may read the first and somebody else the last, even if they are alike."""
    before = touched(server)
    usual = {key.lower(): said for key, said in MODERN_HEADERS}[name.lower()]
    twice = [("Host", HOST), *MODERN_HEADERS, (name, usual if alike else "touches")]
    for headers in (twice, twice[::-1]):
        reply = sent(server, headers)
        assert (reply.status, reply.headers.get("connection")) == (400, "close")
        assert name.lower() in reply.body.decode()
    assert touched(server) == before


@pytest.mark.threat("B17")
@pytest.mark.parametrize("name", ["Authorization", "Content-Type", "Mcp-Session-Id", "Content-Encoding", "Origin"])
def test_B17_other_duplicate_deciding_header_is_refused(
    http: SyncHttpMcpClient, server: ServerProcess, name: str
) -> None:
    """The same for every header that decides something."""
    body = encoded(tool_call(http.revision, "touch"))
    said = {"Content-Type": "application/json", "Content-Encoding": "identity", "Origin": "http://localhost"}
    doubled = [(name, said.get(name, "x"))] * 2
    assert sent(server, [("Host", HOST), *http.headers(body), *doubled], body).status == 400


@pytest.mark.threat("B17")
def test_B17_mcp_headers_in_any_case_padded_or_in_base64_are_accepted(server: ServerProcess) -> None:
    """Names in any case, values with space around them, base64 where it is right."""
    for name in ("touch", " touch ", wrapped("touch")):
        headers = [("host", HOST), ("MCP-PROTOCOL-VERSION", MODERN), ("mcp-method", "tools/call"), ("MCP-name", name)]
        assert sent(server, headers).status == 200


PLACES: dict[str, tuple[dict[str, Any], list[str], int]] = {
    "equal": ({"place": "oslo"}, ["oslo"], 200),
    "wrapped": ({"place": "\u00f8st"}, [wrapped("\u00f8st")], 200),
    "missing": ({"place": "oslo"}, [], 400),
    "other": ({"place": "oslo"}, ["rome"], 400),
    "other_case": ({"place": "oslo"}, ["Oslo"], 400),
    "doubled": ({"place": "oslo"}, ["oslo", "oslo"], 400),
    "spare_bits": ({"place": "touch"}, ["=?base64?dG91Y2h=?="], 400),
    "raw_latin": ({"place": "\u00f8st"}, ["\u00f8st"], 400),
}


@pytest.mark.threat("B17")
@pytest.mark.parametrize("case", PLACES)
def test_B17_mcp_param_header_that_differs_from_its_argument_is_refused(server: ServerProcess, case: str) -> None:
    """An argument that a proxy may route by is compared with the body too."""
    arguments, said, status = PLACES[case]
    headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "region")]
    given = [("Mcp-Param-Place", each) for each in said]
    reply = sent(server, [("Host", HOST), *headers, *given], encoded(tool_call(MODERN, "region", arguments)))
    assert reply.status == status
    if status == 400 and case != "doubled":
        assert answer_of(reply).code == MISMATCH


EQUAL = ("12", "12.0", "12 ", "1.2e1")
UNEQUAL = ("1_2", "0012", "+12", "0xc", "\uff11\uff12", "nan", "inf", "1e999", "", "1" * 5_000)


@pytest.mark.threat("B17")
@pytest.mark.parametrize("said", [*EQUAL, *UNEQUAL])
def test_B17_mcp_param_header_number_is_compared_by_value_and_only_in_json_notation(
    server: ServerProcess, said: str
) -> None:
    """A number is compared as a number, as long as it is written as JSON would."""
    headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "sized")]
    sized = wrapped(said) if not said.isascii() else said
    body = encoded(tool_call(MODERN, "sized", {"size": 12}))
    reply = sent(server, [("Host", HOST), *headers, ("Mcp-Param-Size", sized)], body)
    assert reply.status == (200 if said in EQUAL else 400)


@pytest.mark.threat("B17")
@pytest.mark.parametrize("revision", LEGACY)
def test_B17_mcp_name_header_is_ignored_in_older_revisions(server: ServerProcess, revision: str) -> None:
    """A name in a header decides nothing there: the body's tool runs, and only that."""
    line = SyncHttpMcpClient(server.port, revision)
    body = encoded(tool_call(revision, "number", {"value": 7}))
    before = touched(server)
    reply = sent(server, [("Host", HOST), *line.headers(body), ("Mcp-Name", "touch"), ("Mcp-Method", "x")], body)
    assert tool_value(answer_of(reply)) == 7
    assert touched(server) == before


def mixed(header: str, body: str) -> list[Header]:
    """Headers of one revision for a body of another."""
    usual = [("Mcp-Method", "tools/call"), ("Mcp-Name", "touch")] if MODERN in (header, body) else []
    return [("MCP-Protocol-Version", header), *usual]


@pytest.mark.threat("B18")
@pytest.mark.parametrize("body", REVISIONS)
@pytest.mark.parametrize("header", [*REVISIONS, "2024-11-05", "2099-01-01", "", "2026-07-28, 2025-06-18"])
def test_B18_request_that_mixes_two_protocol_revisions_is_refused(
    server: ServerProcess, header: str, body: str
) -> None:
    """A request that is in two revisions at once runs in none; without a session the older ones run nothing."""
    before = touched(server)
    reply = sent(server, [("Host", HOST), *mixed(header, body)], encoded(tool_call(body, "touch")))
    ran = header == body == MODERN
    assert reply.status == (200 if ran else 400)
    assert touched(server) == before + ran


def refusals(server: ServerProcess, tool: str, arguments: dict[str, Any]) -> list[McpAnswer]:
    """The same call in every revision."""
    return [call_tool(SyncHttpMcpClient(server.port, revision), tool, **arguments) for revision in REVISIONS]


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "level": ("dangerous", {}),
    "unknown_tool": ("nothing", {}),
    "unknown_argument": ("touch", {"force": True}),
    "wrong_type": ("touch", {"note": 1}),
    "injected_context": ("steps", {"ctx": {}}),
    "injected_caller": ("touch", {"caller": "admin"}),
}


@pytest.mark.threat("B18")
@pytest.mark.parametrize("case", REFUSED)
def test_B18_refused_call_is_refused_with_the_same_message_in_every_revision(server: ServerProcess, case: str) -> None:
    """What one revision refuses is refused by the others, in the same words; the tool never ran."""
    before = touched(server)
    answers = refusals(server, *REFUSED[case])
    assert all(answer.is_error or answer.code == -32602 for answer in answers)
    assert len({answer.text for answer in answers}) == 1
    assert touched(server) == before


@pytest.mark.threat("B18")
def test_B18_unknown_protocol_version_in_the_body_is_refused(server: ServerProcess) -> None:
    """A version that is not ours, or is no version, is refused with those that are."""
    for odd in ("2099-01-01", "2025-11-25", "", "x" * 1_000, 20260728, None, ["2026-07-28"]):
        body = request_in(MODERN, "tools/call", {"name": "touch"})
        body["params"]["_meta"][f"{PREFIX}protocolVersion"] = odd
        header = odd if isinstance(odd, str) else MODERN
        headers = [("MCP-Protocol-Version", header), *MODERN_HEADERS[1:]]
        answer = answer_of(sent(server, [("Host", HOST), *headers], encoded(body)))
        assert answer.status == 400
        assert answer.code in (-32022, -32602, MISMATCH)
        assert len(answer.raw) < 600


@pytest.mark.threat("I9")
@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "x-gzip", "identity, gzip", "GZIP", "unknown"])
def test_I9_request_body_with_a_content_encoding_is_refused_unread(
    http: SyncHttpMcpClient, server: ServerProcess, coding: str
) -> None:
    """A body that would have to be unpacked is refused unread: no bomb can go off."""
    plain = encoded(tool_call(http.revision, "touch"))
    packed = gzip.compress(plain + b" " * 50_000_000, 1) if coding == "gzip" else plain
    peak = server.peak
    headers = [("Host", HOST), *http.headers(plain), ("Content-Encoding", coding)]
    reply = sent(server, headers, packed)
    assert (reply.status, reply.headers.get("connection")) == (415, "close")
    assert b"Content-Encoding" in reply.body
    assert server.peak - peak < 16 * 1024 * 1024


@pytest.mark.threat("I9")
def test_I9_response_is_not_compressed_when_accept_encoding_asks_for_it(server: ServerProcess) -> None:
    """Nor does the server pack what it sends."""
    with Connection(server.port) as connection:
        connection.send(http_request("GET", "/health", [("Host", HOST), ("Accept-Encoding", "gzip, br")]))
        assert connection.reply().headers.get("content-encoding") is None
