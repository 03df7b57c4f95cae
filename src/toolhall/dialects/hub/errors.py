"""How each error of the tree is said by the hub: its own codes for tools and for management, and ours beyond them."""

from collections.abc import Mapping
from typing import ClassVar

import msgspec

from toolhall.dialects.faults import advice_of, problems_of, told, wait_of
from toolhall.model import errors
from toolhall.model.json import JsonObject


class Row(msgspec.Struct, frozen=True):
    """A code, fixed details, and the HTTP status: the hub sends 400 with every error that it knows, else 500."""

    code: str
    http: int = 400
    details: JsonObject = {}


# The hub knows INVALID_REQUEST, TOOL_NOT_FOUND, METHOD_NOT_FOUND, INVALID_PARAMS, TOOL_ERROR and INTERNAL_ERROR; the
# other codes are extensions of ours, each with the HTTP status of its own.
TABLE: dict[type, Row] = {
    errors.Malformed: Row("INVALID_REQUEST"),
    errors.NotFound: Row("TOOL_NOT_FOUND"),
    errors.NotActive: Row("TOOL_ERROR"),
    errors.Retired: Row("TOOL_NOT_FOUND"),
    errors.BadArguments: Row("INVALID_PARAMS"),
    errors.Unsupported: Row("TOOL_ERROR"),
    errors.Unauthenticated: Row("UNAUTHENTICATED", 401),
    errors.Denied: Row("FORBIDDEN", 403),
    errors.NeedsVerification: Row("APPROVAL_REQUIRED", 403),
    errors.NeedsRequirement: Row("AUTHORIZATION_REQUIRED", 403),
    errors.Limited: Row("RATE_LIMITED", 429),
    errors.ToolFailed: Row("TOOL_ERROR"),
    errors.ToolError: Row("TOOL_ERROR"),
    errors.Crashed: Row("TOOL_ERROR"),
    errors.TimedOut: Row("TIMEOUT", 504),
    errors.Cancelled: Row("CANCELLED"),
    errors.BadOutput: Row("INTERNAL_ERROR", 500),
    errors.Unavailable: Row("UNAVAILABLE", 503),
    errors.Broken: Row("INTERNAL_ERROR", 500),
}


_STEP_UP = Row("STEP_UP_REQUIRED", 403)  # the person is known, and verifies again
_NOT_SET_UP = Row("INTERNAL_ERROR", 500)  # a secret, which is no business of the caller

# Of the hub itself: what it does not find was named by a parameter, and TOOL_NOT_FOUND is a code for tool calls only.
MANAGEMENT: dict[type, Row] = TABLE | {
    errors.Malformed: Row("INVALID_PARAMS"),
    errors.NotFound: Row("INVALID_PARAMS"),
}


class HubError(errors.ToolhallError):
    """Something that only the hub tells apart; it brings its own row."""

    row: ClassVar[Row]


class MethodNotFound(HubError, errors.NotFound):
    """The tool is there, the method is not; or the hub has no such method."""

    row = Row("METHOD_NOT_FOUND")


class BadParams(HubError, errors.Malformed):
    """The message is sound, but not what it asks with."""

    row = Row("INVALID_PARAMS")


def say(error: errors.ToolhallError, details: JsonObject, table: Mapping[type, Row] = TABLE) -> tuple[Row, JsonObject]:
    """The row of any error, and the error object."""
    row, message = told(table, error)
    row = _closer(error) or row
    more = row.details | advice_of(error)
    if problems := problems_of(error):
        more["problems"] = problems
    if (wait := wait_of(error)) is not None:
        more["retry_after"] = round(wait, 3)
    if isinstance(error, errors.ToolError):
        more |= {**error.details, "code": error.code}  # the code on top is ours: it tells a client what to do
    return row, {"code": row.code, "message": message, "details": {**more, **details}}


def _closer(error: errors.ToolhallError) -> Row | None:
    """The row of what one class has several codes for."""
    if isinstance(error, HubError):
        return error.row
    if isinstance(error, errors.NeedsVerification) and error.how == "step_up":
        return _STEP_UP
    if isinstance(error, errors.NeedsRequirement) and {each.kind for each in error.missing} == {"secret"}:
        return _NOT_SET_UP
    return None
