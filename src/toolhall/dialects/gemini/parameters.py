"""JSON Schema in what Gemini's `parameters` accept: one type for each part, `anyOf` alone, texts as choices.

There is also `parametersJsonSchema`, which takes JSON Schema; but not every model, gateway and client library knows it,
and what it makes of a keyword is not documented. `parameters` is understood by all of them.
"""

import math

from toolhall.model.json import Json, JsonObject
from toolhall.schema.branches import ABOUT, Branch, alternatives, choice_in, merge_all, one_object, widen_one_of
from toolhall.schema.inline import is_closed_tuple
from toolhall.schema.keywords import TYPE_OF
from toolhall.schema.merge import const_as_enum, either, kinds_of
from toolhall.schema.part import Part
from toolhall.schema.place import Place
from toolhall.schema.reshape import Reshaping, Target

_ALL = ("string", "number", "boolean", "object", "array")
_SCALARS = ("string", "number", "integer", "boolean")
_EASY = frozenset({"type", "title", "description"})
_KEPT = {
    "string": frozenset({"minLength", "maxLength", "pattern"}),
    "array": frozenset({"minItems", "maxItems"}),
    "object": frozenset({"minProperties", "maxProperties"}),
}
_FORMATS = {"string": ("date-time",), "integer": ("int32", "int64"), "number": ("float", "double")}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_OWN = frozenset({"type", "enum", "format", "properties", "required", "items", "prefixItems", *_BOUNDS})
_SHAPES = frozenset({"type", "properties", "items", "prefixItems", "enum", "const", "anyOf", "oneOf"})
_OPEN: tuple[Json, ...] = (True, {})
_CANNOT = "gemini cannot say this"


def _node(reshaping: Reshaping, schema: JsonObject, place: Place) -> JsonObject:
    if schema.get("type") in _SCALARS and schema.keys() <= _EASY:
        return schema  # most parts of most tools
    schema, place = merge_all(reshaping, schema, place)
    schema = const_as_enum(widen_one_of(reshaping, schema, place))
    key = choice_in(schema)
    if key is not None and not _only_narrows(reshaping, schema, key):
        shaped, nullable = _by_branch(reshaping, schema, place, key)
    else:
        shaped, nullable = _by_type(reshaping, schema, place)
    if not shaped:  # null and nothing else
        reshaping.lose(place, "", "gemini has no type for null alone")
        shaped.append({"type": "string"})
    if nullable:
        shaped[0] = {**shaped[0], "nullable": True}
    return _united(reshaping, schema, place, shaped)


def _only_narrows(reshaping: Reshaping, schema: JsonObject, key: str) -> bool:
    """Whether the branches say nothing but which members are needed: as a choice, they would repeat everything."""
    if "type" not in schema:
        return False
    return all(_SHAPES.isdisjoint(reshaping.peek(part)) for part in schema[key])


def _by_branch(reshaping: Reshaping, schema: JsonObject, place: Place, key: str) -> tuple[list[JsonObject], bool]:
    branches = alternatives(reshaping, schema, place, key)
    others = [(branch, where) for branch, where in branches if not _is_null(branch)]
    shaped: list[JsonObject] = []
    for branch, where in _as_one_list(reshaping, others, place):
        made = _node(reshaping, branch, where)
        shaped.extend(each for each in made.get("anyOf", [made]) if each not in shaped)
    return shaped, len(others) < len(branches)


def _as_one_list(reshaping: Reshaping, branches: list[Branch], place: Place) -> list[Branch]:
    """Branches that are single values, as one list of values."""
    if len(branches) < 2 or not all("enum" in branch for branch, _ in branches):
        return branches
    listed = either([branch for branch, _ in branches])
    if "anyOf" in listed:
        return branches
    for branch, where in branches:
        for key in ABOUT.intersection(branch):
            reshaping.lose(where, key, "gemini cannot describe one value of a list", widens=False)
    return [(listed, place)]


def _by_type(reshaping: Reshaping, schema: JsonObject, place: Place) -> tuple[list[JsonObject], bool]:
    kinds = _kinds(reshaping, schema, place)
    plain = [kind for kind in kinds if kind != "null" and (kind != "integer" or "number" not in kinds)]
    if "enum" in schema:
        plain = [kind for kind in plain if any(kind in kinds_of(value) for value in schema["enum"])] or plain[:1]
    shaped = [_typed(Part(reshaping, schema, place, {"type": kind}), kind, len(plain)) for kind in plain]
    return shaped, "null" in kinds and ("enum" not in schema or None in schema["enum"])


def _kinds(reshaping: Reshaping, schema: JsonObject, place: Place) -> list[str]:
    stated = schema.get("type")
    if stated is not None:
        return [stated] if isinstance(stated, str) else list(stated)
    if "enum" in schema:
        return list(dict.fromkeys(kinds_of(value)[0] for value in schema["enum"]))
    meant = {TYPE_OF[key] for key in schema if key in TYPE_OF}
    if len(meant) != 1:
        return [*_ALL, "null"]
    kind = meant.pop()
    reshaping.lose(place, "", f"gemini needs a type: taken as {kind}", widens=False)
    return [kind]


def _typed(part: Part, kind: str, of: int) -> JsonObject:
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
        if key not in _OWN and key not in ABOUT:
            _add_other(part, key, kind, of)
    return part.done()


def _add_other(part: Part, key: str, kind: str, of: int) -> None:
    value = part.schema[key]
    belongs = TYPE_OF.get(key, kind)
    if key in _KEPT.get(kind, ()):
        part.made[key] = int(value) if isinstance(value, float) else value
    elif belongs != kind and not (belongs == "number" and kind == "integer"):
        if of == 1:
            part.lose(key, f"{key} says nothing of the type {kind}", widens=False)
    elif key != "additionalProperties" or value not in _OPEN:  # an open object needs no words
        part.tell(key, value, _CANNOT)


def _add_values(part: Part, kind: str) -> None:
    """A list of values: only texts are allowed in it, and not the empty one."""
    values = [value for value in part.schema["enum"] if kind in kinds_of(value)]
    if kind == "string" and values and all(values):
        part.made["enum"] = list(dict.fromkeys(values))
    else:
        part.tell("enum", values, _CANNOT)


def _add_format(part: Part, kind: str) -> None:
    form = part.schema["format"]
    if form in _FORMATS.get(kind, ()):
        part.made["format"] = form
    else:
        part.tell("format", form, _CANNOT, widens=False)


def _add_bounds(part: Part, kind: str) -> None:
    """Bounds that may not be reached are written as the next integer; of other numbers, they are described."""
    schema, whole = part.schema, kind == "integer"
    lows, highs = ([schema[key]] if key in schema else [] for key in ("minimum", "maximum"))
    if "exclusiveMinimum" in schema:
        lows.append(math.floor(schema["exclusiveMinimum"]) + 1 if whole else schema["exclusiveMinimum"])
    if "exclusiveMaximum" in schema:
        highs.append(math.ceil(schema["exclusiveMaximum"]) - 1 if whole else schema["exclusiveMaximum"])
    if lows:
        part.made["minimum"] = max(lows)
    if highs:
        part.made["maximum"] = min(highs)
    for key in ("exclusiveMinimum", "exclusiveMaximum"):
        if key in schema and not whole:
            part.tell(key, schema[key], _CANNOT)


def _add_members(part: Part) -> None:
    """Members, and which of them are required; an empty list of them is refused, so it is left out."""
    members: JsonObject = {}
    for key, each in part.schema.get("properties", {}).items():
        if each is False:
            part.reshaping.lose(part.place.at("properties"), key, "gemini cannot forbid a member")
        else:
            members[key] = part.shape(each, "properties", key)
    required = part.schema.get("required", [])
    listed = [key for key in required if key in members]
    if members:
        part.made["properties"] = members
    if listed:
        part.made["required"] = listed
    if len(listed) < len(required):
        unlisted = [key for key in required if key not in members]
        part.tell("required", unlisted, "gemini requires only what is listed under properties")


def _add_items(part: Part) -> None:
    """Items must have a schema: that of any of the first ones and the rest, or nearly anything."""
    items = part.schema.get("items", True)
    if items in _OPEN and is_closed_tuple(part.schema):
        items = False
    if "prefixItems" in part.schema:
        part.tell("prefixItems", part.schema["prefixItems"], _CANNOT)
        if items not in _OPEN:
            part.made["items"] = part.shape({"anyOf": [*part.schema["prefixItems"], items]})
            return
    if items in _OPEN or items is False:
        part.lose("items", "gemini needs types here: lists in this list cannot be said", widens=False)
        text, *others = ({"type": kind} for kind in _ALL if kind != "array")
        part.made["items"] = {"anyOf": [{**text, "nullable": True}, *others]}
    else:
        part.made["items"] = part.shape(items, "items")


def _united(reshaping: Reshaping, schema: JsonObject, place: Place, shaped: list[JsonObject]) -> JsonObject:
    """One schema of several; nothing may stand beside `anyOf`, so the first of them carries what is said of all."""
    part = Part(reshaping, schema, place, shaped[0])
    if not ABOUT.isdisjoint(schema):
        _add_about(part, alone=len(shaped) == 1)
    first = part.done()
    return first if len(shaped) == 1 else {"anyOf": [first, *shaped[1:]]}


def _add_about(part: Part, *, alone: bool) -> None:
    made = part.made = dict(part.made)
    for key, value in part.schema.items():
        if key == "description":
            inner = made.get(key)
            made[key] = f"{value} {inner}" if inner and inner != value else value
        elif key in ("title", "default") and alone and value is not None:
            made[key] = value
        elif key == "title" or (key == "default" and value is None):
            part.lose(key, _CANNOT, widens=False)
        elif key in ABOUT:
            part.tell(key, value, _CANNOT, widens=False)


def _is_null(schema: JsonObject) -> bool:
    return schema.get("type") == "null" or schema.get("enum") == [None]


TARGET = Target("gemini", _node, one_object)
