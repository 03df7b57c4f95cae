"""Gemini function declarations: name, description and `parameters` in Google's subset of OpenAPI's schema.

`parameters` has one type for each part, `anyOf` alone, and texts as choices. There is also `parametersJsonSchema`,
which takes JSON Schema; but not every model, gateway and client library knows it, and what it makes of a keyword is
not documented. `parameters` is understood by all of them.
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
from toolhall.schema.merge import const_as_enum, json_types_of, unite
from toolhall.schema.types import is_closed_tuple

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
_UNSUPPORTED = "gemini cannot say this"


def _node(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> JsonObject:
    if schema.get("type") in _SCALARS and schema.keys() <= _PASSED_THROUGH:
        return schema  # most parts of most tools
    schema, place = merge_all_of(reshaping, schema, place)
    schema = const_as_enum(widen_one_of(reshaping, schema, place))
    key = choice_keyword(schema)
    if key is not None and not _only_narrows(reshaping, schema, key):
        shaped, nullable = _by_branch(reshaping, schema, place, key)
    else:
        shaped, nullable = _by_type(reshaping, schema, place)
    if not shaped:  # null and nothing else
        reshaping.report_loss(place, "", "gemini has no type for null alone")
        shaped.append({"type": "string"})
    if nullable:
        shaped[0] = {**shaped[0], "nullable": True}
    return _as_any_of(reshaping, schema, place, shaped)


def _only_narrows(reshaping: SchemaAdapter, schema: JsonObject, key: str) -> bool:
    """Whether the branches say nothing but which members are needed: as a choice, they would repeat everything."""
    if "type" not in schema:
        return False
    return all(_SHAPES.isdisjoint(reshaping.peek(part)) for part in schema[key])


def _by_branch(
    reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation, key: str
) -> tuple[list[JsonObject], bool]:
    branches = alternatives(reshaping, schema, place, key)
    others = [(branch, where) for branch, where in branches if not _is_null(branch)]
    shaped: list[JsonObject] = []
    for branch, where in _as_one_enum(reshaping, others, place):
        made = _node(reshaping, branch, where)
        shaped.extend(each for each in made.get("anyOf", [made]) if each not in shaped)
    return shaped, len(others) < len(branches)


def _as_one_enum(reshaping: SchemaAdapter, branches: list[LocatedSchema], place: SchemaLocation) -> list[LocatedSchema]:
    """Branches that are single values, as one list of values."""
    if len(branches) < 2 or not all("enum" in branch for branch, _ in branches):
        return branches
    listed = unite([branch for branch, _ in branches])
    if "anyOf" in listed:
        return branches
    for branch, where in branches:
        for key in METADATA_KEYWORDS.intersection(branch):
            reshaping.report_loss(where, key, "gemini cannot describe one value of a list", widens=False)
    return [(listed, place)]


def _by_type(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> tuple[list[JsonObject], bool]:
    kinds = _kinds(reshaping, schema, place)
    plain = [kind for kind in kinds if kind != "null" and (kind != "integer" or "number" not in kinds)]
    if "enum" in schema:
        plain = [kind for kind in plain if any(kind in json_types_of(value) for value in schema["enum"])] or plain[:1]
    shaped = [_typed(SchemaNode(reshaping, schema, place, {"type": kind}), kind, len(plain)) for kind in plain]
    return shaped, "null" in kinds and ("enum" not in schema or None in schema["enum"])


def _kinds(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> list[str]:
    stated = schema.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    if "enum" in schema:
        return list(dict.fromkeys(json_types_of(value)[0] for value in schema["enum"]))
    meant = {KEYWORD_TYPE[key] for key in schema if key in KEYWORD_TYPE}
    if len(meant) != 1:
        return [*_ALL_TYPES, "null"]
    kind = meant.pop()
    reshaping.report_loss(place, "", f"gemini needs a type: taken as {kind}", widens=False)
    return [kind]


def _typed(part: SchemaNode, kind: str, type_count: int) -> JsonObject:
    """What a schema says of values of one type, which is one `of` so many."""
    schema = part.schema
    if kind == "object":
        _add_members(part)
    elif kind == "array":
        _add_items(part)
    elif kind in ("number", "integer"):
        _add_bounds(part, kind)
    if "enum" in schema:
        _add_values(part, kind)
    if "format" in schema:
        _add_format(part, kind)
    for key in schema:
        if key not in _HANDLED_KEYWORDS and key not in METADATA_KEYWORDS:
            _add_other(part, key, kind, type_count)
    return part.finish()


def _add_other(part: SchemaNode, key: str, kind: str, type_count: int) -> None:
    value = part.schema[key]
    belongs = KEYWORD_TYPE.get(key, kind)
    if key in _SUPPORTED_KEYWORDS.get(kind, ()):
        part.result[key] = int(value) if isinstance(value, float) else value
    elif belongs != kind and not (belongs == "number" and kind == "integer"):
        if type_count == 1:
            part.report_loss(key, f"{key} says nothing of the type {kind}", widens=False)
    elif key != "additionalProperties" or value not in _ANYTHING:  # an open object needs no words
        part.move_to_description(key, value, _UNSUPPORTED)


def _add_values(part: SchemaNode, kind: str) -> None:
    """A list of values: only texts are allowed in it, and not the empty one."""
    values = [value for value in part.schema["enum"] if kind in json_types_of(value)]
    if kind == "string" and values and all(values):
        part.result["enum"] = list(dict.fromkeys(values))
    else:
        part.move_to_description("enum", values, _UNSUPPORTED)


def _add_format(part: SchemaNode, kind: str) -> None:
    form = part.schema["format"]
    if form in _FORMATS.get(kind, ()):
        part.result["format"] = form
    else:
        part.move_to_description("format", form, _UNSUPPORTED, widens=False)


def _add_bounds(part: SchemaNode, kind: str) -> None:
    """Bounds that may not be reached are written as the next integer; of other numbers, they are described."""
    schema, whole = part.schema, kind == "integer"
    lows, highs = ([schema[key]] if key in schema else [] for key in ("minimum", "maximum"))
    if "exclusiveMinimum" in schema:
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1 if whole else schema["exclusiveMinimum"])
    if "exclusiveMaximum" in schema:
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1 if whole else schema["exclusiveMaximum"])
    if lows:
        part.result["minimum"] = max(lows)
    if highs:
        part.result["maximum"] = min(highs)
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if key in schema and not whole:
            part.move_to_description(key, schema[key], _UNSUPPORTED)


def _add_members(part: SchemaNode) -> None:
    """Members, and which of them are required; an empty list of them is refused, so it is left out."""
    members: JsonObject = {}
    for key, each in part.schema.get("properties", {}).items():
        if each is False:
            part.adapter.report_loss(part.location.at("properties"), key, "gemini cannot forbid a member")
        else:
            members[key] = part.adapt(each, "properties", key)
    required = part.schema.get("required", [])
    listed = [key for key in required if key in members]
    if members:
        part.result["properties"] = members
    if listed:
        part.result["required"] = listed
    if len(listed) < len(required):
        unlisted = [key for key in required if key not in members]
        part.move_to_description("required", unlisted, "gemini requires only what is listed under properties")


def _add_items(part: SchemaNode) -> None:
    """Items must have a schema: that of any of the first ones and the rest, or nearly anything."""
    items = part.schema.get("items", True)
    if items in _ANYTHING and is_closed_tuple(part.schema):
        items = False
    if "prefixItems" in part.schema:
        part.move_to_description("prefixItems", part.schema["prefixItems"], _UNSUPPORTED)
        if items not in _ANYTHING:
            part.result["items"] = part.adapt({"anyOf": [*part.schema["prefixItems"], items]})
            return
    if items in _ANYTHING or items is False:
        part.report_loss("items", "gemini needs types here: lists in this list cannot be said", widens=False)
        text, *others = ({"type": kind} for kind in _ALL_TYPES if kind != "array")
        part.result["items"] = {"anyOf": [{**text, "nullable": True}, *others]}
    else:
        part.result["items"] = part.adapt(items, "items")


def _as_any_of(
    reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation, shaped: list[JsonObject]
) -> JsonObject:
    """One schema of several; nothing may stand beside `anyOf`, so the first of them carries what is said of all."""
    part = SchemaNode(reshaping, schema, place, shaped[0])
    if not METADATA_KEYWORDS.isdisjoint(schema):
        _add_about(part, alone=len(shaped) == 1)
    first = part.finish()
    return first if len(shaped) == 1 else {"anyOf": [first, *shaped[1:]]}


def _add_about(part: SchemaNode, *, alone: bool) -> None:
    made = part.result = dict(part.result)
    for key, value in part.schema.items():
        if key == "description":
            inner = made.get(key)
            made[key] = f"{value} {inner}" if inner and inner != value else value
        elif key in ("title", "default") and alone and value is not None:
            made[key] = value
        elif key == "title" or (key == "default" and value is None):
            part.report_loss(key, _UNSUPPORTED, widens=False)
        elif key in METADATA_KEYWORDS:
            part.move_to_description(key, value, _UNSUPPORTED, widens=False)


def _is_null(schema: JsonObject) -> bool:
    return schema.get("type") == "null" or schema.get("enum") == [None]


TARGET = SchemaTarget("gemini", _node, as_single_object)
name = "gemini"
grouped = False
_NAME_PATTERN = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")


def write(tools: tuple[Tool, ...]) -> WriteResult:
    """One declaration for each tool, in their order."""
    written = [_write(tool, given) for tool, given in zip(tools, function_names(tools, _NAME_PATTERN), strict=True)]
    return WriteResult([document for document, _ in written], indexed_losses([losses for _, losses in written]))


def _write(tool: Tool, function_name: str) -> tuple[JsonObject, list[Loss]]:
    reshaped = adapt_schema(tool.input, TARGET)
    document: JsonObject = {
        "name": function_name,
        "description": function_description(tool, reshaped.notes) or tool.name,
    }
    losses = [*function_losses(tool, function_name, name), *schema_losses(reshaped)]
    if "properties" in reshaped.schema or tool.input.get("additionalProperties"):
        document["parameters"] = reshaped.schema
        return document, losses
    # A function without parameters has none at all: that it takes no others is said by that.
    return document, [loss for loss in losses if loss.path != "/inputSchema/additionalProperties"]
