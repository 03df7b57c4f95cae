"""Random schemas, and values that often fit them, for properties of everything that reshapes schemas."""

from collections.abc import Callable
from typing import TypeAlias

from hypothesis import strategies as st

from toolhall.model.json import Json, JsonObject

Draw: TypeAlias = Callable[[st.SearchStrategy[Json]], Json]

NAMES = ("a", "b", "c")
DEFINED = ("Leaf", "Node")
TEXTS = ("", "x", "ab", "abc", "2026-01-01")
NUMBERS = (-1, 0, 1, 2, 3, 2.5, 7.0)

texts = st.sampled_from(TEXTS)
numbers = st.sampled_from(NUMBERS)
scalars: st.SearchStrategy[Json] = st.one_of(st.none(), st.booleans(), numbers, texts)
values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=6,
)
about = st.fixed_dictionaries(
    {},
    optional={
        "title": st.just("T"),
        "description": st.just("D."),
        "default": scalars,
        "examples": st.lists(scalars, max_size=2),
    },
)


def _optional(**keywords: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    return st.fixed_dictionaries({}, optional=dict(keywords))


def _typed(kind: str, keywords: JsonObject) -> JsonObject:
    return {"type": kind, **keywords}


def _beside(part: Json, other: JsonObject) -> Json:
    return {**part, **other} if isinstance(part, dict) else part


def _choice(key: str, some: list[Json], beside: Json = True) -> Json:
    return {**(beside if isinstance(beside, dict) else {}), key: some}


def _member(key: str, value: Json) -> JsonObject:
    return {key: value}


counts = st.integers(0, 3)
strings = st.builds(
    _typed,
    st.just("string"),
    _optional(
        minLength=counts,
        maxLength=counts,
        pattern=st.sampled_from(["^a", "b"]),
        format=st.sampled_from(["uri", "date", "date-time"]),
    ),
)
numerics = st.builds(
    _typed,
    st.sampled_from(["integer", "number"]),
    _optional(
        minimum=numbers,
        maximum=numbers,
        exclusiveMinimum=numbers,
        exclusiveMaximum=numbers,
        multipleOf=st.sampled_from([1, 2]),
    ),
)
plain: st.SearchStrategy[Json] = st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, True])
consts = st.builds(_member, st.just("const"), scalars)
enums = st.builds(_member, st.just("enum"), st.lists(scalars, min_size=1, max_size=4))
several = st.lists(
    st.sampled_from(["string", "integer", "number", "boolean", "null"]), min_size=1, max_size=3, unique=True
)
references = st.builds(_member, st.just("$ref"), st.sampled_from([f"#/$defs/{name}" for name in DEFINED]))
leaves: st.SearchStrategy[Json] = st.one_of(
    strings,
    numerics,
    plain,
    consts,
    enums,
    st.builds(_beside, enums, st.builds(_member, st.just("type"), several)),
    references,
)


def _arrays(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    keywords = _optional(
        items=inner,
        minItems=counts,
        maxItems=counts,
        uniqueItems=st.booleans(),
        prefixItems=st.lists(inner, min_size=1, max_size=2),
    )
    return st.builds(_typed, st.just("array"), keywords)


def objects(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    """Objects with members of these kinds."""
    keywords = _optional(
        properties=st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        additionalProperties=st.booleans() | inner,
        minProperties=st.integers(0, 1),
        dependentRequired=st.just({"a": ["b"]}),
    )
    return st.builds(_typed, st.just("object"), keywords)


def _combined(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(_choice, st.sampled_from(["anyOf", "oneOf", "allOf"]), some),
        st.builds(_choice, st.just("anyOf"), some, inner),
        st.builds(_member, st.just("not"), inner),
    )


def _described(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.builds(_beside, inner, about)


def _grown(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return _described(_arrays(inner) | objects(inner) | _combined(inner))


parts: st.SearchStrategy[Json] = st.recursive(_described(leaves), _grown, max_leaves=5)
LEAVES: list[JsonObject] = [
    {"type": "string", "minLength": 1},
    {"enum": ["x", 1]},
    {"type": "integer", "title": "L"},
]
NODE: JsonObject = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/Node"}}, "b": {"type": "string"}},
    "required": ["a"],
}
definitions = st.fixed_dictionaries({"Leaf": st.sampled_from(LEAVES), "Node": st.just(NODE)})


def _defining(root: JsonObject, defined: JsonObject) -> JsonObject:
    return {**root, "$defs": defined}


def roots(inner: st.SearchStrategy[Json] = parts) -> st.SearchStrategy[JsonObject]:
    """Input schemas: an object at the root, definitions to refer to."""
    return st.builds(_defining, objects(inner), definitions)


def _closed(members: JsonObject, required: list[str]) -> JsonObject:
    listed = [name for name in required if name in members]
    return {"type": "object", "properties": members, "required": listed, "additionalProperties": False}


def closed_choices() -> st.SearchStrategy[JsonObject]:
    """Input schemas whose root offers alternatives, each with all its members listed."""
    members = st.dictionaries(st.sampled_from(NAMES), leaves, min_size=1, max_size=3)
    branch = st.builds(_closed, members, st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    some = st.lists(branch, min_size=1, max_size=3)
    choice = st.builds(_choice, st.sampled_from(["anyOf", "oneOf"]), some, st.just({"type": "object"}))
    return st.builds(_defining, choice, definitions)


def old_roots() -> st.SearchStrategy[JsonObject]:
    """Input schemas of draft-07, with what was called otherwise there."""
    items = st.lists(leaves, min_size=1, max_size=2) | leaves
    pairs = st.builds(_typed, st.just("array"), _optional(items=items, additionalItems=st.booleans() | leaves))
    members = st.dictionaries(st.sampled_from(NAMES), st.builds(_beside, references, strings) | pairs, max_size=3)
    keywords = st.fixed_dictionaries(
        {"$schema": st.just("http://json-schema.org/draft-07/schema#"), "properties": members},
        optional={
            "dependencies": st.sampled_from([{"a": ["b"]}, {"a": {"required": ["c"]}}, {"b": False}]),
            "dependentRequired": st.just({"a": ["c"]}),
        },
    )
    return st.builds(_defining, st.builds(_typed, st.just("object"), keywords), definitions)


KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "additionalProperties", "patternProperties", "enum",
    "const", "anyOf", "oneOf", "allOf", "not", "if", "then", "$ref", "$dynamicRef", "$defs", "definitions", "$schema",
    "$id", "$anchor", "description", "title", "default", "examples", "format", "pattern", "minLength", "maxItems",
    "minimum", "exclusiveMaximum", "multipleOf", "dependencies", "dependentRequired", "additionalItems", "nullable",
    "uniqueItems", "a", "b",
)  # fmt: skip
oddities: st.SearchStrategy[Json] = st.sampled_from(
    ["#", "#/$defs/a", "#/properties/a", "#a", "string", "object", "array", "dict", "", 0, -1, 1.5, 10**30, True, False]
)


def _garbled(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5)


def garbage() -> st.SearchStrategy[JsonObject]:
    """What looks like a schema, and mostly is none."""
    odd = st.recursive(oddities | scalars, _garbled, max_leaves=25)
    return st.dictionaries(st.sampled_from(KEYWORDS), odd | parts, max_size=8)


def fitting(draw: Draw, schema: Json, root: JsonObject, depth: int = 0) -> Json:
    """A value that often fits a schema, and otherwise nearly does."""
    if not isinstance(schema, dict) or depth > 6 or draw(st.integers(0, 9)) == 0:
        return draw(values)
    if "$ref" in schema:
        found = root["$defs"][schema["$ref"].rpartition("/")[2]]
        return fitting(draw, {**found, **{key: part for key, part in schema.items() if key != "$ref"}}, root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            rest = {name: part for name, part in schema.items() if name != key}
            branch = draw(st.sampled_from(schema[key]))
            return fitting(draw, {**rest, **branch} if isinstance(branch, dict) else rest, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    kind = schema.get("type")
    kind = draw(st.sampled_from(kind)) if isinstance(kind, list) else kind
    return _of_kind(draw, kind, schema, root, depth)


def _of_kind(draw: Draw, kind: str | None, schema: JsonObject, root: JsonObject, depth: int) -> Json:
    match kind:
        case "array":
            first = [fitting(draw, part, root, depth + 1) for part in _listed(schema, "prefixItems")]
            first += [fitting(draw, part, root, depth + 1) for part in _listed(schema, "items")]
            return first + [fitting(draw, schema.get("items", True), root, depth + 1) for _ in range(draw(counts))]
        case "object":
            members = schema.get("properties", {})
            names = [name for name in NAMES if name in schema.get("required", ()) or draw(st.booleans())]
            other = schema.get("additionalProperties", True)
            return {
                name: fitting(draw, members.get(name, other), root, depth + 1)
                for name in names
                if name in members or other is not False
            }
        case _:
            return draw(_PLAIN.get(kind or "", values))


def _listed(schema: JsonObject, key: str) -> list[Json]:
    found = schema.get(key)
    return found if isinstance(found, list) else []


_PLAIN: dict[str, st.SearchStrategy[Json]] = {
    "string": texts,
    "integer": numbers,
    "number": numbers,
    "boolean": st.booleans(),
    "null": st.none(),
}
