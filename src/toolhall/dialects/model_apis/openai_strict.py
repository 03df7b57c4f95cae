"""OpenAI strict mode: parameters of strict functions (strict_parameters) and arguments of strict calls.

Strict mode supports a part of JSON Schema, requires every member and allows no others. Keywords that it does not
support are left out of its schema and checked by the hall alone. An optional member becomes a required one that may be
null, and `drop_refused_nulls` removes those nulls from the arguments again. So every call that the tool's schema
accepts can be made; where one could not, NotStrict says why.
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
from toolhall.schema.merge import const_as_enum, json_types_of, stated_types
from toolhall.schema.validator import Validator

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
# Keywords whose result may depend on the presence of a member, whatever its value.
_PRESENCE_KEYWORDS = frozenset({"dependentRequired", "dependentSchemas", "if", "not", "maxProperties", "propertyNames"})
_MAX_ROUNDS = 32  # validations per call: each may uncover more nulls; those that remain are refused with their path
_NULL_MEANS_ABSENT = "strict mode wants a value for every member: null stands for leaving this one out"
# Values with which a keyword constrains nothing.
_NO_OP_VALUES: dict[str, tuple[Json, ...]] = {
    "minLength": (0,), "minProperties": (0,), "minContains": (0,), "uniqueItems": (False,), "propertyNames": (True, {}),
    "patternProperties": ({},), "dependentRequired": ({},), "dependentSchemas": ({},),
    "unevaluatedProperties": (True, {}), "unevaluatedItems": (True, {}),
}  # fmt: skip
# OpenAI, structured outputs, supported schemas: limits on the total size of a schema.
MAX_PROPERTIES = 5_000
MAX_NESTING = 10
MAX_ENUM_VALUES = 1_000
MAX_CHARACTERS = 120_000
LONG_ENUM = 250
MAX_LONG_ENUM_CHARACTERS = 15_000


class NotStrict(BadDocument):
    """Strict mode could not express some calls that the schema accepts; carries every reason."""


def strict_parameters(schema: JsonObject) -> AdaptedSchema:
    """The parameters of a strict function; raises NotStrict if some of its calls could not be made."""
    adapted = adapt_schema(schema, TARGET)
    narrowing = [loss for loss in adapted.losses if loss.narrows]
    narrowing.extend(SchemaLoss("", "size", reason) for reason in size_violations(adapted.schema))
    if narrowing:
        raise NotStrict([_finding(loss) for loss in narrowing])
    return adapted


def drop_refused_nulls(arguments: JsonObject, validator: Validator, size: int) -> JsonObject:
    """The arguments that a strict call of about `size` bytes means: nulls that the schema refuses are removed."""
    for _ in range(_MAX_ROUNDS):
        if validator.accepts(arguments):
            break
        reduced: Json = arguments
        for problem in validator.problems(arguments, size):
            keys = [key.replace("~1", "/").replace("~0", "~") for key in problem.path[1:].split("/")]
            reduced = _without_null(reduced, keys)
        if reduced is arguments:
            break
        arguments = reduced
    return arguments


def _without_null(value: Json, path: list[str]) -> Json:
    """A copy without the member at this path if it is null; otherwise the value itself."""
    key, *rest = path
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value) and rest:
        inner = _without_null(value[int(key)], rest)
        return value if inner is value[int(key)] else [*value[: int(key)], inner, *value[int(key) + 1 :]]
    if not isinstance(value, dict) or key not in value:
        return value
    if not rest:
        return {name: member for name, member in value.items() if name != key} if value[key] is None else value
    inner = _without_null(value[key], rest)
    return value if inner is value[key] else {**value, key: inner}


def _finding(loss: SchemaLoss) -> Finding:
    rule = f"openai/strict-{loss.keyword}" if loss.keyword else "openai/strict"
    return Finding(f"/inputSchema{loss.path}", rule, loss.reason)


def _root(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> LocatedSchema:
    schema, location = merge_all_of(adapter, *adapter.dereference(schema, location))
    for key in _FORBIDDEN_AT_ROOT.intersection(schema):
        adapter.report_loss(location, key, f"strict mode allows no {key} at the top level", narrows=True)
    if schema.get("type", "object") not in ("object", ["object"]):
        adapter.report_loss(location, "type", "arguments are always an object", narrows=True)
    plain = {key: part for key, part in schema.items() if key not in _FORBIDDEN_AT_ROOT}
    return {**plain, "type": "object"}, location


def _node(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    schema, location = merge_all_of(adapter, schema, location)
    if "$ref" in schema:
        result = _reference(adapter, schema, location)
    else:
        schema = const_as_enum(widen_one_of(adapter, schema, location))
        result = _shaped(adapter, schema, location)
    node = SchemaNode(adapter, schema, location, result)
    if not METADATA_KEYWORDS.isdisjoint(schema):
        _add_about(node)
    return node.finish()


def _shaped(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    key = choice_keyword(schema)
    if key is not None:
        branches = alternatives(adapter, schema, location, key)
        if not branches:
            adapter.report_loss(
                location, key, "no value is accepted here, and strict mode cannot express that", narrows=True
            )
        return {"anyOf": [_node(adapter, *branch) for branch in branches]}
    kinds = _kinds(adapter, schema, location)
    if len(kinds) == 1 or _SCALARS.issuperset(kinds):
        result: JsonObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
        return _typed(SchemaNode(adapter, schema, location, result), kinds)
    return {"anyOf": [_typed(SchemaNode(adapter, schema, location, {"type": kind}), [kind]) for kind in kinds]}


def _reference(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> JsonObject:
    for key in schema.keys() - METADATA_KEYWORDS - {"$ref"}:
        adapter.report_loss(
            location, key, f"strict mode allows nothing beside a reference; {key} is checked by the hall alone"
        )
    reference = {"$ref": schema["$ref"]}
    return reference if METADATA_KEYWORDS.isdisjoint(schema) else {"anyOf": [reference]}


def _kinds(adapter: SchemaAdapter, schema: JsonObject, location: SchemaLocation) -> list[str]:
    if (stated := stated_types(schema)) is not None:
        return stated
    adapter.report_loss(location, "", "any type is accepted here, and strict mode needs one; give a type", narrows=True)
    return []


def _typed(node: SchemaNode, kinds: list[str]) -> JsonObject:
    schema = node.schema
    if kinds == ["object"]:
        _add_members(node)
    elif kinds == ["array"] and schema.get("prefixItems"):
        node.report_loss("prefixItems", "strict mode has no tuples; use an object or a list", narrows=True)
        node.result["items"] = {}
    elif kinds == ["array"]:
        node.result["items"] = node.adapt(schema.get("items", True), "items")
    if "enum" in schema:
        _add_values(node, kinds)
    if "format" in schema:
        _add_format(node)
    value_types = {"number" if kind == "integer" else kind for kind in kinds}
    for key in schema:
        if key not in _HANDLED_KEYWORDS and key not in METADATA_KEYWORDS:
            _add_other(node, key, value_types)
    if _LOOKAROUND.search(node.result.get("pattern", "")):
        del node.result["pattern"]
        node.move_to_description(
            "pattern", schema["pattern"], "strict mode has no look-around and back references; the hall checks it"
        )
    return node.finish()


def _add_other(node: SchemaNode, key: str, value_types: set[str]) -> None:
    applies_to = KEYWORD_TYPE.get(key)
    if applies_to is not None and applies_to not in value_types:
        node.report_loss(key, f"{key} does not apply to the type {', '.join(value_types)}", widens=False)
    elif applies_to is not None and key in _SUPPORTED_KEYWORDS.get(applies_to, ()):
        node.result[key] = node.schema[key]
    elif applies_to is None and key not in ("not", "if", "then", "else"):
        node.report_loss(key, "strict mode has no place for this", widens=False)
    elif node.schema[key] not in _NO_OP_VALUES.get(key, ()):
        node.move_to_description(key, node.schema[key], f"strict mode has no {key}; the hall checks it")


def _add_format(node: SchemaNode) -> None:
    format_name = node.schema["format"]
    if format_name in _FORMATS and "string" in node.result["type"]:
        node.result["format"] = format_name
    else:
        node.move_to_description("format", format_name, "strict mode does not know this format", widens=False)


def _add_values(node: SchemaNode, kinds: list[str]) -> None:
    values = [value for value in node.schema["enum"] if any(kind in kinds for kind in json_types_of(value))]
    if not values or any(isinstance(value, dict | list) for value in values):
        node.report_loss(
            "enum", "strict mode lists texts, numbers, booleans and null only, and at least one", narrows=True
        )
    node.result["enum"] = values


def _add_members(node: SchemaNode) -> None:
    """Require all members and allow no others: an optional member may be null instead."""
    schema = node.schema
    members, required = schema.get("properties", {}), schema.get("required", [])
    _close_object(node)
    adapted: JsonObject = {}
    for key, member_schema in members.items():
        adapted[key] = node.adapt(member_schema, "properties", key)
        if key in required:
            continue
        if not _accepts_null(adapted[key]):
            adapted[key] = _nullable(adapted[key])
            node.adapter.report_loss(node.location.at("properties", key), "", _NULL_MEANS_ABSENT, widens=False)
        elif presence := sorted(_PRESENCE_KEYWORDS.intersection(schema)):
            reason = (
                f"{presence[0]} distinguishes null from absent here, and strict mode cannot; "
                f"require {key!r}, or refuse null"
            )
            node.report_loss(presence[0], reason, narrows=True)
    for key in required:
        if key not in members:
            reason = f"{key!r} is required but not described; list it under properties"
            node.report_loss("required", reason, narrows=True)
    node.result |= {"properties": adapted, "required": list(adapted), "additionalProperties": False}


def _close_object(node: SchemaNode) -> None:
    """Refuse undescribed members; a loss that narrows if the schema explicitly accepts them."""
    schema = node.schema
    others, key = schema.get("additionalProperties"), "additionalProperties"
    if others is False and not schema.get("patternProperties"):
        return
    stated = others is not None or schema.get("patternProperties") or not schema.get("properties")
    if stated and not (() in node.location.paths and others is None and schema.get("properties") == {}):
        reason = "other members are accepted here, and strict mode would refuse them; set additionalProperties to false"
        node.report_loss(key, reason, narrows=True)
    else:
        node.report_loss(key, "strict mode takes no members that are not described", widens=False)


def _nullable(schema: JsonObject) -> JsonObject:
    """The schema, also accepting null, which stands for an absent member."""
    kind = schema.get("type")
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    if kind is None or not _SCALARS.issuperset([kind] if isinstance(kind, str) else kind):
        about = {key: part for key, part in schema.items() if key in ("title", "description")}
        rest = {key: part for key, part in schema.items() if key not in about}
        return {"anyOf": [rest, {"type": "null"}], **about}
    kinds = [kind] if isinstance(kind, str) else list(kind)
    widened = {**schema, "type": [*kinds, "null"] if "null" not in kinds else kinds}
    return {**widened, "enum": [*schema["enum"], None]} if "enum" in schema else widened


def _accepts_null(schema: JsonObject) -> bool:
    if "anyOf" in schema:
        return any(map(_accepts_null, schema["anyOf"]))
    kind = schema.get("type", "")
    return (kind == "null" or (isinstance(kind, list) and "null" in kind)) and None in schema.get("enum", [None])


def _add_about(node: SchemaNode) -> None:
    result = node.result = dict(node.result)
    for key, value in node.schema.items():
        if key == "description":
            inner = result.get(key)
            result[key] = f"{value} {inner}" if inner and inner != value else value
        elif key == "title":
            result[key] = value
        elif key == "default" and value is None:
            node.report_loss(key, "strict mode has no defaults", widens=False)
        elif key in METADATA_KEYWORDS:
            node.move_to_description(key, value, "strict mode has no place for this", widens=False)


def size_violations(schema: JsonObject) -> Iterator[str]:
    """Every size limit that a strict schema exceeds."""
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
    if sizes.long_enum > MAX_LONG_ENUM_CHARACTERS:
        yield f"a long list of values has {sizes.long_enum} characters; strict mode takes {MAX_LONG_ENUM_CHARACTERS}"


class _Sizes:
    def __init__(self) -> None:
        self.members = self.levels = self.values = self.characters = self.long_enum = 0

    def add(self, schema: JsonObject, level: int) -> None:
        """Count a schema that is nested in `level` objects."""
        members, definitions, values = (schema.get(key, {}) for key in ("properties", "$defs", "enum"))
        enum_characters = sum(len(value) for value in values if isinstance(value, str))
        level += schema.get("type") == "object"
        self.members += len(members)
        self.levels = max(self.levels, level)
        self.values += len(values)
        self.characters += enum_characters + sum(map(len, members)) + sum(map(len, definitions))
        if len(values) > LONG_ENUM:
            self.long_enum = max(self.long_enum, enum_characters)
        for part in definitions.values():
            self.add(part, 0)
        for part in (*members.values(), *schema.get("anyOf", ())):
            self.add(part, level)
        if "items" in schema:
            self.add(schema["items"], level)


TARGET = SchemaTarget("openai@strict", _node, _root, supports_recursion=True)
