"""JSON-RPC 2.0 messages as MCP uses them: one object, no batches, exact member names."""

from typing import TypeAlias

import msgspec

from toolhall.dialects import strict
from toolhall.dialects.mcp.refusals import INVALID_REQUEST, PARSE_ERROR, McpRefusal, bad_params
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject

RequestId: TypeAlias = str | int
MAX_ID = 256
ENVELOPE = 2  # message, params


class Request(msgspec.Struct, frozen=True):
    """Wants one response with the same id."""

    id: RequestId
    method: str
    params: JsonObject


class Notification(msgspec.Struct, frozen=True):
    """Wants no response."""

    method: str
    params: JsonObject


class Response(msgspec.Struct, frozen=True):
    """The client's reply to a request of ours."""

    id: RequestId
    result: Json = None
    error: JsonObject | None = None


Message: TypeAlias = Request | Notification | Response

_CALL_MEMBERS = {"jsonrpc", "id", "method", "params"}
_REPLY_MEMBERS = {"jsonrpc", "id", "result", "error"}


class Unreadable(Exception):
    """A message that was refused; `id` is the request's where it could be read, `request` what it wanted."""

    def __init__(
        self,
        refusal: McpRefusal,
        id: RequestId | None = None,  # noqa: A002 - JSON-RPC's word
        request: Request | None = None,
    ) -> None:
        self.refusal = refusal
        self.id = id
        self.request = request
        super().__init__(refusal.message)


def read_message(body: bytes) -> Message:
    """One message, or Unreadable."""
    try:
        message = strict.decode(body, ENVELOPE)
    except Malformed as error:
        raise Unreadable(McpRefusal(PARSE_ERROR, error.message)) from None
    if not isinstance(message, dict):
        raise Unreadable(McpRefusal(INVALID_REQUEST, "send one JSON-RPC object; batches are not taken"))
    request_id = message.get("id")
    known = request_id if _is_id(request_id) else None
    try:
        if message.get("jsonrpc") != "2.0":
            raise McpRefusal(INVALID_REQUEST, 'the member "jsonrpc" must be "2.0"')
        if "id" in message and known is None:
            raise McpRefusal(INVALID_REQUEST, "the id must be a string or a whole number")
        return _call(message, known) if "method" in message else _reply(message, known)
    except McpRefusal as refusal:
        raise Unreadable(refusal, known, _wanted(message)) from None


def _is_id(value: Json) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= MAX_ID)


def _call(message: JsonObject, request_id: RequestId | None) -> Request | Notification:
    if not _CALL_MEMBERS.issuperset(message):
        extra = min(message.keys() - _CALL_MEMBERS)
        raise McpRefusal(INVALID_REQUEST, f"a request has no member {extra[:64]!r}; remove it")
    method, params = message["method"], message.get("params")
    if type(method) is not str:
        raise McpRefusal(INVALID_REQUEST, "the method must be a string")
    if params is None:
        params = {}
    elif type(params) is not dict:
        raise bad_params("params must be an object", status=400)
    return Notification(method, params) if request_id is None else Request(request_id, method, params)


def _reply(message: JsonObject, request_id: RequestId | None) -> Response:
    error = message.get("error")
    if request_id is None or not _REPLY_MEMBERS.issuperset(message) or ("result" in message) == ("error" in message):
        raise McpRefusal(INVALID_REQUEST, "a message has a method, or an id with either a result or an error")
    return Response(request_id, message.get("result"), error if isinstance(error, dict) else None)


def _wanted(message: JsonObject) -> Request | None:
    """As much as can be read of a request that was refused."""
    method, params = message.get("method"), message.get("params")
    return Request("", method, params if type(params) is dict else {}) if type(method) is str else None
