"""The hub's error codes: five for tools, the core's for management, and ours where it has none."""

from toolhall.model import errors
from toolhall.model.json import JsonObject

# Beyond the seed's five codes for tools, those in capitals below that it does not know are extensions of ours.
CODES: dict[type, str] = {
    errors.Malformed: "INVALID_REQUEST",
    errors.NotFound: "TOOL_NOT_FOUND",
    errors.BadArguments: "INVALID_PARAMS",
    errors.Unsupported: "TOOL_ERROR",
    errors.Unauthenticated: "UNAUTHENTICATED",
    errors.Denied: "FORBIDDEN",
    errors.NeedsVerification: "APPROVAL_REQUIRED",
    errors.NeedsRequirement: "AUTHORIZATION_REQUIRED",
    errors.Limited: "RATE_LIMITED",
    errors.ToolFailed: "TOOL_ERROR",
    errors.TimedOut: "TIMEOUT",
    errors.Cancelled: "CANCELLED",
    errors.BadOutput: "INTERNAL_ERROR",
    errors.Unavailable: "UNAVAILABLE",
    errors.Broken: "INTERNAL_ERROR",
}
_STATUSES = {"INVALID_REQUEST": 400, "UNAUTHENTICATED": 401, "FORBIDDEN": 403, "RATE_LIMITED": 429}
TABLE = CODES


class MethodNotFound(errors.NotFound):
    """The tool is there, the method is not; or the hub has no such method."""


def code_of(error: errors.ToolhallError) -> str:
    """The code for any error; a subclass has its nearest listed ancestor's."""
    if isinstance(error, MethodNotFound):
        return "METHOD_NOT_FOUND"
    for kind in type(error).__mro__:
        if kind in CODES:
            return CODES[kind]
    return CODES[errors.Broken]


def status_of(error: errors.ToolhallError) -> int:
    """The HTTP status an error travels with; what a tool says of itself is 200."""
    return _STATUSES.get(code_of(error), 200)


def say(error: errors.ToolhallError, details: JsonObject) -> JsonObject:
    """The error object of a response."""
    more: JsonObject = {}
    if isinstance(error, errors.BadArguments):
        more["problems"] = [{"path": problem.path, "reason": problem.reason} for problem in error.problems]
    if isinstance(error, errors.Limited):
        more["retry_after"] = round(error.retry_after, 3)
    return {"code": code_of(error), "message": error.message, "details": {**details, **more}}
