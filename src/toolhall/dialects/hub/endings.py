"""How a call in a tool server ended: the value or the error, as one side writes it and the other reads it."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeGuard

import msgspec

from toolhall.dialects.faults import advice_of, problems_of, wait_of
from toolhall.dialects.hub.blocks import read_blocks
from toolhall.dialects.hub.remote import ErrorSaid, ToolEnd
from toolhall.dialects.mcp.content import write_block
from toolhall.model import errors
from toolhall.model.content import CONTENT_TYPES, Content, Reply
from toolhall.model.exchange import Wire
from toolhall.model.json import Json, JsonObject, encode
from toolhall.schema.types import to_json

STARTED = "started"
_NOT_THERE = ("TOOL_NOT_FOUND", "METHOD_NOT_FOUND")
_MOST_WAIT_SECONDS = 3_600.0  # a tool server sends nobody away for longer
_CRASHED = "the tool failed; the tool server's log has the details"

# What each error is called on this wire; what is not listed is called as what it descends from.
_CODES: dict[type, tuple[str, int]] = {
    errors.Malformed: ("INVALID_REQUEST", 400),
    errors.NotFound: ("TOOL_NOT_FOUND", 400),
    errors.BadArguments: ("INVALID_PARAMS", 400),
    errors.Unsupported: ("UNSUPPORTED", 400),
    errors.Unauthenticated: ("UNAUTHENTICATED", 401),
    errors.Denied: ("FORBIDDEN", 403),
    errors.NeedsVerification: ("FORBIDDEN", 403),
    errors.NeedsRequirement: ("FORBIDDEN", 403),
    errors.Limited: ("RATE_LIMITED", 429),
    errors.ToolFailed: ("TOOL_ERROR", 400),
    errors.Crashed: ("INTERNAL_ERROR", 500),
    errors.TimedOut: ("TIMEOUT", 504),
    errors.Cancelled: ("CANCELLED", 400),
    errors.BadOutput: ("BAD_OUTPUT", 500),
    errors.Unavailable: ("UNAVAILABLE", 503),
    errors.Broken: ("INTERNAL_ERROR", 500),
}


class NotStarted(errors.Unavailable):
    """The tool server did not begin with the call: another one may."""

    message = "the tool server takes no calls now"


class NoSuchMethod(errors.NotFound):
    """The tool server does not have it."""

    message = "this tool server has no such method"


# --- the tool server's side ------------------------------------------------------------------------------------------


def write_end(call_id: str, value: object) -> Wire:
    """What a tool returned; raises what msgspec raises where JSON cannot say it."""
    head = b'{"type":"tool_response","id":' + encode(call_id)
    if isinstance(value, Reply):
        return Wire(head + _reply(value) + b"}")
    blocks = _blocks(value)
    if blocks:
        return Wire(head + b',"result":null,"error":null,"content":' + encode(blocks) + b"}")
    return Wire(head + _value(value) + b"}")


def write_failure(call_id: str | None, error: errors.ToolhallError, tool: str, method: str) -> Wire:
    """A call that was refused or failed."""
    said, status = _said(error, {"tool": tool, "method": method})
    body = {"type": "tool_response", "id": call_id, "result": None, "error": {"type": "tool_error", **said}}
    return Wire(to_json(body), status)


def _reply(reply: Reply) -> bytes:
    value = b',"result":null,"error":null' if reply.value is msgspec.UNSET else _value(reply.value)
    more = b',"content":' + encode([write_block(block) for block in reply.content])
    if reply.meta is not None:
        more += b',"meta":' + to_json(reply.meta)
    return value + more + (b',"is_error":true' if reply.is_error else b"")


def _value(value: object) -> bytes:
    """An object as it is; whatever else is wrapped, because results are objects."""
    if value is None:
        return b',"result":{},"error":null,"nothing":true'
    encoded = to_json(value)
    if encoded.startswith(b"{"):
        return b',"result":' + encoded + b',"error":null'
    return b',"result":{"result":' + encoded + b'},"error":null,"wrapped":true'


def _blocks(value: object) -> list[JsonObject]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [write_block(each) for each in listed] if _are_content(listed) else []


def _are_content(listed: "list[object] | tuple[object, ...]") -> "TypeGuard[list[Content]]":
    return bool(listed) and all(isinstance(each, CONTENT_TYPES) for each in listed)


def _said(error: errors.ToolhallError, details: JsonObject) -> tuple[JsonObject, int]:
    code, status = next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), _CODES[errors.Broken])
    message = _CRASHED if code == "INTERNAL_ERROR" else error.message
    details |= advice_of(error)
    if problems := problems_of(error):
        details["problems"] = problems
    if not isinstance(error, errors.Unavailable) and (wait := wait_of(error)) is not None:
        details["retry_after"] = wait
    match error:
        case NotStarted():
            details[STARTED] = False
        case NoSuchMethod():
            code = "METHOD_NOT_FOUND"
        case errors.Unsupported(feature=feature):
            details["feature"] = feature
        case errors.ToolError(code=own, details=more):
            code = own
            details = {**details, **{key: said for key, said in more.items() if key != STARTED}}  # which is ours to say
            if own in _NOT_THERE:
                details[STARTED] = True  # it is the tool that says so
        case _:
            pass
    return {"code": code, "message": message, "details": details}, status


# --- the hall's side -------------------------------------------------------------------------------------------------


def said_of(error: errors.ToolhallError) -> ErrorSaid:
    """What a question came to that could not be put, as `error_of` reads it there."""
    said, _ = _said(error, {})
    return ErrorSaid(said["code"], said["message"], said["details"])


def outcome(end: ToolEnd) -> object:
    """What the tool returned; raises the error that it ended with, or BadOutput where that cannot be read."""
    if end.error is not None:
        raise failure_of(end.error)
    value = _returned(end)
    if end.content is None and end.meta is None and not end.is_error:
        return None if value is msgspec.UNSET else value
    try:
        blocks = read_blocks(end.content or [])
    except errors.Malformed as error:
        raise errors.BadOutput("the tool returned content that cannot be read", detail=error.message) from None
    return Reply(blocks, value, end.meta, end.is_error)


def _returned(end: ToolEnd) -> Json:
    if end.nothing:
        return None
    if not end.wrapped:
        return msgspec.UNSET if end.result is None else end.result
    if isinstance(end.result, dict) and "result" in end.result:
        return end.result["result"]
    raise errors.BadOutput("the tool server says that its result is wrapped, and it is not")


def error_of(said: ErrorSaid) -> errors.ToolhallError:
    """The error that a code of the hall's stands for, read by a tool server whose question could not be put."""
    return _error(said, _READ)


def failure_of(said: ErrorSaid) -> errors.ToolhallError:
    """The same of a tool server's code; one that it has made up is the tool's own failure.

    Who the caller is, what they may and what there is to call is the hall's to say: a tool server cannot say it.
    """
    return _error(said, _READ_OF_SERVERS)


def _error(said: ErrorSaid, table: Mapping[str, "_Reader"]) -> errors.ToolhallError:
    message, details = said.message or None, said.details or {}
    read = table.get(said.code)
    return _failure(said.code, message, details) if read is None else read(message, details)


def _failure(code: str, message: str | None, details: JsonObject) -> errors.ToolhallError:
    error = errors.ToolFailed(message) if code == "TOOL_ERROR" else errors.ToolError(message, code, details)
    prompt = details.get("prompt")
    error.prompt = prompt if isinstance(prompt, str) else None
    error.retry_after = _seconds(details)
    error.can_retry = details.get("can_retry") is True or error.retry_after is not None
    return error


def _seconds(details: JsonObject) -> float | None:
    wait = details.get("retry_after")
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= errors.MOST_SECONDS:
        return float(wait)
    return None


def _bad_arguments(message: str | None, details: JsonObject) -> errors.ToolhallError:
    try:
        found = msgspec.convert(details.get("problems"), list[errors.Problem])
    except msgspec.ValidationError:
        found = []
    return errors.BadArguments(found or [errors.Problem("", message or "the tool server does not take these")])


def _limited(_: str | None, details: JsonObject) -> errors.ToolhallError:
    return errors.Limited(min(_seconds(details) or 0.0, _MOST_WAIT_SECONDS))


def _not_there(message: str | None, details: JsonObject) -> errors.ToolhallError:
    """The hall knows the tool: it is the server that has lost it, and another may have it."""
    kind = errors.Unavailable if details.get(STARTED) is True else NotStarted
    return kind("the tool server has no such tool", detail=message)


def _unavailable(message: str | None, details: JsonObject) -> errors.ToolhallError:
    return NotStarted(message) if details.get(STARTED) is False else errors.Unavailable(message)


_Reader: TypeAlias = Callable[[str | None, JsonObject], errors.ToolhallError]

# The words of a crash are the tool server's own; who ended a call that nobody here cancelled, crashed.
_READ: dict[str, _Reader] = {
    "INVALID_REQUEST": lambda message, _: errors.Malformed(message),
    "INVALID_PARAMS": _bad_arguments,
    "TOOL_NOT_FOUND": lambda message, _: errors.NotFound(message),
    "METHOD_NOT_FOUND": _not_there,
    "UNSUPPORTED": lambda _, details: errors.Unsupported(str(details.get("feature", "more"))),
    "UNAUTHENTICATED": lambda message, _: errors.Unauthenticated(message),
    "FORBIDDEN": lambda message, _: errors.Denied(message),
    "RATE_LIMITED": _limited,
    "TIMEOUT": lambda message, _: errors.TimedOut(message),
    "CANCELLED": lambda message, _: errors.Crashed(_CRASHED, detail=message),
    "BAD_OUTPUT": lambda message, _: errors.BadOutput(message),
    "INTERNAL_ERROR": lambda message, _: errors.Crashed(_CRASHED, detail=message),
    "UNAVAILABLE": _unavailable,
}
_OF_THE_HALL = ("UNAUTHENTICATED", "FORBIDDEN")
_READ_OF_SERVERS: dict[str, _Reader] = {
    **{code: read for code, read in _READ.items() if code not in _OF_THE_HALL},
    **dict.fromkeys(_NOT_THERE, _not_there),
}
