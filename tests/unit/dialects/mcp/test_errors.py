"""The MCP form of each error."""

from tests.tables import each_row
from toolhall.dialects.mcp.errors import ErrorResult, McpError, ProtocolError, translate_error
from toolhall.dialects.mcp.protocol import header_mismatch, invalid_params, method_not_found, unsupported_version
from toolhall.model import errors

CASES: list[tuple[errors.ToolhallError, McpError]] = [
    (errors.Malformed("bad cursor"), ProtocolError(-32602, "bad cursor")),
    (errors.NotFound("unknown tool: x"), ProtocolError(-32602, "unknown tool: x")),
    (
        errors.BadArguments([errors.Problem("/a", "is wrong")]),
        ErrorResult(
            "the arguments do not match the tool's input schema: /a: is wrong",
            {"dev.toolhall/problems": [{"path": "/a", "reason": "is wrong"}]},
        ),
    ),
    (
        errors.Unsupported("elicitation"),
        ProtocolError(
            -32021,
            "this tool needs a client that supports elicitation",
            {"requiredCapabilities": {"elicitation": {}}},
            400,
        ),
    ),
    (
        errors.Unsupported("elicitation.url"),
        ProtocolError(
            -32021,
            "this tool needs a client that supports elicitation.url",
            {"requiredCapabilities": {"elicitation": {"url": {}}}},
            400,
        ),
    ),
    (
        errors.Unauthenticated(),
        ProtocolError(40100, "a valid credential is required", None, 401, ((b"www-authenticate", b"Bearer"),)),
    ),
    (errors.Denied("not yours"), ErrorResult("not yours", {"dev.toolhall/refused": "Denied"})),
    (errors.NeedsVerification("ask first"), ErrorResult("ask first", {"dev.toolhall/refused": "NeedsVerification"})),
    (errors.NeedsRequirement("no key"), ErrorResult("no key", {"dev.toolhall/refused": "NeedsRequirement"})),
    (
        errors.Limited(1.2),
        ProtocolError(
            42900, "too many calls: try again in 1.2 seconds", {"retryAfterMs": 1201}, 429, ((b"retry-after", b"2"),)
        ),
    ),
    (
        errors.Limited(0.01),
        ProtocolError(
            42900, "too many calls: try again in 0.0 seconds", {"retryAfterMs": 11}, 429, ((b"retry-after", b"1"),)
        ),
    ),
    (errors.ToolFailed("it is full"), ErrorResult("it is full")),
    (errors.TimedOut(), ErrorResult("the tool did not finish in time")),
    (errors.Cancelled(), ErrorResult("the call was cancelled")),
    (errors.BadOutput(), ErrorResult("the tool returned something other than it promises")),
    (errors.Unavailable(), ErrorResult("the tool is not available now")),
    (errors.Broken("hunter2"), ProtocolError(-32603, "internal error; the details are in the server's log")),
    (method_not_found("foo/bar"), ProtocolError(-32601, "there is no method 'foo/bar' here", None, 404)),
    (invalid_params("no"), ProtocolError(-32602, "no")),
    (invalid_params("no", status=400), ProtocolError(-32602, "no", None, 400)),
    (header_mismatch("no"), ProtocolError(-32020, "no", None, 400)),
    (
        unsupported_version("1.0"),
        ProtocolError(
            -32022,
            "protocol version '1.0' is not supported; use one of 2026-07-28, 2025-11-25, 2025-06-18",
            {"supported": ["2026-07-28", "2025-11-25", "2025-06-18"], "requested": "1.0"},
            400,
        ),
    ),
]


@each_row(("error", "said"), CASES)
def test_translate_error_each_error_has_its_form(error: errors.ToolhallError, said: McpError) -> None:
    assert translate_error(error) == said


@each_row("error", [case for case, _ in CASES])
def test_translate_error_never_leaks_detail(error: errors.ToolhallError) -> None:
    error.detail = "hunter2"
    assert "hunter2" not in str(translate_error(error))


def test_error_codes_are_outside_reserved_range() -> None:
    """M-8: never -32002 or -32042, nothing undefined in -32000..-32099."""
    codes = {said.code for error, _ in CASES if isinstance(said := translate_error(error), ProtocolError)}
    assert {code for code in codes if -32099 <= code <= -32000} == {-32020, -32021, -32022}


def test_error_messages_truncate_long_names() -> None:
    assert len(method_not_found("x" * 1_000).message) < 100
    assert len(unsupported_version("x" * 1_000).message) < 150
