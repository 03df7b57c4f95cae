"""The hub's messages: tool_request and tool_response, request and response."""

from typing import TypeAlias

import msgspec

from toolhall.dialects import strict
from toolhall.dialects.hub.errors import say, status_of
from toolhall.dialects.values import object_of, text_of
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.exchange import Finished, Wire
from toolhall.model.json import Json, JsonObject, encode

MAX_ID = 256


class ToolRequest(msgspec.Struct, frozen=True):
    """Run a method of a tool; a version may be asked for."""

    id: str | None
    tool: str
    method: str
    params: JsonObject
    version: str | None = None


class CoreRequest(msgspec.Struct, frozen=True):
    """Ask something of the hub itself."""

    id: str | None
    method: str
    params: JsonObject


Message: TypeAlias = ToolRequest | CoreRequest


class Unreadable(Exception):
    """A message that was refused; `id` is its own where it could be read."""

    def __init__(self, error: Malformed, id: str | None = None) -> None:  # noqa: A002 - the hub's word
        self.error = error
        self.id = id
        super().__init__(error.message)


def read_message(body: bytes) -> Message:
    """One message, or Unreadable."""
    try:
        message = strict.decode(body)
        if not isinstance(message, dict):
            raise Malformed("send one JSON object")
    except Malformed as error:
        raise Unreadable(error) from None
    raw = message.get("id")
    known = raw if isinstance(raw, str) and len(raw) <= MAX_ID else None
    try:
        if raw is not None and known is None:
            raise Malformed(f"id must be a text of at most {MAX_ID} characters")
        return _message(message, known)
    except Malformed as error:
        raise Unreadable(error, known) from None


def _message(message: JsonObject, request_id: str | None) -> Message:
    match message.get("type"):
        case "tool_request":
            return ToolRequest(
                request_id, _text(message, "tool"), _text(message, "method"), _params(message), _version(message)
            )
        case "request":
            return CoreRequest(request_id, _text(message, "method"), _params(message))
        case None if "action" in message:  # the hub's core pipeline says `action` for method
            return ToolRequest(
                request_id, _text(message, "tool"), _text(message, "action"), _params(message), _version(message)
            )
        case _:
            raise Malformed('type must be "tool_request" or "request"')


def write_tool_response(request: ToolRequest, finished: Finished) -> Wire:
    """The answer to a tool_request that ran to its end."""
    if finished.result.is_error:
        return write_tool_error(request, ToolFailed(text_of(finished)))
    head = b'{"type":"tool_response","id":' + encode(request.id)
    return Wire(head + b',"result":' + object_of(finished) + b',"error":null}')


def write_tool_error(request: ToolRequest, error: ToolhallError) -> Wire:
    """A tool_request that was refused or failed: a tool_error in the response."""
    said = {"type": "tool_error", **say(error, {"tool": request.tool, "method": request.method})}
    body = {"type": "tool_response", "id": request.id, "result": None, "error": said}
    return Wire(encode(body), status_of(error))


def write_response(request: CoreRequest, result: Json) -> Wire:
    """The answer of the hub itself."""
    return Wire(encode({"type": "response", "id": request.id, "result": result, "error": None}))


def write_error(request_id: str | None, error: ToolhallError) -> Wire:
    """A message that could not be read, or a request that the hub refused."""
    body = {"type": "response", "id": request_id, "result": None, "error": say(error, {})}
    return Wire(encode(body), status_of(error))


def _text(message: JsonObject, key: str) -> str:
    value = message.get(key)
    if isinstance(value, str) and value:
        return value
    raise Malformed(f"{key} must be a text")


def _params(message: JsonObject) -> JsonObject:
    params = message.get("params")
    if params is None:
        return {}
    if isinstance(params, dict):
        return params
    raise Malformed("params must be an object")


def _version(message: JsonObject) -> str | None:
    metadata = message.get("metadata")
    version = metadata.get("version") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else None
