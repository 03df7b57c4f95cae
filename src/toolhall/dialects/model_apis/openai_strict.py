"""OpenAI strict mode: parameters of strict functions (strict_parameters), and the arguments of a strict call.

Strict mode knows a part of JSON Schema, wants every member required and allows no others. What it cannot check is
left out of the schema that it gets, and still checked by the hall. A member that may be left out becomes one that
may be null, and `drop_refused_nulls` leaves out again what is null for that reason. So every call that the schema
describes can be made; where that cannot be, NotStrict says why.
"""

import re
from collections.abc import Iterator

from toolhall.dialects.findings import BadDocument, Finding
from toolhall.model.json import Json, JsonObject
from toolhall.schema.adapt import (
    AdaptedSchema,
    SchemaAdapter,
    SchemaLocation,
    SchemaLoss,
    SchemaNode,
    SchemaTarget,
    adapt_schema,
)
from toolhall.schema.combinators import (
    METADATA_KEYWORDS,
    LocatedSchema,
    alternatives,
    choice_keyword,
    merge_all_of,
    widen_one_of,
)
from toolhall.schema.keywords import KEYWORD_TYPE
from toolhall.schema.merge import const_as_enum, json_types_of
from toolhall.schema.validator import Validator

# OpenAI, structured outputs, supported schemas: limits on the total size of a schema.
MAX_PROPERTIES = 5_000
MAX_NESTING = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
LONG_ENUM = 250
MAX_LONG_ENUM_CHARACTERS = 15_000


def size_violations(schema: JsonObject) -> Iterator[str]:
    """What is too large, with the limit."""
    sizes = _Sizes()
    sizes.add(schema, 0)
    if sizes.members > MAX_PROPERTIES:
        yield f"there are {sizes.members} members; strict mode takes {MAX_PROPERTIES}"
    if sizes.levels > MAX_NESTING:
        yield f"objects are nested {sizes.levels} levels deep; strict mode takes {MAX_NESTING}"
    if sizes.values > MAX_ENUM_VALUES:
        yield f"{sizes.values} values are listed; strict mode takes {MAX_ENUM_VALUES}"
    if sizes.characters > MAX_CHARACTERS:
        yield f"names and values have {sizes.characters} characters; strict mode takes {MAX_CHARACTERS}"
    if sizes.long_list > MAX_LONG_ENUM_CHARACTERS:
        yield f"a long list of values has {sizes.long_list} characters; strict mode takes {MAX_LONG_ENUM_CHARACTERS}"


class _Sizes:
    def __init__(self) -> None:
        self.members = self.levels = self.values = self.characters = self.long_list = 0

    def add(self, schema: JsonObject, level: int) -> None:
        """Count a schema that stands inside so many objects."""
        members, defined, values = (schema.get(key, {}) for key in ("properties", "$defs", "enum"))
        written = sum(len(value) for value in values if isinstance(value, str))
        level += schema.get("type") == "object"
        self.members += len(members)
        self.levels = max(self.levels, level)
        self.values += len(values)
        self.characters += written + sum(map(len, members)) + sum(map(len, defined))
        if len(values) > LONG_ENUM:
            self.long_list = max(self.long_list, written)
        for part in defined.values():
            self.add(part, 0)
        for part in (*members.values(), *schema.get("anyOf", ())):
            self.add(part, level)
        if "items" in schema:
            self.add(schema["items"], level)


# OpenAI, structured outputs, supported schemas.
_SUPPORTED_KEYWORDS = {
    "string": frozenset({"pattern"}),
    "number": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "array": frozenset({"minItems", "maxItems"}),
}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_LOOKAROUND = re.compile(r"\(\?(?!:)|\\[1-9k]")
_FORBIDDEN_AT_ROOT = frozenset({"anyOf", "oneOf", "enum", "const", "not", "$ref"})
_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_HANDLED_KEYWORDS = frozenset(
    {"type", "enum", "format", "properties", "required", "additionalProperties", "items", "prefixItems"}
)
# What may depend on whether a member is there, whatever its value.
_PRESENCE_KEYWORDS = frozenset({"dependentRequired", "dependentSchemas", "if", "not", "maxProperties", "propertyNames"})
_MAX_ROUNDS = 32  # nulls inside nulls, or more of them than one look finds; what is left is refused with its path
_NULL_MEANS_ABSENT = "strict mode wants a value for every member: null stands for leaving this one out"
# Values with which a keyword asks for nothing.
_NO_OP_VALUES: dict[str, tuple[Json, ...]] = {
    "minLength": (0,), "minProperties": (0,), "minContains": (0,), "uniqueItems": (False,), "propertyNames": (True, {}),
    "patternProperties": ({},), "dependentRequired": ({},), "dependentSchemas": ({},),
    "unevaluatedProperties": (True, {}), "unevaluatedItems": (True, {}),
}  # fmt: skip


class NotStrict(BadDocument):
    """Strict mode could not say some of the calls that the schema accepts; carries every reason."""


def strict_parameters(schema: JsonObject) -> AdaptedSchema:
    """The parameters of a strict function; NotStrict where some of its calls could not be made."""
    reshaped = adapt_schema(schema, TARGET)
    refused = [lost for lost in reshaped.losses if lost.narrows]
    refused.extend(SchemaLoss("", "size", reason) for reason in size_violations(reshaped.schema))
    if refused:
        raise NotStrict([_finding(lost) for lost in refused])
    return reshaped


def drop_refused_nulls(arguments: JsonObject, validator: Validator, size: int) -> JsonObject:
    """The arguments that a strict call of about `size` bytes stands for: a null that the schema refuses is left out."""
    for _ in range(_MAX_ROUNDS):
        if validator.accepts(arguments):
            break
        without: Json = arguments
        for problem in validator.problems(arguments, size):
            keys = [key.replace("~1", "/").replace("~0", "~") for key in problem.path[1:].split("/")]
            without = _without_null(without, keys)
        if without is arguments:
            break
        arguments = without
    return arguments


def _without_null(value: Json, path: list[str]) -> Json:
    """A copy without the member at a path, if that is null; else the value itself."""
    key, *rest = path
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value) and rest:
        inner = _without_null(value[int(key)], rest)
        return value if inner is value[int(key)] else [*value[: int(key)], inner, *value[int(key) + 1 :]]
    if not isinstance(value, dict) or key not in value:
        return value
    if not rest:
        return {name: each for name, each in value.items() if name != key} if value[key] is None else value
    inner = _without_null(value[key], rest)
    return value if inner is value[key] else {**value, key: inner}


def _finding(lost: SchemaLoss) -> Finding:
    rule = f"openai/strict-{lost.keyword}" if lost.keyword else "openai/strict"
    return Finding(f"/inputSchema{lost.path}", rule, lost.reason)


def _root(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> LocatedSchema:
    schema, place = merge_all_of(reshaping, *reshaping.dereference(schema, place))
    for key in _FORBIDDEN_AT_ROOT.intersection(schema):
        reshaping.report_loss(place, key, f"strict mode allows no {key} at the top level", narrows=True)
    if schema.get("type", "object") not in ("object", ["object"]):
        reshaping.report_loss(place, "type", "arguments are always an object", narrows=True)
    plain = {key: part for key, part in schema.items() if key not in _FORBIDDEN_AT_ROOT}
    return {**plain, "type": "object"}, place


def _node(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> JsonObject:
    schema, place = merge_all_of(reshaping, schema, place)
    if "$ref" in schema:
        made = _reference(reshaping, schema, place)
    else:
        schema = const_as_enum(widen_one_of(reshaping, schema, place))
        made = _shaped(reshaping, schema, place)
    part = SchemaNode(reshaping, schema, place, made)
    if not METADATA_KEYWORDS.isdisjoint(schema):
        _add_about(part)
    return part.finish()


def _shaped(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> JsonObject:
    key = choice_keyword(schema)
    if key is not None:
        branches = alternatives(reshaping, schema, place, key)
        if not branches:
            reshaping.report_loss(
                place, key, "no value is accepted here, and strict mode cannot say that", narrows=True
            )
        return {"anyOf": [_node(reshaping, *branch) for branch in branches]}
    kinds = _kinds(reshaping, schema, place)
    if len(kinds) == 1 or _SCALARS.issuperset(kinds):
        made: JsonObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
        return _typed(SchemaNode(reshaping, schema, place, made), kinds)
    return {"anyOf": [_typed(SchemaNode(reshaping, schema, place, {"type": kind}), [kind]) for kind in kinds]}


def _reference(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> JsonObject:
    for key in schema.keys() - METADATA_KEYWORDS - {"$ref"}:
        reshaping.report_loss(
            place, key, f"strict mode allows nothing beside a reference; {key} is checked by the hall alone"
        )
    reference = {"$ref": schema["$ref"]}
    return reference if METADATA_KEYWORDS.isdisjoint(schema) else {"anyOf": [reference]}


def _kinds(reshaping: SchemaAdapter, schema: JsonObject, place: SchemaLocation) -> list[str]:
    stated = schema.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    if "enum" in schema:
        return list(dict.fromkeys(json_types_of(value)[0] for value in schema["enum"]))
    reshaping.report_loss(place, "", "any type is accepted here, and strict mode needs one; give a type", narrows=True)
    return []


def _typed(part: SchemaNode, kinds: list[str]) -> JsonObject:
    schema = part.schema
    if kinds == ["object"]:
        _add_members(part)
    elif kinds == ["array"] and schema.get("prefixItems"):
        part.report_loss("prefixItems", "strict mode has no tuples; use an object or a list", narrows=True)
        part.result["items"] = {}
    elif kinds == ["array"]:
        part.result["items"] = part.adapt(schema.get("items", True), "items")
    if "enum" in schema:
        _add_values(part, kinds)
    if "format" in schema:
        _add_format(part)
    judged = {"number" if kind == "integer" else kind for kind in kinds}
    for key in schema:
        if key not in _HANDLED_KEYWORDS and key not in METADATA_KEYWORDS:
            _add_other(part, key, judged)
    if _LOOKAROUND.search(part.result.get("pattern", "")):
        del part.result["pattern"]
        part.move_to_description(
            "pattern", schema["pattern"], "strict mode has no look-around and back references; the hall checks it"
        )
    return part.finish()


def _add_other(part: SchemaNode, key: str, judged: set[str]) -> None:
    belongs = KEYWORD_TYPE.get(key)
    if belongs is not None and belongs not in judged:
        part.report_loss(key, f"{key} says nothing of the type {', '.join(judged)}", widens=False)
    elif belongs is not None and key in _SUPPORTED_KEYWORDS.get(belongs, ()):
        part.result[key] = part.schema[key]
    elif belongs is None and key not in ("not", "if", "then", "else"):
        part.report_loss(key, "strict mode has no place for this", widens=False)
    elif part.schema[key] not in _NO_OP_VALUES.get(key, ()):
        part.move_to_description(key, part.schema[key], f"strict mode has no {key}; the hall checks it")


def _add_format(part: SchemaNode) -> None:
    form = part.schema["format"]
    if form in _FORMATS and "string" in part.result["type"]:
        part.result["format"] = form
    else:
        part.move_to_description("format", form, "strict mode does not know this format", widens=False)


def _add_values(part: SchemaNode, kinds: list[str]) -> None:
    values = [value for value in part.schema["enum"] if any(kind in kinds for kind in json_types_of(value))]
    if not values or any(isinstance(value, dict | list) for value in values):
        part.report_loss(
            "enum", "strict mode lists texts, numbers, booleans and null only, and at least one", narrows=True
        )
    part.result["enum"] = values


def _add_members(part: SchemaNode) -> None:
    """All members required, no others allowed: what may be left out may be null instead."""
    schema = part.schema
    members, required = schema.get("properties", {}), schema.get("required", [])
    _close_object(part)
    made: JsonObject = {}
    for key, each in members.items():
        made[key] = part.adapt(each, "properties", key)
        if key in required:
            continue
        if not _accepts_null(made[key]):
            made[key] = _nullable(made[key])
            part.adapter.report_loss(part.location.at("properties", key), "", _NULL_MEANS_ABSENT, widens=False)
        elif found := sorted(_PRESENCE_KEYWORDS.intersection(schema)):
            reason = (
                f"{found[0]} tells null from left out here, and strict mode cannot; require {key!r}, or refuse null"
            )
            part.report_loss(found[0], reason, narrows=True)
    for key in required:
        if key not in members:
            reason = f"{key!r} is required but not described; list it under properties"
            part.report_loss("required", reason, narrows=True)
    part.result |= {"properties": made, "required": list(made), "additionalProperties": False}


def _close_object(part: SchemaNode) -> None:
    """Other members than those described: if the schema speaks of them, they are part of the call."""
    schema = part.schema
    others, key = schema.get("additionalProperties"), "additionalProperties"
    if others is False and not schema.get("patternProperties"):
        return
    stated = others is not None or schema.get("patternProperties") or not schema.get("properties")
    if stated and not (() in part.location.paths and others is None and schema.get("properties") == {}):
        reason = "other members are accepted here, and strict mode would refuse them; set additionalProperties to false"
        part.report_loss(key, reason, narrows=True)
    else:
        part.report_loss(key, "strict mode takes no members that are not described", widens=False)


def _nullable(schema: JsonObject) -> JsonObject:
    """The same schema, with null for "left out"."""
    kind = schema.get("type")
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if kind is None or not _SCALARS.issuperset([kind] if isinstance(kind, str) else kind):
        about = {key: part for key, part in schema.items() if key in ("title", "description")}
        rest = {key: part for key, part in schema.items() if key not in about}
        return {"anyOf": [rest, {"type": "null"}], **about}
    kinds = [kind] if isinstance(kind, str) else list(kind)
    made = {**schema, "type": [*kinds, "null"] if "null" not in kinds else kinds}
    return {**made, "enum": [*schema["enum"], None]} if "enum" in schema else made


def _accepts_null(schema: JsonObject) -> bool:
    if "anyOf" in schema:
        return any(map(_accepts_null, schema["anyOf"]))
    kind = schema.get("type", "")
    return (kind == "null" or (isinstance(kind, list) and "null" in kind)) and None in schema.get("enum", [None])


def _add_about(part: SchemaNode) -> None:
    made = part.result = dict(part.result)
    for key, value in part.schema.items():
        if key == "description":
            inner = made.get(key)
            made[key] = f"{value} {inner}" if inner and inner != value else value
        elif key == "title":
            made[key] = value
        elif key == "default" and value is None:
            part.report_loss(key, "strict mode has no defaults", widens=False)
        elif key in METADATA_KEYWORDS:
            part.move_to_description(key, value, "strict mode has no place for this", widens=False)


TARGET = SchemaTarget("openai@strict", _node, _root, supports_recursion=True)
