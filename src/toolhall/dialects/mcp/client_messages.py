"""Reads the messages of an MCP server: IncomingMessage, errors, and notifications of every revision.

Messages are read with a type that leaves params, results and errors raw until somebody must look at them. Everything
here comes from outside: what cannot be read raises Malformed or is left out, and nothing is believed.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from toolhall.dialects.mcp.protocol import INTERNAL_ERROR, RequestId
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import LOG_LEVELS, LogEvent, ProgressEvent
from toolhall.model.text import clean_line

MAX_BATCH = 1_000  # messages
MAX_ERROR_TEXT = 2_000
MAX_TOKEN = 2**63
_NULL = msgspec.Raw(b"null")


class IncomingMessage(msgspec.Struct, frozen=True, gc=False):
    """One message of a server; which kind it is, its members tell."""

    id: int | float | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()

    @property
    def is_response(self) -> bool:
        """Whether it is the result or the error of a request."""
        return self.method is msgspec.UNSET

    @property
    def is_request(self) -> bool:
        """Whether the server waits for a response to it."""
        return self.method is not msgspec.UNSET and type(self.id) in (int, str)

    @property
    def request_id(self) -> RequestId | None:
        """The id, if it can be one."""
        return self.id if isinstance(self.id, int | str) else None

    @property
    def has_error(self) -> bool:
        """Whether it is an error response; some servers write `"error": null` beside a result."""
        return bool(self.error) and self.error != _NULL


class ErrorBody(msgspec.Struct, frozen=True):
    """The error of an error response; the message is cleaned and cut."""

    code: int
    message: str
    data: Json = None


class _WireError(msgspec.Struct, frozen=True):
    code: int | float | str = INTERNAL_ERROR  # a text in errors of HTTP that are no JSON-RPC
    message: str | None = None
    data: Json = None


_decode_message = msgspec.json.Decoder(IncomingMessage).decode
_decode_batch = msgspec.json.Decoder(list[IncomingMessage]).decode
_decode_error = msgspec.json.Decoder(_WireError).decode
_decode_object: Callable[[bytes | msgspec.Raw], JsonObject] = msgspec.json.Decoder(dict).decode


def read_incoming(body: bytes) -> IncomingMessage:
    """Decode one message; raises Malformed."""
    try:
        message = _decode_message(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Malformed("the server sent something that is no JSON-RPC message") from None
    if message.method is msgspec.UNSET and not message.result and not message.error:
        raise Malformed("the server sent a message with neither a method, a result nor an error")
    return message


def read_incoming_batch(body: bytes) -> list[IncomingMessage]:
    """Decode one message or a batch of them (2025-03-26); raises Malformed."""
    if body.lstrip()[:1] != b"[":
        return [read_incoming(body)]
    try:
        messages = _decode_batch(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Malformed("the server sent a batch that holds something else than JSON-RPC messages") from None
    if len(messages) > MAX_BATCH:
        raise Malformed(f"the server sent a batch of more than {MAX_BATCH} messages")
    return messages


def read_error(message: IncomingMessage) -> ErrorBody:
    """The error of an error response; total, since there is nobody to complain to."""
    try:
        wire = _decode_error(message.error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ErrorBody(INTERNAL_ERROR, "the server answered with an error that cannot be read")
    text = clean_line(wire.message or "", MAX_ERROR_TEXT)
    code = wire.code
    is_number = not isinstance(code, str) and -MAX_TOKEN < code < MAX_TOKEN
    return ErrorBody(int(code) if is_number else INTERNAL_ERROR, text or "the server gave no reason", wire.data)


def read_params(message: IncomingMessage) -> JsonObject:
    """The params of a request or notification; raises Malformed if they are no object."""
    if not message.params or message.params == _NULL:
        return {}
    return decode_object(message.params, "the params")


def decode_object(raw: bytes | msgspec.Raw, what: str) -> JsonObject:
    """The JSON as an object; raises Malformed that names what it is."""
    try:
        return _decode_object(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        raise Malformed(f"{what} of the server must be an object") from None


# --- notifications ----------------------------------------------------------------------------------------------------


class ProgressNotification(msgspec.Struct, frozen=True):
    """The progress of the request with this token."""

    token: int | str
    event: ProgressEvent


class ListChanged(msgspec.Struct, frozen=True):
    """A list of the server has changed."""

    kind: Literal["tools", "resources", "prompts"]


class ResourceUpdated(msgspec.Struct, frozen=True):
    """A resource that was subscribed to has changed."""

    uri: str


class QuestionCancelled(msgspec.Struct, frozen=True):
    """The server does not want the response to one of its own requests any more."""

    id: RequestId


class SubscriptionAcknowledged(msgspec.Struct, frozen=True):
    """2026-07-28: what a listen stream will tell."""


ServerNotification: TypeAlias = (
    ProgressNotification | LogEvent | ListChanged | ResourceUpdated | QuestionCancelled | SubscriptionAcknowledged
)
_LIST_CHANGED = {
    "notifications/tools/list_changed": ListChanged("tools"),
    "notifications/resources/list_changed": ListChanged("resources"),
    "notifications/prompts/list_changed": ListChanged("prompts"),
}


def read_notification(message: IncomingMessage) -> ServerNotification | None:
    """Decode a notification; None for one that is unknown or cannot be read, which is ignored."""
    method = message.method
    if not isinstance(method, str):
        return None
    if method in _LIST_CHANGED:
        return _LIST_CHANGED[method]
    read = _READERS.get(method)
    try:
        return None if read is None else read(read_params(message))
    except Malformed:
        return None


def _read_progress(params: JsonObject) -> ProgressNotification | None:
    token, done = params.get("progressToken"), number_or_none(params.get("progress"))
    text = params.get("message")
    if not isinstance(token, int | str) or done is None:
        return None
    event = ProgressEvent(done, number_or_none(params.get("total")), text if isinstance(text, str) else None)
    return ProgressNotification(token, event)


def _read_log(params: JsonObject) -> LogEvent | None:
    level, logger = params.get("level"), params.get("logger")
    if level not in LOG_LEVELS or "data" not in params:
        return None
    return LogEvent(level, params["data"], logger if isinstance(logger, str) else None)


def _read_updated(params: JsonObject) -> ResourceUpdated | None:
    uri = params.get("uri")
    return ResourceUpdated(uri) if isinstance(uri, str) else None


def _read_cancelled(params: JsonObject) -> QuestionCancelled | None:
    cancelled = params.get("requestId")
    return QuestionCancelled(cancelled) if isinstance(cancelled, int | str) else None


def number_or_none(value: Json) -> float | None:
    """The value if it is a number; true and false are none."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


_READERS: dict[str, Callable[[JsonObject], ServerNotification | None]] = {
    "notifications/progress": _read_progress,
    "notifications/message": _read_log,
    "notifications/resources/updated": _read_updated,
    "notifications/cancelled": _read_cancelled,
    "notifications/subscriptions/acknowledged": lambda _: SubscriptionAcknowledged(),
}
