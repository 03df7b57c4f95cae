"""OXP 1.0 messages: decodes calls and listings, encodes results, errors and lists of definitions."""

import re
from functools import lru_cache

import msgspec

from toolhall.dialects import strict_json
from toolhall.dialects.error_details import error_text, result_json
from toolhall.dialects.oxp.errors import OxpErrorResponse, translate_error
from toolhall.dialects.plain_json import PlainShape, ShortText
from toolhall.dialects.strict_json import optional_text, require_object
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import CompletedCall, WireResponse
from toolhall.model.requirements import CallerCredentials
from toolhall.model.secret import MIN_SECRET_LENGTH, Secret

SCHEMA_URN = "urn:oxp:1.0"
SUPPORTED_SCHEMAS = (
    SCHEMA_URN,
    "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json",
)
_TOOL_ID_PATTERN = re.compile(r"([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)(?:@([0-9]+)(\.[0-9]+\.[0-9]+)?)?")
_REQUEST_MEMBERS = {"tool_id", "call_id", "trace_id", "input", "inputs", "context"}
_CREDENTIAL_MEMBERS = {"authorization": "token", "secrets": "value"}
MAX_CREDENTIAL_BYTES = 16 * 1024  # of one credential
ENVELOPE_DEPTH = 2  # message, request
_RESULT_START = b'{"$schema":"%b","result":{"call_id":' % SCHEMA_URN.encode()


class OxpCallRequest(msgspec.Struct, frozen=True, gc=False):
    """One call; `version` is exact, None means the newest."""

    toolkit: str
    tool: str
    version: str | None
    input: JsonObject
    call_id: str | None
    trace_id: str | None
    context: JsonObject
    credentials: CallerCredentials | None = None  # credentials for the tool; removed from the context
    encoded_input: bytes | None = None  # the input as JSON, if it was encoded to check it

    @property
    def user_id(self) -> str | None:
        """The user for whom the caller says it calls."""
        return self.context.get("user_id")

    @property
    def tool_id(self) -> str:
        """The tool id as requested."""
        return f"{self.toolkit}.{self.tool}" + (f"@{self.version}" if self.version else "")


class OxpDecodeError(Exception):
    """A call was refused, always with 400; `tool_id` is what could be read of it."""

    def __init__(self, error: Malformed, tool_id: str) -> None:
        self.error = error
        self.tool_id = tool_id
        super().__init__(error.message)


class _PlainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    tool_id: str
    input: dict[str, Json]
    call_id: ShortText | None = None
    trace_id: ShortText | None = None


class _PlainCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    request: _PlainRequest
    schema: str | None = msgspec.field(name="$schema", default=None)


_plain_calls = PlainShape(_PlainCall)


def read_plain_call(body: bytes) -> OxpCallRequest | None:
    """Decode a call of the usual shape, without a context; None if the general decoder has to look at it."""
    message = _plain_calls.decode(body)
    if message is None or (message.schema is not None and message.schema not in SUPPORTED_SCHEMAS):
        return None
    request = message.request
    encoded = _plain_calls.encode_arguments(body, message, request.input)
    name = None if encoded is None else _parse_short_tool_id(request.tool_id)
    if name is None:
        return None
    return OxpCallRequest(*name, request.input, request.call_id, request.trace_id, {}, None, encoded)


def read_call(body: bytes) -> OxpCallRequest:
    """Decode a call; raises OxpDecodeError."""
    plain = read_plain_call(body)
    if plain is not None:
        return plain
    request: JsonObject = {}
    try:
        message = require_object(strict_json.decode(body, ENVELOPE_DEPTH), "the body")
        request = require_object(message.get("request"), "request")
        check_schema(message.get("$schema"))
        return _read_call(request)
    except Malformed as error:
        named = request.get("tool_id")
        raise OxpDecodeError(error, named if isinstance(named, str) else "") from None


def _read_call(request: JsonObject) -> OxpCallRequest:
    unknown = min(request.keys() - _REQUEST_MEMBERS, default=None)
    if unknown is not None:
        raise Malformed(f"request has no member {unknown[:64]!r}; remove it")
    stated = request.get("tool_id")
    name = _parse_tool_id(stated) if isinstance(stated, str) else None
    if name is None:
        raise Malformed("tool_id must be Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.0.0")
    context = _context(request.get("context"))
    return OxpCallRequest(
        *name,
        _input(request),
        optional_text(request, "call_id"),
        optional_text(request, "trace_id"),
        {key: value for key, value in context.items() if key not in _CREDENTIAL_MEMBERS},
        _caller_credentials(context),
    )


def check_list(body: bytes) -> None:
    """Check the optional body of a listing, which only states the version of OXP."""
    check_schema(require_object(strict_json.decode(body), "the body").get("$schema"))


def check_schema(schema: Json) -> None:
    """Raise Malformed for an unknown version of OXP; an absent `$schema` means the newest one."""
    if schema is not None and schema not in SUPPORTED_SCHEMAS:
        raise Malformed(f"this version of OXP is not supported; leave out $schema or send {SCHEMA_URN}")


def write_list(documents: list[JsonObject]) -> bytes:
    """All definitions; the specification's text names the list `tools`, its OpenAPI file `items`."""
    return encode({"$schema": SCHEMA_URN, "items": documents, "tools": documents})


def write_result(call_id: str, finished: CompletedCall, duration_ms: float) -> WireResponse:
    """The response to a call that completed."""
    if finished.result.is_error:
        return _failure(call_id, {"message": error_text(finished), "can_retry": False}, duration_ms)
    value = b"" if finished.tool.output.kind == "none" else b',"value":' + result_json(finished)
    return WireResponse(_result_start(call_id, duration_ms, b"true") + value + b"}}")


def write_error(call_id: str | None, error: ToolhallError, duration_ms: float = 0.0) -> WireResponse:
    """The response to any error: a refusal has its own status, a failure of the tool is a result."""
    translated = translate_error(error)
    if isinstance(translated, OxpErrorResponse):
        return WireResponse(encode({"$schema": SCHEMA_URN, **translated.body}), translated.status, translated.headers)
    return _failure(call_id or "", translated.error, duration_ms)


def _failure(call_id: str, error: JsonObject, duration_ms: float) -> WireResponse:
    return WireResponse(_result_start(call_id, duration_ms, b"false") + b',"error":' + encode(error) + b"}}")


def _result_start(call_id: str, duration_ms: float, success: bytes) -> bytes:
    # To the microsecond; `round` with digits takes longer than the rest.
    duration = encode(int(duration_ms * 1000 + 0.5) / 1000)
    return _RESULT_START + encode(call_id) + b',"duration":' + duration + b',"success":' + success


def _parse_tool_id(tool_id: str) -> tuple[str, str, str | None] | None:
    """Toolkit, tool and version; None if the text is no tool id."""
    match = _TOOL_ID_PATTERN.fullmatch(tool_id)
    if not match:
        return None
    # OXP: a bare number is exactly x.0.0, not the newest of that major version.
    version = None if match[3] is None else f"{match[3]}{match[4] or '.0.0'}"
    return match[1], match[2], version


_parse_short_tool_id = lru_cache(1024)(_parse_tool_id)  # a plain call is small, so what is remembered is too


def _input(request: JsonObject) -> JsonObject:
    """The arguments: the specification's text names them `inputs`, its examples and OpenAPI file `input`."""
    if "input" in request and "inputs" in request:
        raise Malformed("request has both input and inputs; send input alone")
    given = request.get("input", request.get("inputs"))
    return {} if given is None else require_object(given, "input")


def _context(context: Json) -> JsonObject:
    """The context, checked: each credential names the requirement it is for."""
    if context is None:
        return {}
    members = require_object(context, "context")
    for key, member in _CREDENTIAL_MEMBERS.items():
        items = members.get(key) or []
        if not isinstance(items, list) or not all(_is_credential(item, member) for item in items):
            raise Malformed(f"context.{key} must be a list of objects, each with the texts id and {member}")
    optional_text(members, "user_id")
    return members


def _caller_credentials(context: JsonObject) -> CallerCredentials | None:
    """The credentials in a context, by the id of the requirement each is for."""
    items = [*(context.get("secrets") or []), *(context.get("authorization") or [])]
    short = tuple(item["id"] for item in items if len(item.get("value", item.get("token"))) < MIN_SECRET_LENGTH)
    return (
        CallerCredentials(_credentials_in(context, "secrets"), _credentials_in(context, "authorization"), short) or None
    )


def _credentials_in(context: JsonObject, key: str) -> dict[str, Secret]:
    items, member = context.get(key) or [], _CREDENTIAL_MEMBERS[key]
    if len({item["id"] for item in items}) != len(items):
        raise Malformed(f"context.{key} has an id twice; leave out one")
    if any(len(item[member].encode()) > MAX_CREDENTIAL_BYTES for item in items):
        raise Malformed(f"context.{key}: a {member} has at most {MAX_CREDENTIAL_BYTES} bytes")
    return {item["id"]: Secret(item[member]) for item in items if len(item[member]) >= MIN_SECRET_LENGTH}


def _is_credential(value: Json, member: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str) and isinstance(value.get(member), str)
