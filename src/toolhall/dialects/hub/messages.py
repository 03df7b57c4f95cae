"""The hub's messages: tool_request and tool_response, request and response."""

from typing import Literal, TypeAlias

import msgspec

from toolhall.dialects import strict
from toolhall.dialects.faults import EMPTY, TOO_LARGE, headers_of
from toolhall.dialects.hub.errors import MANAGEMENT, BadParams, Row, say
from toolhall.dialects.values import object_of, text_of
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.exchange import Finished, Wire
from toolhall.model.json import Json, JsonObject, encode

MAX_ID = 256
ENVELOPE = 1  # message
_CHALLENGED = (401, 403)
# The hub's own ids are texts; whole numbers, which many programs count with, come back as they came.
RequestId: TypeAlias = str | int | None


class ToolRequest(msgspec.Struct, frozen=True):
    """Run a method of a tool; a version may be asked for."""

    id: RequestId
    tool: str
    method: str
    params: JsonObject
    version: str | None = None


class CoreRequest(msgspec.Struct, frozen=True):
    """Ask something of the hub itself."""

    id: RequestId
    method: str
    params: JsonObject


Message: TypeAlias = ToolRequest | CoreRequest
Kind: TypeAlias = Literal["response", "tool_response"]


class Unreadable(Exception):
    """A message that was refused; `id` is its own where it could be read, `kind` the reply that it waits for."""

    def __init__(
        self,
        error: Malformed,
        id: RequestId = None,  # noqa: A002 - its word
        kind: Kind = "response",
        named: JsonObject | None = None,
    ) -> None:
        self.error = error
        self.id = id
        self.kind: Kind = kind
        self.named: JsonObject = named or {}  # the tool and the method, where they could be read
        super().__init__(error.message)


def read_message(body: bytes | None) -> Message:
    """One message, or Unreadable; None is one that was too large to be read."""
    try:
        if not body:
            raise Malformed(TOO_LARGE if body is None else EMPTY)
        message = strict.decode(body, ENVELOPE)
        if not isinstance(message, dict):
            raise Malformed("send one JSON object")
    except Malformed as error:
        raise Unreadable(error) from None
    known = message.get("id") if is_id(message.get("id")) else None
    try:
        if known is None and message.get("id") is not None:
            raise Malformed(f"id must be a text of at most {MAX_ID} characters, or a whole number")
        return _message(message, known)
    except Malformed as error:
        if _runs_a_tool(message):
            raise Unreadable(error, known, "tool_response", _named(message)) from None
        raise Unreadable(error, known) from None


def is_id(value: Json) -> bool:
    """Whether a request may be called this."""
    return type(value) is int or (isinstance(value, str) and len(value) <= MAX_ID)


def _message(message: JsonObject, request_id: RequestId) -> Message:
    if _runs_a_tool(message):
        # The hub's core pipeline says `action` for method, and sends no type.
        method = _text(message, "method" if "method" in message else "action")
        return ToolRequest(request_id, _text(message, "tool"), method, _params(message), _version(message))
    if message.get("type") == "request":
        return CoreRequest(request_id, _text(message, "method"), _params(message))
    raise Malformed('type must be "tool_request" or "request"')


def _runs_a_tool(message: JsonObject) -> bool:
    kind = message.get("type")
    return kind == "tool_request" or (kind is None and "action" in message)


def _named(message: JsonObject) -> JsonObject:
    """The tool and the method of a message that was refused, as far as they are names."""
    named = {"tool": message.get("tool"), "method": message.get("method", message.get("action"))}
    return {key: name for key, name in named.items() if isinstance(name, str) and len(name) <= MAX_ID}


def write_tool_response(request: ToolRequest, finished: Finished) -> Wire:
    """The answer to a tool_request that ran to its end."""
    if finished.result.is_error:
        return write_tool_error(request, ToolFailed(text_of(finished)))
    head = b'{"type":"tool_response","id":' + encode(request.id)
    return Wire(head + b',"result":' + object_of(finished) + b',"error":null}')


def write_tool_error(request: ToolRequest, error: ToolhallError) -> Wire:
    """A tool_request that was refused or failed: a tool_error in the response."""
    version = {} if request.version is None else {"version": request.version}
    said = say(error, {"tool": request.tool, "method": request.method, **version})
    return _refusal(request.id, "tool_response", error, said)


def write_response(request: CoreRequest, result: Json) -> Wire:
    """The answer of the hub itself."""
    return Wire(encode({"type": "response", "id": request.id, "result": result, "error": None}))


def write_error(request: CoreRequest, error: ToolhallError) -> Wire:
    """A request that the hub refused."""
    return _refusal(request.id, "response", error, say(error, {}, MANAGEMENT))


def write_unreadable(unreadable: Unreadable, error: ToolhallError) -> Wire:
    """A message that could not be read, and what is said to that."""
    return _refusal(unreadable.id, unreadable.kind, error, say(error, unreadable.named))


def _refusal(request_id: RequestId, kind: Kind, error: ToolhallError, said_by: tuple[Row, JsonObject]) -> Wire:
    row, said = said_by
    if kind == "tool_response":
        said = {"type": "tool_error", **said}
    body = {"type": kind, "id": request_id, "result": None, "error": said}
    told = "retry_after" in said["details"] or row.http in _CHALLENGED
    return Wire(encode(body), row.http, headers_of(error) if told else ())


def _text(message: JsonObject, key: str) -> str:
    value = message.get(key)
    if isinstance(value, str) and 0 < len(value) <= MAX_ID:
        return value
    raise Malformed(f"{key} must be a text of 1 to {MAX_ID} characters")


def _params(message: JsonObject) -> JsonObject:
    params = message.get("params")
    if params is None:
        return {}
    if isinstance(params, dict):
        return params
    raise BadParams("params must be an object")


def _version(message: JsonObject) -> str | None:
    metadata = message.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    if version is None or isinstance(version, str):
        return version
    raise Malformed("metadata.version must be a text")
