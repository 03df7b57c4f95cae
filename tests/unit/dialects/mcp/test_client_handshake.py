"""What a client learns of a server before it calls it."""

import pytest

from tests.tables import each_row
from toolhall.dialects.mcp.client_handshake import (
    MAX_NAME,
    EraFinding,
    era_of,
    initialize_params,
    read_discover_result,
    read_initialize_result,
)
from toolhall.dialects.mcp.client_messages import read_incoming
from toolhall.dialects.mcp.protocol import CLIENT_REVISIONS, REVISION_2026_07_28, Revision
from toolhall.model.errors import Malformed
from toolhall.model.json import JsonObject, encode

LEGACY, MODERN, UNKNOWN = EraFinding("legacy"), EraFinding("modern"), EraFinding("unknown")


def result(*versions: str) -> bytes:
    return encode({"id": 1, "result": {"supportedVersions": versions}})


def error(code: int, data: object = None) -> bytes:
    return encode({"id": None, "error": {"code": code, "message": "no", "data": data}})


@each_row(
    ("status", "body", "finding"),
    [
        (200, result("2025-11-25", "2026-07-28"), EraFinding("modern", ("2025-11-25", "2026-07-28"))),
        (200, result("2025-11-25"), LEGACY),
        (200, b'{"id":1,"result":[]}', LEGACY),
        (200, error(-32601), LEGACY),
        (200, error(-32602), LEGACY),
        (200, error(-32603), LEGACY),
        (400, error(-32000), LEGACY),
        (404, error(-32601), LEGACY),
        (404, None, LEGACY),
        (405, None, LEGACY),
        (200, None, LEGACY),
        (400, error(-32020), MODERN),
        (400, error(-32021), MODERN),
        (400, error(-32022, {"supported": ["2027-01-01", 3]}), EraFinding("modern", ("2027-01-01",))),
        (400, error(-32022, {"supported": "all"}), MODERN),
        *[(status, None, UNKNOWN) for status in (401, 403, 407, 408, 429, 500, 502, 503)],
        (503, error(-32000), UNKNOWN),
    ],
)
def test_era_is_told_by_the_answer_to_discover(status: int, body: bytes | None, finding: EraFinding) -> None:
    assert era_of(status, None if body is None else read_incoming(body)) == finding


@each_row("revision", [each for each in CLIENT_REVISIONS.values() if not each.stateless])
def test_initialize_takes_every_revision_with_a_handshake(revision: Revision) -> None:
    wire: JsonObject = {
        "protocolVersion": revision.name,
        "serverInfo": {"name": "s", "version": "2"},
        "capabilities": {"a": {}},
    }
    facts = read_initialize_result(encode(wire | {"instructions": "Do."}))
    assert (facts.revision, facts.name, facts.version) == (revision, "s", "2")
    assert (facts.capabilities, facts.instructions) == ({"a": {}}, "Do.")


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", None, 5, "x" * 1000])
def test_initialize_refuses_other_revisions_by_name(version: object) -> None:
    with pytest.raises(Malformed, match=r"speaks MCP revision .{1,60}; known here are 2024-11-05"):
        read_initialize_result(encode({"protocolVersion": version}))


def test_what_a_server_says_of_itself_is_bounded_and_may_be_missing() -> None:
    facts = read_initialize_result(encode({"protocolVersion": "2025-03-26", "serverInfo": {"name": "n" * 9999}}))
    assert (len(facts.name), facts.version, facts.capabilities, facts.instructions) == (MAX_NAME, "", {}, None)


def test_discover_result_names_the_server_in_its_meta() -> None:
    info = {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}
    facts = read_discover_result(encode({"supportedVersions": [], "capabilities": {"tools": {}}, "_meta": info}))
    assert (facts.revision, facts.name, facts.capabilities) == (REVISION_2026_07_28, "s", {"tools": {}})
    with pytest.raises(Malformed):
        read_discover_result(b"[]")


def test_initialize_offers_the_newest_handshake() -> None:
    params = initialize_params({"name": "hall"}, ("sampling",))
    assert params == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"sampling": {}},
        "clientInfo": {"name": "hall"},
    }


@pytest.mark.threat("G17")
def test_what_a_server_says_of_itself_is_one_clean_line() -> None:
    hostile = "a\x1b[2J\n2026 ERROR forged\u202e\u200b line"
    wire = {"protocolVersion": "2025-11-25", "serverInfo": {"name": hostile, "version": hostile}}
    facts = read_initialize_result(encode(wire))
    assert facts.name == facts.version == "a 2026 ERROR forged line"
    error = {"code": -32022, "message": "no", "data": {"supported": [hostile]}}
    message = read_incoming(encode({"id": 1, "error": error}))
    assert era_of(400, message).versions == ("a 2026 ERROR forged line",)
