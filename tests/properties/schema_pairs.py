"""Random schemas, changed versions of them, and values that often match: for properties of the comparison."""

import re
from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any

from toolhall.schema.keywords import subschemas

NAMES = ("a", "b", "ab", "x/y")
TEXTS = ("", "a", "ab", "abc", "é", "1")
NUMBERS = (-3, -1, 0, 1, 2, 3, 0.5, 1.0, -2.0)
KINDS = ("null", "boolean", "integer", "number", "string", "array", "object")
PATTERNS = ("^a", "b$", "^[a-z]*$", "\\d", ".")
SCALARS: dict[str, tuple[Any, ...]] = {
    "string": TEXTS,
    "integer": NUMBERS,
    "number": NUMBERS,
    "boolean": (True, False),
    "null": (None,),
}
REFERENCES = ("#/$defs/one", "#/$defs/two")
Schema = dict[str, Any]
NO_SAY: Schema = {}


def value(random: Random, depth: int = 2) -> Any:
    """Any small value."""
    kind = random.randrange(7 if depth else 5)
    if kind == 5:
        return [value(random, depth - 1) for _ in range(random.randrange(3))]
    if kind == 6:
        return {name: value(random, depth - 1) for name in random.sample(NAMES, random.randrange(3))}
    return (None, random.choice((True, False)), random.choice(NUMBERS), random.choice(TEXTS), random.choice(TEXTS))[
        kind
    ]


def part(random: Random, depth: int) -> Any:
    """A schema inside another: mostly of one type with keywords that belong to it, sometimes anything."""
    if depth <= 0 or random.random() < 0.1:
        return random.choice((True, {}, {"type": "string"}, {"type": "integer"}, {"type": ["number", "null"]}, False))
    kind = random.choice((_object, _object, _array, _text, _number, _listed, _combined, _combined, _anything))
    return kind(random, depth - 1)


def _some(random: Random, **keywords: Any) -> Schema:
    """A few of these keywords; each is made when it is chosen."""
    chosen = random.sample(sorted(keywords), random.randrange(min(4, len(keywords) + 1)))
    return {key: keywords[key]() for key in chosen}


def _object(random: Random, depth: int) -> Schema:
    members = {name: part(random, depth) for name in random.sample(NAMES, random.randrange(1, 4))}
    return {
        "type": "object",
        "properties": members,
        **_some(random, **_object_keywords(random, depth)),
        **({"required": random.sample(NAMES, random.randrange(1, 3))} if random.random() < 0.4 else {}),
    }


def _object_keywords(random: Random, depth: int) -> dict[str, Any]:
    return {
        "additionalProperties": lambda: random.choice((True, False, False, NO_SAY, part(random, depth))),
        "patternProperties": lambda: {random.choice(PATTERNS): part(random, depth)},
        "propertyNames": lambda: random.choice(({"pattern": "^a"}, {"maxLength": 1}, {"enum": ["a", "b"]}, True)),
        "minProperties": lambda: random.randrange(3),
        "maxProperties": lambda: random.randrange(1, 4),
        "dependentRequired": lambda: {random.choice(NAMES): [random.choice(NAMES)]},
        "dependentSchemas": lambda: {random.choice(NAMES): part(random, depth)},
        "unevaluatedProperties": lambda: random.choice((True, False, part(random, depth))),
    }


def _array(random: Random, depth: int) -> Schema:
    return {
        "type": "array",
        **_some(
            random,
            items=lambda: part(random, depth),
            prefixItems=lambda: [part(random, depth) for _ in range(random.randrange(1, 3))],
            contains=lambda: part(random, depth),
            minContains=lambda: random.randrange(3),
            maxContains=lambda: random.randrange(1, 3),
            minItems=lambda: random.randrange(3),
            maxItems=lambda: random.randrange(1, 4),
            uniqueItems=lambda: random.choice((True, False)),
            unevaluatedItems=lambda: random.choice((True, False, part(random, depth))),
        ),
    }


def _text(random: Random, depth: int) -> Schema:
    del depth
    return {
        "type": random.choice(("string", "string", ["string", "null"])),
        **_some(
            random,
            minLength=lambda: random.randrange(3),
            maxLength=lambda: random.randrange(1, 4),
            pattern=lambda: random.choice(PATTERNS),
            description=lambda: "D.",
        ),
    }


def _number(random: Random, depth: int) -> Schema:
    del depth
    return {
        "type": random.choice(("integer", "number", ["integer", "string"])),
        **_some(
            random,
            minimum=lambda: random.choice(NUMBERS),
            maximum=lambda: random.choice(NUMBERS),
            exclusiveMinimum=lambda: random.choice(NUMBERS),
            exclusiveMaximum=lambda: random.choice(NUMBERS),
            multipleOf=lambda: random.choice((1, 2, 3, 0.5)),
        ),
    }


def _listed(random: Random, depth: int) -> Schema:
    del depth
    if random.random() < 0.3:
        return {"const": value(random, 1)}
    return {"enum": [value(random, 1) for _ in range(random.randrange(1, 4))]}


def _combined(random: Random, depth: int) -> Schema:
    parts = [part(random, depth) for _ in range(random.randrange(1, 4))]
    beside = random.choice(({}, {}, _object(random, 0), {"type": "object"}))
    match random.randrange(6):
        case 0:
            return {**beside, "allOf": parts}
        case 1:
            return {**beside, "oneOf": parts}
        case 2:
            return {**beside, "not": parts[0]}
        case 3:
            return {**beside, "if": parts[0], "then": part(random, depth), "else": part(random, depth)}
        case 4:
            return {**beside, "$ref": random.choice(REFERENCES)}
        case _:
            return {**beside, "anyOf": parts}


def _anything(random: Random, depth: int) -> Schema:
    """Keywords of several types beside each other, with no type said."""
    mixed = {**_array(random, depth), **_object(random, depth), **_number(random, depth), **_text(random, depth)}
    return {key: mixed[key] for key in random.sample(sorted(mixed), random.randrange(1, 3))}


def document(random: Random, depth: int = 3) -> Schema:
    """A schema of arguments, or of anything else, with definitions; the second may refer to itself."""
    root = _object(random, depth) if random.random() < 0.8 else _combined(random, depth)
    inside = {"type": "object", "properties": {"a": {"$ref": "#/$defs/two"}, "b": part(random, 1)}}
    return {**root, "$defs": {"one": part(random, 1), "two": inside}}


def changed(random: Random, old: Schema) -> Schema:
    """The same with one to three of its parts changed."""
    new = deepcopy(old)
    for _ in range(random.randrange(1, 4)):
        schemas = [each for each in _schemas(new) if isinstance(each, dict)]
        _change(random, random.choice(schemas))
    return new


def _change(random: Random, schema: Schema) -> None:
    """Drop a keyword, replace one, add one, or change a member."""
    keys = sorted(key for key in schema if key != "$defs")
    fresh = _anything(random, 1) if random.random() < 0.5 else part(random, 2)
    match random.randrange(5):
        case 0 if keys:
            del schema[random.choice(keys)]
        case 1 if isinstance(fresh, dict):
            schema.update(fresh)
        case 2 if isinstance(schema.get("properties"), dict):
            schema["properties"][random.choice(NAMES)] = part(random, 1)
        case 3 if isinstance(schema.get("properties"), dict):
            schema["properties"].pop(random.choice(NAMES), None)
        case _:
            name = random.choice(NAMES)
            required = schema.get("required", [])
            schema["required"] = [each for each in required if each != name] if name in required else [*required, name]


def _schemas(root: Any) -> Iterator[Any]:
    pending = [root]
    while pending:
        schema = pending.pop()
        yield schema
        if isinstance(schema, dict):
            pending.extend(child.schema for child in subschemas(schema, ""))


def fitting(random: Random, root: Schema, schemas: list[Any], depth: int = 4) -> Any:
    """A value that has a good chance to fit all of these."""
    found = [each for each in in_place(root, schemas) if isinstance(each, dict)]
    if depth <= 0 or not found or random.random() < 0.05:
        return value(random, 1)
    for schema in found:
        if random.random() < 0.7 and ("enum" in schema or "const" in schema):
            return random.choice(schema.get("enum") or [schema.get("const")])
    stated = [kind for each in found if "type" in each for kind in _listed_types(each)] or list(KINDS)
    kind = random.choice(stated)
    if kind == "object":
        return _fitting_object(random, root, found, depth)
    if kind == "array":
        inner = [each[key] for each in found for key in ("items", "contains") if key in each]
        inner += [each for schema in found for each in schema.get("prefixItems", ())]
        length = random.randrange(4)
        return [fitting(random, root, random.sample(inner, min(1, len(inner))), depth - 1) for _ in range(length)]
    return random.choice(SCALARS[kind])


def _fitting_object(random: Random, root: Schema, found: list[Schema], depth: int) -> Schema:
    names = {name for schema in found for name in (*schema.get("required", ()), *schema.get("properties", ()))}
    required = {name for schema in found for name in schema.get("required", ())}
    chosen = [name for name in sorted(names) if name in required or random.random() < 0.6]
    chosen += [random.choice(NAMES)] if random.random() < 0.2 else []
    return {name: fitting(random, root, members(found, name), depth - 1) for name in dict.fromkeys(chosen)}


def _listed_types(schema: Schema) -> list[str]:
    return [schema["type"]] if isinstance(schema["type"], str) else schema["type"]


def in_place(root: Schema, schemas: list[Any]) -> list[Any]:
    """These and all that judge the same value, whatever decides whether they apply."""
    found: list[Any] = []
    pending, seen = list(schemas), set[int]()
    while pending:
        schema = pending.pop()
        if id(schema) in seen:
            continue
        seen.add(id(schema))
        found.append(schema)
        if isinstance(schema, dict):
            pending += [root["$defs"][schema["$ref"].rpartition("/")[2]]] if "$ref" in schema else []
            pending += [each for key in ("allOf", "anyOf", "oneOf") for each in schema.get(key, ())]
            pending += [schema[key] for key in ("if", "then", "else") if key in schema]
            pending += schema.get("dependentSchemas", {}).values()
    return found


def members(found: list[Schema], name: str) -> list[Any]:
    """What schemas say of a member of this name."""
    said: list[Any] = []
    for schema in found:
        own = [schema["properties"][name]] if name in schema.get("properties", {}) else []
        own += [each for pattern, each in schema.get("patternProperties", {}).items() if re.search(pattern, name)]
        rest = [schema[key] for key in ("additionalProperties", "unevaluatedProperties") if _describes(schema.get(key))]
        said += own or rest
    return said


def _describes(schema: Any) -> bool:
    return isinstance(schema, dict) and bool(schema)


def is_declared(root: Schema, schemas: list[Any], given: Any) -> bool:
    """Whether a value has only members that the schemas speak of, on every level."""
    found = [each for each in in_place(root, schemas) if isinstance(each, dict)]
    if isinstance(given, dict):
        required = {name for schema in found for name in schema.get("required", ())}
        return all(
            (name in required or members(found, name)) and is_declared(root, members(found, name), inner)
            for name, inner in given.items()
        )
    if isinstance(given, list):
        inside = [schema["items"] for schema in found if "items" in schema]
        inside += [each for schema in found for each in schema.get("prefixItems", ())]
        return all(is_declared(root, inside, inner) for inner in given)
    return True
