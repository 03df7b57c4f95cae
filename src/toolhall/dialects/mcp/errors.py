"""MCP error table: maps each error to a JSON-RPC error, or to a result with `isError` that the model can read."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from toolhall.dialects.error_details import headers_of, hints_of, milliseconds, problems_of, retry_after_of
from toolhall.dialects.mcp.protocol import (
    FORBIDDEN,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RATE_LIMITED,
    REFUSED,
    RESOURCE_NOT_FOUND,
    TASKS_EXTENSION,
    UNAUTHENTICATED,
    McpRefusal,
    Revision,
)
from toolhall.model import errors
from toolhall.model.json import JsonObject, encode
from toolhall.model.messages import TASKS_FEATURE

MAX_META_BYTES = 1_024  # of problems with paths: the text, which has them all, is what the model reads


class ProtocolError(msgspec.Struct, frozen=True):
    """A JSON-RPC error and the HTTP status of its response."""

    code: int
    message: str
    data: JsonObject | None = None
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ()


class ErrorResult(msgspec.Struct, frozen=True):
    """A result with `isError`, whose text the model reads and can act on."""

    text: str
    meta: JsonObject | None = None


McpError: TypeAlias = ProtocolError | ErrorResult


def translate_error(error: errors.ToolhallError) -> McpError:
    """The wire form of any error; an unlisted class is translated like its nearest listed base class."""
    for kind in type(error).__mro__:
        if kind in TABLE:
            return TABLE[kind](error)
    return _broken(error)


def translate_read_error(error: errors.ToolhallError, revision: Revision) -> ProtocolError:
    """The wire form of an error of a read, a prompt or a completion, which have no results with `isError`.

    The message of a refusal names the fix, so it is sent; of a failure only the author's own message is.
    """
    if isinstance(error, errors.NotFound):
        code = INVALID_PARAMS if revision.stateless or error.uri is None else RESOURCE_NOT_FOUND
        return ProtocolError(code, error.message, None if error.uri is None else {"uri": error.uri})
    translated = translate_error(error)
    if isinstance(translated, ProtocolError):
        # The code exists only since 2026-07-28.
        is_unknown = translated.code == MISSING_CAPABILITY and not revision.stateless
        return ProtocolError(REFUSED, translated.message) if is_unknown else translated
    if isinstance(error, errors.Refused):
        code = INVALID_PARAMS if isinstance(error, errors.BadArguments) else REFUSED
        return ProtocolError(code, translated.text, translated.meta)
    if isinstance(error, errors.ToolFailed) and not isinstance(error, errors.Crashed):
        return ProtocolError(INTERNAL_ERROR, translated.text, translated.meta)
    return ProtocolError(INTERNAL_ERROR, errors.Broken.message)


def _malformed(error: errors.ToolhallError) -> McpError:
    if isinstance(error, McpRefusal):
        return ProtocolError(error.code, error.message, error.data, error.status)
    return ProtocolError(INVALID_PARAMS, error.message)


def _not_found(error: errors.ToolhallError) -> McpError:
    return ProtocolError(INVALID_PARAMS, error.message)


def _unsupported(error: errors.ToolhallError) -> McpError:
    """MCP 2026-07-28: -32021 with the capabilities as an object; older revisions get a result with `isError`."""
    feature, _, mode = getattr(error, "feature", "").partition(".")
    required: JsonObject = {feature: {mode: {}} if mode else {}}
    if feature == TASKS_FEATURE:
        required = {"extensions": {TASKS_EXTENSION: {}}}
    return ProtocolError(MISSING_CAPABILITY, error.message, {"requiredCapabilities": required}, 400)


def _unauthenticated(error: errors.ToolhallError) -> McpError:
    return ProtocolError(UNAUTHENTICATED, error.message, None, 401, ((b"www-authenticate", b"Bearer"),))


def _limited(error: errors.ToolhallError) -> McpError:
    wait = float(getattr(error, "retry_after", 1.0))
    seconds = str(max(1, int(wait + 0.999))).encode()
    return ProtocolError(
        RATE_LIMITED, error.message, {"retryAfterMs": int(wait * 1000) + 1}, 429, ((b"retry-after", seconds),)
    )


def _error_result(error: errors.ToolhallError) -> McpError:
    return ErrorResult(error.message)


def _bad_arguments(error: errors.ToolhallError) -> McpError:
    """Every problem as text for the model, and the first ones in `_meta` with paths, to be shown at their places."""
    listed: list[JsonObject] = []
    left = MAX_META_BYTES
    for problem in problems_of(error):
        left -= len(encode(problem))
        if left < 0:
            break
        listed.append(problem)
    return ErrorResult(error.message, {"dev.toolhall/problems": listed})


def _tool_failure(error: errors.ToolhallError) -> McpError:
    """The tool's message and retry advice, as text for the model and in `_meta` for the client."""
    advice, wait = hints_of(error), retry_after_of(error)
    if not advice:
        return ErrorResult(error.message)
    advice_meta: JsonObject = {"canRetry": "can_retry" in advice}
    lines = [error.message]
    if wait is not None:
        advice_meta["retryAfterMs"] = milliseconds(wait)
        lines.append(f"Try again in {wait:g} seconds.")
    elif "can_retry" in advice:
        lines.append("Try again later.")
    if "prompt" in advice:
        lines.append(advice["prompt"])
    return ErrorResult("\n".join(lines), {"dev.toolhall/retry": advice_meta})


def _refused_result(error: errors.ToolhallError) -> McpError:
    """A refusal that the client cannot resolve: no HTTP status, which would send it into an OAuth loop."""
    return ErrorResult(error.message, {"dev.toolhall/refused": type(error).__name__})


def _denied(error: errors.ToolhallError) -> McpError:
    """MCP, authorization: a missing scope is a challenge that names exactly the scopes this call needs."""
    if isinstance(error, errors.Denied) and error.scopes:
        needed: JsonObject = {"requiredScopes": list(error.scopes)}
        return ProtocolError(FORBIDDEN, error.message, needed, 403, headers_of(error))
    return _refused_result(error)


def _verification(error: errors.ToolhallError) -> McpError:
    """The verification link as text, which the model can show; for clients that cannot open a page."""
    hints = hints_of(error)
    meta: JsonObject = {"dev.toolhall/refused": type(error).__name__}
    return ErrorResult(error.message, meta | ({"dev.toolhall/verification": hints} if hints else {}))


def _requirement(error: errors.ToolhallError) -> McpError:
    """Every missing requirement with its link; secrets by name only."""
    missing = hints_of(error).get("missing", [])
    unnamed_urls = [
        requirement["url"]
        for requirement in missing
        if "url" in requirement and requirement["url"] not in error.message
    ]
    text = "\n".join([error.message, *(f"Let the user open {url}" for url in unnamed_urls)])
    meta: JsonObject = {"dev.toolhall/refused": type(error).__name__}
    return ErrorResult(text, meta | ({"dev.toolhall/missing": missing} if missing else {}))


def _outcome_unknown(error: errors.ToolhallError) -> McpError:
    return ProtocolError(INTERNAL_ERROR, error.message)


def _broken(error: errors.ToolhallError) -> McpError:  # noqa: ARG001 - the message never depends on the fault
    return ProtocolError(INTERNAL_ERROR, errors.Broken.message)


TABLE: dict[type, Callable[[errors.ToolhallError], McpError]] = {
    errors.Malformed: _malformed,
    errors.NotFound: _not_found,
    errors.NotActive: _not_found,
    errors.Retired: _error_result,  # so that the model reads what to call instead
    errors.BadArguments: _bad_arguments,
    errors.Unsupported: _unsupported,
    errors.Unauthenticated: _unauthenticated,
    errors.Denied: _denied,
    errors.NeedsVerification: _verification,
    errors.NeedsRequirement: _requirement,
    errors.Limited: _limited,
    errors.ToolFailed: _tool_failure,
    errors.ToolError: _tool_failure,
    errors.NotEnded: _tool_failure,
    errors.Crashed: _error_result,
    errors.TimedOut: _error_result,
    errors.Cancelled: _error_result,
    errors.BadOutput: _error_result,
    errors.Unavailable: _error_result,
    errors.OutcomeUnknown: _outcome_unknown,
    errors.Broken: _broken,
}
