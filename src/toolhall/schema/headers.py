"""Finds the parameters that HTTP clients repeat in headers (`x-mcp-header`), and refuses wrong ones."""

import re
from collections.abc import Iterator

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.secret_names import is_secret_name
from toolhall.model.tool import HeaderParameter
from toolhall.schema.bounds import BadSchema
from toolhall.schema.walk import children, escape

_KEYWORD = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_TYPES = ("string", "integer", "boolean")
# A header is seen by every proxy on the way, so a secret must not be mirrored into one.
_SECRETIVE = re.compile(r"(?i)password|passwd|(^|[_-])pass$|secret|token|api_?key|credential|authorization")


def has_headers(schema: JsonObject) -> bool:
    """Whether it may be worth looking for them; most schemas have none."""
    return _KEYWORD.encode() in encode(schema)


def header_parameters(schema: JsonObject) -> tuple[HeaderParameter, ...]:
    """All annotated parameters, or BadSchema (MCP 2026-07-28: a violation makes the whole tool invalid)."""
    found: list[HeaderParameter] = []
    problems: list[Problem] = []
    for pointer, path, part in _annotated(schema):
        reason = _problem(part, path, [parameter.header for parameter in found])
        if reason:
            problems.append(Problem(f"{pointer}/{_KEYWORD}", reason))
        else:
            found.append(HeaderParameter(part[_KEYWORD].lower(), path or ()))
    if problems:
        raise BadSchema(problems)
    return tuple(found)


def looks_secret(name: str) -> bool:
    """Whether a name is one that passwords, keys and tokens go by."""
    return bool(_SECRETIVE.search(name))


def _annotated(root: JsonObject) -> Iterator[tuple[str, tuple[str, ...] | None, JsonObject]]:
    """Every schema that carries the keyword; its path is None where `properties` alone do not lead to it."""
    pending: list[tuple[Json, str, tuple[str, ...] | None]] = [(root, "", ())]
    while pending:
        schema, pointer, path = pending.pop()
        if not isinstance(schema, dict):
            continue
        if _KEYWORD in schema:
            yield pointer, path, schema
        names = _property_names(schema, pointer)
        for child in children(schema, pointer):
            name = names.get(child.pointer)
            pending.append((child.schema, child.pointer, None if path is None or name is None else (*path, name)))


def _property_names(schema: JsonObject, pointer: str) -> dict[str, str]:
    """The names of the properties, by the pointers to them."""
    properties = schema.get("properties")
    names = properties if isinstance(properties, dict) else ()
    return {f"{pointer}/properties/{escape(name)}": name for name in names}


def _problem(schema: JsonObject, path: tuple[str, ...] | None, taken: list[str]) -> str | None:
    header = schema[_KEYWORD]
    if not isinstance(header, str) or not _TOKEN.fullmatch(header):
        return "must be a header name: 1 to 64 letters, digits or !#$%&'*+-.^_`|~"
    if not path:
        return "only a property reached through `properties` alone can be sent as a header"
    if header.lower() in taken:
        return f"{header!r} is used twice (letter case does not count)"
    if schema.get("type") not in _TYPES:
        return "the property's type must be string, integer or boolean"
    if any(looks_secret(name) or is_secret_name(name) for name in (*path, header)):
        return "a parameter that looks like a secret must not be sent in a header"
    return None
