"""Parameters of strict functions, and the arguments that such a function is called with.

OpenAI's strict mode knows a part of JSON Schema, wants every member required and allows no others. What it cannot
check is left out of the schema that it gets, and still checked by the hall. A member that may be left out becomes one
that may be null, and `read_arguments` leaves out again what is null for that reason. So every call that the schema
describes can be made; where that cannot be, NotStrict says why.
"""

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
from toolhall.schema.validator import Validator

# OpenAI, structured outputs, supported schemas.
_KEPT = {
    "string": frozenset({"pattern"}),
    "number": frozenset({"multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}),
    "array": frozenset({"minItems", "maxItems"}),
}
_FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid")
_LOOKS_AROUND = re.compile(r"\(\?(?!:)|\\[1-9k]")
_COMBINED = frozenset({"anyOf", "oneOf", "enum", "const", "not", "$ref"})
_SCALARS = frozenset({"string", "number", "integer", "boolean", "null"})
_OWN = frozenset({"type", "enum", "format", "properties", "required", "additionalProperties", "items", "prefixItems"})
# What may depend on whether a member is there, whatever its value.
_PRESENCE = frozenset({"dependentRequired", "dependentSchemas", "if", "not", "maxProperties", "propertyNames"})
_MAX_ROUNDS = 32  # nulls inside nulls, or more of them than one look finds; what is left is refused with its path
_LEFT_OUT = "strict mode wants a value for every member: null stands for leaving this one out"
# Values with which a keyword asks for nothing.
_IDLE: dict[str, tuple[Json, ...]] = {
    "minLength": (0,), "minProperties": (0,), "minContains": (0,), "uniqueItems": (False,), "propertyNames": (True, {}),
    "patternProperties": ({},), "dependentRequired": ({},), "dependentSchemas": ({},),
    "unevaluatedProperties": (True, {}), "unevaluatedItems": (True, {}),
}  # fmt: skip


class NotStrict(BadDocument):
    """Strict mode could not say some of the calls that the schema accepts; carries every reason."""


def strict_parameters(schema: JsonObject) -> Reshaped:
    """The parameters of a strict function; NotStrict where some of its calls could not be made."""
    reshaped = reshape(schema, TARGET)
    refused = [lost for lost in reshaped.lost if lost.narrows]
    refused.extend(Lost("", "size", reason) for reason in too_large(reshaped.schema))
    if refused:
        raise NotStrict([_finding(lost) for lost in refused])
    return reshaped


def read_arguments(arguments: JsonObject, schema: Validator, size: int) -> JsonObject:
    """The arguments that a strict call of about `size` bytes stands for: a null that the schema refuses is left out."""
    for _ in range(_MAX_ROUNDS):
        if schema.accepts(arguments):
            break
        without: Json = arguments
        for problem in schema.problems(arguments, size):
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


def _finding(lost: Lost) -> Finding:
    rule = f"openai/strict-{lost.keyword}" if lost.keyword else "openai/strict"
    return Finding(f"/inputSchema{lost.path}", rule, lost.reason)


def _root(reshaping: Reshaping, schema: JsonObject, place: Place) -> Branch:
    schema, place = merge_all(reshaping, *reshaping.opened(schema, place))
    for key in _COMBINED.intersection(schema):
        reshaping.lose(place, key, f"strict mode allows no {key} at the top level", narrows=True)
    if schema.get("type", "object") not in ("object", ["object"]):
        reshaping.lose(place, "type", "arguments are always an object", narrows=True)
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
            reshaping.lose(place, key, "no value is accepted here, and strict mode cannot say that", narrows=True)
        return {"anyOf": [_node(reshaping, *branch) for branch in branches]}
    kinds = _kinds(reshaping, schema, place)
    if len(kinds) == 1 or _SCALARS.issuperset(kinds):
        made: JsonObject = {"type": kinds[0] if len(kinds) == 1 else kinds}
        return _typed(Part(reshaping, schema, place, made), kinds)
    return {"anyOf": [_typed(Part(reshaping, schema, place, {"type": kind}), [kind]) for kind in kinds]}


def _reference(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    for key in schema.keys() - ABOUT - {"$ref"}:
        reshaping.lose(place, key, f"strict mode allows nothing beside a reference; {key} is checked by the hall alone")
    reference = {"$ref": schema["$ref"]}
    return reference if ABOUT.isdisjoint(schema) else {"anyOf": [reference]}


def _kinds(reshaping: Reshaping, schema: JsonObject, place: Place) -> list[str]:
    stated = schema.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    if "enum" in schema:
        return list(dict.fromkeys(kinds_of(value)[0] for value in schema["enum"]))
    reshaping.lose(place, "", "any type is accepted here, and strict mode needs one; give a type", narrows=True)
    return []


def _typed(part: Part, kinds: list[str]) -> JsonObject:
    schema = part.schema
    if kinds == ["object"]:
        _add_members(part)
    elif kinds == ["array"] and schema.get("prefixItems"):
        part.lose("prefixItems", "strict mode has no tuples; use an object or a list", narrows=True)
        part.made["items"] = {}
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
        del part.made["pattern"]
        part.tell(
            "pattern", schema["pattern"], "strict mode has no look-around and back references; the hall checks it"
        )
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
        part.tell(key, part.schema[key], f"strict mode has no {key}; the hall checks it")


def _add_format(part: Part) -> None:
    form = part.schema["format"]
    if form in _FORMATS and "string" in part.made["type"]:
        part.made["format"] = form
    else:
        part.tell("format", form, "strict mode does not know this format", widens=False)


def _add_values(part: Part, kinds: list[str]) -> None:
    values = [value for value in part.schema["enum"] if any(kind in kinds for kind in kinds_of(value))]
    if not values or any(isinstance(value, dict | list) for value in values):
        part.lose("enum", "strict mode lists texts, numbers, booleans and null only, and at least one", narrows=True)
    part.made["enum"] = values


def _add_members(part: Part) -> None:
    """All members required, no others allowed: what may be left out may be null instead."""
    schema = part.schema
    members, required = schema.get("properties", {}), schema.get("required", [])
    _close(part)
    made: JsonObject = {}
    for key, each in members.items():
        made[key] = part.shape(each, "properties", key)
        if key in required:
            continue
        if not _accepts_null(made[key]):
            made[key] = _nullable(made[key])
            part.reshaping.lose(part.place.at("properties", key), "", _LEFT_OUT, widens=False)
        elif found := sorted(_PRESENCE.intersection(schema)):
            reason = (
                f"{found[0]} tells null from left out here, and strict mode cannot; require {key!r}, or refuse null"
            )
            part.lose(found[0], reason, narrows=True)
    for key in required:
        if key not in members:
            reason = f"{key!r} is required but not described; list it under properties"
            part.lose("required", reason, narrows=True)
    part.made |= {"properties": made, "required": list(made), "additionalProperties": False}


def _close(part: Part) -> None:
    """Other members than those described: if the schema speaks of them, they are part of the call."""
    schema = part.schema
    others, key = schema.get("additionalProperties"), "additionalProperties"
    if others is False and not schema.get("patternProperties"):
        return
    stated = others is not None or schema.get("patternProperties") or not schema.get("properties")
    if stated and not (() in part.place.paths and others is None and schema.get("properties") == {}):
        reason = "other members are accepted here, and strict mode would refuse them; set additionalProperties to false"
        part.lose(key, reason, narrows=True)
    else:
        part.lose(key, "strict mode takes no members that are not described", widens=False)


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
