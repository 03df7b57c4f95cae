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
    """An answer that is not a result."""

    status: int
    body: JsonObject
    headers: Headers = ()


class OxpErrorResult(msgspec.Struct, frozen=True):
    """The tool ran and failed: 200 with `success: false`."""

    error: JsonObject


OxpError: TypeAlias = OxpErrorResponse | OxpErrorResult
ErrorTranslator: TypeAlias = Callable[[errors.ToolhallError, str], OxpError]
_CHALLENGE_MEMBERS = ("id", "url", "check_url")


def translate_error(error: errors.ToolhallError) -> OxpError:
    """The wire form of any error."""
    row, message = row_and_message(TABLE, error)
    return row(error, message)


def _error_response(status: int) -> ErrorTranslator:
    def say_so(error: errors.ToolhallError, message: str) -> OxpError:
        return OxpErrorResponse(status, {"message": message}, headers_of(error))

    return say_so


def _retryable_response(status: int) -> ErrorTranslator:
    """The hints that OXP has for a tool's own failure; a server error is an open object, so it may carry them too."""

    def say_so(error: errors.ToolhallError, message: str) -> OxpError:
        hints = {"can_retry": True, "retry_after_ms": milliseconds(retry_after_of(error) or 0)}
        return OxpErrorResponse(status, {"message": message, **hints}, headers_of(error))

    return say_so


def _verification(error: errors.ToolhallError, message: str) -> OxpError:
    """A challenge, as for an account that is not linked yet: where a person verifies it, and where to ask whether."""
    said = hints_of(error)
    page = {"id": said["id"], "url": said["url"], "check_url": f"{said['url']}/status"} if said else None
    return OxpErrorResponse(
        400, {"message": message, "missing_requirements": {"authorization": [page] if page else []}}
    )


def _requirement(error: errors.ToolhallError, message: str) -> OxpError:
    """What is missing, by its kind; OXP has no member for secrets, but leaves the object open."""
    missing = hints_of(error).get("missing", [])
    # A challenge is a closed object with a page; an account that no page can link is in the message only.
    pages = [{key: each[key] for key in _CHALLENGE_MEMBERS} for each in missing if "url" in each]
    secrets = [{"id": each["id"]} for each in missing if each["kind"] == "secret"]
    said: JsonObject = {"authorization": pages} if pages else {}
    said |= {"user_id": True} if any(each["kind"] == "user_id" for each in missing) else {}
    return OxpErrorResponse(
        400, {"message": message, "missing_requirements": said | ({"secrets": secrets} if secrets else {})}
    )


def _bad_arguments(error: errors.ToolhallError, message: str) -> OxpError:
    by_name: dict[str, list[str]] = {}
    for problem in error.problems if isinstance(error, errors.BadArguments) else ():
        name, inside = problem_parameter(problem)
        by_name.setdefault(name, []).append(f"{inside}: {problem.reason}" if inside else problem.reason)
    listed = {name: "; ".join(reasons) for name, reasons in by_name.items()}
    return OxpErrorResponse(422, {"message": message, "parameter_errors": listed})


def _tool_failure(error: errors.ToolhallError, message: str) -> OxpError:
    """Nobody knows how far the tool came, so nobody is told to try again; unless the tool itself does."""
    advice = hints_of(error)
    said: JsonObject = {"message": message, "can_retry": advice.get("can_retry", False)}
    if (wait := retry_after_of(error)) is not None:
        said["retry_after_ms"] = milliseconds(wait)
    if "prompt" in advice:
        said["additional_prompt_content"] = advice["prompt"]
    return OxpErrorResult(said)


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
    errors.Crashed: _tool_failure,
    errors.TimedOut: _tool_failure,
    errors.Cancelled: _tool_failure,
    errors.BadOutput: _tool_failure,
    errors.Unavailable: _retryable_response(503),
    errors.Broken: _error_response(500),
}
