"""Fields that a schema marks: those repeated in an HTTP header (header_parameters), and secret ones (SecretFields).

MCP clients repeat parameters with `x-mcp-header` in a header (MCP 2026-07-28). Fields with `writeOnly` or `format:
password` are secret.
"""

import re
from collections.abc import Iterator

import msgspec

from toolhall.model.errors import Problem
from toolhall.model.json import Json, JsonObject, escape_pointer
from toolhall.model.secret import is_secret_name, looks_secret
from toolhall.model.tool import HeaderParameter
from toolhall.schema.cost import BadSchema
from toolhall.schema.keywords import HEADER_KEYWORD, REFERENCE_KEYWORDS, subschemas

_HEADER_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_HEADER_TYPES = ("string", "integer", "boolean")
_MEMBER_PREFIX = "properties/"


def header_parameters(schema: JsonObject) -> tuple[HeaderParameter, ...]:
    """All annotated parameters, or BadSchema (MCP 2026-07-28: a violation makes the whole tool invalid)."""
    parameters: list[HeaderParameter] = []
    problems: list[Problem] = []
    for pointer, path, part in _annotated_schemas(schema):
        reason = _header_problem(part, path, [parameter.header for parameter in parameters])
        if reason:
            problems.append(Problem(f"{pointer}/{HEADER_KEYWORD}", reason))
        else:
            parameters.append(HeaderParameter(part[HEADER_KEYWORD].lower(), path or ()))
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
        if HEADER_KEYWORD in schema:
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


def _header_problem(schema: JsonObject, path: tuple[str, ...] | None, taken: list[str]) -> str | None:
    header = schema[HEADER_KEYWORD]
    if not isinstance(header, str) or not _HEADER_TOKEN.fullmatch(header):
        return "must be a header name: 1 to 64 letters, digits or !#$%&'*+-.^_`|~"
    if not path:
        return "only a property reached through `properties` alone can be sent as a header"
    if header.lower() in taken:
        return f"{header!r} is used twice (letter case does not count)"
    if schema.get("type") not in _HEADER_TYPES:
        return "the property's type must be string, integer or boolean"
    # Every proxy on the way can read a header, so a secret must not be mirrored into one.
    if any(looks_secret(name) or is_secret_name(name) for name in (*path, header)):
        return "a parameter that looks like a secret must not be sent in a header"
    return None


class SecretFields(msgspec.Struct, frozen=True):
    """Names of members that are secret at any depth, or the whole value; errs on the side of redacting too much."""

    members: frozenset[str] = frozenset()
    whole: bool = False


NO_SECRET_FIELDS = SecretFields()


def secret_fields_of(schema: JsonObject | None) -> SecretFields:
    """The secret fields of values of this schema, over all of its branches."""
    graph = _SubschemaGraph(schema or {})
    secret = graph.secret_pointers()
    members = {
        slot.removeprefix(_MEMBER_PREFIX) for _, to, slot in graph.edges if to in secret and _is_member_slot(slot)
    }
    return SecretFields(frozenset(members), "" in secret) if secret else NO_SECRET_FIELDS


def _is_member_slot(slot: str) -> bool:
    return slot.startswith(_MEMBER_PREFIX)


class _SubschemaGraph:
    """All subschemas by pointer, and edges between them: by a slot of the value, or ("") on the value itself."""

    def __init__(self, root: JsonObject) -> None:
        self._schemas: dict[str, Json] = {}
        self._anchors: dict[str, str] = {}
        self.edges: list[tuple[str, str, str]] = []
        pending: list[tuple[Json, str]] = [(root, "")]
        while pending:
            schema, pointer = pending.pop()
            self._schemas[pointer] = schema
            if isinstance(schema, dict):
                self._index_anchors(schema, pointer)
                for child in subschemas(schema, pointer):
                    pending.append((child.schema, child.pointer))
                    if child.applies:
                        self.edges.append((pointer, child.pointer, child.slot or ""))
        for pointer, schema in self._schemas.items():
            self._add_references(schema, pointer)

    def secret_pointers(self) -> set[str]:
        """Subschemas that are marked secret, and those that contain one in a list or under an undeclared name."""
        holders: dict[str, list[str]] = {}
        for holder, to, slot in self.edges:
            if not _is_member_slot(slot):
                holders.setdefault(to, []).append(holder)
        pending = [pointer for pointer, schema in self._schemas.items() if _is_marked(schema)]
        secret: set[str] = set()
        while pending:
            pointer = pending.pop()
            if pointer not in secret:
                secret.add(pointer)
                pending.extend(holders.get(pointer, ()))
        return secret

    def _index_anchors(self, schema: JsonObject, pointer: str) -> None:
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(schema.get(key), str):
                self._anchors[schema[key]] = pointer

    def _add_references(self, schema: Json, pointer: str) -> None:
        for key in REFERENCE_KEYWORDS:
            target = schema.get(key) if isinstance(schema, dict) else None
            if isinstance(target, str):
                fragment = target.removeprefix("#")
                self.edges.append((pointer, self._anchors.get(fragment, fragment), ""))


def _is_marked(schema: Json) -> bool:
    return isinstance(schema, dict) and (schema.get("writeOnly") is True or schema.get("format") == "password")
