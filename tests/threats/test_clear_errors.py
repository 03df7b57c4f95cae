"""A refusal says what to change, in the revision's own form, and repeats nothing of what was sent but short names."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.harness.http_client import HOST, Header, fetch, http_request
from tests.harness.mcp_messages import LEGACY, MODERN, PREFIX, REVISIONS, encoded, handshake, request_in, tool_call
from tests.harness.server_process import ServerProcess
from tests.harness.sync_mcp_client import SyncHttpMcpClient, SyncMcpClient, answer_of, post

VALUE = "V4LUE-of-the-caller"
LONG = "n" * 2_000


class Refusal(NamedTuple):
    """A bad message, and how it is refused: by a code or (None) by a result for the model, in words such as these."""

    corrupt: Callable[[dict[str, Any]], object]
    code: int | None
    words: tuple[str, ...]


def with_params(**params: Any) -> Callable[[dict[str, Any]], object]:
    """Change members of params."""
    return lambda message: message["params"].update(copy.deepcopy(params))


def with_arguments(tool: str, arguments: Any) -> Callable[[dict[str, Any]], object]:
    """Call this tool with these arguments."""
    return with_params(name=tool, arguments=arguments)


def with_members(**members: Any) -> Callable[[dict[str, Any]], object]:
    """Change members of the message."""
    return lambda message: message.update(copy.deepcopy(members))


def without(*path: str) -> Callable[[dict[str, Any]], object]:
    """Leave a member out."""

    def corrupt(message: dict[str, Any]) -> None:
        inner = message
        for part in path[:-1]:
            inner = inner[part]
        del inner[path[-1]]

    return corrupt


# The same in every revision and over every transport.
EVERYWHERE = {
    "wrong_type": Refusal(with_arguments("touch", {"note": [VALUE]}), None, ("/note", "string")),
    "wrong_type_deep": Refusal(with_arguments("narrow", {"items": ["xxxxx", [VALUE]]}), None, ("/items/1", "string")),
    "too_short": Refusal(with_arguments("narrow", {"items": ["xxxxx", "V4LU"]}), None, ("/items/1", "5 characters")),
    "missing_argument": Refusal(with_arguments("number", {}), None, ('"value"', "required")),
    "unknown_argument": Refusal(with_arguments("touch", {"nota": VALUE}), None, ("nota",)),
    "long_argument": Refusal(with_arguments("touch", {LONG[:250]: VALUE}), None, ("Additional properties",)),
    "author_refuses": Refusal(
        with_arguments("careful", {"order": {"card": VALUE}}), None, ("/order", "Invalid card the value")
    ),
    "number_as_text": Refusal(with_arguments("number", {"value": VALUE}), None, ("/value", "integer")),
    "high_level": Refusal(with_arguments("dangerous", {}), None, ("level 8", "person")),
    "unknown_tool": Refusal(with_arguments("no_such_tool", {"a": VALUE}), -32602, ("unknown tool", "no_such_tool")),
    "long_tool": Refusal(with_arguments(LONG, {"a": VALUE}), -32602, ("unknown tool",)),
    "no_tool": Refusal(without("params", "name"), -32602, ("params.name",)),
    "tool_is_no_text": Refusal(with_params(name=[VALUE]), -32602, ("params.name",)),
    "arguments_are_no_object": Refusal(with_params(arguments=[VALUE]), -32602, ("params.arguments", "object")),
    "params_are_no_object": Refusal(with_members(params=[VALUE]), -32602, ("params", "object")),
    "no_version": Refusal(without("jsonrpc"), -32600, ("jsonrpc", "2.0")),
    "other_version": Refusal(with_members(jsonrpc=VALUE), -32600, ("jsonrpc", "2.0")),
    "id_is_null": Refusal(with_members(id=None), -32600, ("id", "string", "number")),
    "id_is_object": Refusal(with_members(id={"a": VALUE}), -32600, ("id", "string", "number")),
    "method_is_no_text": Refusal(with_members(method=[VALUE]), -32600, ("method", "string")),
    "no_method": Refusal(without("method"), -32600, ("method",)),
    "unknown_member": Refusal(with_members(extra=VALUE), -32600, ("extra", "remove")),
    "long_member": Refusal(with_members(**{LONG[:250]: VALUE}), -32600, ("remove",)),
    "unknown_method": Refusal(with_members(method="tools/cal"), -32601, ("tools/cal",)),
    "long_method": Refusal(with_members(method=LONG), -32601, ("no method",)),
    "bad_cursor": Refusal(with_members(method="tools/list", params={"cursor": VALUE}), -32602, ("nextCursor",)),
    "cursor_is_no_text": Refusal(with_members(method="tools/list", params={"cursor": 1}), -32602, ("cursor", "string")),
    "odd_progress_token": Refusal(with_params(_meta={"progressToken": [VALUE]}), -32602, ("progressToken", "string")),
}


def repaired(revision: str, corrupted: dict[str, Any]) -> dict[str, Any]:
    """Put back what the newest revision wants, where a case replaced the whole of params or of `_meta`."""
    params = corrupted.get("params")
    if revision == MODERN and isinstance(params, dict):
        usual = request_in(MODERN, "x")["params"]["_meta"]
        params["_meta"] = {**usual, **params.get("_meta", {})}
    return corrupted


@pytest.mark.parametrize("case", EVERYWHERE)
def test_invalid_message_is_refused_with_words_on_what_to_change_and_no_values(line: SyncMcpClient, case: str) -> None:
    """In the same words over every transport and in every revision."""
    refusal = EVERYWHERE[case]
    body = tool_call(line.revision, "touch")
    refusal.corrupt(body)
    answer = line.ask(encoded(repaired(line.revision, body)))
    assert answer.code == refusal.code, answer
    assert answer.is_error == (refusal.code is None)
    assert all(word in answer.text for word in refusal.words), answer.text
    assert VALUE.encode() not in answer.raw
    assert LONG[:201].encode() not in answer.raw
    assert len(answer.raw) < 1_300  # problems of arguments are there twice: in words, and with their paths in `_meta`


BROKEN: dict[str, tuple[bytes, str]] = {
    "not_json": (b"{x", "not valid JSON"),
    "empty": (b" ", "not valid JSON"),
    "cut_off": (b'{"jsonrpc":"2.0","id":1,"method":"tools/', "not valid JSON"),
    "not_utf8": (b'{"a":"\xff"}', "UTF-8"),
    "twice": (b'{"a":1,"a":2}', "same key twice"),
    "nul": (b'{"a":"\\u0000"}', "U+0000"),
    "deep": (b"[" * 100 + b"]" * 100, "64 levels"),
    "batch": (b"[]", "one JSON-RPC object"),
    "digits": (b'{"a":' + b"9" * 30 + b"}", "20 digits"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_unparsable_message_gets_an_error_without_id_that_says_what_is_wrong(line: SyncMcpClient, case: str) -> None:
    """What is no message gets an error without an id, and words about what is wrong."""
    body, words = BROKEN[case]
    if case == "empty" and not isinstance(line, SyncHttpMcpClient):
        return  # over stdio an empty line is nothing at all
    answer = line.ask(body)
    assert answer.code in (-32700, -32600)
    assert answer.status in (400, None)
    assert "id" not in answer.message
    assert words in answer.text, answer.text


def with_term(name: str, term: Any) -> Callable[[dict[str, Any]], object]:
    """Change one of the terms that come with a request of the newest revision."""
    return lambda message: message["params"]["_meta"].update({f"{PREFIX}{name}": term})


TERMS = {
    "no_capabilities": Refusal(
        without("params", "_meta", f"{PREFIX}clientCapabilities"), -32602, (f"{PREFIX}clientCapabilities",)
    ),
    "odd_capabilities": Refusal(
        with_term("clientCapabilities", VALUE), -32602, (f"{PREFIX}clientCapabilities", "object")
    ),
    "odd_version": Refusal(with_term("protocolVersion", 1), -32602, (f"{PREFIX}protocolVersion", "string")),
    "other_version": Refusal(with_term("protocolVersion", "2099-01-01"), -32022, ("2099-01-01", *REVISIONS)),
    "odd_level": Refusal(with_term("logLevel", VALUE), -32602, ("log level", "debug", "emergency")),
}


@pytest.mark.parametrize("case", TERMS)
def test_invalid_meta_field_of_the_newest_revision_is_named_in_the_error(server: ServerProcess, case: str) -> None:
    """MCP 2026-07-28: the terms come with every request, and a wrong one is named."""
    corrupt, code, words = TERMS[case]
    body = tool_call(MODERN, "touch")
    corrupt(body)
    version = {"other_version": "2099-01-01", "odd_version": "1"}.get(case, MODERN)
    headers = [("MCP-Protocol-Version", version), ("Mcp-Method", "tools/call"), ("Mcp-Name", "touch")]
    answer = answer_of(fetch(server.port, post(server.port, encoded(body), *headers)))
    if case == "odd_version":  # a header cannot say the same as a number
        assert answer.code in (code, -32020)
    else:
        assert answer.code == code
        assert all(word in answer.text for word in words), answer.text
    assert VALUE.encode() not in answer.raw


@pytest.mark.parametrize("header", ["MCP-Protocol-Version", "Mcp-Method", "Mcp-Name"])
@pytest.mark.parametrize("said", [None, VALUE])
def test_missing_or_different_mcp_header_is_named_without_its_value(
    server: ServerProcess, header: str, said: str | None
) -> None:
    """MCP 2026-07-28: a header that is missing or differs is named; its value is not repeated."""
    body = encoded(tool_call(MODERN, "touch"))
    usual = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "touch"}
    headers = [(name, right if name != header else said) for name, right in usual.items()]
    kept = [(name, value) for name, value in headers if value is not None]
    answer = answer_of(fetch(server.port, post(server.port, body, *kept)))
    assert (answer.status, answer.code) == (400, -32020)
    assert header.lower() in answer.text
    assert ("missing" if said is None else "differs") in answer.text
    assert VALUE.encode() not in answer.raw


SESSIONS: dict[str, tuple[list[Header], int, tuple[str, ...]]] = {
    "none": ([], 400, ("initialize", "Mcp-Session-Id")),
    "unknown": ([("Mcp-Session-Id", VALUE)], 404, ("initialize",)),
    "other_version": ([("MCP-Protocol-Version", "2024-11-05")], 400, ("MCP-Protocol-Version", *LEGACY)),
}


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("case", SESSIONS)
def test_request_without_a_known_session_is_told_to_initialize(server: ServerProcess, case: str, revision: str) -> None:
    """The older revisions need their handshake first, and say so."""
    headers, status, words = SESSIONS[case]
    answer = answer_of(fetch(server.port, post(server.port, encoded(tool_call(revision, "touch")), *headers)))
    assert (answer.status, answer.code) == (status, -32600)
    assert all(word in answer.text for word in words), answer.text
    assert VALUE.encode() not in answer.raw


@pytest.mark.parametrize("revision", LEGACY)
@pytest.mark.parametrize("missing", ["protocolVersion", "capabilities"])
def test_initialize_without_a_required_param_names_it_in_the_error(
    server: ServerProcess, revision: str, missing: str
) -> None:
    """What the handshake lacks is named."""
    body = handshake(revision)
    del body["params"][missing]
    answer = answer_of(fetch(server.port, post(server.port, encoded(body))))
    assert answer.code == -32602
    assert missing in answer.text


@pytest.mark.parametrize("revision", LEGACY)
def test_log_level_that_is_unknown_is_refused_with_the_known_levels(server: ServerProcess, revision: str) -> None:
    """The levels that there are."""
    line = SyncHttpMcpClient(server.port, revision)
    answer = line.ask(encoded(request_in(revision, "logging/setLevel", {"level": VALUE})))
    assert answer.code == -32602
    assert "debug" in answer.text
    assert VALUE.encode() not in answer.raw


OURS: Header = ("Host", HOST)
JSON: Header = ("Content-Type", "application/json")
REFUSED_EARLY: dict[str, tuple[str, list[Header], int, tuple[str, ...]]] = {
    "host": ("POST /mcp", [("Host", "evil.example")], 421, ("evil.example", "allowed_hosts")),
    "no_host": ("POST /mcp", [], 400, ("Host",)),
    "origin": ("POST /mcp", [OURS, ("Origin", "http://evil.example")], 403, ("Origin", "allowed_hosts")),
    "type": ("POST /mcp", [OURS, ("Content-Type", VALUE)], 415, ("application/json",)),
    "coding": ("POST /mcp", [OURS, JSON, ("Content-Encoding", VALUE)], 415, ("Content-Encoding",)),
    "size": ("POST /mcp", [OURS, JSON, ("Content-Length", "9999999")], 413, ("1048576 bytes",)),
    "twice": ("POST /mcp", [OURS, ("Mcp-Name", VALUE), ("Mcp-Name", VALUE)], 400, ("mcp-name", "twice")),
    "method": ("GET /mcp", [OURS], 405, ("POST",)),
    "path": (f"GET /{VALUE}", [OURS], 404, ("/mcp",)),
}


@pytest.mark.parametrize("case", REFUSED_EARLY)
def test_http_request_refused_before_any_dialect_gets_json_that_says_what_to_change(
    server: ServerProcess, case: str
) -> None:
    """What is refused before any dialect speaks is refused in JSON, with what to change."""
    line, headers, status, words = REFUSED_EARLY[case]
    method, _, path = line.partition(" ")
    reply = fetch(server.port, http_request(method, path, headers))
    said = reply.body.decode()
    assert reply.status == status
    assert reply.headers.get("content-type") == "application/json"
    assert all(word in said for word in words), said
    assert VALUE not in said
