"""How each error of the tree is said in Machine Context: a code, and whether the capability had been entered."""

import msgspec

from toolhall.dialects.faults import MOST_PROBLEMS, advice_of, milliseconds, parameter_of, problems_of, told, wait_of
from toolhall.model import errors
from toolhall.model.json import JsonObject


class Row(msgspec.Struct, frozen=True):
    """A code, the HTTP status of an error message, and what is the same for every error of a class."""

    code: str
    http: int
    # Once the capability was entered, a failure is a response with a status; before, it is an error message.
    status: str | None = None
    reason: str | None = None


TABLE: dict[type, Row] = {
    errors.Malformed: Row("VALIDATION_ERROR", 400),
    errors.NotFound: Row("NOT_FOUND_ERROR", 404),
    errors.NotActive: Row("RESOURCE_ERROR", 409),
    errors.Retired: Row("NOT_FOUND_ERROR", 410),
    errors.BadArguments: Row("VALIDATION_ERROR", 400),
    errors.Unsupported: Row("EXECUTION_ERROR", 200, "failure"),
    errors.Unauthenticated: Row("SECURITY_ERROR", 401, reason="not_authenticated"),
    errors.Denied: Row("SECURITY_ERROR", 403, reason="not_permitted"),
    errors.NeedsVerification: Row("SECURITY_ERROR", 403, reason="additional_verification_required"),
    errors.NeedsRequirement: Row("SECURITY_ERROR", 403, reason="requirement_missing"),
    errors.Limited: Row("RESOURCE_ERROR", 429),
    errors.ToolFailed: Row("EXECUTION_ERROR", 200, "failure"),
    errors.ToolError: Row("EXECUTION_ERROR", 200, "failure"),
    errors.Crashed: Row("EXECUTION_ERROR", 200, "failure"),
    errors.TimedOut: Row("TIMEOUT_ERROR", 200, "timeout"),
    errors.Cancelled: Row("EXECUTION_ERROR", 200, "cancelled"),
    errors.BadOutput: Row("EXECUTION_ERROR", 200, "failure"),
    errors.Unavailable: Row("RESOURCE_ERROR", 503),
    errors.Broken: Row("SYSTEM_ERROR", 500),
}


_UNEXPECTED = ("Additional properties", "Unevaluated properties")  # as the validator says it


def say(error: errors.ToolhallError) -> tuple[Row, JsonObject]:
    """The row of any error, and the error object."""
    row, message = told(TABLE, error)
    return row, {"code": row.code, "message": message, "details": _details(error, row)}


def _details(error: errors.ToolhallError, row: Row) -> JsonObject:
    if isinstance(error, errors.BadArguments) and error.problems:
        return _bad_parameters(error.problems)
    if problems := problems_of(error):
        return {"problems": problems}
    details: JsonObject = {} if row.reason is None else {"reason": row.reason}
    if (wait := wait_of(error)) is not None:
        details["retry_after_ms"] = milliseconds(wait)
    return details | advice_of(error)


def _bad_parameters(problems: tuple[errors.Problem, ...]) -> JsonObject:
    """The specification has room for one bad parameter; the list of all is ours."""
    listed = [
        {"parameter": parameter_of(each)[0], "reason": each.reason, "path": each.path}
        for each in problems[:MOST_PROBLEMS]
    ]
    name, reason = listed[0]["parameter"], listed[0]["reason"]
    return {"parameter": name, "reason": reason, "suggestion": _suggestion(name, reason), "problems": listed}


def _suggestion(name: str, reason: str) -> str:
    if reason.startswith(_UNEXPECTED):
        return f"leave out {name!r}" if name else "leave out what the capability's definition does not name"
    what = f"the parameter {name!r}" if name else "the parameters"
    return f"send {what} as the capability's definition describes"
