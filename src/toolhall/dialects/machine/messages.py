"""Machine Context messages: decodes header and payload, encodes responses and error messages."""

import re
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from toolhall.dialects import strict_json
from toolhall.dialects.error_details import EMPTY_MESSAGE, MESSAGE_TOO_LARGE, error_text, headers_of, result_object_json
from toolhall.dialects.machine.errors import translate_error
from toolhall.dialects.plain_json import PlainShape, ShortText
from toolhall.dialects.strict_json import optional_text, require_object, require_text, text_or_none
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import CompletedCall, WireResponse

PROTOCOL_VERSION = "1.0"
SOURCE_NAME = "toolhall"
ENVELOPE_DEPTH = 3  # message, payload, tool
# The specification: "compatible within a major version"; members added by a later minor version are ignored.
_COMPATIBLE_VERSION = re.compile(r"1\.[0-9]{1,9}")
_REQUEST_MEMBERS = {"discover", "register", "tool"}
# Message types that are never answered; if two sides answered each other's errors, they would never stop.
_ONE_WAY_TYPES = ("notification", "response", "error")


class MachineHeader(msgspec.Struct, frozen=True, gc=False):
    """The header of a message; `metadata` belongs to the sender and is returned unchanged."""

    message_id: str | None
    message_type: str | None
    source: str | None = None
    metadata: JsonObject | None = None

    @property
    def is_one_way(self) -> bool:
        """True if the sender expects no response."""
        return self.message_type in _ONE_WAY_TYPES


UNKNOWN_HEADER = MachineHeader(None, None)


class ExecuteRequest(msgspec.Struct, frozen=True, gc=False):
    """Runs a capability of a tool."""

    tool: str
    capability: str
    parameters: JsonObject
    request_id: str | None = None
    user_id: str | None = None
    encoded_parameters: bytes | None = None  # the parameters as JSON, if they were encoded to check them


class DiscoverRequest(msgspec.Struct, frozen=True):
    """Lists definitions (an extension: the specification defines no message for it)."""

    cursor: str | None = None


class RegisterRequest(msgspec.Struct, frozen=True):
    """Registers a definition (an extension)."""

    definition: Json


class CancelNotification(msgspec.Struct, frozen=True):
    """Cancels a request (an extension); a notification, so it gets no response."""

    request_id: str


class MalformedExecution(msgspec.Struct, frozen=True):
    """An invalid request to run a capability; `tool` is what could be read of its name."""

    tool: str
    error: Malformed


OtherPayload: TypeAlias = DiscoverRequest | RegisterRequest | CancelNotification | MalformedExecution
Payload: TypeAlias = ExecuteRequest | OtherPayload


class MachineMessage(msgspec.Struct, frozen=True, gc=False):
    """A decoded message."""

    id: str
    header: MachineHeader
    payload: Payload
    token: str | None = None  # the sender's credential, for the transport to verify


class MessageStamp(msgspec.Struct, frozen=True, gc=False):
    """The id and time of a response, made by the caller: this package has no clock and no randomness."""

    message_id: str
    timestamp: str


class ExecutionUsage(msgspec.Struct, frozen=True, gc=False):
    """Resources that an execution used."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int


class MachineDecodeError(Exception):
    """A message was refused; carries as much of its header as could be read."""

    def __init__(self, error: Malformed, header: MachineHeader) -> None:
        self.error = error
        self.header = header
        super().__init__(error.message)


class _Plain(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """A part of an execution request of the usual shape."""


class _PlainHeader(_Plain, frozen=True, rename="camel"):
    version: Literal["1.0"]
    message_id: ShortText
    message_type: Literal["request"]
    timestamp: str | None = None
    source: ShortText | None = None
    destination: str | None = None


class _PlainTool(_Plain, frozen=True):
    id: ShortText
    capability: ShortText
    parameters: dict[str, Json]


class _PlainContext(_Plain, frozen=True):
    session_id: str | None = None
    request_id: ShortText | None = None
    user_id: ShortText | None = None


class _PlainSecurity(_Plain, frozen=True):
    token: str


class _PlainPayload(_Plain, frozen=True):
    tool: _PlainTool
    context: _PlainContext | None = None
    security: _PlainSecurity | None = None


class _PlainMessage(_Plain, frozen=True):
    header: _PlainHeader
    payload: _PlainPayload


_plain_messages = PlainShape(_PlainMessage)


def read_plain_execution(body: bytes) -> MachineMessage | None:
    """Decode an execution request of the usual shape; None if the general decoder has to look at it."""
    message = _plain_messages.decode(body)
    if message is None:
        return None
    header, payload = message.header, message.payload
    tool, context, security = payload.tool, payload.context, payload.security
    optional_keys = 0 if header.source is None else 1  # nearly all senders name themselves
    encoded = _plain_messages.encode_arguments(body, message, tool.parameters, optional_keys)
    if encoded is None:
        return None
    request_id, user_id = (None, None) if context is None else (context.request_id, context.user_id)
    return MachineMessage(
        header.message_id,
        MachineHeader(header.message_id, header.message_type, header.source),
        ExecuteRequest(tool.id, tool.capability, tool.parameters, request_id, user_id, encoded),
        None if security is None else security.token or None,
    )


def read_message(body: bytes | None) -> MachineMessage:
    """Decode one message; raises MachineDecodeError. None stands for a body that was too large to be read."""
    plain = None if body is None else read_plain_execution(body)
    if plain is not None:
        return plain
    header, payload = UNKNOWN_HEADER, None
    try:
        if not body:
            raise Malformed(MESSAGE_TOO_LARGE if body is None else EMPTY_MESSAGE)
        message = require_object(strict_json.decode(body, ENVELOPE_DEPTH), "the message")
        members = require_object(message.get("header"), "header")
        header, payload = _header(members, message.get("metadata")), message.get("payload")
        if members.get("version") != PROTOCOL_VERSION:
            _check_version(members.get("version"))
        message_id = require_text(members, "messageId")
        stated = require_object(payload, "payload")
        return MachineMessage(message_id, header, _payload(stated, header.message_type), _token(stated))
    except Malformed as error:
        if header.is_one_way or not isinstance(payload, dict) or "tool" not in payload:
            raise MachineDecodeError(error, header) from None
        return _malformed_execution(payload, header, error)


def _malformed_execution(payload: JsonObject, header: MachineHeader, error: Malformed) -> MachineMessage:
    """A refused execution as a message: its token must still be verified before it is answered."""
    tool = payload["tool"]
    names = [text_or_none(tool.get(key)) for key in ("id", "capability")] if isinstance(tool, dict) else []
    malformed = MalformedExecution(".".join(filter(None, names)), error)
    try:
        return MachineMessage("", header, malformed, _token(payload))
    except Malformed:
        return MachineMessage("", header, malformed)


def _check_version(version: Json) -> None:
    if not isinstance(version, str) or not _COMPATIBLE_VERSION.fullmatch(version):
        raise Malformed(f'header.version must be "{PROTOCOL_VERSION}"')


def _header(header: JsonObject, metadata: Json) -> MachineHeader:
    """As much of a header as can be read, so that an error can be addressed to the sender."""
    return MachineHeader(
        text_or_none(header.get("messageId")),
        text_or_none(header.get("messageType")),
        text_or_none(header.get("source")),
        metadata if isinstance(metadata, dict) else None,
    )


def _payload(payload: JsonObject, message_type: str | None) -> Payload:
    if message_type == "notification" and "cancel" in payload:
        return CancelNotification(require_text(require_object(payload["cancel"], "payload.cancel"), "requestId"))
    if message_type != "request":
        raise Malformed("header.messageType must be request, or notification with payload.cancel")
    if len(payload.keys() & _REQUEST_MEMBERS) > 1:
        raise Malformed("payload has more than one of discover, register and tool; send a message for each")
    if "discover" in payload:
        cursor = require_object(payload["discover"], "payload.discover").get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise Malformed("payload.discover.cursor must be a text")
        return DiscoverRequest(cursor)
    if "register" in payload:
        return RegisterRequest(payload["register"])
    tool = require_object(payload.get("tool"), "payload.tool")
    context, parameters = payload.get("context"), tool.get("parameters")
    stated: JsonObject = context if isinstance(context, dict) else {}
    return ExecuteRequest(
        require_text(tool, "id"),
        require_text(tool, "capability"),
        {} if parameters is None else require_object(parameters, "payload.tool.parameters"),
        text_or_none(stated.get("request_id")),
        optional_text(stated, "user_id"),
    )


class _ReplyHeader(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    version: str
    message_id: str
    timestamp: str
    message_type: str
    source: str
    request_id: str | None = None
    destination: str | None = None


class _ResourceUsage(msgspec.Struct, frozen=True, gc=False):
    memory_bytes: int
    cpu_time_ms: float


class _Execution(msgspec.Struct, frozen=True, gc=False):
    status: str
    result: msgspec.Raw | UnsetType
    error: JsonObject | UnsetType
    execution_time_ms: float
    resource_usage: _ResourceUsage


class _ToolName(msgspec.Struct, frozen=True, gc=False):
    id: str
    capability: str


class _ExecutionPayload(msgspec.Struct, frozen=True, gc=False):
    tool: _ToolName
    execution: _Execution


class _Reply(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    header: _ReplyHeader
    payload: _ExecutionPayload | JsonObject | None = None
    error: JsonObject | None = None
    metadata: JsonObject | None = None  # the sender's, unchanged


def write_execution(
    header: MachineHeader, execute: ExecuteRequest, finished: CompletedCall, stamp: MessageStamp, usage: ExecutionUsage
) -> WireResponse:
    """The response to an execution that completed."""
    if finished.result.is_error:
        return write_failure(header, execute, ToolFailed(error_text(finished)), stamp, usage)
    result = msgspec.Raw(result_object_json(finished))
    return _execution_response(header, execute, _Execution("success", result, UNSET, *_used(usage)), stamp)


def write_failure(
    header: MachineHeader, execute: ExecuteRequest, error: ToolhallError, stamp: MessageStamp, usage: ExecutionUsage
) -> WireResponse:
    """Any error of an execution: an error message before the capability ran, a response with a status after."""
    row, details = translate_error(error)
    if row.status is None:
        return write_error(header, error, stamp)
    return _execution_response(header, execute, _Execution(row.status, UNSET, details, *_used(usage)), stamp)


def write_response(header: MachineHeader, payload: JsonObject, stamp: MessageStamp) -> WireResponse:
    """Encode a response."""
    return WireResponse(encode(_Reply(_reply_header(header, "response", stamp), payload, None, header.metadata)))


def write_error(header: MachineHeader, error: ToolhallError, stamp: MessageStamp) -> WireResponse:
    """Encode an error message; without a request id if the request could not be read."""
    row, details = translate_error(error)
    reply = _Reply(_reply_header(header, "error", stamp), None, details, header.metadata)
    return WireResponse(encode(reply), row.http, headers_of(error))


def _execution_response(
    header: MachineHeader, execute: ExecuteRequest, execution: _Execution, stamp: MessageStamp
) -> WireResponse:
    payload = _ExecutionPayload(_ToolName(execute.tool, execute.capability), execution)
    return WireResponse(encode(_Reply(_reply_header(header, "response", stamp), payload, None, header.metadata)))


def _reply_header(header: MachineHeader, kind: str, stamp: MessageStamp) -> _ReplyHeader:
    return _ReplyHeader(
        PROTOCOL_VERSION, stamp.message_id, stamp.timestamp, kind, SOURCE_NAME, header.message_id, header.source
    )


def _used(usage: ExecutionUsage) -> tuple[float, _ResourceUsage]:
    """The elapsed time in milliseconds, and the resources; `round` takes longer than the rest of a response."""
    elapsed = cpu_time = int(usage.seconds * 1_000_000 + 0.5) / 1000
    if usage.cpu_seconds != usage.seconds:
        cpu_time = int(usage.cpu_seconds * 1_000_000 + 0.5) / 1000
    return elapsed, _ResourceUsage(usage.memory_bytes, cpu_time)


def _token(payload: JsonObject) -> str | None:
    """The credential in the payload; an empty one counts as absent."""
    security = payload.get("security")
    token = security.get("token") if isinstance(security, dict) else None
    if token is not None and not isinstance(token, str):
        raise Malformed("payload.security.token must be a text")
    return token or None
