"""Tool parameters that MCP clients repeat in an HTTP header (`x-mcp-header`, MCP 2026-07-28)."""

import re
from collections.abc import Iterator

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode, escape_pointer
from toolhall.model.secret import is_secret_name, looks_secret
from toolhall.model.tool import HeaderParameter
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import subschemas

_KEYWORD = "x-mcp-header"
_HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_TYPES = ("string", "integer", "boolean")


def may_have_headers(schema: JsonObject) -> bool:
    """Whether the keyword occurs anywhere in a schema: a fast check, because most schemas do not use it."""
    return _KEYWORD.encode() in encode(schema)


def header_parameters(schema: JsonObject) -> tuple[HeaderParameter, ...]:
    """All annotated parameters, or BadSchema (MCP 2026-07-28: a violation makes the whole tool invalid)."""
    parameters: list[HeaderParameter] = []
    problems: list[Problem] = []
    for pointer, path, part in _annotated_schemas(schema):
        reason = _problem(part, path, [parameter.header for parameter in parameters])
        if reason:
            problems.append(Problem(f"{pointer}/{_KEYWORD}", reason))
        else:
            parameters.append(HeaderParameter(part[_KEYWORD].lower(), path or ()))
    if problems:
        raise BadSchema(problems)
    return tuple(parameters)


def _annotated_schemas(root: JsonObject) -> Iterator[tuple[str, tuple[str, ...] | None, JsonObject]]:
    """Every schema with the keyword: its pointer, its property path (None unless `properties` alone lead there)."""
    pending: list[tuple[Json, str, tuple[str, ...] | None]] = [(root, "", ())]
    while pending:
        schema, pointer, path = pending.pop()
        if not isinstance(schema, dict):
            continue
        if _KEYWORD in schema:
            yield pointer, path, schema
        names = _property_names(schema, pointer)
        for child in subschemas(schema, pointer):
            name = names.get(child.pointer)
            pending.append((child.schema, child.pointer, None if path is None or name is None else (*path, name)))


def _property_names(schema: JsonObject, pointer: str) -> dict[str, str]:
    """The names of the properties, by the pointers to them."""
    properties = schema.get("properties")
    names = properties if isinstance(properties, dict) else ()
    return {f"{pointer}/properties/{escape_pointer(name)}": name for name in names}


def _problem(schema: JsonObject, path: tuple[str, ...] | None, taken: list[str]) -> str | None:
    header = schema[_KEYWORD]
    if not isinstance(header, str) or not _HEADER_TOKEN.fullmatch(header):
        return "must be a header name: 1 to 64 letters, digits or !#$%&'*+-.^_`|~"
    if not path:
        return "only a property reached through `properties` alone can be sent as a header"
    if header.lower() in taken:
        return f"{header!r} is used twice (letter case does not count)"
    if schema.get("type") not in _TYPES:
        return "the property's type must be string, integer or boolean"
    # Every proxy on the way can read a header, so a secret must not be mirrored into one.
    if any(looks_secret(name) or is_secret_name(name) for name in (*path, header)):
        return "a parameter that looks like a secret must not be sent in a header"
    return None
