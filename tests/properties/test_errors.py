"""Properties of errors: valid JSON-RPC in every revision, and nothing internal in any of them."""

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from toolhall.dialects.mcp.protocol import REVISIONS, McpRefusal
from toolhall.dialects.mcp.responses import McpEncoder, ServerInfo
from toolhall.model import errors

MESSAGE = jsonschema.Draft202012Validator(
    {
        "type": "object",
        "properties": {
            "jsonrpc": {"const": "2.0"},
            "id": {"type": ["string", "integer"]},
            "result": {"type": "object"},
            "error": {
                "type": "object",
                "properties": {"code": {"type": "integer"}, "message": {"type": "string", "minLength": 1}, "data": {}},
                "required": ["code", "message"],
                "additionalProperties": False,
            },
        },
        "required": ["jsonrpc"],
        "oneOf": [{"required": ["result", "id"]}, {"required": ["error"]}],
        "additionalProperties": False,
    }
)
RESULT = jsonschema.Draft202012Validator(
    {
        "properties": {
            "isError": {"const": True},
            "content": {
                "minItems": 1,
                "items": {
                    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                    "required": ["type", "text"],
                },
            },
        },
        "required": ["content", "isError"],
    }
)
WRITERS = [McpEncoder(ServerInfo(name="hall", version="1"), revision) for revision in REVISIONS.values()]
CANARY = "hunter2hunter2"

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
problems = st.lists(st.builds(errors.Problem, text, text), max_size=3)
plain = st.sampled_from(
    [
        errors.Malformed,
        errors.NotFound,
        errors.Unauthenticated,
        errors.Denied,
        errors.NeedsVerification,
        errors.NeedsRequirement,
        errors.ToolFailed,
        errors.TimedOut,
        errors.Cancelled,
        errors.BadOutput,
        errors.Unavailable,
        errors.Broken,
        errors.Refused,
        errors.Failed,
        errors.ToolhallError,
    ]
)


def plain_error(kind: type[errors.ToolhallError], message: str | None, detail: str | None) -> errors.ToolhallError:
    return kind(message, detail=detail)


detail = st.none() | st.just(CANARY)
every_error: st.SearchStrategy[errors.ToolhallError] = st.one_of(
    st.builds(plain_error, plain, st.none() | text, detail),
    st.builds(errors.BadArguments, problems, detail=detail),
    st.builds(errors.Limited, st.floats(0, 1e6), detail=detail),
    st.builds(
        errors.Unsupported, st.sampled_from(["elicitation", "elicitation.url", "sampling", "roots"]), detail=detail
    ),
    st.builds(McpRefusal, st.sampled_from([-32700, -32600, -32601, -32602, -32020, -32022]), text.filter(bool)),
)
ids = st.integers(-(2**63), 2**63) | text | st.none()


@given(every_error, ids)
def test_mcp_error_is_valid_json_rpc_without_details_in_every_revision(
    error: errors.ToolhallError, request_id: Any
) -> None:
    for writer in WRITERS:
        wire = writer.error(request_id, error)
        message = json.loads(wire.body)
        MESSAGE.validate(message)
        assert message.get("id") == request_id
        assert b"\n" not in wire.body
        assert CANARY.encode() not in wire.body
        assert 200 <= wire.status < 600
        if "result" in message:
            RESULT.validate(message["result"])
            assert wire.status == 200
