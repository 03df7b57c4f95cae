"""Intersection and union of schemas, and whether two schemas are disjoint.

All functions work on schema objects of draft 2020-12 with valid keywords (`keywords.upgrade`).
"""

from collections.abc import Callable

from toolhall.model.json import Json, JsonObject
from toolhall.schema.keywords import ANNOTATIONS, KEYWORD_TYPE, SUBSCHEMA_KEYWORDS, TYPES

# Keywords that depend on each other: of two schemas only one may have any of a group, or both have the same.
_KEYWORD_GROUPS = (("if", "then", "else"), ("contains", "minContains", "maxContains"), ("items", "prefixItems"))
_NOT_MERGEABLE = ("unevaluatedProperties", "unevaluatedItems", "$ref")  # they depend on the keywords beside them
_MEMBER_KEYWORDS = ("properties", "additionalProperties")
_ACCEPTS_ALL: tuple[Json, ...] = (True, {})


_JSON_TYPES = {
    bool: ("boolean",),
    int: ("integer", "number"),
    str: ("string",),
    list: ("array",),
    type(None): ("null",),
}


def intersect(one: JsonObject, other: JsonObject) -> JsonObject | None:
    """A schema that accepts exactly what both accept, without combinators; None if there is no such schema."""
    if not one or not other:
        return one or other
    if any(key in one or key in other for key in _NOT_MERGEABLE) or _have_split_groups(one, other):
        return None
    one, other = const_as_enum(one), const_as_enum(other)
    merged = {**one, **other}
    for key in one.keys() & other.keys():
        if key in _MEMBER_KEYWORDS or one[key] is other[key]:
            continue
        value = _merge_rule(key)(one[key], other[key])
        if value is None:
            return None
        merged[key] = value
    if any(key in one or key in other for key in _MEMBER_KEYWORDS):
        members = _intersect_members(one, other)
        return None if members is None else {**merged, **members}
    return merged


def unite(schemas: list[JsonObject]) -> JsonObject:
    """A schema that accepts what any of them accepts: the only one, one `enum`, or `anyOf`."""
    distinct: list[JsonObject] = []
    for schema in schemas:
        if schema not in distinct:
            distinct.append(schema)
    if len(distinct) == 1:
        return distinct[0]
    return _united_enum(distinct) or {"anyOf": distinct}


def const_as_enum(schema: JsonObject) -> JsonObject:
    """The schema with `enum` instead of `const`."""
    if "const" not in schema:
        return schema
    value = schema["const"]
    rest = {key: part for key, part in schema.items() if key != "const"}
    return {**rest, "enum": [value] if "enum" not in rest or _contains(value, rest["enum"]) else []}


def are_disjoint(one: JsonObject, other: JsonObject) -> bool:
    """Whether no value is accepted by both, as far as types, enums and required members prove it."""
    if not _type_set(one) & _type_set(other):
        return True
    one, other = const_as_enum(one), const_as_enum(other)
    if "enum" in one and "enum" in other:
        return not any(_contains(value, other["enum"]) for value in one["enum"])
    if one.get("type") != "object" or other.get("type") != "object":
        return False
    shared = set(one.get("required", ())) & set(other.get("required", ()))
    members, others = one.get("properties", {}), other.get("properties", {})
    return any(
        are_disjoint(members[name], others[name])
        for name in shared
        if isinstance(members.get(name), dict) and isinstance(others.get(name), dict)
    )


def json_equal(one: Json, other: Json) -> bool:
    """Whether two values are equal in JSON: 1 equals 1.0, but not true."""
    return isinstance(one, bool) is isinstance(other, bool) and bool(one == other)


def _contains(value: Json, values: list[Json]) -> bool:
    return any(json_equal(value, each) for each in values)


def _type_set(schema: JsonObject) -> set[str]:
    """The types of a schema, with integer as number; all types if it names none."""
    stated = schema.get("type", TYPES)
    return {"number" if each == "integer" else each for each in ([stated] if isinstance(stated, str) else stated)}


def _have_split_groups(one: JsonObject, other: JsonObject) -> bool:
    """Whether both schemas have keywords of one group, and not the same ones."""
    for group in _KEYWORD_GROUPS:
        mine = {key: one[key] for key in group if key in one}
        theirs = {key: other[key] for key in group if key in other}
        # Two schemas with `items` alone can be merged; other groups only if they are equal.
        if mine and theirs and mine != theirs and not (mine.keys() == theirs.keys() == {"items"}):
            return True
    return False


def _intersect_members(one: JsonObject, other: JsonObject) -> JsonObject | None:
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    rest, others = one.get("additionalProperties", True), other.get("additionalProperties", True)
    if (rest not in _ACCEPTS_ALL or others not in _ACCEPTS_ALL) and (
        "patternProperties" in one or "patternProperties" in other
    ):
        return None
    members = {name: _intersect_subschemas(part, theirs.get(name, others)) for name, part in mine.items()}
    members |= {name: _intersect_subschemas(rest, part) for name, part in theirs.items() if name not in mine}
    closing = _intersect_subschemas(rest, others)
    if closing is False:  # forbidden members need not be listed
        members = {name: part for name, part in members.items() if part is not False}
    merged: JsonObject = {"properties": members} if "properties" in one or "properties" in other else {}
    if "additionalProperties" in one or "additionalProperties" in other:
        merged["additionalProperties"] = closing
    return merged


def _intersect_subschemas(one: Json, other: Json) -> Json:
    """The intersection of two subschemas, with `allOf` if there is no simpler one."""
    if other in _ACCEPTS_ALL or one is other:
        return one
    if one in _ACCEPTS_ALL:
        return other
    if one is False or other is False:
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return intersect(one, other) or {"allOf": [one, other]}
    return one if isinstance(one, dict) else other  # an invalid schema is ignored


def _intersect_types(one: Json, other: Json) -> Json:
    ones, others = ([each] if isinstance(each, str) else each for each in (one, other))
    common = [each for each in ones if each in others or (each == "integer" and "number" in others)]
    common += [each for each in others if each == "integer" and "number" in ones and each not in common]
    return (common[0] if len(common) == 1 else common) or None


def _intersect_enums(one: list[Json], other: list[Json]) -> Json:
    return [value for value in one if _contains(value, other)] or None


def _intersect_maps(one: JsonObject, other: JsonObject) -> JsonObject:
    return {
        **one,
        **{key: _intersect_subschemas(one[key], part) if key in one else part for key, part in other.items()},
    }


def _join_texts(one: str, other: str) -> str:
    return one if other in one else f"{one} {other}"


def _keep_first(one: Json, other: Json) -> Json:  # noqa: ARG001 - the signature of a merge rule
    return one


def _keep_if_equal(one: Json, other: Json) -> Json:
    return one if json_equal(one, other) else None


_MERGE_RULES: dict[str, Callable[[Json, Json], Json]] = {
    "type": _intersect_types,
    "enum": _intersect_enums,
    "required": lambda one, other: list(dict.fromkeys([*one, *other])),
    "items": _intersect_subschemas,
    "propertyNames": _intersect_subschemas,
    "patternProperties": _intersect_maps,
    "dependentSchemas": _intersect_maps,
    "allOf": lambda one, other: [*one, *other],
    "uniqueItems": lambda one, other: one or other,
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "description": _join_texts,
}


def _merge_rule(key: str) -> Callable[[Json, Json], Json]:
    constrains = (key in KEYWORD_TYPE or key in SUBSCHEMA_KEYWORDS) and key not in ANNOTATIONS
    return _MERGE_RULES.get(key) or (_keep_if_equal if constrains else _keep_first)


def _united_enum(schemas: list[JsonObject]) -> JsonObject | None:
    """One `enum`, if all schemas consist of one and annotations."""
    listed = [const_as_enum(schema) for schema in schemas]
    if not all("enum" in schema and not schema.keys() - {"enum", "type"} - ANNOTATIONS for schema in listed):
        return None
    kinds = {schema["type"] for schema in listed if isinstance(schema.get("type"), str)}
    kind = {"type": kinds.pop()} if len(kinds) == 1 and all("type" in schema for schema in listed) else {}
    values = [
        value for schema in listed for value in schema["enum"] if not kind or kind["type"] in json_types_of(value)
    ]
    return {**kind, "enum": [value for index, value in enumerate(values) if not _contains(value, values[:index])]}


def stated_types(schema: JsonObject) -> list[str] | None:
    """The types that a schema states, or those of the values that it lists; None if it states neither."""
    stated = schema.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    if "enum" in schema:
        return list(dict.fromkeys(json_types_of(value)[0] for value in schema["enum"]))
    return None


def json_types_of(value: Json) -> tuple[str, ...]:
    """The JSON Schema types of a value, the narrowest first."""
    if isinstance(value, float):
        return ("integer", "number") if value.is_integer() else ("number",)
    return _JSON_TYPES.get(type(value), ("object",))
