"""OXP error table: maps each error to an HTTP error response, or to a result with `success: false`."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from toolhall.dialects.error_details import (
    Headers,
    headers_of,
    hints_of,
    milliseconds,
    problem_parameter,
    retry_after_of,
    row_and_message,
)
from toolhall.model import errors
from toolhall.model.json import JsonObject


class OxpErrorResponse(msgspec.Struct, frozen=True):
    """An HTTP error response."""

    status: int
    body: JsonObject
    headers: Headers = ()


class OxpErrorResult(msgspec.Struct, frozen=True):
    """A failed run of the tool: 200 with `success: false`."""

    error: JsonObject


OxpError: TypeAlias = OxpErrorResponse | OxpErrorResult
ErrorTranslator: TypeAlias = Callable[[errors.ToolhallError, str], OxpError]
_CHALLENGE_MEMBERS = ("id", "url", "check_url")


def translate_error(error: errors.ToolhallError) -> OxpError:
    """The wire form of any error."""
    row, message = row_and_message(TABLE, error)
    return row(error, message)


def _error_response(status: int) -> ErrorTranslator:
    def translate(error: errors.ToolhallError, message: str) -> OxpError:
        return OxpErrorResponse(status, {"message": message}, headers_of(error))

    return translate


def _retryable_response(status: int) -> ErrorTranslator:
    """A server error with OXP's retry hints, which it may carry as an open object; they are meant for tool failures."""

    def translate(error: errors.ToolhallError, message: str) -> OxpError:
        hints = {"can_retry": True, "retry_after_ms": milliseconds(retry_after_of(error) or 0)}
        return OxpErrorResponse(status, {"message": message, **hints}, headers_of(error))

    return translate


def _verification(error: errors.ToolhallError, message: str) -> OxpError:
    """A challenge, as for an account that is not linked: the page to visit, and where its status can be polled."""
    hints = hints_of(error)
    page = {"id": hints["id"], "url": hints["url"], "check_url": f"{hints['url']}/status"} if hints else None
    return OxpErrorResponse(
        400, {"message": message, "missing_requirements": {"authorization": [page] if page else []}}
    )


def _requirement(error: errors.ToolhallError, message: str) -> OxpError:
    """The missing requirements by kind; OXP has no member for secrets, but leaves the object open."""
    missing = hints_of(error).get("missing", [])
    # A challenge is a closed object that requires a page; an account without one is named in the message only.
    pages = [{key: requirement[key] for key in _CHALLENGE_MEMBERS} for requirement in missing if "url" in requirement]
    secrets = [{"id": requirement["id"]} for requirement in missing if requirement["kind"] == "secret"]
    members: JsonObject = {"authorization": pages} if pages else {}
    members |= {"user_id": True} if any(requirement["kind"] == "user_id" for requirement in missing) else {}
    return OxpErrorResponse(
        400, {"message": message, "missing_requirements": members | ({"secrets": secrets} if secrets else {})}
    )


def _bad_arguments(error: errors.ToolhallError, message: str) -> OxpError:
    by_name: dict[str, list[str]] = {}
    for problem in error.problems if isinstance(error, errors.BadArguments) else ():
        name, inside = problem_parameter(problem)
        by_name.setdefault(name, []).append(f"{inside}: {problem.reason}" if inside else problem.reason)
    listed = {name: "; ".join(reasons) for name, reasons in by_name.items()}
    return OxpErrorResponse(422, {"message": message, "parameter_errors": listed})


def _tool_failure(error: errors.ToolhallError, message: str) -> OxpError:
    """A failure of the tool; not retryable unless the tool says so, because it is unknown how far it came."""
    advice = hints_of(error)
    failure: JsonObject = {"message": message, "can_retry": advice.get("can_retry", False)}
    if (wait := retry_after_of(error)) is not None:
        failure["retry_after_ms"] = milliseconds(wait)
    if "prompt" in advice:
        failure["additional_prompt_content"] = advice["prompt"]
    return OxpErrorResult(failure)


TABLE: dict[type, ErrorTranslator] = {
    errors.Malformed: _error_response(400),
    errors.NotFound: _error_response(400),
    errors.NotActive: _error_response(400),
    errors.Retired: _error_response(400),
    errors.BadArguments: _bad_arguments,
    errors.Unsupported: _tool_failure,  # the tool ran until it needed what OXP cannot do
    errors.Unauthenticated: _error_response(401),
    errors.Denied: _error_response(403),
    errors.NeedsVerification: _verification,
    errors.NeedsRequirement: _requirement,
    errors.Limited: _retryable_response(429),
    errors.ToolFailed: _tool_failure,
    errors.ToolError: _tool_failure,
    errors.NotEnded: _tool_failure,
    errors.Crashed: _tool_failure,
    errors.TimedOut: _tool_failure,
    errors.Cancelled: _tool_failure,
    errors.BadOutput: _tool_failure,
    errors.Unavailable: _retryable_response(503),
    errors.OutcomeUnknown: _error_response(500),
    errors.Broken: _error_response(500),
}
