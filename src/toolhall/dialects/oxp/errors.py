"""How each error of the tree is said in OXP: by a status and a body, or inside a result that came back with 200."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from toolhall.model import errors
from toolhall.model.json import JsonObject


class Refusal(msgspec.Struct, frozen=True):
    """An answer that is not a result."""

    status: int
    body: JsonObject
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Failure(msgspec.Struct, frozen=True):
    """The tool ran and failed: 200 with `success: false`."""

    error: JsonObject


Said: TypeAlias = Refusal | Failure


def say(error: errors.ToolhallError) -> Said:
    """The wire form of any error; a subclass is said like its nearest listed ancestor."""
    for kind in type(error).__mro__:
        if kind in TABLE:
            return TABLE[kind](error)
    return _broken(error)


def _refused(error: errors.ToolhallError) -> Said:
    return Refusal(400, {"message": error.message})


def _bad_arguments(error: errors.ToolhallError) -> Said:
    problems = error.problems if isinstance(error, errors.BadArguments) else ()
    by_name: JsonObject = {}
    for problem in problems:
        name = problem.path.split("/")[1] if "/" in problem.path else ""
        by_name.setdefault(name, problem.reason)
    return Refusal(422, {"message": error.message, "parameter_errors": by_name})


def _unauthenticated(error: errors.ToolhallError) -> Said:
    return Refusal(401, {"message": error.message}, ((b"www-authenticate", b"Bearer"),))


def _denied(error: errors.ToolhallError) -> Said:
    return Refusal(403, {"message": error.message})


def _limited(error: errors.ToolhallError) -> Said:
    wait = float(getattr(error, "retry_after", 1.0))
    seconds = str(max(1, int(wait + 0.999))).encode()
    return Refusal(429, {"message": error.message}, ((b"retry-after", seconds),))


def _unavailable(error: errors.ToolhallError) -> Said:
    return Refusal(503, {"message": error.message})


def _failed(error: errors.ToolhallError) -> Said:
    return Failure({"message": error.message, "can_retry": False})


def _timed_out(error: errors.ToolhallError) -> Said:
    return Failure({"message": error.message, "can_retry": False})


def _broken(error: errors.ToolhallError) -> Said:  # noqa: ARG001 - whatever it was, the caller reads the same words
    return Refusal(500, {"message": errors.Broken.message})


TABLE: dict[type, Callable[[errors.ToolhallError], Said]] = {
    errors.Malformed: _refused,
    errors.NotFound: _refused,
    errors.BadArguments: _bad_arguments,
    errors.Unsupported: _refused,
    errors.Unauthenticated: _unauthenticated,
    errors.Denied: _denied,
    errors.NeedsVerification: _refused,
    errors.NeedsRequirement: _refused,
    errors.Limited: _limited,
    errors.ToolFailed: _failed,
    errors.TimedOut: _timed_out,
    errors.Cancelled: _failed,
    errors.BadOutput: _failed,
    errors.Unavailable: _unavailable,
    errors.Broken: _broken,
}
