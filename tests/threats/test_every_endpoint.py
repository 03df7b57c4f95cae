# ruff: noqa: N802 - tests carry the names of their rows
"""The same borders and the same silence at every path that takes a message, whatever dialect it speaks."""

from typing import Any

import pytest

from tests.harness.http_client import HOST, Header, Response, fetch, healthy, http_request
from tests.harness.mcp_messages import MODERN, encoded
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient, call_tool, tool_value
from tests.threats.hostile_tools import CANARY, RAISES, RETURNS
from toolhall import Toolhall, tool

REST = "/tools/hostile_tools/touch"
PATHS = ["/mcp", "/oxp/tools/call", "/hub", "/machine", "/machine/tools", REST]
JSON = ("Content-Type", "application/json")


def send(server: ServerProcess, path: str, body: bytes, *extra: Header, host: str = HOST) -> Response:
    """A POST to this path."""
    headers = [("Host", host), JSON, ("Content-Length", str(len(body))), *extra]
    return fetch(server.port, http_request("POST", path, headers, body))


def touched(server: ServerProcess) -> int:
    """How often the tool ran."""
    return int(tool_value(call_tool(SyncHttpMcpClient(server.port, MODERN), "touches")))


BROKEN = {
    "not_json": b"{x",
    "duplicate_key": b'{"note":"a","note":"b"}',
    "escaped_duplicate": b'{"note":"a","n\\u006fte":"b"}',
    "not_a_number": b'{"note":NaN}',
    "overflow": b'{"note":1e999}',
    "digits": b'{"note":' + b"9" * 5_000 + b"}",
    "deep": b"[" * 100_000,
    "mark": b"\xef\xbb\xbf{}",
    "not_utf8": b'{"note":"\xff\xfe"}',
    "surrogate": b'{"note":"\\ud800"}',
    "nul": b'{"note":"\\u0000"}',
    "batch": b"[{},{}]",
    "null": b"null",
}


@pytest.mark.threat("F1")
@pytest.mark.threat("F5")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("broken", BROKEN)
def test_F1_F5_malformed_json_at_every_endpoint_is_refused_and_no_tool_runs(
    server: ServerProcess, path: str, broken: str
) -> None:
    """Refused as a fault of the caller, in JSON, and nothing ran."""
    before = touched(server)
    reply = send(server, path, BROKEN[broken])
    assert reply.status == 400
    assert reply.headers.get("content-type") == "application/json"
    assert len(reply.body) < 1_000
    assert touched(server) == before


@pytest.mark.threat("B2")
@pytest.mark.threat("B14")
@pytest.mark.threat("I9")
@pytest.mark.parametrize("path", PATHS)
def test_B2_B14_I9_foreign_host_origin_encoding_type_and_size_are_refused_at_every_endpoint(
    server: ServerProcess, path: str
) -> None:
    """Foreign hosts and origins, packed bodies, other types and too many bytes are turned away everywhere."""
    before = touched(server)
    assert send(server, path, b"{}", host="evil.example").status == 421
    assert send(server, path, b"{}", host="x/health?").status == 400
    assert send(server, path, b"{}", ("Origin", "http://evil.example")).status == 403
    assert send(server, path, b"{}", ("Content-Encoding", "gzip")).status == 415
    assert send(server, path, b"{}", ("Host", HOST)).status == 400
    form = [("Host", HOST), ("Content-Type", "text/plain"), ("Content-Length", "2")]
    assert fetch(server.port, http_request("POST", path, form, b"{}")).status == 415
    large = [("Host", HOST), JSON, ("Content-Length", "2000000")]
    assert fetch(server.port, http_request("POST", path, large)).status == 413
    assert touched(server) == before


def by_rest(name: str, arguments: Any) -> tuple[str, Any]:
    """A call as plain REST."""
    return f"/tools/hostile_tools/{name}", arguments


def by_oxp(name: str, arguments: Any) -> tuple[str, Any]:
    """A call in OXP."""
    return "/oxp/tools/call", {"request": {"tool_id": f"hostile_tools.{name}@0.1.0", "input": arguments}}


def by_hub(name: str, arguments: Any) -> tuple[str, Any]:
    """A call in the hub's dialect."""
    asked = {"type": "tool_request", "id": "1", "tool": "hostile_tools", "method": name, "params": arguments}
    return "/hub", asked


WAYS = {"rest": by_rest, "oxp": by_oxp, "hub": by_hub}
HOW = [("returns", how) for how in RETURNS] + [("raises_in_thread", how) for how in RAISES]


@pytest.mark.threat("G8")
@pytest.mark.parametrize("way", WAYS)
def test_G8_secret_raised_or_returned_by_a_tool_is_in_no_answer_of_rest_oxp_and_hub(
    server: ServerProcess, way: str
) -> None:
    """However a tool raises or returns its secret, the caller gets an answer without it."""
    path, body = WAYS[way]("number", {"value": 7})
    assert b"7" in send(server, path, encoded(body)).body
    for name, how in HOW:
        path, body = WAYS[way](name, {"how": how})
        reply = send(server, path, encoded(body))
        assert reply.headers.get("content-type") == "application/json", (how, reply)
        assert CANARY.encode() not in reply.body, (how, reply)
    assert healthy(server.port)


@pytest.mark.threat("B14")
@pytest.mark.parametrize("path", ["/hub", "/mcp", "/nothing"])
@pytest.mark.parametrize(
    "header", [(b"origin", b"http://evil.example"), (b"host", b"evil.example"), (b"origin", b"null")]
)
async def test_B14_websocket_of_a_foreign_host_or_origin_is_closed_before_it_is_accepted(
    path: str, header: tuple[bytes, bytes]
) -> None:
    """A WebSocket that a page of another site opens is refused before it is accepted."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"} if not sent else {"type": "websocket.disconnect", "code": 1006}

    async def send_back(message: Any) -> None:
        sent.append(message)

    async def nothing() -> int:
        return 1

    headers = [header] if header[0] == b"host" else [(b"host", HOST.encode()), header]
    with Toolhall(tool(nothing)) as hall:
        await hall({"type": "websocket", "path": path, "headers": headers, "client": (HOST, 1)}, receive, send_back)
    assert [message["type"] for message in sent] == ["websocket.close"]
