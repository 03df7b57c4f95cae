"""Machine Context's error codes, and which errors happen before and after a capability was entered."""

from toolhall.model import errors
from toolhall.model.json import JsonObject

CODES: dict[type, str] = {
    errors.Malformed: "VALIDATION_ERROR",
    errors.NotFound: "NOT_FOUND_ERROR",
    errors.BadArguments: "VALIDATION_ERROR",
    errors.Unsupported: "EXECUTION_ERROR",
    errors.Unauthenticated: "SECURITY_ERROR",
    errors.Denied: "SECURITY_ERROR",
    errors.NeedsVerification: "SECURITY_ERROR",
    errors.NeedsRequirement: "SECURITY_ERROR",
    errors.Limited: "RESOURCE_ERROR",
    errors.ToolFailed: "EXECUTION_ERROR",
    errors.TimedOut: "TIMEOUT_ERROR",
    errors.Cancelled: "EXECUTION_ERROR",
    errors.BadOutput: "EXECUTION_ERROR",
    errors.Unavailable: "RESOURCE_ERROR",
    errors.Broken: "SYSTEM_ERROR",
}
TABLE = CODES
_REASONS: dict[type, str] = {
    errors.Unauthenticated: "not_authenticated",
    errors.Denied: "not_permitted",
    errors.NeedsVerification: "additional_verification_required",
    errors.NeedsRequirement: "requirement_missing",
}
# Once the capability was entered, a failure is a response with a status; before, it is an error message.
STATUSES: dict[type, str] = {
    errors.ToolFailed: "failure",
    errors.BadOutput: "failure",
    errors.Unsupported: "failure",
    errors.TimedOut: "timeout",
    errors.Cancelled: "cancelled",
}


def say(error: errors.ToolhallError) -> JsonObject:
    """The error object."""
    for kind in type(error).__mro__:
        if kind in CODES:
            return {"code": CODES[kind], "message": error.message, "details": _details(error, kind)}
    return {"code": CODES[errors.Broken], "message": errors.Broken.message, "details": {}}


def _details(error: errors.ToolhallError, kind: type) -> JsonObject:
    if isinstance(error, errors.BadArguments) and error.problems:
        first = error.problems[0]
        listed = [{"parameter": problem.path, "reason": problem.reason} for problem in error.problems]
        suggestion = "send parameters that match the capability's definition"
        return {"parameter": first.path, "reason": first.reason, "suggestion": suggestion, "problems": listed}
    if isinstance(error, errors.Limited):
        return {"retry_after_ms": int(error.retry_after * 1000) + 1}
    return {"reason": _REASONS[kind]} if kind in _REASONS else {}


def execution_status(error: errors.ToolhallError) -> str | None:
    """The status of an execution that began and ended with this error; None if it never began."""
    for kind in type(error).__mro__:
        if kind in STATUSES:
            return STATUSES[kind]
    return None
