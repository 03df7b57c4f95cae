"""Parameters of strict functions: the same arguments are accepted, or the reasons why that cannot be."""

import re

from toolhall.dialects.findings import BadDocument, Finding
from toolhall.dialects.openai.sizes import too_large
from toolhall.model.json import Json, JsonObject
from toolhall.schema.branches import ABOUT, Branch, alternatives, choice_in, merge_all, widen_one_of
from toolhall.schema.keywords import TYPE_OF
from toolhall.schema.merge import const_as_enum, kinds_of
from toolhall.schema.part import Part
from toolhall.schema.place import Place
from toolhall.schema.reshape import Lost, Reshaped, Reshaping, Target, reshape

# OpenAI, structured outputs, supported schemas.
_KEPT = {
    "string": frozenset({"pattern"}),
    "number": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "array": frozenset({"minItems", "maxItems"}),
}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_LOOKS_AROUND = re.compile(r"\(\?(?!:)|\\[1-9k]")
_COMBINED = frozenset({"anyOf", "oneOf", "enum", "const", "not"})
_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_OWN = frozenset({"type", "enum", "format", "properties", "required", "additionalProperties", "items"})
# Values with which a keyword asks for nothing.
_IDLE: dict[str, tuple[Json, ...]] = {
    "minLength": (0,), "minProperties": (0,), "minContains": (0,), "uniqueItems": (False,), "propertyNames": (True, {}),
    "patternProperties": ({},), "dependentRequired": ({},), "dependentSchemas": ({},),
    "unevaluatedProperties": (True, {}), "unevaluatedItems": (True, {}),
}  # fmt: skip


class NotStrict(BadDocument):
    """Strict mode would change which arguments are accepted; carries every reason."""


def strict_parameters(schema: JsonObject) -> Reshaped:
    """The parameters of a strict function; NotStrict where it would accept more or less than before.

    A member that may be left out becomes a required one that may be null, if null was accepted for it before.
    """
    reshaped = reshape(schema, TARGET)
    refused = [lost for lost in reshaped.lost if lost.widens]
    refused.extend(Lost("", "size", reason) for reason in too_large(reshaped.schema))
    if refused:
        raise NotStrict([_finding(lost) for lost in refused])
    return reshaped


def _finding(lost: Lost) -> Finding:
    rule = f"openai/strict-{lost.keyword}" if lost.keyword else "openai/strict"
    return Finding(f"/inputSchema{lost.path}", rule, lost.reason)


def _root(reshaping: Reshaping, schema: JsonObject, place: Place) -> Branch:
    schema, place = merge_all(reshaping, *reshaping.opened(schema, place))
    for key in _COMBINED.intersection(schema):
        reshaping.lose(place, key, f"strict mode allows no {key} at the top level")
    if schema.get("type", "object") not in ("object", ["object"]):
        reshaping.lose(place, "type", "arguments are always an object")
    plain = {key: part for key, part in schema.items() if key not in _COMBINED}
    return {**plain, "type": "object"}, place


def _node(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    schema, place = merge_all(reshaping, schema, place)
    if "$ref" in schema:
        made = _reference(reshaping, schema, place)
    else:
        schema = const_as_enum(widen_one_of(reshaping, schema, place))
        made = _shaped(reshaping, schema, place)
    part = Part(reshaping, schema, place, made)
    if not ABOUT.isdisjoint(schema):
        _add_about(part)
    return part.done()


def _shaped(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    key = choice_in(schema)
    if key is not None:
        branches = alternatives(reshaping, schema, place, key)
        if not branches:
            reshaping.lose(place, key, "no value is accepted here, and strict mode cannot say that")
        return {"anyOf": [_node(reshaping, *branch) for branch in branches]}
    kinds = _kinds(reshaping, schema, place)
    if len(kinds) == 1 or _SCALARS.issuperset(kinds):
        made: JsonObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
        return _typed(Part(reshaping, schema, place, made), kinds)
    return {"anyOf": [_typed(Part(reshaping, schema, place, {"type": kind}), [kind]) for kind in kinds]}


def _reference(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    for key in schema.keys() - ABOUT - {"$ref"}:
        reshaping.lose(place, key, f"strict mode allows nothing beside a reference; move {key} to what it refers to")
    reference = {"$ref": schema["$ref"]}
    return reference if ABOUT.isdisjoint(schema) else {"anyOf": [reference]}


def _kinds(reshaping: Reshaping, schema: JsonObject, place: Place) -> list[str]:
    stated = schema.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    if "enum" in schema:
        return list(dict.fromkeys(kinds_of(value)[0] for value in schema["enum"]))
    reshaping.lose(place, "", "any type is accepted here, and strict mode needs one; give a type")
    return []


def _typed(part: Part, kinds: list[str]) -> JsonObject:
    schema = part.schema
    if kinds == ["object"]:
        _add_members(part)
    elif kinds == ["array"]:
        part.made["items"] = part.shape(schema.get("items", True), "items")
    if "enum" in schema:
        _add_values(part, kinds)
    if "format" in schema:
        _add_format(part)
    judged = {"number" if kind == "integer" else kind for kind in kinds}
    for key in schema:
        if key not in _OWN and key not in ABOUT:
            _add_other(part, key, judged)
    if _LOOKS_AROUND.search(part.made.get("pattern", "")):
        part.lose("pattern", "strict mode has no look-around and back references; write it without")
    return part.done()


def _add_other(part: Part, key: str, judged: set[str]) -> None:
    belongs = TYPE_OF.get(key)
    if belongs is not None and belongs not in judged:
        part.lose(key, f"{key} says nothing of the type {', '.join(judged)}", widens=False)
    elif belongs is not None and key in _KEPT.get(belongs, ()):
        part.made[key] = part.schema[key]
    elif belongs is None and key not in ("not", "if", "then", "else"):
        part.lose(key, "strict mode has no place for this", widens=False)
    elif part.schema[key] not in _IDLE.get(key, ()):
        part.lose(key, f"strict mode has no {key}: more arguments would be accepted")


def _add_format(part: Part) -> None:
    form = part.schema["format"]
    if form in _FORMATS and "string" in part.made["type"]:
        part.made["format"] = form
    else:
        part.tell("format", form, "strict mode does not know this format", widens=False)


def _add_values(part: Part, kinds: list[str]) -> None:
    values = [value for value in part.schema["enum"] if any(kind in kinds for kind in kinds_of(value))]
    if not values or any(isinstance(value, dict | list) for value in values):
        part.lose("enum", "strict mode lists texts, numbers, booleans and null only, and at least one")
    part.made["enum"] = values


def _add_members(part: Part) -> None:
    """All members required, no others allowed: so it must have been before, or null must have been accepted."""
    schema = part.schema
    if schema.get("additionalProperties", True) is not False:
        reason = "other members are accepted here, and strict mode would refuse them; set additionalProperties to false"
        part.lose("additionalProperties", reason)
    members, required = schema.get("properties", {}), schema.get("required", [])
    made: JsonObject = {}
    for key, each in members.items():
        made[key] = part.shape(each, "properties", key)
        if key not in required and not _accepts_null(made[key]):
            reason = "this may be left out, and strict mode would force a value; require it, or accept null"
            part.reshaping.lose(part.place.at("properties", key), "", reason)
    for key in required:
        if key not in members:
            part.lose("required", f"{key!r} is required but not described; list it under properties")
    part.made |= {"properties": made, "required": list(made), "additionalProperties": False}


def _accepts_null(schema: JsonObject) -> bool:
    if "anyOf" in schema:
        return any(map(_accepts_null, schema["anyOf"]))
    kind = schema.get("type", "")
    return (kind == "null" or (isinstance(kind, list) and "null" in kind)) and None in schema.get("enum", [None])


def _add_about(part: Part) -> None:
    made = part.made = dict(part.made)
    for key, value in part.schema.items():
        if key == "description":
            inner = made.get(key)
            made[key] = f"{value} {inner}" if inner and inner != value else value
        elif key == "title":
            made[key] = value
        elif key == "default" and value is None:
            part.lose(key, "strict mode has no defaults", widens=False)
        elif key in ABOUT:
            part.tell(key, value, "strict mode has no place for this", widens=False)


TARGET = Target("openai@strict", _node, _root, recursion=True)
