"""MCP error table: maps each error to a JSON-RPC error, or to a result with `isError` that the model can read."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from toolhall.dialects.error_details import headers_of, hints_of, milliseconds, retry_after_of
from toolhall.dialects.mcp.protocol import (
    FORBIDDEN,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RATE_LIMITED,
    UNAUTHENTICATED,
    McpRefusal,
)
from toolhall.model import errors
from toolhall.model.json import JsonObject


class ProtocolError(msgspec.Struct, frozen=True):
    """A JSON-RPC error and the HTTP status it travels with."""

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
    """The wire form of any error; a subclass is said like its nearest listed ancestor."""
    for kind in type(error).__mro__:
        if kind in TABLE:
            return TABLE[kind](error)
    return _broken(error)


def _malformed(error: errors.ToolhallError) -> McpError:
    if isinstance(error, McpRefusal):
        return ProtocolError(error.code, error.message, error.data, error.status)
    return ProtocolError(INVALID_PARAMS, error.message)


def _not_found(error: errors.ToolhallError) -> McpError:
    return ProtocolError(INVALID_PARAMS, error.message)


def _unsupported(error: errors.ToolhallError) -> McpError:
    """MCP 2026-07-28: -32021 with the capabilities as an object; the older revisions read it as a tool's error."""
    feature, _, mode = getattr(error, "feature", "").partition(".")
    required: JsonObject = {feature: {mode: {}} if mode else {}}
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


def _tool_failure(error: errors.ToolhallError) -> McpError:
    """The tool's words with its advice, for the model as text and for the program in `_meta`."""
    advice, wait = hints_of(error), retry_after_of(error)
    if not advice:
        return ErrorResult(error.message)
    told: JsonObject = {"canRetry": "can_retry" in advice}
    lines = [error.message]
    if wait is not None:
        told["retryAfterMs"] = milliseconds(wait)
        lines.append(f"Try again in {wait:g} seconds.")
    elif "can_retry" in advice:
        lines.append("Try again later.")
    if "prompt" in advice:
        lines.append(advice["prompt"])
    return ErrorResult("\n".join(lines), {"dev.toolhall/retry": told})


def _refused_result(error: errors.ToolhallError) -> McpError:
    """Nothing the client could do by itself, so no HTTP status that would send it into an OAuth loop."""
    return ErrorResult(error.message, {"dev.toolhall/refused": type(error).__name__})


def _denied(error: errors.ToolhallError) -> McpError:
    """MCP, authorization: a scope that is missing is a challenge, which names exactly what this call needs."""
    if isinstance(error, errors.Denied) and error.scopes:
        needed: JsonObject = {"requiredScopes": list(error.scopes)}
        return ProtocolError(FORBIDDEN, error.message, needed, 403, headers_of(error))
    return _refused_result(error)


def _verification(error: errors.ToolhallError) -> McpError:
    """For clients that cannot open a page for the person: the link, which the model can show."""
    said = hints_of(error)
    told: JsonObject = {"dev.toolhall/refused": type(error).__name__}
    return ErrorResult(error.message, told | ({"dev.toolhall/verification": said} if said else {}))


def _requirement(error: errors.ToolhallError) -> McpError:
    """The same for what is missing: every link, and secrets by their name only."""
    missing = hints_of(error).get("missing", [])
    unsaid = [each["url"] for each in missing if "url" in each and each["url"] not in error.message]
    text = "\n".join([error.message, *(f"Let the user open {url}" for url in unsaid)])
    told: JsonObject = {"dev.toolhall/refused": type(error).__name__}
    return ErrorResult(text, told | ({"dev.toolhall/missing": missing} if missing else {}))


def _broken(error: errors.ToolhallError) -> McpError:  # noqa: ARG001 - whatever it was, the caller reads the same words
    return ProtocolError(INTERNAL_ERROR, errors.Broken.message)


TABLE: dict[type, Callable[[errors.ToolhallError], McpError]] = {
    errors.Malformed: _malformed,
    errors.NotFound: _not_found,
    errors.NotActive: _not_found,
    errors.Retired: _error_result,  # so that the model reads what to call instead
    errors.BadArguments: _error_result,
    errors.Unsupported: _unsupported,
    errors.Unauthenticated: _unauthenticated,
    errors.Denied: _denied,
    errors.NeedsVerification: _verification,
    errors.NeedsRequirement: _requirement,
    errors.Limited: _limited,
    errors.ToolFailed: _tool_failure,
    errors.ToolError: _tool_failure,
    errors.Crashed: _error_result,
    errors.TimedOut: _error_result,
    errors.Cancelled: _error_result,
    errors.BadOutput: _error_result,
    errors.Unavailable: _error_result,
    errors.Broken: _broken,
}
