"""How each error of the tree is said in OXP: by a status and a body, or inside a result that came back with 200."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from toolhall.dialects.faults import Headers, advice_of, headers_of, milliseconds, parameter_of, told, wait_of
from toolhall.model import errors
from toolhall.model.json import JsonObject


class Refusal(msgspec.Struct, frozen=True):
    """An answer that is not a result."""

    status: int
    body: JsonObject
    headers: Headers = ()


class Failure(msgspec.Struct, frozen=True):
    """The tool ran and failed: 200 with `success: false`."""

    error: JsonObject


Said: TypeAlias = Refusal | Failure
Row: TypeAlias = Callable[[errors.ToolhallError, str], Said]
_CHALLENGE = ("id", "url", "check_url")


def say(error: errors.ToolhallError) -> Said:
    """The wire form of any error."""
    row, message = told(TABLE, error)
    return row(error, message)


def _refused(status: int) -> Row:
    def say_so(error: errors.ToolhallError, message: str) -> Said:
        return Refusal(status, {"message": message}, headers_of(error))

    return say_so


def _come_back(status: int) -> Row:
    """The hints that OXP has for a tool's own failure; a server error is an open object, so it may carry them too."""

    def say_so(error: errors.ToolhallError, message: str) -> Said:
        hints = {"can_retry": True, "retry_after_ms": milliseconds(wait_of(error) or 0)}
        return Refusal(status, {"message": message, **hints}, headers_of(error))

    return say_so


def _verification(error: errors.ToolhallError, message: str) -> Said:
    """A challenge, as for an account that is not linked yet: where a person verifies it, and where to ask whether."""
    said = advice_of(error)
    page = {"id": said["id"], "url": said["url"], "check_url": f"{said['url']}/status"} if said else None
    return Refusal(400, {"message": message, "missing_requirements": {"authorization": [page] if page else []}})


def _requirement(error: errors.ToolhallError, message: str) -> Said:
    """What is missing, by its kind; OXP has no member for secrets, but leaves the object open."""
    missing = advice_of(error).get("missing", [])
    # A challenge is a closed object with a page; an account that no page can link is in the message only.
    pages = [{key: each[key] for key in _CHALLENGE} for each in missing if "url" in each]
    secrets = [{"id": each["id"]} for each in missing if each["kind"] == "secret"]
    said: JsonObject = {"authorization": pages} if pages else {}
    said |= {"user_id": True} if any(each["kind"] == "user_id" for each in missing) else {}
    return Refusal(400, {"message": message, "missing_requirements": said | ({"secrets": secrets} if secrets else {})})


def _bad_arguments(error: errors.ToolhallError, message: str) -> Said:
    by_name: dict[str, list[str]] = {}
    for problem in error.problems if isinstance(error, errors.BadArguments) else ():
        name, inside = parameter_of(problem)
        by_name.setdefault(name, []).append(f"{inside}: {problem.reason}" if inside else problem.reason)
    listed = {name: "; ".join(reasons) for name, reasons in by_name.items()}
    return Refusal(422, {"message": message, "parameter_errors": listed})


def _failed(error: errors.ToolhallError, message: str) -> Said:
    """Nobody knows how far the tool came, so nobody is told to try again; unless the tool itself does."""
    advice = advice_of(error)
    said: JsonObject = {"message": message, "can_retry": advice.get("can_retry", False)}
    if (wait := wait_of(error)) is not None:
        said["retry_after_ms"] = milliseconds(wait)
    if "prompt" in advice:
        said["additional_prompt_content"] = advice["prompt"]
    return Failure(said)


TABLE: dict[type, Row] = {
    errors.Malformed: _refused(400),
    errors.NotFound: _refused(400),
    errors.NotActive: _refused(400),
    errors.Retired: _refused(400),
    errors.BadArguments: _bad_arguments,
    errors.Unsupported: _failed,  # the tool ran until it needed what OXP cannot do
    errors.Unauthenticated: _refused(401),
    errors.Denied: _refused(403),
    errors.NeedsVerification: _verification,
    errors.NeedsRequirement: _requirement,
    errors.Limited: _come_back(429),
    errors.ToolFailed: _failed,
    errors.ToolError: _failed,
    errors.Crashed: _failed,
    errors.TimedOut: _failed,
    errors.Cancelled: _failed,
    errors.BadOutput: _failed,
    errors.Unavailable: _come_back(503),
    errors.Broken: _refused(500),
}
