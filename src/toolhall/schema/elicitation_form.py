"""Form schemas for MCP elicitation: one flat object of primitive fields that asks for no secret."""

import re
from collections.abc import Iterator
from typing import Any

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, encode
from toolhall.model.secret import is_secret_name
from toolhall.model.tool import HeaderParameter
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import escape_pointer, subschemas
from toolhall.schema.types import schemas_of

_KEYWORD = "x-mcp-header"
_HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_TYPES = ("string", "integer", "boolean")
# A header is seen by every proxy on the way, so a secret must not be mirrored into one.
_SECRET_NAME = re.compile(r"(?i)password|passwd|(^|[_-])pass$|secret|token|api_?key|credential|authorization")


def may_have_headers(schema: JsonObject) -> bool:
    """Whether it may be worth looking for them; most schemas have none."""
    return _KEYWORD.encode() in encode(schema)


def header_parameters(schema: JsonObject) -> tuple[HeaderParameter, ...]:
    """All annotated parameters, or BadSchema (MCP 2026-07-28: a violation makes the whole tool invalid)."""
    found: list[HeaderParameter] = []
    problems: list[Problem] = []
    for pointer, path, part in _annotated_schemas(schema):
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
    return bool(_SECRET_NAME.search(name))


def _annotated_schemas(root: JsonObject) -> Iterator[tuple[str, tuple[str, ...] | None, JsonObject]]:
    """Every schema that carries the keyword; its path is None where `properties` alone do not lead to it."""
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
    if any(looks_secret(name) or is_secret_name(name) for name in (*path, header)):
        return "a parameter that looks like a secret must not be sent in a header"
    return None


_PRIMITIVES = ("string", "number", "integer", "boolean")


def form_schema(form: Any) -> JsonObject:
    """The schema of a form; raises TypeError where a field is not a string, number, boolean or choice."""
    schema = schemas_of([form])[0]
    if schema.get("type") != "object":
        raise TypeError(f"{form!r} is not a form: use a dataclass, a msgspec.Struct or a TypedDict with plain fields")
    fields = {name: _form_field(name, field) for name, field in schema.get("properties", {}).items()}
    result: JsonObject = {"type": "object", "properties": fields}
    if schema.get("required"):
        result["required"] = schema["required"]
    return result


def reject_secret_fields(schema: JsonObject) -> None:
    """A form passes through the client and its logs: nobody may be asked for a password in one."""
    for name in schema.get("properties", {}):
        if looks_secret(name):
            raise TypeError(f"field '{name}' asks for a secret; send the person to a page with ctx.visit instead")


def _form_field(name: str, field: JsonObject) -> JsonObject:
    if "enum" in field and all(isinstance(choice, str | None) for choice in field["enum"]):
        # msgspec leaves the type of an enum unsaid; a field that may be left empty need not be filled in
        return {
            **_without_null_default(field),
            "type": "string",
            "enum": [choice for choice in field["enum"] if choice is not None],
        }
    options = [part for part in field.get("anyOf", []) if part.get("type") != "null"]
    if len(options) == 1:
        return _form_field(name, {**{key: part for key, part in field.items() if key != "anyOf"}, **options[0]})
    if field.get("type") in _PRIMITIVES or _is_choice_list(field):
        return _without_null_default(field)
    raise TypeError(
        f"field '{name}' cannot be shown in a form: use str, int, float, bool, Literal or a list of Literal"
    )


def _without_null_default(field: JsonObject) -> JsonObject:
    """Without a default of null, which says no more than leaving the field out."""
    return {key: part for key, part in field.items() if key != "default" or part is not None}


def _is_choice_list(field: JsonObject) -> bool:
    return field.get("type") == "array" and "enum" in field.get("items", {})
