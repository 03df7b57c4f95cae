"""REST error table: maps each error to an HTTP status and a code (TABLE), and writes the response (write_error)."""

from toolhall.dialects.error_details import headers_of, hints_of, problems_of, retry_after_of, row_and_message
from toolhall.model import errors
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import WireResponse

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
    # A failure that the tool reports itself is no fault of the server: as in a conflict, the caller may change
    # something and retry.
    errors.ToolFailed: (409, "tool_failed"),
    errors.ToolError: (409, "tool_failed"),
    errors.NotEnded: (409, "tool_failed"),
    errors.Crashed: (500, "crashed"),
    errors.TimedOut: (504, "timed_out"),
    errors.Cancelled: (500, "cancelled"),
    errors.BadOutput: (500, "bad_output"),
    errors.Unavailable: (503, "unavailable"),
    errors.OutcomeUnknown: (500, "outcome_unknown"),
    errors.Broken: (500, "broken"),
}


def write_error(error: errors.ToolhallError) -> WireResponse:
    """The response to any error; an unlisted class is written like its nearest listed base class."""
    (status, code), message = row_and_message(TABLE, error)
    body: JsonObject = {"code": code, "message": message}
    details = hints_of(error)
    if "can_retry" in details and (wait := retry_after_of(error)) is not None:
        details["retry_after"] = wait
    if problems := problems_of(error):
        details["problems"] = problems
    if details:
        body["details"] = details
    return WireResponse(encode({"error": body}), status, headers_of(error))
