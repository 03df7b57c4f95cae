"""Reads MCP requests: RequestMeta, the params of each method, and the HTTP headers that must repeat the body."""

import base64
import binascii
import re
from collections.abc import Mapping
from functools import cached_property

import msgspec

from toolhall.dialects.mcp.protocol import (
    PLAIN_METHODS,
    REVISION_2026_07_28,
    TASKS_EXTENSION,
    JsonRpcRequest,
    McpRefusal,
    PlainCall,
    Revision,
    header_mismatch,
    invalid_params,
    negotiate_revision,
    unsupported_version,
)
from toolhall.model.call_records import CONSOLE_SUFFIX
from toolhall.model.json import Json, JsonObject
from toolhall.model.messages import CLIENT_FEATURES, LOG_LEVELS, CallTool, Complete, LogLevel
from toolhall.model.tool import HeaderParameter, Kind

_PREFIX = "io.modelcontextprotocol/"
VERSION_KEY = f"{_PREFIX}protocolVersion"
_CAPABILITIES_KEY = f"{_PREFIX}clientCapabilities"
_LOG_LEVEL_KEY = f"{_PREFIX}logLevel"
_CLIENT_KEY = f"{_PREFIX}clientInfo"
_CONSOLE_NAME = "toolhall-console"
VERSIONS_KEY = "dev.toolhall/versions"
_BASE64_VALUE = re.compile(r"=\?base64\?(.*)\?=")
HOPS_KEY = "dev.toolhall/hops"  # in `_meta`: ids of the halls that a request went through
_MAX_READ_HOPS = 16
_VISIBLE = re.compile(r"[\t\x20-\x7e]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,399})(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
# By method: the member of params that the header Mcp-Name repeats.
NAME_MEMBERS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}


_STATED_KINDS: Mapping[bytes, Kind] = {method.encode(): kind for kind, method in PLAIN_METHODS.items()}
_MAX_METAS = 256
_STATELESS_VERSION = REVISION_2026_07_28.name.encode()


class RequestMeta(msgspec.Struct, frozen=True, dict=True):
    """Protocol revision and client capabilities of a request.

    Stateless revisions send them in each request (`_meta`), older ones once per session (`initialize`).
    """

    revision: Revision
    capabilities: JsonObject
    log_level: LogLevel | None = None
    progress_token: str | int | None = None
    hops: tuple[str, ...] = ()  # ids of the halls that the request went through

    @cached_property
    def features(self) -> tuple[str, ...]:
        """Those of CLIENT_FEATURES that the client declared; found once for all requests with this `_meta`."""
        return tuple(filter(self.supports, CLIENT_FEATURES))

    @cached_property
    def takes_tasks(self) -> bool:
        """Whether the client declared the tasks extension."""
        extensions = self.capabilities.get("extensions")
        return isinstance(extensions, dict) and isinstance(extensions.get(TASKS_EXTENSION), dict)

    def supports(self, capability: str) -> bool:
        """True if the client declared elicitation, elicitation.url, sampling or roots."""
        name, _, mode = capability.partition(".")
        declared = self.capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        if name != "elicitation":
            return True
        # An empty object means form mode, as before modes were introduced.
        return (mode or "form") in declared or (not declared and not mode)


_request_metas: dict[bytes, RequestMeta] = {}  # by the bytes of `_meta`, which most requests of a client share


class InitializeParams(msgspec.Struct, frozen=True):
    """The client's part of the handshake of the older revisions."""

    revision: Revision
    capabilities: JsonObject


class ListToolsParams(msgspec.Struct, frozen=True):
    """The params of `tools/list`; `versions`: list every version of a tool, not only the current one."""

    cursor: str | None = None
    versions: bool = False


def is_stateless_request(request: JsonRpcRequest) -> bool:
    """True if a request states its own protocol version, as stateless revisions require."""
    meta = request.params.get("_meta")
    return type(meta) is dict and VERSION_KEY in meta


def read_request_meta(request: JsonRpcRequest) -> RequestMeta:
    """The RequestMeta of a stateless request; refused with -32602 or -32022 if it is missing or unsupported."""
    if request.meta is None:
        return _new_request_meta(request)
    known = _request_metas.get(request.meta)
    if known is None:
        known = _new_request_meta(request)
        if len(_request_metas) >= _MAX_METAS:
            _request_metas.clear()
        _request_metas[request.meta] = known
    return known


def _new_request_meta(request: JsonRpcRequest) -> RequestMeta:
    meta = request.params.get("_meta")
    if type(meta) is not dict:
        raise invalid_params(f"params._meta must hold {VERSION_KEY} and {_CAPABILITIES_KEY}", status=400)
    version, capabilities = meta.get(VERSION_KEY), meta.get(_CAPABILITIES_KEY)
    if type(version) is not str:
        raise invalid_params(f"params._meta must hold {VERSION_KEY} as a string", status=400)
    if version != REVISION_2026_07_28.name:
        raise unsupported_version(version)
    if type(capabilities) is not dict:
        raise invalid_params(f"params._meta must hold {_CAPABILITIES_KEY} as an object", status=400)
    level = meta.get(_LOG_LEVEL_KEY)
    return RequestMeta(
        REVISION_2026_07_28,
        capabilities,
        None if level is None else read_log_level(level),
        _progress_token(meta),
        _hops(meta) if HOPS_KEY in meta else (),
    )


def read_progress_token(request: JsonRpcRequest) -> str | int | None:
    """The token for progress notifications of this request."""
    meta = request.params.get("_meta")
    return _progress_token(meta) if type(meta) is dict else None


def read_hops(request: JsonRpcRequest) -> tuple[str, ...]:
    """The ids of the halls that this request went through."""
    meta = request.params.get("_meta")
    return _hops(meta) if type(meta) is dict and HOPS_KEY in meta else ()


def _hops(meta: JsonObject) -> tuple[str, ...]:
    """More ids than any request may have stay more; what is no list of ids counts as too many."""
    hops = meta[HOPS_KEY]
    if not isinstance(hops, list) or len(hops) > _MAX_READ_HOPS:
        return ("",) * _MAX_READ_HOPS
    return tuple(str(each)[:64] for each in hops)


def read_log_level(value: Json) -> LogLevel:
    """One of the eight levels of RFC 5424."""
    for level in LOG_LEVELS:
        if value == level:
            return level
    raise invalid_params(f"the log level must be one of {', '.join(LOG_LEVELS)}")


def _progress_token(meta: JsonObject) -> str | int | None:
    token = meta.get("progressToken")
    if token is None or type(token) in (str, int):
        return token
    raise invalid_params("progressToken must be a string or a whole number")


def read_initialize(request: JsonRpcRequest) -> InitializeParams:
    """Read `initialize`; an unsupported version is answered with a supported one."""
    version, capabilities = request.params.get("protocolVersion"), request.params.get("capabilities")
    if type(version) is not str or type(capabilities) is not dict:
        raise invalid_params("initialize needs protocolVersion as a string and capabilities as an object")
    return InitializeParams(negotiate_revision(version), capabilities)


def read_list(request: JsonRpcRequest) -> ListToolsParams:
    """Read `tools/list`."""
    cursor = request.params.get("cursor")
    if cursor is not None and type(cursor) is not str:
        raise invalid_params("cursor must be a string")
    return ListToolsParams(cursor, wants_all_versions(request))


def wants_all_versions(request: JsonRpcRequest) -> bool:
    """True if a request asks for every version of the tools; an extension of Toolhall."""
    meta = request.params.get("_meta")
    if type(meta) is not dict or VERSIONS_KEY not in meta:
        return False
    if meta[VERSIONS_KEY] != "all":
        raise invalid_params(f'params._meta["{VERSIONS_KEY}"] must be "all"; leave it out for one version of each tool')
    return True


CALL_METHODS: Mapping[str, Kind] = {method: kind for kind, method in PLAIN_METHODS.items()}


def error_kind(method: str) -> Kind:
    """How errors of a method are told: only those of a call of a tool, and of unknown methods, as a tool's are."""
    return "resource" if method.startswith("tasks/") else CALL_METHODS.get(method, "tool")


def read_call(request: JsonRpcRequest, dialect: str, size: int) -> CallTool:
    """Read a request of one of CALL_METHODS; checks only the shape of the arguments, a schema checks their values."""
    if _is_of_console(request):
        dialect += CONSOLE_SUFFIX
    match request.method:
        case "resources/read":
            uri = read_resource_uri(request)
            return CallTool(uri, {}, dialect, size, kind="resource")
        case "prompts/get":
            return _read_get_prompt(request, dialect, size)
        case _:
            return _read_tool_call(request, dialect, size)


def read_resource_uri(request: JsonRpcRequest) -> str:
    """Read `resources/subscribe` and `resources/unsubscribe`."""
    uri = request.params.get("uri")
    if type(uri) is not str:
        raise invalid_params("params.uri must be the URI of a resource")
    return uri


def _read_get_prompt(request: JsonRpcRequest, dialect: str, size: int) -> CallTool:
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if type(name) is not str:
        raise invalid_params("params.name must be the name of a prompt")
    if arguments is None:
        arguments = {}
    elif type(arguments) is not dict or not all(type(value) is str for value in arguments.values()):
        raise invalid_params("params.arguments must be an object of strings")
    return CallTool(name, arguments, dialect, size, kind="prompt")


def read_complete(request: JsonRpcRequest, dialect: str) -> Complete:
    """Read `completion/complete`."""
    match request.params:
        case {"ref": {"type": "ref/prompt", "name": str(name)}}:
            kind: Kind = "prompt"
        case {"ref": {"type": "ref/resource", "uri": str(name)}}:
            kind = "resource"
        case _:
            fix = '{"type": "ref/prompt", "name": ...} or {"type": "ref/resource", "uri": ...}'
            raise invalid_params(f"params.ref must be {fix}")
    match request.params.get("argument"):
        case {"name": str(argument), "value": str(typed)}:
            pass
        case _:
            raise invalid_params("params.argument must have a name and a value, both strings")
    match request.params.get("context"):
        case None:
            given: JsonObject = {}
        case {"arguments": dict(given)} if all(type(value) is str for value in given.values()):
            pass
        case dict(context) if "arguments" not in context:
            given = {}
        case _:
            raise invalid_params("params.context.arguments must be an object of strings")
    return Complete(kind=kind, name=name, argument=argument, typed=typed, given=given, dialect=dialect)


def _read_tool_call(request: JsonRpcRequest, dialect: str, size: int) -> CallTool:
    name, arguments = request.params.get("name"), request.params.get("arguments")
    if type(name) is not str:
        raise invalid_params("params.name must be the name of a tool")
    if arguments is None:
        arguments = {}
    elif type(arguments) is not dict:
        raise invalid_params("params.arguments must be an object")
    return CallTool(name, arguments, dialect, size, encoded_arguments=request.encoded_arguments)


def _is_of_console(request: JsonRpcRequest) -> bool:
    meta = request.params.get("_meta")
    client = meta.get(_CLIENT_KEY) if type(meta) is dict else None
    return type(client) is dict and client.get("name") == _CONSOLE_NAME


def check_headers(headers: Mapping[bytes, bytes], request: JsonRpcRequest, meta: RequestMeta) -> None:
    """Compare the headers for version, method and name with the body; refused with -32020."""
    _check_equal(headers, b"mcp-protocol-version", meta.revision.name)
    _check_equal(headers, b"mcp-method", request.method)
    member = NAME_MEMBERS.get(request.method)
    name = request.params.get(member) if member is not None else None
    if type(name) is str:
        _check_equal(headers, b"mcp-name", name, decoded=True)


def read_plain_meta(plain: PlainCall) -> RequestMeta | None:
    """The RequestMeta of a plain call; None if it is not of a stateless revision, or has to be refused."""
    known = _request_metas.get(plain.raw_meta)
    if known is None and plain.raw_meta:
        try:
            known = read_request_meta(plain.to_request())
        except McpRefusal:
            return None
    return known


def stated_call(headers: Mapping[bytes, bytes]) -> tuple[Kind, str] | None:
    """Kind and name of what the headers of MCP 2026-07-28 call; None of other requests, or see check_headers."""
    kind, name = _STATED_KINDS.get(headers.get(b"mcp-method", b"")), headers.get(b"mcp-name")
    if kind is None or name is None or not name.isascii():
        return None
    return (kind, name.decode()) if headers.get(b"mcp-protocol-version") == _STATELESS_VERSION else None


def check_version_header(headers: Mapping[bytes, bytes], request: JsonRpcRequest) -> None:
    """Refuse a version that differs between header and body, even if the body's is unsupported."""
    meta = request.params.get("_meta")
    version = meta.get(VERSION_KEY) if type(meta) is dict else None
    if type(version) is str:
        _check_equal(headers, b"mcp-protocol-version", version)


def check_parameter_headers(
    headers: Mapping[bytes, bytes], parameters: tuple[HeaderParameter, ...], arguments: JsonObject
) -> None:
    """Check that every argument that the tool wants repeated in a header is there, and equal."""
    for parameter in parameters:
        value = _argument_at(arguments, parameter.path)
        name = f"mcp-param-{parameter.header}".encode()
        if value is None:
            continue  # a null or absent argument has no header
        sent = _decoded(name, _required_header(headers, name))
        if not _equals_argument(sent, value):
            raise header_mismatch(f"the header {name.decode()} differs from the argument")


def _check_equal(headers: Mapping[bytes, bytes], name: bytes, expected: str, *, decoded: bool = False) -> None:
    if headers.get(name) == expected.encode() and expected.isascii():
        return  # fast path: no encoding to undo
    value = _required_header(headers, name)
    if (_decoded(name, value) if decoded else value) != expected:
        raise header_mismatch(f"the header {name.decode()} differs from the body")


def _required_header(headers: Mapping[bytes, bytes], name: bytes) -> str:
    value = headers.get(name)
    if value is None:
        raise header_mismatch(f"the header {name.decode()} is missing")
    text = value.decode("latin-1").strip(" \t")
    if not _VISIBLE.fullmatch(text):
        raise header_mismatch(f"the header {name.decode()} has characters that must be sent as =?base64?...?=")
    return text


def _decoded(name: bytes, value: str) -> str:
    wrapped = _BASE64_VALUE.fullmatch(value)
    if not wrapped:
        return value
    try:
        raw = base64.b64decode(wrapped[1], validate=True)
        if base64.b64encode(raw).decode() == wrapped[1]:  # accept the canonical encoding only
            return raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise header_mismatch(f"the header {name.decode()} is not valid base64 of UTF-8")


def _argument_at(arguments: Json, path: tuple[str, ...]) -> Json:
    for part in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(part)
    return arguments


def _equals_argument(sent: str, value: Json) -> bool:
    match value:
        case bool():
            return sent == ("true" if value else "false")
        case int() | float():
            number = _NUMBER.fullmatch(sent)
            return number is not None and (float(sent) if number[1] or number[2] else int(sent)) == value
        case _:
            return bool(sent == value)
