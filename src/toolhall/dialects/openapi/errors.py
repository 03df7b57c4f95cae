"""How each error of the tree is said over plain REST: a status, a code, a message, and details that help."""

from toolhall.model import errors
from toolhall.model.exchange import Wire
from toolhall.model.json import JsonObject, encode

TABLE: dict[type, tuple[int, str]] = {
    errors.Malformed: (400, "malformed"),
    errors.NotFound: (404, "not_found"),
    errors.BadArguments: (422, "bad_arguments"),
    errors.Unsupported: (400, "unsupported"),
    errors.Unauthenticated: (401, "unauthenticated"),
    errors.Denied: (403, "denied"),
    errors.NeedsVerification: (403, "needs_verification"),
    errors.NeedsRequirement: (403, "needs_requirement"),
    errors.Limited: (429, "limited"),
    errors.ToolFailed: (500, "tool_failed"),
    errors.TimedOut: (504, "timed_out"),
    errors.Cancelled: (500, "cancelled"),
    errors.BadOutput: (500, "bad_output"),
    errors.Unavailable: (503, "unavailable"),
    errors.Broken: (500, "broken"),
}


def write_error(error: errors.ToolhallError) -> Wire:
    """Any error; a subclass is said like its nearest listed ancestor."""
    status, code = next((TABLE[kind] for kind in type(error).__mro__ if kind in TABLE), TABLE[errors.Broken])
    body: JsonObject = {"code": code, "message": error.message}
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if isinstance(error, errors.BadArguments):
        problems = [{"path": problem.path, "reason": problem.reason} for problem in error.problems]
        body["details"] = {"problems": problems}
    if isinstance(error, errors.Limited):
        headers = ((b"retry-after", str(max(1, int(error.retry_after + 0.999))).encode()),)
    if isinstance(error, errors.Unauthenticated):
        headers = ((b"www-authenticate", b"Bearer"),)
    return Wire(encode({"error": body}), status, headers)
