"""Gemini function declarations: name, description and `parameters` in Google's subset of OpenAPI's schema.

`parameters` has one type per schema, `anyOf` without siblings, and string enums only. There is also
`parametersJsonSchema`, which takes JSON Schema; but not every model, gateway and client library supports it, and its
treatment of keywords is not documented. All of them support `parameters`.
"""

import math
import re

from toolhall.dialects.base import Loss, WriteResult
from toolhall.dialects.model_apis.function import (
    function_description,
    function_losses,
    function_names,
    indexed_losses,
    schema_losses,
)
from toolhall.model.json import Json, JsonObject
from toolhall.model.names import MAX_NAME_LENGTH
from toolhall.model.tool import Tool
from toolhall.schema.adapt import SchemaAdapter, SchemaLocation, SchemaNode, SchemaTarget, adapt_schema
from toolhall.schema.combinators import (
    METADATA_KEYWORDS,
    LocatedSchema,
    alternatives,
    as_single_object,
    choice_keyword,
    merge_all_of,
    widen_one_of,
)
from toolhall.schema.keywords import KEYWORD_TYPE
from toolhall.schema.merge import const_as_enum, json_types_of, stated_types, unite
from toolhall.schema.types import is_closed_tuple

name = "gemini"
grouped = False
_NAME_PATTERN = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")
_ALL_TYPES = ("string", "number", "boolean", "object", "array")
_SCALARS = ("string", "number", "integer", "boolean")
_PASSED_THROUGH = frozenset({"type", "title", "description"})
_SUPPORTED_KEYWORDS = {
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "array": frozenset({"minItems", "maxItems"}),
    "object": frozenset({"minProperties", "maxProperties"}),
}
_FORMATS = {"string": ("date-time",), "integer": ("int32", "int64"), "number": ("float", "double")}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_HANDLED_KEYWORDS = frozenset({"type", "enum", "format", "properties", "required", "items", "prefixItems", *_BOUNDS})
_SHAPES = frozenset({"type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf"})
_ANYTHING: tuple[Json, ...] = (True, {})
_UNSUPPORTED = "gemini cannot express this"


def write(tools: tuple[Tool, ...]) -> WriteResult:
    """One declaration per tool, in order."""
    written = [
        _write(tool, function_name)
        for tool, function_name in zip(tools, function_names(tools, _NAME_PATTERN), strict=True)
    ]
    return WriteResult([document for document, _ in written], indexed_losses([losses for _, losses in written]))


def _write(tool: Tool, function_name: str) -> tuple[JsonObject, list[Loss]]:
    adapted = adapt_schema(tool.input, TARGET)
    document: JsonObject = {
        "name": function_name,
        "description": function_description(tool, adapted.notes) or tool.name,
    }
    losses = [*function_losses(tool, function_name, name), *schema_losses(adapted)]
    if "properties" in adapted.schema or tool.input.get("additionalProperties"):
        document["parameters"] = adapted.schema
        return document, losses
    # A function without `parameters` takes none, so a refusal of additional properties is not lost.
    return document, [loss for loss in losses if loss.path != "/inputSchema/additionalProperties"]


def _node(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    if schema.get("type") in _SCALARS and schema.keys() <= _PASSED_THROUGH:
        return schema  # fast path: most schemas of most tools
    schema, location = merge_all_of(adapter, schema, location)
    schema = const_as_enum(widen_one_of(adapter, schema, location))
    key = choice_keyword(schema)
    if key is not None and not _only_narrows(adapter, schema, key):
        branches, nullable = _by_branch(adapter, schema, location, key)
    else:
        branches, nullable = _by_type(adapter, schema, location)
    if not branches:  # null and nothing else
        adapter.report_loss(location, "", "gemini has no type for null alone")
        branches.append({"type": "string"})
    if nullable:
        branches[0] = {**branches[0], "nullable": True}
    return _as_any_of(adapter, schema, location, branches)


def _only_narrows(adapter: SchemaAdapter, schema: JsonObject, key: str) -> bool:
    """True if the branches only list required members: as a choice, they would repeat the whole schema."""
    if "type" not in schema:
        return False
    return all(_SHAPES.isdisjoint(adapter.peek(part)) for part in schema[key])


def _by_branch(
    adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation, key: str
) -> tuple[list[JsonObject], bool]:
    branches = alternatives(adapter, schema, location, key)
    others = [(branch, branch_location) for branch, branch_location in branches if not _is_null(branch)]
    adapted: list[JsonObject] = []
    for branch, branch_location in _as_one_enum(adapter, others, location):
        result = _node(adapter, branch, branch_location)
        adapted.extend(variant for variant in result.get("anyOf", [result]) if variant not in adapted)
    return adapted, len(others) < len(branches)


def _as_one_enum(
    adapter: SchemaAdapter, branches: list[LocatedSchema], location: SchemaLocation
) -> list[LocatedSchema]:
    """Merge branches that are single values into one enum."""
    if len(branches) < 2 or not all("enum" in branch for branch, _ in branches):
        return branches
    merged = unite([branch for branch, _ in branches])
    if "anyOf" in merged:
        return branches
    for branch, branch_location in branches:
        for key in METADATA_KEYWORDS.intersection(branch):
            adapter.report_loss(branch_location, key, "gemini cannot describe one value of a list", widens=False)
    return [(merged, location)]


def _by_type(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> tuple[list[JsonObject], bool]:
    all_types = _kinds(adapter, schema, location)
    types = [kind for kind in all_types if kind != "null" and (kind != "integer" or "number" not in all_types)]
    if "enum" in schema:
        types = [kind for kind in types if any(kind in json_types_of(value) for value in schema["enum"])] or types[:1]
    adapted = [_typed(SchemaNode(adapter, schema, location, {"type": kind}), kind, len(types)) for kind in types]
    return adapted, "null" in all_types and ("enum" not in schema or None in schema["enum"])


def _kinds(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> list[str]:
    if (stated := stated_types(schema)) is not None:
        return stated
    implied = {KEYWORD_TYPE[key] for key in schema if key in KEYWORD_TYPE}
    if len(implied) != 1:
        return [*_ALL_TYPES, "null"]
    kind = implied.pop()
    adapter.report_loss(location, "", f"gemini needs a type: taken as {kind}", widens=False)
    return [kind]


def _typed(node: SchemaNode, kind: str, type_count: int) -> JsonObject:
    """The schema restricted to one type, which is one of `type_count`."""
    schema = node.schema
    if kind == "object":
        _add_members(node)
    elif kind == "array":
        _add_items(node)
    elif kind in ("number", "integer"):
        _add_bounds(node, kind)
    if "enum" in schema:
        _add_values(node, kind)
    if "format" in schema:
        _add_format(node, kind)
    for key in schema:
        if key not in _HANDLED_KEYWORDS and key not in METADATA_KEYWORDS:
            _add_other(node, key, kind, type_count)
    return node.finish()


def _add_other(node: SchemaNode, key: str, kind: str, type_count: int) -> None:
    value = node.schema[key]
    applies_to = KEYWORD_TYPE.get(key, kind)
    if key in _SUPPORTED_KEYWORDS.get(kind, ()):
        node.result[key] = int(value) if isinstance(value, float) else value
    elif applies_to != kind and not (applies_to == "number" and kind == "integer"):
        if type_count == 1:
            node.report_loss(key, f"{key} does not apply to the type {kind}", widens=False)
    elif key != "additionalProperties" or value not in _ANYTHING:  # an open object needs no words
        node.move_to_description(key, value, _UNSUPPORTED)


def _add_values(node: SchemaNode, kind: str) -> None:
    """Add an enum: Gemini allows only strings in it, and not the empty one."""
    values = [value for value in node.schema["enum"] if kind in json_types_of(value)]
    if kind == "string" and values and all(values):
        node.result["enum"] = list(dict.fromkeys(values))
    else:
        node.move_to_description("enum", values, _UNSUPPORTED)


def _add_format(node: SchemaNode, kind: str) -> None:
    format_name = node.schema["format"]
    if format_name in _FORMATS.get(kind, ()):
        node.result["format"] = format_name
    else:
        node.move_to_description("format", format_name, _UNSUPPORTED, widens=False)


def _add_bounds(node: SchemaNode, kind: str) -> None:
    """Add bounds; an exclusive bound becomes the next integer, and for other numbers a description."""
    schema, is_integer = node.schema, kind == "integer"
    lows, highs = ([schema[key]] if key in schema else [] for key in ("minimum", "maximum"))
    if "exclusiveMinimum" in schema:
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1 if is_integer else schema["exclusiveMinimum"])
    if "exclusiveMaximum" in schema:
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1 if is_integer else schema["exclusiveMaximum"])
    if lows:
        node.result["minimum"] = max(lows)
    if highs:
        node.result["maximum"] = min(highs)
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if key in schema and not is_integer:
            node.move_to_description(key, schema[key], _UNSUPPORTED)


def _add_members(node: SchemaNode) -> None:
    """Add members and `required`, which Gemini refuses if it is empty."""
    members: JsonObject = {}
    for key, member_schema in node.schema.get("properties", {}).items():
        if member_schema is False:
            node.adapter.report_loss(node.location.at("properties"), key, "gemini cannot forbid a member")
        else:
            members[key] = node.adapt(member_schema, "properties", key)
    required = node.schema.get("required", [])
    described = [key for key in required if key in members]
    if members:
        node.result["properties"] = members
    if described:
        node.result["required"] = described
    if len(described) < len(required):
        undescribed = [key for key in required if key not in members]
        node.move_to_description("required", undescribed, "gemini requires only what is listed under properties")


def _add_items(node: SchemaNode) -> None:
    """Add `items`, which Gemini requires: a union of the tuple's schemas and the rest, or nearly anything."""
    items = node.schema.get("items", True)
    if items in _ANYTHING and is_closed_tuple(node.schema):
        items = False
    if "prefixItems" in node.schema:
        node.move_to_description("prefixItems", node.schema["prefixItems"], _UNSUPPORTED)
        if items not in _ANYTHING:
            node.result["items"] = node.adapt({"anyOf": [*node.schema["prefixItems"], items]})
            return
    if items in _ANYTHING or items is False:
        node.report_loss("items", "gemini needs types here: lists in this list cannot be expressed", widens=False)
        string, *other_types = ({"type": kind} for kind in _ALL_TYPES if kind != "array")
        node.result["items"] = {"anyOf": [{**string, "nullable": True}, *other_types]}
    else:
        node.result["items"] = node.adapt(items, "items")


def _as_any_of(
    adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation, branches: list[JsonObject]
) -> JsonObject:
    """Join several schemas; nothing may stand beside `anyOf`, so the first branch carries the annotations of all."""
    node = SchemaNode(adapter, schema, location, branches[0])
    if not METADATA_KEYWORDS.isdisjoint(schema):
        _add_about(node, alone=len(branches) == 1)
    first = node.finish()
    return first if len(branches) == 1 else {"anyOf": [first, *branches[1:]]}


def _add_about(node: SchemaNode, *, alone: bool) -> None:
    result = node.result = dict(node.result)
    for key, value in node.schema.items():
        if key == "description":
            inner = result.get(key)
            result[key] = f"{value} {inner}" if inner and inner != value else value
        elif key in ("title", "default") and alone and value is not None:
            result[key] = value
        elif key == "title" or (key == "default" and value is None):
            node.report_loss(key, _UNSUPPORTED, widens=False)
        elif key in METADATA_KEYWORDS:
            node.move_to_description(key, value, _UNSUPPORTED, widens=False)


def _is_null(schema: JsonObject) -> bool:
    return schema.get("type") == "null" or schema.get("enum") == [None]


TARGET = SchemaTarget("gemini", _node, as_single_object)
