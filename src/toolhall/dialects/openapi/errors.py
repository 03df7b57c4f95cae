"""How each error of the tree is said over plain REST: a status, a code, a message, and details that help."""

from toolhall.dialects.faults import advice_of, headers_of, problems_of, told, wait_of
from toolhall.model import errors
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode

TABLE: dict[type, tuple[int, str]] = {
    errors.Malformed: (400, "malformed"),
    errors.NotFound: (404, "not_found"),
    errors.NotActive: (404, "not_active"),
    errors.Retired: (410, "retired"),
    errors.BadArguments: (422, "bad_arguments"),
    errors.Unsupported: (400, "unsupported"),
    errors.Unauthenticated: (401, "unauthenticated"),
    errors.Denied: (403, "denied"),
    errors.NeedsVerification: (403, "needs_verification"),
    errors.NeedsRequirement: (403, "needs_requirement"),
    errors.Limited: (429, "limited"),
    # What a tool says of itself is no fault of the server: like a conflict, the caller may change something and retry.
    errors.ToolFailed: (409, "tool_failed"),
    errors.ToolError: (409, "tool_failed"),
    errors.Crashed: (500, "crashed"),
    errors.TimedOut: (504, "timed_out"),
    errors.Cancelled: (500, "cancelled"),
    errors.BadOutput: (500, "bad_output"),
    errors.Unavailable: (503, "unavailable"),
    errors.Broken: (500, "broken"),
}


def write_error(error: errors.ToolhallError) -> Wire:
    """Any error; a subclass is said like its nearest listed ancestor."""
    (status, code), message = told(TABLE, error)
    body: JsonObject = {"code": code, "message": message}
    details = advice_of(error)
    if "can_retry" in details and (wait := wait_of(error)) is not None:
        details["retry_after"] = wait
    if problems := problems_of(error):
        details["problems"] = problems
    if details:
        body["details"] = details
    return Wire(encode({"error": body}), status, headers_of(error))
