"""Machine Context messages: an envelope with header and payload, and what may be in it."""

from typing import TypeAlias

import msgspec

from toolhall.dialects import strict
from toolhall.dialects.machine.errors import execution_status, say
from toolhall.dialects.values import object_of, text_of
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.exchange import Finished, Wire
from toolhall.model.json import Json, JsonObject, encode

VERSION = "1.0"
NAME = "toolhall"
MAX_ID = 256


class Header(msgspec.Struct, frozen=True):
    """Who sent what to whom."""

    message_id: str
    message_type: str
    source: str = ""


class Execute(msgspec.Struct, frozen=True):
    """Run a capability of a tool."""

    tool: str
    capability: str
    parameters: JsonObject
    request_id: str | None = None


class Discover(msgspec.Struct, frozen=True):
    """List definitions (ours: the specification names no message for it)."""

    cursor: str | None = None


class Register(msgspec.Struct, frozen=True):
    """Register a definition (ours)."""

    definition: Json


class Cancel(msgspec.Struct, frozen=True):
    """Cancel a request (ours); a notification, so it gets no answer."""

    request_id: str


Payload: TypeAlias = Execute | Discover | Register | Cancel


class Message(msgspec.Struct, frozen=True):
    """A message that could be read."""

    header: Header
    payload: Payload


class Stamp(msgspec.Struct, frozen=True):
    """What the clock and chance contribute to a reply."""

    message_id: str
    timestamp: str


class Usage(msgspec.Struct, frozen=True):
    """What an execution took."""

    milliseconds: float
    cpu_ms: float
    memory_bytes: int


class Unreadable(Exception):
    """A message that was refused; the header is there where it could be read."""

    def __init__(self, error: Malformed, header: Header | None = None) -> None:
        self.error = error
        self.header = header
        super().__init__(error.message)


def read_message(body: bytes) -> Message:
    """One message, or Unreadable."""
    header: Header | None = None
    try:
        message = _object(strict.decode(body), "the message")
        header = _header(_object(message.get("header"), "header"))
        return Message(header, _payload(_object(message.get("payload"), "payload"), header))
    except Malformed as error:
        raise Unreadable(error, header) from None


def _header(header: JsonObject) -> Header:
    if header.get("version") != VERSION:
        raise Malformed(f'header.version must be "{VERSION}"')
    source = header.get("source", "")
    return Header(_text(header, "messageId"), _text(header, "messageType"), source if isinstance(source, str) else "")


def _payload(payload: JsonObject, header: Header) -> Payload:
    if header.message_type == "notification" and "cancel" in payload:
        return Cancel(_text(_object(payload["cancel"], "payload.cancel"), "requestId"))
    if header.message_type != "request":
        raise Malformed("header.messageType must be request, or notification with payload.cancel")
    if "discover" in payload:
        cursor = _object(payload["discover"], "payload.discover").get("cursor")
        return Discover(cursor if isinstance(cursor, str) else None)
    if "register" in payload:
        return Register(payload["register"])
    tool = _object(payload.get("tool"), "payload.tool")
    context = payload.get("context")
    request_id = context.get("request_id") if isinstance(context, dict) else None
    return Execute(
        _text(tool, "id"),
        _text(tool, "capability"),
        _object(tool.get("parameters", {}), "payload.tool.parameters"),
        request_id if isinstance(request_id, str) else None,
    )


def write_execution(header: Header, execute: Execute, finished: Finished, stamp: Stamp, usage: Usage) -> Wire:
    """The response to an execution that ran to its end."""
    if finished.result.is_error:
        return write_failure(header, execute, ToolFailed(text_of(finished)), stamp, usage)
    execution = {"status": "success", "result": msgspec.Raw(object_of(finished)), **_usage(usage)}
    payload = {"tool": {"id": execute.tool, "capability": execute.capability}, "execution": execution}
    return write_response(header, payload, stamp)


def write_failure(header: Header, execute: Execute, error: ToolhallError, stamp: Stamp, usage: Usage) -> Wire:
    """An error: a message of its own before the capability was entered, a status of the execution after."""
    status = execution_status(error)
    if status is None:
        return write_error(header, error, stamp)
    execution = {"status": status, "error": say(error), **_usage(usage)}
    payload = {"tool": {"id": execute.tool, "capability": execute.capability}, "execution": execution}
    return write_response(header, payload, stamp)


def write_response(header: Header, payload: JsonObject, stamp: Stamp) -> Wire:
    """A response."""
    return Wire(encode({"header": _reply_header(header, "response", stamp), "payload": payload}))


def write_error(header: Header | None, error: ToolhallError, stamp: Stamp) -> Wire:
    """An error message; a message that could not be read has no request to name."""
    return Wire(encode({"header": _reply_header(header, "error", stamp), "error": say(error)}), _status(error))


def _status(error: ToolhallError) -> int:
    code = say(error)["code"]
    return {"VALIDATION_ERROR": 400, "NOT_FOUND_ERROR": 404, "SECURITY_ERROR": 403, "SYSTEM_ERROR": 500}.get(code, 503)


def _reply_header(header: Header | None, kind: str, stamp: Stamp) -> JsonObject:
    reply: JsonObject = {
        "version": VERSION,
        "messageId": stamp.message_id,
        "timestamp": stamp.timestamp,
        "messageType": kind,
        "source": NAME,
    }
    if header is not None:
        reply["requestId"] = header.message_id
        reply["destination"] = header.source
    return reply


def _usage(usage: Usage) -> JsonObject:
    used = {"memory_bytes": usage.memory_bytes, "cpu_time_ms": round(usage.cpu_ms, 3)}
    return {"execution_time_ms": round(usage.milliseconds, 3), "resource_usage": used}


def _object(value: Json, what: str) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise Malformed(f"{what} must be an object")


def _text(holder: JsonObject, key: str) -> str:
    value = holder.get(key)
    if isinstance(value, str) and 0 < len(value) <= MAX_ID:
        return value
    raise Malformed(f"{key} must be a text of 1 to {MAX_ID} characters")
