"""The headers of MCP 2026-07-28, which must say what the body says."""

import base64
import binascii
import re
from collections.abc import Mapping

from toolhall.dialects.mcp.jsonrpc import Request
from toolhall.dialects.mcp.refusals import bad_header
from toolhall.dialects.mcp.terms import VERSION_KEY, Terms
from toolhall.model.json import Json, JsonObject
from toolhall.model.tool import HeaderParameter

_WRAPPED = re.compile(r"=\?base64\?(.*)\?=")
_VISIBLE = re.compile(r"[\t\x20-\x7e]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,399})(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
# The member of params that Mcp-Name repeats, per method.
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def check_headers(headers: Mapping[bytes, bytes], request: Request, terms: Terms) -> None:
    """Version, method and name, compared exactly; refused with -32020."""
    _same(headers, b"mcp-protocol-version", terms.revision.name)
    _same(headers, b"mcp-method", request.method)
    member = _NAMED.get(request.method)
    named = request.params.get(member) if member is not None else None
    if type(named) is str:
        _same(headers, b"mcp-name", named, decoded=True)


def check_version(headers: Mapping[bytes, bytes], request: Request) -> None:
    """Refuse a version that header and body disagree about, also where the body's is none of ours."""
    meta = request.params.get("_meta")
    version = meta.get(VERSION_KEY) if type(meta) is dict else None
    if type(version) is str:
        _same(headers, b"mcp-protocol-version", version)


def check_parameters(
    headers: Mapping[bytes, bytes], parameters: tuple[HeaderParameter, ...], arguments: JsonObject
) -> None:
    """Every argument that the tool wants repeated in a header is there, and equal."""
    for parameter in parameters:
        value = _argument(arguments, parameter.path)
        name = f"mcp-param-{parameter.header}".encode()
        if value is None:
            continue  # a null or absent argument has no header
        sent = _decoded(name, _required(headers, name))
        if not _equal(sent, value):
            raise bad_header(f"the header {name.decode()} says something other than the argument")


def _same(headers: Mapping[bytes, bytes], name: bytes, expected: str, *, decoded: bool = False) -> None:
    if headers.get(name) == expected.encode() and expected.isascii():
        return  # the plain case, without looking at encodings
    value = _required(headers, name)
    if (_decoded(name, value) if decoded else value) != expected:
        raise bad_header(f"the header {name.decode()} says something other than the body")


def _required(headers: Mapping[bytes, bytes], name: bytes) -> str:
    value = headers.get(name)
    if value is None:
        raise bad_header(f"the header {name.decode()} is missing")
    text = value.decode("latin-1").strip(" \t")
    if not _VISIBLE.fullmatch(text):
        raise bad_header(f"the header {name.decode()} has characters that must be sent as =?base64?...?=")
    return text


def _decoded(name: bytes, value: str) -> str:
    wrapped = _WRAPPED.fullmatch(value)
    if not wrapped:
        return value
    try:
        raw = base64.b64decode(wrapped[1], validate=True)
        if base64.b64encode(raw).decode() == wrapped[1]:  # several spellings of one value would fit otherwise
            return raw.decode()
    except (binascii.Error, UnicodeDecodeError):
        pass
    raise bad_header(f"the header {name.decode()} is not valid base64 of UTF-8")


def _argument(arguments: Json, path: tuple[str, ...]) -> Json:
    for part in path:
        if not isinstance(arguments, dict):
            return None
        arguments = arguments.get(part)
    return arguments


def _equal(sent: str, value: Json) -> bool:
    match value:
        case bool():
            return sent == ("true" if value else "false")
        case int() | float():
            number = _NUMBER.fullmatch(sent)
            return number is not None and (float(sent) if number[1] or number[2] else int(sent)) == value
        case _:
            return bool(sent == value)
