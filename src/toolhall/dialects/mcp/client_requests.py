"""Writes MCP requests as a client, in every revision: `write_request`, `MetaWriter`, and the headers of 2026-07-28.

A call costs little: what is the same in all requests of a session is encoded once, and arguments that are encoded
already are spliced in.
"""

import base64
import re
from collections.abc import Mapping
from functools import lru_cache

import msgspec

from toolhall.dialects.mcp.protocol import TASKS_EXTENSION, RequestId, Revision
from toolhall.dialects.mcp.requests import NAME_MEMBERS
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.messages import TASKS_FEATURE, LogLevel
from toolhall.model.tool import HeaderParameter

PROTOCOL_PREFIX = "io.modelcontextprotocol/"
DEFAULT_LOG_LEVEL: LogLevel = "info"
MAX_HEADER_VALUE = 8_192
_MAX_FEATURE_SETS = 64
_RESERVED_LABELS = ("mcp", "modelcontextprotocol")
_PLAIN_HEADER = re.compile(r"[!-~]([ -~]*[!-~])?")
_ENCODED_HEADER = re.compile(r"=\?base64\?.*\?=")
_NO_META: Mapping[str, Json] = {}


def write_request(
    request_id: int, method: str, params: JsonObject, arguments: bytes | None = None, meta: bytes = b""
) -> bytes:
    """A request; `arguments` and `meta` are the members `arguments` and `_meta` of its params, as JSON."""
    if params and arguments is not None and meta:  # as nearly all calls are
        start = b'{"jsonrpc":"2.0","id":%d,"method":%b' % (request_id, _encoded_method(method))
        return b"".join(
            (start, b',"params":', encode(params)[:-1], b',"arguments":', arguments, b',"_meta":', meta, b"}}")
        )
    members = encode(params)[1:-1] if params else b""
    if arguments is not None:
        members += b',"arguments":' + arguments if members else b'"arguments":' + arguments
    if meta:
        members += b',"_meta":' + meta if members else b'"_meta":' + meta
    return b'{"jsonrpc":"2.0","id":%d,"method":%b,"params":{%b}}' % (request_id, _encoded_method(method), members)


def write_notification(method: str, params: Mapping[str, Json]) -> bytes:
    """A notification."""
    message: JsonObject = {"jsonrpc": "2.0", "method": method}
    return encode({**message, "params": params} if params else message)


def write_cancellation(request_id: int, reason: str) -> bytes:
    """The notification that nobody wants the response to a request any more."""
    return write_notification("notifications/cancelled", {"requestId": request_id, "reason": reason})


def write_answer(request_id: RequestId, result: JsonObject) -> bytes:
    """The response to a request of the server."""
    return encode({"jsonrpc": "2.0", "id": request_id, "result": result})


def write_refusal(request_id: RequestId, code: int, message: str) -> bytes:
    """The error response to a request of the server."""
    return encode({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})


@lru_cache(maxsize=256)
def _encoded_method(method: str) -> bytes:
    return encode(method)


# --- capabilities and `_meta` -----------------------------------------------------------------------------------------


def write_client_capabilities(features: tuple[str, ...]) -> JsonObject:
    """The capabilities of a client with these of CLIENT_FEATURES, and perhaps TASKS_FEATURE."""
    capabilities: JsonObject = {}
    for feature in features:
        name, _, mode = feature.partition(".")
        if name == "elicitation":
            capabilities.setdefault(name, {})[mode or "form"] = {}
        elif feature == TASKS_FEATURE:
            capabilities["extensions"] = {TASKS_EXTENSION: {}}
        else:
            capabilities[name] = {}
    return capabilities


def is_protocol_meta_key(key: str) -> bool:
    """Whether a key of `_meta` belongs to the protocol: those never pass from one side of a hall to the other."""
    if key == "progressToken":
        return True
    prefix, slash, _ = key.rpartition("/")
    labels = prefix.split(".") if slash else []
    # 2025-06-18 reserves the labels at every place but the last, the revisions after it at the second place.
    return any(label in _RESERVED_LABELS for label in (*labels[:-1], *labels[1:2]))


_is_kept_back = lru_cache(maxsize=256)(is_protocol_meta_key)  # the keys that a client sends are few


class MetaWriter:
    """Writes `_meta` of the requests of one session."""

    def __init__(
        self,
        revision: Revision,
        client_info: JsonObject,
        features: tuple[str, ...],
        log_level: LogLevel = DEFAULT_LOG_LEVEL,
    ) -> None:
        self._revision = revision
        self._client_info = client_info
        self._features = features
        self._log_level = b',"%blogLevel":%b' % (PROTOCOL_PREFIX.encode(), encode(log_level))
        self._starts: dict[tuple[str, ...], bytes] = {}  # without the closing brace, by the client's features

    def write(self, extra: Mapping[str, Json], features: tuple[str, ...] | None, token: int | None) -> bytes:
        """`_meta` as JSON, empty if there is none.

        `extra` are other members, of which those of the protocol are left out. With a `token`, progress and, in the
        stateless revisions, log messages are asked for.
        """
        if extra and any(map(_is_kept_back, extra)):
            extra = {key: value for key, value in extra.items() if not _is_kept_back(key)}
        members = encode(extra)[1:-1] if extra else b""
        if not self._revision.stateless:
            stated = b'"progressToken":%d' % token if token is not None else b""
            both = stated + b"," + members if stated and members else stated or members
            return b"{%b}" % both if both else b""
        start = self._start(self._features if features is None else features)
        if token is not None:
            start += b',"progressToken":%d%b' % (token, self._log_level)
        return b"%b,%b}" % (start, members) if members else start + b"}"

    def _start(self, features: tuple[str, ...]) -> bytes:
        start = self._starts.get(features)
        if start is None:
            if len(self._starts) >= _MAX_FEATURE_SETS:
                self._starts.clear()
            meta = {
                f"{PROTOCOL_PREFIX}protocolVersion": self._revision.name,
                f"{PROTOCOL_PREFIX}clientInfo": self._client_info,
                f"{PROTOCOL_PREFIX}clientCapabilities": write_client_capabilities(features),
            }
            start = self._starts[features] = encode(meta)[:-1]
        return start


# --- headers of 2026-07-28 --------------------------------------------------------------------------------------------


def method_headers(method: str, params: JsonObject, name: str | None) -> bytes:
    """The header lines that repeat the method, and what it is about: `name`, or the member of the params."""
    if name is None:
        member = NAME_MEMBERS.get(method)
        stated = params.get(member) if member is not None else None
        name = stated if type(stated) is str else None
    return _method_headers(method, name)


@lru_cache(maxsize=1024)
def _method_headers(method: str, name: str | None) -> bytes:
    lines = f"Mcp-Method: {encode_header_value(method)}\r\n"
    return (lines if name is None else f"{lines}Mcp-Name: {encode_header_value(name)}\r\n").encode("ascii")


def encode_header_value(text: str) -> str:
    """The text as the value of a header: in base64 unless it is plain ASCII that does not look encoded itself."""
    if (_PLAIN_HEADER.fullmatch(text) or not text) and not _ENCODED_HEADER.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode(errors='replace')).decode()}?="


def argument_headers(parameters: tuple[HeaderParameter, ...], arguments: JsonObject) -> tuple[tuple[str, str], ...]:
    """The headers `Mcp-Param-*` that repeat arguments (`x-mcp-header`); an absent or null argument has none."""
    headers: list[tuple[str, str]] = []
    for parameter in parameters:
        value: Json = arguments
        for part in parameter.path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            headers.append((f"Mcp-Param-{parameter.header}", encode_header_value(_argument_text(value))))
    return tuple(headers)


def _argument_text(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case _:
            return msgspec.json.encode(value).decode()
