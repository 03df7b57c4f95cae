"""Machine Context messages: decodes header and payload, encodes responses and error messages."""

import re
from typing import TypeAlias

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.error_details import EMPTY_MESSAGE, MESSAGE_TOO_LARGE, error_text, headers_of, result_object_json
from toolhall.dialects.machine.errors import translate_error
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import CompletedCall, WireResponse

PROTOCOL_VERSION = "1.0"
SOURCE_NAME = "toolhall"
MAX_ID_LENGTH = 256
ENVELOPE_DEPTH = 3  # message, payload, tool
# "Compatible within a major version": what a later minor version adds is ignored.
_COMPATIBLE_VERSION = re.compile(r"1\.[0-9]{1,9}")
_REQUEST_MEMBERS = {"discover", "register", "tool"}
# What never gets a message back; if two sides answered each other's errors, they would never stop.
_ONE_WAY_TYPES = ("notification", "response", "error")


class MachineHeader(msgspec.Struct, frozen=True):
    """Who sent what; `metadata` belongs to the sender and goes back as it came."""

    message_id: str | None
    message_type: str | None
    source: str | None = None
    metadata: JsonObject | None = None

    @property
    def is_one_way(self) -> bool:
        """Whether the sender expects no message back."""
        return self.message_type in _ONE_WAY_TYPES


UNKNOWN_HEADER = MachineHeader(None, None)


class ExecuteRequest(msgspec.Struct, frozen=True):
    """Run a capability of a tool."""

    tool: str
    capability: str
    parameters: JsonObject
    request_id: str | None = None
    user_id: str | None = None


class DiscoverRequest(msgspec.Struct, frozen=True):
    """List definitions (ours: the specification names no message for it)."""

    cursor: str | None = None


class RegisterRequest(msgspec.Struct, frozen=True):
    """Register a definition (ours)."""

    definition: Json


class CancelNotification(msgspec.Struct, frozen=True):
    """Cancel a request (ours); a notification, so it gets no answer."""

    request_id: str


class MalformedExecution(msgspec.Struct, frozen=True):
    """What wants to run a capability, but is refused; `tool` is what could be read of its name."""

    tool: str
    error: Malformed


Payload: TypeAlias = ExecuteRequest | DiscoverRequest | RegisterRequest | CancelNotification | MalformedExecution


class MachineMessage(msgspec.Struct, frozen=True):
    """A message that could be read."""

    id: str
    header: MachineHeader
    payload: Payload
    token: str | None = None  # whom the sender wants to be; for the transport to prove


class MessageStamp(msgspec.Struct, frozen=True):
    """What the clock and chance contribute to a reply."""

    message_id: str
    timestamp: str


class ExecutionUsage(msgspec.Struct, frozen=True):
    """What an execution took."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int


class MachineDecodeError(Exception):
    """A message that was refused, with as much of its header as could be read."""

    def __init__(self, error: Malformed, header: MachineHeader) -> None:
        self.error = error
        self.header = header
        super().__init__(error.message)


def read_message(body: bytes | None) -> MachineMessage:
    """One message, or Unreadable; None is one that was too large to be read."""
    header, payload = UNKNOWN_HEADER, None
    try:
        if not body:
            raise Malformed(MESSAGE_TOO_LARGE if body is None else EMPTY_MESSAGE)
        message = _object(strict_json.decode(body, ENVELOPE_DEPTH), "the message")
        said = _object(message.get("header"), "header")
        header, payload = _header(said, message.get("metadata")), message.get("payload")
        if said.get("version") != PROTOCOL_VERSION:
            _check_version(said.get("version"))
        sender_id = _text(said, "messageId")
        stated = _object(payload, "payload")
        return MachineMessage(sender_id, header, _payload(stated, header.message_type), _token(stated))
    except Malformed as error:
        if header.is_one_way or not isinstance(payload, dict) or "tool" not in payload:
            raise MachineDecodeError(error, header) from None
        return _malformed_execution(payload, header, error)


def _malformed_execution(payload: JsonObject, header: MachineHeader, error: Malformed) -> MachineMessage:
    """Who sent it must still be proven."""
    tool = payload["tool"]
    names = [_text_or_none(tool.get(key)) for key in ("id", "capability")] if isinstance(tool, dict) else []
    misread = MalformedExecution(".".join(filter(None, names)), error)
    try:
        return MachineMessage("", header, misread, _token(payload))
    except Malformed:
        return MachineMessage("", header, misread)


def _check_version(version: Json) -> None:
    if not isinstance(version, str) or not _COMPATIBLE_VERSION.fullmatch(version):
        raise Malformed(f'header.version must be "{PROTOCOL_VERSION}"')


def _header(header: JsonObject, metadata: Json) -> MachineHeader:
    """As much of a header as can be read, so that a refusal finds its way back."""
    return MachineHeader(
        _text_or_none(header.get("messageId")),
        _text_or_none(header.get("messageType")),
        _text_or_none(header.get("source")),
        metadata if isinstance(metadata, dict) else None,
    )


def _payload(payload: JsonObject, message_type: str | None) -> Payload:
    if message_type == "notification" and "cancel" in payload:
        return CancelNotification(_text(_object(payload["cancel"], "payload.cancel"), "requestId"))
    if message_type != "request":
        raise Malformed("header.messageType must be request, or notification with payload.cancel")
    if len(payload.keys() & _REQUEST_MEMBERS) > 1:
        raise Malformed("payload has more than one of discover, register and tool; send a message for each")
    if "discover" in payload:
        cursor = _object(payload["discover"], "payload.discover").get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise Malformed("payload.discover.cursor must be a text")
        return DiscoverRequest(cursor)
    if "register" in payload:
        return RegisterRequest(payload["register"])
    tool = _object(payload.get("tool"), "payload.tool")
    context, parameters = payload.get("context"), tool.get("parameters")
    stated: JsonObject = context if isinstance(context, dict) else {}
    return ExecuteRequest(
        _text(tool, "id"),
        _text(tool, "capability"),
        {} if parameters is None else _object(parameters, "payload.tool.parameters"),
        _text_or_none(stated.get("request_id")),
        None if stated.get("user_id") is None else _text(stated, "user_id"),
    )


def write_execution(
    header: MachineHeader, execute: ExecuteRequest, finished: CompletedCall, stamp: MessageStamp, usage: ExecutionUsage
) -> WireResponse:
    """The response to an execution that ran to its end."""
    if finished.result.is_error:
        return write_failure(header, execute, ToolFailed(error_text(finished)), stamp, usage)
    execution = {"status": "success", "result": msgspec.Raw(result_object_json(finished)), **_usage_members(usage)}
    return _execution_response(header, execute, execution, stamp)


def write_failure(
    header: MachineHeader, execute: ExecuteRequest, error: ToolhallError, stamp: MessageStamp, usage: ExecutionUsage
) -> WireResponse:
    """An error: a message of its own before the capability was entered, a status of the execution after."""
    row, said = translate_error(error)
    if row.status is None:
        return write_error(header, error, stamp)
    return _execution_response(header, execute, {"status": row.status, "error": said, **_usage_members(usage)}, stamp)


def write_response(header: MachineHeader, payload: JsonObject, stamp: MessageStamp) -> WireResponse:
    """A response."""
    return WireResponse(_encode_message(header, "response", stamp, "payload", payload))


def write_error(header: MachineHeader, error: ToolhallError, stamp: MessageStamp) -> WireResponse:
    """An error message; one that answers what could not be read may have no request to name."""
    row, said = translate_error(error)
    return WireResponse(_encode_message(header, "error", stamp, "error", said), row.http, headers_of(error))


def _execution_response(
    header: MachineHeader, execute: ExecuteRequest, execution: JsonObject, stamp: MessageStamp
) -> WireResponse:
    tool = {"id": execute.tool, "capability": execute.capability}
    return write_response(header, {"tool": tool, "execution": execution}, stamp)


def _encode_message(header: MachineHeader, kind: str, stamp: MessageStamp, key: str, content: JsonObject) -> bytes:
    reply: JsonObject = {
        "version": PROTOCOL_VERSION,
        "messageId": stamp.message_id,
        "timestamp": stamp.timestamp,
        "messageType": kind,
        "source": SOURCE_NAME,
    }
    if header.message_id is not None:
        reply["requestId"] = header.message_id
    if header.source is not None:
        reply["destination"] = header.source
    message: JsonObject = {"header": reply, key: content}
    if header.metadata is not None:
        message["metadata"] = header.metadata
    return encode(message)


def _usage_members(usage: ExecutionUsage) -> JsonObject:
    used = {"memory_bytes": usage.memory_bytes, "cpu_time_ms": round(usage.cpu_seconds * 1000, 3)}
    return {"execution_time_ms": round(usage.seconds * 1000, 3), "resource_usage": used}


def _token(payload: JsonObject) -> str | None:
    """What an empty text means is that there is none."""
    security = payload.get("security")
    token = security.get("token") if isinstance(security, dict) else None
    if token is not None and not isinstance(token, str):
        raise Malformed("payload.security.token must be a text")
    return token or None


def _object(value: Json, what: str) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise Malformed(f"{what} must be an object")


def _text_or_none(value: Json) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID_LENGTH else None


def _text(holder: JsonObject, key: str) -> str:
    value = _text_or_none(holder.get(key))
    if value is None:
        raise Malformed(f"{key} must be a text of 1 to {MAX_ID_LENGTH} characters")
    return value
