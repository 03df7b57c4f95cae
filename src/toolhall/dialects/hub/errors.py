"""Hub error tables: map each error to a code, fixed details and an HTTP status (HubErrorRow).

TABLE is for clients of the hub, MANAGEMENT_TABLE for requests to the hub itself, and TOOL_SERVER_TABLE for calls
between a hall and a tool server, which tell apart what a client need not know.
"""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from toolhall.dialects.error_details import hints_of, problems_of, retry_after_of, row_and_message
from toolhall.model import errors
from toolhall.model.json import JsonObject


class HubErrorRow(msgspec.Struct, frozen=True):
    """A code, fixed details, and the HTTP status: the hub sends 400 with every code it knows, else 500."""

    code: str
    http: int = 400
    details: JsonObject = {}


# The hub defines INVALID_REQUEST, TOOL_NOT_FOUND, METHOD_NOT_FOUND, INVALID_PARAMS, TOOL_ERROR and INTERNAL_ERROR;
# the other codes are extensions, each with an HTTP status of its own.
TABLE: dict[type, HubErrorRow] = {
    errors.Malformed: HubErrorRow("INVALID_REQUEST"),
    errors.NotFound: HubErrorRow("TOOL_NOT_FOUND"),
    errors.NotActive: HubErrorRow("TOOL_ERROR"),
    errors.Retired: HubErrorRow("TOOL_NOT_FOUND"),
    errors.BadArguments: HubErrorRow("INVALID_PARAMS"),
    errors.Unsupported: HubErrorRow("TOOL_ERROR"),
    errors.Unauthenticated: HubErrorRow("UNAUTHENTICATED", 401),
    errors.Denied: HubErrorRow("FORBIDDEN", 403),
    errors.NeedsVerification: HubErrorRow("APPROVAL_REQUIRED", 403),
    errors.NeedsRequirement: HubErrorRow("AUTHORIZATION_REQUIRED", 403),
    errors.Limited: HubErrorRow("RATE_LIMITED", 429),
    errors.ToolFailed: HubErrorRow("TOOL_ERROR"),
    errors.ToolError: HubErrorRow("TOOL_ERROR"),
    errors.NotEnded: HubErrorRow("TOOL_ERROR"),
    errors.Crashed: HubErrorRow("TOOL_ERROR"),
    errors.TimedOut: HubErrorRow("TIMEOUT", 504),
    errors.Cancelled: HubErrorRow("CANCELLED"),
    errors.BadOutput: HubErrorRow("INTERNAL_ERROR", 500),
    errors.Unavailable: HubErrorRow("UNAVAILABLE", 503),
    errors.OutcomeUnknown: HubErrorRow("INTERNAL_ERROR", 500),
    errors.Broken: HubErrorRow("INTERNAL_ERROR", 500),
}
# Requests to the hub itself name things in their params, and TOOL_NOT_FOUND is a code for tool calls only.
MANAGEMENT_TABLE: dict[type, HubErrorRow] = TABLE | {
    errors.Malformed: HubErrorRow("INVALID_PARAMS"),
    errors.NotFound: HubErrorRow("INVALID_PARAMS"),
}
TOOL_SERVER_TABLE: dict[type, HubErrorRow] = TABLE | {
    errors.NotActive: HubErrorRow("TOOL_NOT_FOUND"),
    errors.Unsupported: HubErrorRow("UNSUPPORTED"),
    errors.NeedsVerification: HubErrorRow("FORBIDDEN", 403),
    errors.NeedsRequirement: HubErrorRow("FORBIDDEN", 403),
    errors.Crashed: HubErrorRow("INTERNAL_ERROR", 500),
    errors.BadOutput: HubErrorRow("BAD_OUTPUT", 500),
}
_STEP_UP = HubErrorRow("STEP_UP_REQUIRED", 403)  # the person is known, and has to verify again
_SECRET_MISSING = HubErrorRow("INTERNAL_ERROR", 500)  # an operator must set it; the caller cannot help


class HubError(errors.ToolhallError):
    """An error that only the hub distinguishes; has its own row."""

    row: ClassVar[HubErrorRow]


class MethodNotFound(HubError, errors.NotFound):
    """The tool exists but the method does not, or the hub has no such method."""

    row = HubErrorRow("METHOD_NOT_FOUND")


class BadParams(HubError, errors.Malformed):
    """The message is valid, but its params are not."""

    row = HubErrorRow("INVALID_PARAMS")


def translate_error(
    error: errors.ToolhallError, details: JsonObject, table: Mapping[type, HubErrorRow] = TABLE
) -> tuple[HubErrorRow, JsonObject]:
    """The row of any error, and the error object."""
    row, message = row_and_message(table, error)
    row = _specific_row(error) or row
    all_details = row.details | hints_of(error)
    if problems := problems_of(error):
        all_details["problems"] = problems
    if (wait := retry_after_of(error)) is not None:
        all_details["retry_after"] = round(wait, 3)
    if isinstance(error, errors.ToolError):
        # The top-level code is the hub's, because clients act on it; the tool's own code goes to the details.
        all_details |= {**error.details, "code": error.code}
    return row, {"code": row.code, "message": message, "details": {**all_details, **details}}


def _specific_row(error: errors.ToolhallError) -> HubErrorRow | None:
    """The row of an error whose class has several codes."""
    if isinstance(error, HubError):
        return error.row
    if isinstance(error, errors.NeedsVerification) and error.how == "step_up":
        return _STEP_UP
    if isinstance(error, errors.NeedsRequirement) and {each.kind for each in error.missing} == {"secret"}:
        return _SECRET_MISSING
    return None
