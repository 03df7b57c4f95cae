"""MCP's JSON-RPC envelope, protocol revisions and error codes: read_message, Revision, McpRefusal.

Theory of operation of `read_message`. Nearly all messages are calls, reads and prompts of one shape each: an id, a
name, small arguments without escapes, and `_meta`. `read_plain_call` decodes these with a type, in which `_meta` stays
raw, and makes the checks of `strict_json` only where something can be wrong:

- The envelope has a fixed shape, so each of its keys is one colon of the body, and a duplicate key is one more.
- Arguments are decoded and encoded once. The encoding has a colon for each key that was kept, and is passed on with the
  call: the audit's digest is made of it, and the tool's function is given what is decoded from it.
- `_meta` is usually the same bytes in every request of a client. It is decoded strictly once and remembered, unless it
  holds a progress token or a trace, which differ in every request.

Whatever is not plain is read by the general decoder, which also reports what is wrong with it; a property test compares
both.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.strict_json import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_ID_LENGTH,
    MAX_INTEGER,
    MAX_KEY_LENGTH,
    SMALL_BODY,
    has_long_number,
)
from toolhall.model.errors import Malformed
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.tool import Kind

RequestId: TypeAlias = str | int
ENVELOPE_DEPTH = 2  # message, params
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
RESOURCE_NOT_FOUND = -32002  # before 2026-07-28, which has INVALID_PARAMS for it
REFUSED = -32010  # a read or a prompt that a policy refuses, or that waits for a person or a credential
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
# MCP 2026-07-28 reserves -32020 to -32099; these codes of Toolhall are outside -32768..-32000.
RATE_LIMITED = 42900
UNAUTHENTICATED = 40100
FORBIDDEN = 40300
URL_ELICITATION_REQUIRED = -32042  # in 2025-11-25 only
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
_BAD_REQUEST = 400
_NOT_FOUND = 404
_TOOLS_CALL, _RESOURCES_READ, _PROMPTS_GET = b'"tools/call"', b'"resources/read"', b'"prompts/get"'
_REQUEST_MEMBERS = {"jsonrpc", "id", "method", "params"}
_RESPONSE_MEMBERS = {"jsonrpc", "id", "result", "error"}


class Revision(msgspec.Struct, frozen=True):
    """One protocol revision; code asks these fields for a feature, never the revision's date."""

    name: str
    stateless: bool = False  # every request carries its version and capabilities; no handshake, no session
    icons: bool = True
    any_output: bool = False  # structured content and output schemas need not be objects
    priming_event: bool = False  # a stream starts with an empty event that carries an id
    url_elicitation: bool = True  # URL-mode elicitation
    core_tasks: bool = False  # tasks are a part of the protocol itself, and clients ask for them
    subscribe: bool = True  # resources/subscribe; without it, subscriptions/listen
    version_header: bool = True  # MCP-Protocol-Version in requests over HTTP
    batches: bool = False  # several messages may come in one JSON array
    one_url: bool = True  # streamable HTTP; without it, HTTP+SSE: a stream to read and a second URL to write to


REVISION_2025_06_18 = Revision("2025-06-18", icons=False, url_elicitation=False)
REVISION_2025_11_25 = Revision("2025-11-25", priming_event=True, core_tasks=True)
REVISION_2026_07_28 = Revision("2026-07-28", stateless=True, any_output=True, subscribe=False)
STATEFUL_REVISIONS = {revision.name: revision for revision in (REVISION_2025_06_18, REVISION_2025_11_25)}
REVISIONS = {revision.name: revision for revision in (REVISION_2025_06_18, REVISION_2025_11_25, REVISION_2026_07_28)}
SUPPORTED_VERSIONS = tuple(sorted(REVISIONS, reverse=True))
# Revisions that are spoken as a client only: servers of them are called, and none is served.
REVISION_2024_11_05 = Revision("2024-11-05", icons=False, url_elicitation=False, version_header=False, one_url=False)
REVISION_2025_03_26 = Revision("2025-03-26", icons=False, url_elicitation=False, version_header=False, batches=True)
CLIENT_REVISIONS = {each.name: each for each in (REVISION_2024_11_05, REVISION_2025_03_26)} | REVISIONS


def negotiate_revision(requested: str) -> Revision:
    """The revision for the response to `initialize`: the requested one, else the newest that has a handshake."""
    return STATEFUL_REVISIONS.get(requested, REVISION_2025_11_25)


class McpRefusal(Malformed):
    """A message is malformed; has a JSON-RPC code, an HTTP status and data."""

    def __init__(self, code: int, message: str, *, status: int = _BAD_REQUEST, data: JsonObject | None = None) -> None:
        self.code = code
        self.status = status
        self.data = data
        super().__init__(message)


def method_not_found(method: str) -> McpRefusal:
    """MCP 2026-07-28, streamable HTTP: an unknown method is 404 and -32601; the older revisions use 200."""
    return McpRefusal(METHOD_NOT_FOUND, f"there is no method {method[:64]!r} here", status=_NOT_FOUND)


def invalid_params(message: str, *, status: int = 200) -> McpRefusal:
    """The params do not fit the method."""
    return McpRefusal(INVALID_PARAMS, message, status=status)


def missing_capability(required: JsonObject) -> McpRefusal:
    """The client did not declare a capability that the request needs."""
    return McpRefusal(
        MISSING_CAPABILITY,
        "the request needs a client that declares more capabilities",
        data={"requiredCapabilities": required},
    )


def header_mismatch(message: str) -> McpRefusal:
    """A header is missing or differs from the body."""
    return McpRefusal(HEADER_MISMATCH, message)


def unsupported_version(requested: str) -> McpRefusal:
    """The requested revision is not supported."""
    supported = ", ".join(SUPPORTED_VERSIONS)
    return McpRefusal(
        UNSUPPORTED_VERSION,
        f"protocol version {requested[:32]!r} is not supported; use one of {supported}",
        data={"supported": list(SUPPORTED_VERSIONS), "requested": requested[:32]},
    )


class JsonRpcRequest(msgspec.Struct, frozen=True):
    """A request; expects one response with the same id."""

    id: RequestId
    method: str
    params: JsonObject
    encoded_arguments: bytes | None = None  # params.arguments as JSON, if they were encoded to check them
    meta: bytes | None = None  # params._meta as it was sent, if it is remembered


class JsonRpcNotification(msgspec.Struct, frozen=True):
    """A notification; gets no response."""

    method: str
    params: JsonObject


class JsonRpcResponse(msgspec.Struct, frozen=True):
    """The client's response to a request of the server."""

    id: RequestId
    result: Json = None
    error: JsonObject | None = None


JsonRpcMessage: TypeAlias = JsonRpcRequest | JsonRpcNotification | JsonRpcResponse


class McpDecodeError(Exception):
    """A message was refused; `id` and `request` are what could be read of it."""

    def __init__(
        self,
        refusal: McpRefusal,
        id: RequestId | None = None,  # noqa: A002 - JSON-RPC's name
        request: JsonRpcRequest | None = None,
    ) -> None:
        self.refusal = refusal
        self.id = id
        self.request = request
        super().__init__(refusal.message)


class PlainCall(msgspec.Struct, frozen=True, gc=False):
    """A `tools/call`, `resources/read` or `prompts/get` of the usual shape; see the theory of operation above."""

    id: RequestId
    name: str  # or the URI of a resource
    arguments: JsonObject
    encoded_arguments: bytes  # as JSON
    raw_meta: bytes  # params._meta as it was sent, which is remembered; empty if there is none
    kind: Kind = "tool"

    def to_request(self) -> "JsonRpcRequest":
        """The same request in the general form."""
        if self.kind == "resource":
            params: JsonObject = {"uri": self.name}
        else:
            params = {"name": self.name}
            if self.encoded_arguments is not _NO_ARGUMENTS:  # the very object: there was no such member
                params["arguments"] = self.arguments
        if self.raw_meta:
            known = _metas.get(self.raw_meta)
            params["_meta"] = strict_json.decode(self.raw_meta) if known is None else known[0]
        return JsonRpcRequest(self.id, PLAIN_METHODS[self.kind], params, self.encoded_arguments, self.raw_meta or None)


class _PlainParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: dict[str, Json]
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw())


class _PlainMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: _PlainParams


class _PlainReadParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    uri: str
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw())


class _PlainRead(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["resources/read"]
    params: _PlainReadParams


class _PlainPromptParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    name: str
    arguments: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    meta: msgspec.Raw = msgspec.field(name="_meta", default=msgspec.Raw())


class _PlainPrompt(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["prompts/get"]
    params: _PlainPromptParams


PLAIN_METHODS: Mapping[Kind, str] = {"tool": "tools/call", "resource": "resources/read", "prompt": "prompts/get"}
_decode_plain = msgspec.json.Decoder(_PlainMessage).decode
_decode_plain_read = msgspec.json.Decoder(_PlainRead).decode
_decode_plain_prompt = msgspec.json.Decoder(_PlainPrompt).decode
_ENVELOPE_COLONS = 6  # jsonrpc, id, method, params; name, arguments
_NO_ARGUMENTS = b"{}"
_MAX_METAS = 256  # remembered; clients that put something new into each request fill it up, and it is emptied
_metas: dict[bytes, tuple[JsonObject, int]] = {}  # by its bytes: the value and the number of its colons
_NOT_REMEMBERED = ("progressToken", "traceparent")


def read_plain_call(body: bytes) -> PlainCall | None:
    """Decode a call, read or prompt of the usual shape; None if the general decoder has to look at it."""
    # `find`, because `in` with bytes raises and drops an exception inside CPython.
    if len(body) > SMALL_BODY or body.find(b"\\") >= 0:
        return None
    try:
        if body.find(_TOOLS_CALL) >= 0:
            message = _decode_plain(body)
            params = message.params
            arguments, encoded = params.arguments, encode(params.arguments)
            plain = PlainCall(message.id, params.name, arguments, encoded, bytes(params.meta))
            return plain if _is_plain(body, plain, _ENVELOPE_COLONS + encoded.count(b":")) else None
        if body.find(_RESOURCES_READ) >= 0:
            return _read_plain_read(body)
        return _read_plain_prompt(body) if body.find(_PROMPTS_GET) >= 0 else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _read_plain_read(body: bytes) -> PlainCall | None:
    message = _decode_plain_read(body)
    uri = message.params.uri
    plain = PlainCall(message.id, uri, {}, _NO_ARGUMENTS, bytes(message.params.meta), "resource")
    # Without escapes, the URI has as many colons in the body as it has itself; it has no second member beside it.
    return plain if _is_plain(body, plain, _ENVELOPE_COLONS - 1 + uri.count(":")) else None


def _read_plain_prompt(body: bytes) -> PlainCall | None:
    message = _decode_plain_prompt(body)
    params = message.params
    if params.arguments is msgspec.UNSET:
        plain = PlainCall(message.id, params.name, {}, _NO_ARGUMENTS, bytes(params.meta), "prompt")
        return plain if _is_plain(body, plain, _ENVELOPE_COLONS - 1) else None
    encoded = encode(params.arguments)
    plain = PlainCall(message.id, params.name, dict(params.arguments), encoded, bytes(params.meta), "prompt")
    return plain if _is_plain(body, plain, _ENVELOPE_COLONS + encoded.count(b":")) else None


def _is_plain(body: bytes, plain: PlainCall, colons: int) -> bool:
    """Whether the checks of `strict_json` hold; `colons` are those of all but `_meta` if no key is there twice."""
    request_id, encoded, raw_meta = plain.id, plain.encoded_arguments, plain.raw_meta
    if raw_meta:
        meta = _metas.get(raw_meta) or _remember_meta(raw_meta)
        if meta is None:
            return False
        colons += 1 + meta[1]
    if body.count(b":") != colons:  # a duplicate key, or a colon in id or name
        return False
    is_plain_id = -MAX_INTEGER < request_id < MAX_INTEGER if type(request_id) is int else _is_id(request_id)
    has_long = len(encoded) > MAX_DIGITS and has_long_number(encoded)
    # Depth and lengths of keys: deep arguments, or a long key beside brackets, take room.
    has_room = len(encoded) > MAX_DEPTH or len(body) > MAX_DEPTH + MAX_KEY_LENGTH
    return is_plain_id and not has_long and not (has_room and body.count(b"{") + body.count(b"[") > MAX_DEPTH)


def _remember_meta(raw: bytes) -> tuple[JsonObject, int] | None:
    """Decode `_meta` strictly and remember it with the number of its colons; None if it is not to be remembered."""
    try:
        meta = strict_json.decode(raw)
    except Malformed:
        return None
    if type(meta) is not dict or any(key in meta for key in _NOT_REMEMBERED):
        return None
    if len(_metas) >= _MAX_METAS:
        _metas.clear()
    known = _metas[raw] = meta, raw.count(b":")
    return known


def read_message(body: bytes) -> JsonRpcMessage:
    """Decode one message; raises McpDecodeError."""
    plain = read_plain_call(body)
    if plain is not None:
        return plain.to_request()
    try:
        message = strict_json.decode(body, ENVELOPE_DEPTH)
    except Malformed as error:
        raise McpDecodeError(McpRefusal(PARSE_ERROR, error.message)) from None
    if not isinstance(message, dict):
        raise McpDecodeError(McpRefusal(INVALID_REQUEST, "send one JSON-RPC object; batches are not taken"))
    request_id = message.get("id")
    known = request_id if _is_id(request_id) else None
    try:
        if message.get("jsonrpc") != "2.0":
            raise McpRefusal(INVALID_REQUEST, 'the member "jsonrpc" must be "2.0"')
        if "id" in message and known is None:
            raise McpRefusal(INVALID_REQUEST, "the id must be a string or a whole number")
        return _read_request(message, known) if "method" in message else _read_response(message, known)
    except McpRefusal as refusal:
        raise McpDecodeError(refusal, known, _partial_request(message)) from None


def _is_id(value: Json) -> bool:
    return type(value) is int or (type(value) is str and len(value) <= MAX_ID_LENGTH)


def _read_request(message: JsonObject, request_id: RequestId | None) -> JsonRpcRequest | JsonRpcNotification:
    if not _REQUEST_MEMBERS.issuperset(message):
        extra = min(message.keys() - _REQUEST_MEMBERS)
        raise McpRefusal(INVALID_REQUEST, f"a request has no member {extra[:64]!r}; remove it")
    method, params = message["method"], message.get("params")
    if type(method) is not str:
        raise McpRefusal(INVALID_REQUEST, "the method must be a string")
    if params is None:
        params = {}
    elif type(params) is not dict:
        raise invalid_params("params must be an object", status=400)
    return JsonRpcNotification(method, params) if request_id is None else JsonRpcRequest(request_id, method, params)


def _read_response(message: JsonObject, request_id: RequestId | None) -> JsonRpcResponse:
    error = message.get("error")
    if request_id is None or not _RESPONSE_MEMBERS.issuperset(message) or ("result" in message) == ("error" in message):
        raise McpRefusal(INVALID_REQUEST, "a message has a method, or an id with either a result or an error")
    return JsonRpcResponse(request_id, message.get("result"), error if isinstance(error, dict) else None)


def _partial_request(message: JsonObject) -> JsonRpcRequest | None:
    """As much as can be read of a refused request."""
    method, params = message.get("method"), message.get("params")
    return JsonRpcRequest("", method, params if type(params) is dict else {}) if type(method) is str else None
