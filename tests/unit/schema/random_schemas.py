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


counts = st.integers(0, 3)
strings = _optional(
    minLength=counts,
    maxLength=counts,
    pattern=st.sampled_from(["^a", "b"]),
    format=st.sampled_from(["uri", "date", "date-time"]),
).map(lambda keywords: {"type": "string", **keywords})
numerics = st.tuples(
    st.sampled_from(["integer", "number"]),
    _optional(
        minimum=numbers,
        maximum=numbers,
        exclusiveMinimum=numbers,
        exclusiveMaximum=numbers,
        multipleOf=st.sampled_from([1, 2]),
    ),
).map(lambda pair: {"type": pair[0], **pair[1]})
plain: st.SearchStrategy[Json] = st.sampled_from([{"type": "boolean"}, {"type": "null"}, {}, True])
listed = st.lists(scalars, min_size=1, max_size=3).map(lambda choices: {"enum": choices}) | scalars.map(
    lambda value: {"const": value}
)
typed_list = st.tuples(
    st.lists(st.sampled_from(["string", "integer", "number", "boolean", "null"]), min_size=1, max_size=3, unique=True),
    st.lists(scalars, min_size=1, max_size=4),
).map(lambda pair: {"type": pair[0], "enum": pair[1]})
references = st.sampled_from(DEFINED).map(lambda name: {"$ref": f"#/$defs/{name}"})
leaves: st.SearchStrategy[Json] = st.one_of(strings, numerics, plain, listed, typed_list, references)


def _arrays(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    return _optional(
        items=inner,
        minItems=counts,
        maxItems=counts,
        uniqueItems=st.booleans(),
        prefixItems=st.lists(inner, min_size=1, max_size=2),
    ).map(lambda keywords: {"type": "array", **keywords})


def objects(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    return _optional(
        properties=st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
        required=st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
        additionalProperties=st.booleans() | inner,
        minProperties=st.integers(0, 1),
        dependentRequired=st.just({"a": ["b"]}),
    ).map(lambda keywords: {"type": "object", **keywords})


def _combined(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[JsonObject]:
    some = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(lambda parts: {"anyOf": parts}, some),
        st.builds(lambda parts: {"oneOf": parts}, some),
        st.builds(lambda parts: {"allOf": parts}, some),
        st.builds(
            lambda part, parts: {**part, "anyOf": parts} if isinstance(part, dict) else {"anyOf": parts}, inner, some
        ),
        st.builds(lambda part: {"not": part}, inner),
    )


def _described(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.builds(lambda part, said: {**part, **said} if isinstance(part, dict) else part, inner, about)


parts: st.SearchStrategy[Json] = st.recursive(
    _described(leaves), lambda inner: _described(_arrays(inner) | objects(inner) | _combined(inner)), max_leaves=5
)
definitions = st.fixed_dictionaries(
    {
        "Leaf": st.sampled_from(
            [{"type": "string", "minLength": 1}, {"enum": ["x", 1]}, {"type": "integer", "title": "L"}]
        ),
        "Node": st.just(
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"$ref": "#/$defs/Node"}}, "b": {"type": "string"}},
                "required": ["a"],
            }
        ),
    }
)


def roots() -> st.SearchStrategy[JsonObject]:
    """Input schemas: an object at the root, definitions to refer to."""
    return st.builds(lambda root, defined: {**root, "$defs": defined}, objects(parts), definitions)


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
        case "string":
            return draw(texts)
        case "integer" | "number":
            return draw(numbers)
        case "boolean":
            return draw(st.booleans())
        case "null":
            return None
        case "array":
            first = [fitting(draw, part, root, depth + 1) for part in schema.get("prefixItems", [])]
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
            return draw(values)
