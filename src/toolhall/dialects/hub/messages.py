"""Hub messages: decodes tool_request and request, encodes tool_response, response and errors."""

from typing import Annotated, Literal, TypeAlias

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.error_details import EMPTY_MESSAGE, MESSAGE_TOO_LARGE, error_text, headers_of, result_object_json
from toolhall.dialects.hub.errors import MANAGEMENT_TABLE, BadParams, HubErrorRow, translate_error
from toolhall.dialects.plain_json import PlainShape, ShortText
from toolhall.dialects.strict_json import MAX_ID_LENGTH, require_text
from toolhall.model.errors import Malformed, ToolFailed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import CompletedCall, WireResponse

ENVELOPE_DEPTH = 1  # message
_CHALLENGE_STATUSES = (401, 403)
# The hub's own ids are texts; integers are accepted too, because many clients count, and are returned unchanged.
RequestId: TypeAlias = str | int | None


class HubToolRequest(msgspec.Struct, frozen=True, gc=False):
    """A `tool_request`: runs a method of a tool, optionally of a given version."""

    id: RequestId
    tool: str
    method: str
    params: JsonObject
    version: str | None = None
    encoded_params: bytes | None = None  # the params as JSON, if they were encoded to check them


class HubRequest(msgspec.Struct, frozen=True):
    """A `request` to the hub itself."""

    id: RequestId
    method: str
    params: JsonObject


Message: TypeAlias = HubToolRequest | HubRequest
ResponseType: TypeAlias = Literal["response", "tool_response"]


class HubDecodeError(Exception):
    """A message was refused; `id` is set if it could be read, `kind` is the type of the expected response."""

    def __init__(
        self,
        error: Malformed,
        id: RequestId = None,  # noqa: A002 - the protocol's name
        kind: ResponseType = "response",
        names: JsonObject | None = None,
    ) -> None:
        self.error = error
        self.id = id
        self.kind: ResponseType = kind
        self.names: JsonObject = names or {}  # the tool and the method, if they could be read
        super().__init__(error.message)


_MAX_PLAIN_ID = 2**53


class _PlainToolRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    type: Literal["tool_request"]
    id: (
        Annotated[str, msgspec.Meta(max_length=MAX_ID_LENGTH)]
        | Annotated[int, msgspec.Meta(ge=-_MAX_PLAIN_ID, le=_MAX_PLAIN_ID)]
    )
    tool: ShortText
    method: ShortText
    params: dict[str, Json]


_plain_requests = PlainShape(_PlainToolRequest)


def read_plain_request(body: bytes) -> HubToolRequest | None:
    """Decode a tool_request of the usual shape; None if the general decoder has to look at it."""
    request = _plain_requests.decode(body)
    encoded = None if request is None else _plain_requests.encode_arguments(body, request, request.params)
    if request is None or encoded is None:
        return None
    return HubToolRequest(request.id, request.tool, request.method, request.params, None, encoded)


def read_message(body: bytes | None) -> Message:
    """Decode one message; raises HubDecodeError. None stands for a body that was too large to be read."""
    plain = None if body is None else read_plain_request(body)
    if plain is not None:
        return plain
    try:
        if not body:
            raise Malformed(MESSAGE_TOO_LARGE if body is None else EMPTY_MESSAGE)
        message = strict_json.decode(body, ENVELOPE_DEPTH)
        if not isinstance(message, dict):
            raise Malformed("send one JSON object")
    except Malformed as error:
        raise HubDecodeError(error) from None
    known = message.get("id") if is_id(message.get("id")) else None
    try:
        if known is None and message.get("id") is not None:
            raise Malformed(f"id must be a text of at most {MAX_ID_LENGTH} characters, or a whole number")
        return _read_message(message, known)
    except Malformed as error:
        if _is_tool_request(message):
            raise HubDecodeError(error, known, "tool_response", _readable_names(message)) from None
        raise HubDecodeError(error, known) from None


def is_id(value: Json) -> bool:
    """True if the value is a valid request id."""
    return type(value) is int or (isinstance(value, str) and len(value) <= MAX_ID_LENGTH)


def _read_message(message: JsonObject, request_id: RequestId) -> Message:
    if _is_tool_request(message):
        # The hub's core pipeline names the method `action`, and sends no type.
        method = require_text(message, "method" if "method" in message else "action")
        return HubToolRequest(request_id, require_text(message, "tool"), method, _params(message), _version(message))
    if message.get("type") == "request":
        return HubRequest(request_id, require_text(message, "method"), _params(message))
    raise Malformed('type must be "tool_request" or "request"')


def _is_tool_request(message: JsonObject) -> bool:
    kind = message.get("type")
    return kind == "tool_request" or (kind is None and "action" in message)


def _readable_names(message: JsonObject) -> JsonObject:
    """The tool and the method of a refused message, if they are valid names."""
    names = {"tool": message.get("tool"), "method": message.get("method", message.get("action"))}
    return {key: name for key, name in names.items() if isinstance(name, str) and len(name) <= MAX_ID_LENGTH}


def write_tool_response(request: HubToolRequest, finished: CompletedCall) -> WireResponse:
    """The response to a tool_request that completed."""
    if finished.result.is_error:
        return write_tool_error(request, ToolFailed(error_text(finished)))
    head = b'{"type":"tool_response","id":' + encode(request.id)
    return WireResponse(head + b',"result":' + result_object_json(finished) + b',"error":null}')


def write_tool_error(request: HubToolRequest, error: ToolhallError) -> WireResponse:
    """The response to a tool_request that was refused or failed: a tool_error."""
    version = {} if request.version is None else {"version": request.version}
    translated = translate_error(error, {"tool": request.tool, "method": request.method, **version})
    return _error_response(request.id, "tool_response", error, translated)


def write_response(request: HubRequest, result: Json) -> WireResponse:
    """The hub's own response to a request."""
    return WireResponse(encode({"type": "response", "id": request.id, "result": result, "error": None}))


def write_error(request: HubRequest, error: ToolhallError) -> WireResponse:
    """The response to a request that the hub refused."""
    return _error_response(request.id, "response", error, translate_error(error, {}, MANAGEMENT_TABLE))


def write_decode_error(unreadable: HubDecodeError, error: ToolhallError) -> WireResponse:
    """The response to a message that could not be read."""
    return _error_response(unreadable.id, unreadable.kind, error, translate_error(error, unreadable.names))


def _error_response(
    request_id: RequestId, kind: ResponseType, error: ToolhallError, translated: tuple[HubErrorRow, JsonObject]
) -> WireResponse:
    row, details = translated
    if kind == "tool_response":
        details = {"type": "tool_error", **details}
    body = {"type": kind, "id": request_id, "result": None, "error": details}
    has_headers = "retry_after" in details["details"] or row.http in _CHALLENGE_STATUSES
    return WireResponse(encode(body), row.http, headers_of(error) if has_headers else ())


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
