"""OXP 1.0 requests and responses."""

import re

import msgspec

from toolhall.dialects import strict
from toolhall.dialects.oxp.errors import Refusal, say
from toolhall.dialects.values import text_of, value_of
from toolhall.model.errors import Malformed, ToolhallError
from toolhall.model.exchange import Finished, Wire
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.requirements import Brought
from toolhall.model.secret import SHORTEST, Secret

SCHEMA = "urn:oxp:1.0"
SUPPORTED = (
    SCHEMA,
    "https://github.com/OpenToolCalling/Specification/tree/main/spec/http/1.0/openapi.json",
)
_TOOL_ID = re.compile(r"([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)(?:@([0-9]+)(\.[0-9]+\.[0-9]+)?)?")
_MEMBERS = {"tool_id", "call_id", "trace_id", "input", "inputs", "context"}
_CREDENTIALS = {"authorization": "token", "secrets": "value"}
MAX_ID = 256
MOST_BROUGHT = 16 * 1024  # bytes of one credential
ENVELOPE = 2  # message, request


class CallRequest(msgspec.Struct, frozen=True):
    """One call; `version` is exact, None asks for the newest."""

    toolkit: str
    tool: str
    version: str | None
    input: JsonObject
    call_id: str | None
    trace_id: str | None
    context: JsonObject
    brought: Brought | None = None  # credentials for the tool, which the context has no more

    @property
    def user_id(self) -> str | None:
        """For whom it is called, as the caller says."""
        return self.context.get("user_id")

    @property
    def tool_id(self) -> str:
        """The tool as it was asked for."""
        return f"{self.toolkit}.{self.tool}" + (f"@{self.version}" if self.version else "")


class Unreadable(Exception):
    """A call that was refused; that is 400, whatever is wrong with it. `tool_id` is what could be read of its name."""

    def __init__(self, error: Malformed, tool_id: str) -> None:
        self.error = error
        self.tool_id = tool_id
        super().__init__(error.message)


def read_call(body: bytes) -> CallRequest:
    """A call, or Unreadable."""
    request: JsonObject = {}
    try:
        message = _object(strict.decode(body, ENVELOPE), "the body")
        request = _object(message.get("request"), "request")
        check_schema(message.get("$schema"))
        return _call(request)
    except Malformed as error:
        named = request.get("tool_id")
        raise Unreadable(error, named if isinstance(named, str) else "") from None


def _call(request: JsonObject) -> CallRequest:
    unknown = min(request.keys() - _MEMBERS, default=None)
    if unknown is not None:
        raise Malformed(f"request has no member {unknown[:64]!r}; remove it")
    toolkit, tool, version = _tool_id(request.get("tool_id"))
    context = _context(request.get("context"))
    return CallRequest(
        toolkit,
        tool,
        version,
        _input(request),
        _text(request, "call_id"),
        _text(request, "trace_id"),
        {key: value for key, value in context.items() if key not in _CREDENTIALS},
        _brought(context),
    )


def check_list(body: bytes) -> None:
    """The optional body of a listing says only which version of OXP is spoken."""
    check_schema(_object(strict.decode(body), "the body").get("$schema"))


def check_schema(schema: Json) -> None:
    """OXP: an absent `$schema` means the newest version, an unknown one is refused with 400."""
    if schema is not None and schema not in SUPPORTED:
        raise Malformed(f"this version of OXP is not supported; leave out $schema or send {SCHEMA}")


def write_list(documents: list[JsonObject]) -> bytes:
    """All definitions; the specification's text calls the list `tools`, its OpenAPI file `items`."""
    return encode({"$schema": SCHEMA, "items": documents, "tools": documents})


def write_result(call_id: str, finished: Finished, duration_ms: float) -> Wire:
    """The answer to a call that ran to its end."""
    if finished.result.is_error:
        return _failure(call_id, {"message": text_of(finished), "can_retry": False}, duration_ms)
    value = b"" if finished.tool.output.kind == "none" else b',"value":' + value_of(finished)
    return Wire(_head(call_id, duration_ms, b"true") + value + b"}}")


def write_error(call_id: str | None, error: ToolhallError, duration_ms: float = 0.0) -> Wire:
    """Any error: a refusal has a status of its own, a failure of the tool is a result."""
    said = say(error)
    if isinstance(said, Refusal):
        return Wire(encode({"$schema": SCHEMA, **said.body}), said.status, said.headers)
    return _failure(call_id or "", said.error, duration_ms)


def _failure(call_id: str, error: JsonObject, duration_ms: float) -> Wire:
    return Wire(_head(call_id, duration_ms, b"false") + b',"error":' + encode(error) + b"}}")


def _head(call_id: str, duration_ms: float, success: bytes) -> bytes:
    start = b'{"$schema":"' + SCHEMA.encode() + b'","result":{"call_id":' + encode(call_id)
    return start + b',"duration":' + encode(round(duration_ms, 3)) + b',"success":' + success


def _tool_id(value: Json) -> tuple[str, str, str | None]:
    found = _TOOL_ID.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise Malformed("tool_id must be Toolkit.Tool, Toolkit.Tool@1 or Toolkit.Tool@1.0.0")
    # OXP: a bare number is exactly x.0.0, not the newest of that major version.
    version = None if found[3] is None else f"{found[3]}{found[4] or '.0.0'}"
    return found[1], found[2], version


def _input(request: JsonObject) -> JsonObject:
    """The specification's text says `inputs`, all its examples and its OpenAPI file say `input`."""
    if "input" in request and "inputs" in request:
        raise Malformed("request has both input and inputs; send input alone")
    given = request.get("input", request.get("inputs"))
    return {} if given is None else _object(given, "input")


def _context(context: Json) -> JsonObject:
    """What the caller brings for the tool; each credential says which requirement it is for."""
    if context is None:
        return {}
    given = _object(context, "context")
    for key, member in _CREDENTIALS.items():
        listed = given.get(key) or []
        if not isinstance(listed, list) or not all(_is_credential(each, member) for each in listed):
            raise Malformed(f"context.{key} must be a list of objects, each with the texts id and {member}")
    _text(given, "user_id")
    return given


def _brought(context: JsonObject) -> Brought | None:
    """The credentials in a context, each under the id of the requirement it is for."""
    listed = [*(context.get("secrets") or []), *(context.get("authorization") or [])]
    short = tuple(each["id"] for each in listed if len(each.get("value", each.get("token"))) < SHORTEST)
    return Brought(_credentials(context, "secrets"), _credentials(context, "authorization"), short) or None


def _credentials(context: JsonObject, key: str) -> dict[str, Secret]:
    listed, member = context.get(key) or [], _CREDENTIALS[key]
    if len({each["id"] for each in listed}) != len(listed):
        raise Malformed(f"context.{key} has an id twice; leave out one")
    if any(len(each[member].encode()) > MOST_BROUGHT for each in listed):
        raise Malformed(f"context.{key}: a {member} has at most {MOST_BROUGHT} bytes")
    return {each["id"]: Secret(each[member]) for each in listed if len(each[member]) >= SHORTEST}


def _is_credential(value: Json, member: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str) and isinstance(value.get(member), str)


def _object(value: Json, what: str) -> JsonObject:
    if isinstance(value, dict):
        return value
    raise Malformed(f"{what} must be an object")


def _text(holder: JsonObject, key: str) -> str | None:
    value = holder.get(key)
    if value is None or (isinstance(value, str) and 0 < len(value) <= MAX_ID):
        return value
    raise Malformed(f"{key} must be a text of 1 to {MAX_ID} characters")
