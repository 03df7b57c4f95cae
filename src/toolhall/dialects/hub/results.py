"""The end of a remote call: a tool server writes a result or an error, the hall reads it.

Both sides use the codes of TOOL_SERVER_TABLE. A tool server is trusted with the outcome of its own calls only: codes
about the caller's identity and rights (UNAUTHENTICATED, FORBIDDEN) are read as failures of the tool, because only the
hall decides those.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeGuard

import msgspec

from toolhall.dialects.error_details import hints_of, problems_of, retry_after_of, row_and_message
from toolhall.dialects.hub.call_messages import ErrorPayload, ToolResponseMessage
from toolhall.dialects.hub.content import read_blocks
from toolhall.dialects.hub.errors import TOOL_SERVER_TABLE
from toolhall.dialects.mcp.content import write_block
from toolhall.model import errors
from toolhall.model.content import CONTENT_TYPES, Content, Message, Reply, Resource, Result
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import WireResponse
from toolhall.schema.types import to_json

STARTED = "started"
_NOT_FOUND_CODES = ("TOOL_NOT_FOUND", "METHOD_NOT_FOUND")
_MAX_RETRY_SECONDS = 3_600.0  # upper bound of a tool server's retry_after for a rate limit
_CRASH_MESSAGE = "the tool failed; the tool server's log has the details"


class NotStarted(errors.Unavailable):
    """The tool server did not start the call, so another replica may run it."""

    message = "the tool server takes no calls now"


class NoSuchMethod(errors.NotFound):
    """The tool server has no such method."""

    message = "this tool server has no such method"


# --- the tool server's side ------------------------------------------------------------------------------------------
def write_result(call_id: str, value: object) -> WireResponse:
    """Encode what a tool returned; raises msgspec's errors if JSON cannot express it."""
    head = b'{"type":"tool_response","id":' + encode(call_id)
    if isinstance(value, Reply):
        return WireResponse(head + _encode_reply(value) + b"}")
    blocks = _content_blocks(value)
    if blocks:
        return WireResponse(head + b',"result":null,"error":null,"content":' + encode(blocks) + b"}")
    return WireResponse(head + _encode_value(value) + b"}")


def write_contents(call_id: str, result: Result) -> WireResponse:
    """Encode the contents of a resource, or the messages of a prompt."""
    head = b'{"type":"tool_response","id":' + encode(call_id)
    blocks = encode([write_block(block) for block in result.content])
    roles = b',"roles":' + encode(result.roles) if result.roles else b""
    return WireResponse(b'%b,"result":null,"error":null,"content":%b%b}' % (head, blocks, roles))


def write_failure(call_id: str | None, error: errors.ToolhallError, tool: str, method: str) -> WireResponse:
    """Encode a call that was refused or failed."""
    error_body, status = _error_body(error, {"tool": tool, "method": method})
    body = {"type": "tool_response", "id": call_id, "result": None, "error": {"type": "tool_error", **error_body}}
    return WireResponse(to_json(body), status)


def _encode_reply(reply: Reply) -> bytes:
    value = b',"result":null,"error":null' if reply.value is msgspec.UNSET else _encode_value(reply.value)
    more = b',"content":' + encode([write_block(block) for block in reply.content])
    if reply.meta is not None:
        more += b',"meta":' + to_json(reply.meta)
    return value + more + (b',"is_error":true' if reply.is_error else b"")


def _encode_value(value: object) -> bytes:
    """An object as it is; any other value is wrapped, because results are objects on the wire."""
    if value is None:
        return b',"result":{},"error":null,"nothing":true'
    encoded = to_json(value)
    if encoded.startswith(b"{"):
        return b',"result":' + encoded + b',"error":null'
    return b',"result":{"result":' + encoded + b'},"error":null,"wrapped":true'


def _content_blocks(value: object) -> list[JsonObject]:
    listed = value if isinstance(value, list | tuple) else [value]
    return [write_block(each) for each in listed] if _are_content(listed) else []


def _are_content(listed: "list[object] | tuple[object, ...]") -> "TypeGuard[list[Content]]":
    return bool(listed) and all(isinstance(each, CONTENT_TYPES) for each in listed)


def _error_body(error: errors.ToolhallError, details: JsonObject) -> tuple[JsonObject, int]:
    row, _ = row_and_message(TOOL_SERVER_TABLE, error)
    code = row.code
    message = _CRASH_MESSAGE if code == "INTERNAL_ERROR" else error.message
    details = details | hints_of(error)
    if problems := problems_of(error):
        details["problems"] = problems
    if not isinstance(error, errors.Unavailable) and (wait := retry_after_of(error)) is not None:
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
            # `started` is set by the protocol, never by a tool.
            details = {**details, **{key: value for key, value in more.items() if key != STARTED}}
            if own in _NOT_FOUND_CODES:
                details[STARTED] = True  # the tool ran and chose this code itself
        case _:
            pass
    return {"code": code, "message": message, "details": details}, row.http


# --- the hall's side -------------------------------------------------------------------------------------------------
def error_payload(error: errors.ToolhallError) -> ErrorPayload:
    """The error of a question that could not be put to the caller; read by `read_hub_error`."""
    body, _ = _error_body(error, {})
    return ErrorPayload(body["code"], body["message"], body["details"])


def result_or_raise(response: ToolResponseMessage) -> object:
    """The tool's return value; raises the error that the call ended with, or BadOutput if it cannot be read."""
    if response.error is not None:
        raise read_tool_server_error(response.error)
    value = _result_value(response)
    if response.content is None and response.meta is None and not response.is_error:
        return None if value is msgspec.UNSET else value
    try:
        blocks = read_blocks(response.content or [])
    except errors.Malformed as error:
        raise errors.BadOutput("the tool returned content that cannot be read", detail=error.message) from None
    return Reply(blocks, value, response.meta, response.is_error)


def contents_or_raise(response: ToolResponseMessage) -> tuple[Resource, ...] | None:
    """What a resource reads, None if there is no such resource; raises like `result_or_raise`."""
    blocks = _blocks_alone(response)
    if blocks is None:
        return None
    contents = tuple(block for block in blocks if isinstance(block, Resource))
    if len(contents) < len(blocks):
        raise errors.BadOutput("the tool server answered a read with content that is no resource")
    return contents


def messages_or_raise(response: ToolResponseMessage) -> list[Message]:
    """What a prompt says; raises like `result_or_raise`."""
    blocks = _blocks_alone(response)
    if not blocks or len(blocks) != len(response.roles):
        raise errors.BadOutput("the tool server answered a prompt with something other than messages")
    return [Message(role, block) for role, block in zip(response.roles, blocks, strict=True)]


def _blocks_alone(response: ToolResponseMessage) -> tuple[Content, ...] | None:
    """The blocks of a response that has nothing else; None if it says `nothing`."""
    match result_or_raise(response):
        case None if response.nothing:
            return None
        case Reply(content=blocks, value=msgspec.UNSET, meta=None, is_error=False):
            return blocks
        case _:
            raise errors.BadOutput("the tool server answered with something other than content")


def _result_value(response: ToolResponseMessage) -> Json:
    if response.nothing:
        return None
    if not response.wrapped:
        return msgspec.UNSET if response.result is None else response.result
    if isinstance(response.result, dict) and "result" in response.result:
        return response.result["result"]
    raise errors.BadOutput("the tool server declares its result as wrapped, but it is not")


def read_hub_error(payload: ErrorPayload) -> errors.ToolhallError:
    """The error for a code of the hall, as read by a tool server whose question could not be put."""
    return _read_error(payload, _ERROR_READERS)


def read_tool_server_error(payload: ErrorPayload) -> errors.ToolhallError:
    """The error for a code of a tool server; an unknown code is the tool's own failure.

    A tool server cannot report errors about the caller's identity, rights or the registered tools: those are the
    hall's to decide.
    """
    return _read_error(payload, _SERVER_ERROR_READERS)


def _read_error(payload: ErrorPayload, table: Mapping[str, "_Reader"]) -> errors.ToolhallError:
    message, details = payload.message or None, payload.details or {}
    read = table.get(payload.code)
    return _tool_failure(payload.code, message, details) if read is None else read(message, details)


def _tool_failure(code: str, message: str | None, details: JsonObject) -> errors.ToolhallError:
    error = errors.ToolFailed(message) if code == "TOOL_ERROR" else errors.ToolError(message, code, details)
    prompt = details.get("prompt")
    error.prompt = prompt if isinstance(prompt, str) else None
    error.retry_after = _seconds(details)
    error.can_retry = details.get("can_retry") is True or error.retry_after is not None
    return error


def _seconds(details: JsonObject) -> float | None:
    wait = details.get("retry_after")
    if isinstance(wait, int | float) and not isinstance(wait, bool) and 0 <= wait <= errors.MAX_RETRY_AFTER_SECONDS:
        return float(wait)
    return None


def _bad_arguments(message: str | None, details: JsonObject) -> errors.ToolhallError:
    try:
        problems = msgspec.convert(details.get("problems"), list[errors.Problem])
    except msgspec.ValidationError:
        problems = []
    return errors.BadArguments(problems or [errors.Problem("", message or "the tool server does not take these")])


def _limited(_: str | None, details: JsonObject) -> errors.ToolhallError:
    return errors.Limited(min(_seconds(details) or 0.0, _MAX_RETRY_SECONDS))


def _tool_missing(message: str | None, details: JsonObject) -> errors.ToolhallError:
    """The hall knows the tool, so this server lost it, and another replica may have it."""
    kind = errors.Unavailable if details.get(STARTED) is True else NotStarted
    return kind("the tool server has no such tool", detail=message)


def _unavailable(message: str | None, details: JsonObject) -> errors.ToolhallError:
    return NotStarted(message) if details.get(STARTED) is False else errors.Unavailable(message)


_Reader: TypeAlias = Callable[[str | None, JsonObject], errors.ToolhallError]
# A crash has a fixed message: its text belongs in the tool server's log. CANCELLED counts as a crash, because the hall
# stops reading a call that it cancelled itself.
_ERROR_READERS: dict[str, _Reader] = {
    "INVALID_REQUEST": lambda message, _: errors.Malformed(message),
    "INVALID_PARAMS": _bad_arguments,
    "TOOL_NOT_FOUND": lambda message, _: errors.NotFound(message),
    "METHOD_NOT_FOUND": _tool_missing,
    "UNSUPPORTED": lambda _, details: errors.Unsupported(str(details.get("feature", "more"))),
    "UNAUTHENTICATED": lambda message, _: errors.Unauthenticated(message),
    "FORBIDDEN": lambda message, _: errors.Denied(message),
    "RATE_LIMITED": _limited,
    "TIMEOUT": lambda message, _: errors.TimedOut(message),
    "CANCELLED": lambda message, _: errors.Crashed(_CRASH_MESSAGE, detail=message),
    "BAD_OUTPUT": lambda message, _: errors.BadOutput(message),
    "INTERNAL_ERROR": lambda message, _: errors.Crashed(_CRASH_MESSAGE, detail=message),
    "UNAVAILABLE": _unavailable,
}
_HALL_ONLY_CODES = ("UNAUTHENTICATED", "FORBIDDEN")
_SERVER_ERROR_READERS: dict[str, _Reader] = {
    **{code: read for code, read in _ERROR_READERS.items() if code not in _HALL_ONLY_CODES},
    **dict.fromkeys(_NOT_FOUND_CODES, _tool_missing),
}
