"""How each dialect says each way a call can end: dialects.md 5.5 and 5.7, written down apart from the code's tables."""

from typing import NamedTuple

from tests.harness.dialect_clients import OK
from tests.harness.mcp_messages import MODERN


class Row(NamedTuple):
    """One kind of ending. Where a dialect has several words for it, they stand side by side with a bar."""

    mcp: str  # HTTP status and JSON-RPC code, or isError
    oxp: str  # HTTP status, or failed: 200 with success false
    hub: str  # the error's code
    machine: str  # the message's type or the execution's status, and the error's code
    openapi: str  # HTTP status and the error's code
    legacy: str = ""  # MCP before 2026-07-28, where it differs


# A message that is no JSON asks for nothing that anybody could name; only where a path is for calls, it was a call.
NO_CALL = "no call"
ONLY_CALLS = {"oxp", "openapi"}

ROWS = {
    "ok": Row(OK, OK, OK, OK, OK),
    "tool_error": Row("isError", "failed", "TOOL_ERROR", "failure EXECUTION_ERROR", "409 tool_failed"),
    NO_CALL: Row(
        "400 -32700|400 -32600|200 -32602|400 -32602",
        "400",
        "INVALID_REQUEST|INVALID_PARAMS",
        "error VALIDATION_ERROR",
        "400 malformed",
    ),
    "Malformed": Row(
        "200 -32602|400 -32602", "400", "INVALID_REQUEST|INVALID_PARAMS", "error VALIDATION_ERROR", "400 malformed"
    ),
    "NotFound": Row("200 -32602", "400", "TOOL_NOT_FOUND|METHOD_NOT_FOUND", "error NOT_FOUND_ERROR", "404 not_found"),
    "BadArguments": Row("isError", "422", "INVALID_PARAMS", "error VALIDATION_ERROR", "422 bad_arguments"),
    # Only MCP has clients that declare features; elsewhere the tool was entered and could not go on.
    "Unsupported": Row(
        "400 -32021", "failed", "TOOL_ERROR", "failure EXECUTION_ERROR", "400 unsupported", legacy="isError"
    ),
    "Unauthenticated": Row("401 40100", "401", "UNAUTHENTICATED", "error SECURITY_ERROR", "401 unauthenticated"),
    # 5.5 has 403 for MCP; Toolhall says it to the model instead, because a client could not mend it by signing in.
    "Denied": Row("isError Denied", "403", "FORBIDDEN", "error SECURITY_ERROR", "403 denied"),
    "NeedsVerification": Row(
        "isError NeedsVerification",
        "400",
        "APPROVAL_REQUIRED|STEP_UP_REQUIRED",
        "error SECURITY_ERROR",
        "403 needs_verification",
    ),
    "NeedsRequirement": Row(
        "isError NeedsRequirement", "400", "AUTHORIZATION_REQUIRED", "error SECURITY_ERROR", "403 needs_requirement"
    ),
    "Limited": Row("429 42900", "429", "RATE_LIMITED", "error RESOURCE_ERROR", "429 limited"),
    "ToolFailed": Row("isError", "failed", "TOOL_ERROR", "failure EXECUTION_ERROR", "409 tool_failed"),
    "Crashed": Row("isError", "failed", "TOOL_ERROR", "failure EXECUTION_ERROR", "500 crashed"),
    "TimedOut": Row("isError", "failed", "TIMEOUT", "timeout TIMEOUT_ERROR", "504 timed_out"),
    "Cancelled": Row("isError", "failed", "CANCELLED", "cancelled EXECUTION_ERROR", "500 cancelled"),
    "BadOutput": Row("isError", "failed", "INTERNAL_ERROR", "failure EXECUTION_ERROR", "500 bad_output"),
    "Unavailable": Row("isError", "503", "UNAVAILABLE", "error RESOURCE_ERROR", "503 unavailable"),
    "Broken": Row("200 -32603", "500", "INTERNAL_ERROR", "error SYSTEM_ERROR", "500 broken"),
}


def words(kind: str, dialect: str) -> list[str]:
    """What a dialect may say of this ending."""
    row = ROWS[kind]
    name, _, revision = dialect.partition("@")
    said: str = row.legacy if row.legacy and revision not in ("", MODERN) else getattr(row, name)
    return said.split("|")
