"""Machine Context error table: maps each error to a code, an HTTP status and an execution status (MachineErrorRow)."""

import msgspec

from toolhall.dialects.error_details import (
    MAX_PROBLEMS,
    hints_of,
    milliseconds,
    problem_parameter,
    problems_of,
    retry_after_of,
    row_and_message,
)
from toolhall.model import errors
from toolhall.model.json import JsonObject


class MachineErrorRow(msgspec.Struct, frozen=True):
    """A code, the HTTP status of an error message, and what is the same for every error of a class."""

    code: str
    http: int
    # A failure of a running capability is a response with this status; None: an error message.
    status: str | None = None
    reason: str | None = None


TABLE: dict[type, MachineErrorRow] = {
    errors.Malformed: MachineErrorRow("VALIDATION_ERROR", 400),
    errors.NotFound: MachineErrorRow("NOT_FOUND_ERROR", 404),
    errors.NotActive: MachineErrorRow("RESOURCE_ERROR", 409),
    errors.Retired: MachineErrorRow("NOT_FOUND_ERROR", 410),
    errors.BadArguments: MachineErrorRow("VALIDATION_ERROR", 400),
    errors.Unsupported: MachineErrorRow("EXECUTION_ERROR", 200, "failure"),
    errors.Unauthenticated: MachineErrorRow("SECURITY_ERROR", 401, reason="not_authenticated"),
    errors.Denied: MachineErrorRow("SECURITY_ERROR", 403, reason="not_permitted"),
    errors.NeedsVerification: MachineErrorRow("SECURITY_ERROR", 403, reason="additional_verification_required"),
    errors.NeedsRequirement: MachineErrorRow("SECURITY_ERROR", 403, reason="requirement_missing"),
    errors.Limited: MachineErrorRow("RESOURCE_ERROR", 429),
    errors.ToolFailed: MachineErrorRow("EXECUTION_ERROR", 200, "failure"),
    errors.ToolError: MachineErrorRow("EXECUTION_ERROR", 200, "failure"),
    errors.NotEnded: MachineErrorRow("RESOURCE_ERROR", 200, "running"),
    errors.Crashed: MachineErrorRow("EXECUTION_ERROR", 200, "failure"),
    errors.TimedOut: MachineErrorRow("TIMEOUT_ERROR", 200, "timeout"),
    errors.Cancelled: MachineErrorRow("EXECUTION_ERROR", 200, "cancelled"),
    errors.BadOutput: MachineErrorRow("EXECUTION_ERROR", 200, "failure"),
    errors.Unavailable: MachineErrorRow("RESOURCE_ERROR", 503),
    errors.OutcomeUnknown: MachineErrorRow("SYSTEM_ERROR", 500),
    errors.Broken: MachineErrorRow("SYSTEM_ERROR", 500),
}
_UNEXPECTED_PROPERTIES = ("Additional properties", "Unevaluated properties")  # the validator's wording


def translate_error(error: errors.ToolhallError) -> tuple[MachineErrorRow, JsonObject]:
    """The row of any error, and the error object."""
    row, message = row_and_message(TABLE, error)
    return row, {"code": row.code, "message": message, "details": _details(error, row)}


def _details(error: errors.ToolhallError, row: MachineErrorRow) -> JsonObject:
    if isinstance(error, errors.BadArguments) and error.problems:
        return _bad_parameters(error.problems)
    if problems := problems_of(error):
        return {"problems": problems}
    details: JsonObject = {} if row.reason is None else {"reason": row.reason}
    if (wait := retry_after_of(error)) is not None:
        details["retry_after_ms"] = milliseconds(wait)
    return details | hints_of(error)


def _bad_parameters(problems: tuple[errors.Problem, ...]) -> JsonObject:
    """The specification has members for one bad parameter; `problems`, the list of all, is an extension."""
    listed = [
        {"parameter": problem_parameter(problem)[0], "reason": problem.reason, "path": problem.path}
        for problem in problems[:MAX_PROBLEMS]
    ]
    name, reason = listed[0]["parameter"], listed[0]["reason"]
    return {"parameter": name, "reason": reason, "suggestion": _suggestion(name, reason), "problems": listed}


def _suggestion(name: str, reason: str) -> str:
    if reason.startswith(_UNEXPECTED_PROPERTIES):
        return f"leave out {name!r}" if name else "leave out what the capability's definition does not name"
    what = f"the parameter {name!r}" if name else "the parameters"
    return f"send {what} as the capability's definition describes"
