"""Machine Context messages: an envelope with header and payload, and what may be in it."""

import re
from typing import TypeAlias

import msgspec

from toolhall.dialects import strict
from toolhall.dialects.faults import EMPTY, TOO_LARGE, headers_of
from toolhall.dialects.machine.errors import say
from toolhall.dialects.values import object_of, text_of
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.exchange import Finished, Wire
from toolhall.model.json import Json, JsonObject, encode

VERSION = "1.0"
NAME = "toolhall"
MAX_ID = 256
ENVELOPE = 3  # message, payload, tool
# "Compatible within a major version": what a later minor version adds is ignored.
_COMPATIBLE = re.compile(r"1\.[0-9]{1,9}")
_ASKED = {"discover", "register", "tool"}
# What never gets a message back; if two sides answered each other's errors, they would never stop.
_ONE_WAY = ("notification", "response", "error")


class Header(msgspec.Struct, frozen=True):
    """Who sent what; `metadata` belongs to the sender and goes back as it came."""

    message_id: str | None
    message_type: str | None
    source: str | None = None
    metadata: JsonObject | None = None

    @property
    def one_way(self) -> bool:
        """Whether the sender expects no message back."""
        return self.message_type in _ONE_WAY


UNKNOWN = Header(None, None)


class Execute(msgspec.Struct, frozen=True):
    """Run a capability of a tool."""

    tool: str
    capability: str
    parameters: JsonObject
    request_id: str | None = None
    user_id: str | None = None


class Discover(msgspec.Struct, frozen=True):
    """List definitions (ours: the specification names no message for it)."""

    cursor: str | None = None


class Register(msgspec.Struct, frozen=True):
    """Register a definition (ours)."""

    definition: Json


class Cancel(msgspec.Struct, frozen=True):
    """Cancel a request (ours); a notification, so it gets no answer."""

    request_id: str


class Misread(msgspec.Struct, frozen=True):
    """What wants to run a capability, but is refused; `tool` is what could be read of its name."""

    tool: str
    error: Malformed


Payload: TypeAlias = Execute | Discover | Register | Cancel | Misread


class Message(msgspec.Struct, frozen=True):
    """A message that could be read."""

    id: str
    header: Header
    payload: Payload
    token: str | None = None  # whom the sender wants to be; for the transport to prove


class Stamp(msgspec.Struct, frozen=True):
    """What the clock and chance contribute to a reply."""

    message_id: str
    timestamp: str


class Usage(msgspec.Struct, frozen=True):
    """What an execution took."""

    seconds: float
    cpu_seconds: float
    memory_bytes: int


class Unreadable(Exception):
    """A message that was refused, with as much of its header as could be read."""

    def __init__(self, error: Malformed, header: Header) -> None:
        self.error = error
        self.header = header
        super().__init__(error.message)


def read_message(body: bytes | None) -> Message:
    """One message, or Unreadable; None is one that was too large to be read."""
    header, payload = UNKNOWN, None
    try:
        if not body:
            raise Malformed(TOO_LARGE if body is None else EMPTY)
        message = _object(strict.decode(body, ENVELOPE), "the message")
        said = _object(message.get("header"), "header")
        header, payload = _header(said, message.get("metadata")), message.get("payload")
        if said.get("version") != VERSION:
            _check_version(said.get("version"))
        sender_id = _text(said, "messageId")
        stated = _object(payload, "payload")
        return Message(sender_id, header, _payload(stated, header.message_type), _token(stated))
    except Malformed as error:
        if header.one_way or not isinstance(payload, dict) or "tool" not in payload:
            raise Unreadable(error, header) from None
        return _misread(payload, header, error)


def _misread(payload: JsonObject, header: Header, error: Malformed) -> Message:
    """Who sent it must still be proven."""
    tool = payload["tool"]
    names = [_known(tool.get(key)) for key in ("id", "capability")] if isinstance(tool, dict) else []
    misread = Misread(".".join(filter(None, names)), error)
    try:
        return Message("", header, misread, _token(payload))
    except Malformed:
        return Message("", header, misread)


def _check_version(version: Json) -> None:
    if not isinstance(version, str) or not _COMPATIBLE.fullmatch(version):
        raise Malformed(f'header.version must be "{VERSION}"')


def _header(header: JsonObject, metadata: Json) -> Header:
    """As much of a header as can be read, so that a refusal finds its way back."""
    return Header(
        _known(header.get("messageId")),
        _known(header.get("messageType")),
        _known(header.get("source")),
        metadata if isinstance(metadata, dict) else None,
    )


def _payload(payload: JsonObject, message_type: str | None) -> Payload:
    if message_type == "notification" and "cancel" in payload:
        return Cancel(_text(_object(payload["cancel"], "payload.cancel"), "requestId"))
    if message_type != "request":
        raise Malformed("header.messageType must be request, or notification with payload.cancel")
    if len(payload.keys() & _ASKED) > 1:
        raise Malformed("payload has more than one of discover, register and tool; send a message for each")
    if "discover" in payload:
        cursor = _object(payload["discover"], "payload.discover").get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise Malformed("payload.discover.cursor must be a text")
        return Discover(cursor)
    if "register" in payload:
        return Register(payload["register"])
    tool = _object(payload.get("tool"), "payload.tool")
    context, parameters = payload.get("context"), tool.get("parameters")
    stated: JsonObject = context if isinstance(context, dict) else {}
    return Execute(
        _text(tool, "id"),
        _text(tool, "capability"),
        {} if parameters is None else _object(parameters, "payload.tool.parameters"),
        _known(stated.get("request_id")),
        None if stated.get("user_id") is None else _text(stated, "user_id"),
    )


def write_execution(header: Header, execute: Execute, finished: Finished, stamp: Stamp, usage: Usage) -> Wire:
    """The response to an execution that ran to its end."""
    if finished.result.is_error:
        return write_failure(header, execute, ToolFailed(text_of(finished)), stamp, usage)
    execution = {"status": "success", "result": msgspec.Raw(object_of(finished)), **_usage(usage)}
    return _executed(header, execute, execution, stamp)


def write_failure(header: Header, execute: Execute, error: ToolhallError, stamp: Stamp, usage: Usage) -> Wire:
    """An error: a message of its own before the capability was entered, a status of the execution after."""
    row, said = say(error)
    if row.status is None:
        return write_error(header, error, stamp)
    return _executed(header, execute, {"status": row.status, "error": said, **_usage(usage)}, stamp)


def write_response(header: Header, payload: JsonObject, stamp: Stamp) -> Wire:
    """A response."""
    return Wire(_message(header, "response", stamp, "payload", payload))


def write_error(header: Header, error: ToolhallError, stamp: Stamp) -> Wire:
    """An error message; one that answers what could not be read may have no request to name."""
    row, said = say(error)
    return Wire(_message(header, "error", stamp, "error", said), row.http, headers_of(error))


def _executed(header: Header, execute: Execute, execution: JsonObject, stamp: Stamp) -> Wire:
    tool = {"id": execute.tool, "capability": execute.capability}
    return write_response(header, {"tool": tool, "execution": execution}, stamp)


def _message(header: Header, kind: str, stamp: Stamp, key: str, content: JsonObject) -> bytes:
    reply: JsonObject = {
        "version": VERSION,
        "messageId": stamp.message_id,
        "timestamp": stamp.timestamp,
        "messageType": kind,
        "source": NAME,
    }
    if header.message_id is not None:
        reply["requestId"] = header.message_id
    if header.source is not None:
        reply["destination"] = header.source
    message: JsonObject = {"header": reply, key: content}
    if header.metadata is not None:
        message["metadata"] = header.metadata
    return encode(message)


def _usage(usage: Usage) -> JsonObject:
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


def _known(value: Json) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= MAX_ID else None


def _text(holder: JsonObject, key: str) -> str:
    value = _known(holder.get(key))
    if value is None:
        raise Malformed(f"{key} must be a text of 1 to {MAX_ID} characters")
    return value
