"""How often one value is checked, and by how much recursion multiplies that."""

import pytest

from toolhall.model.json import JsonObject
from toolhall.schema.cost import BadSchema, measure_cost
from toolhall.schema.validator import Validator

NODE = {"$ref": "#/$defs/Node"}


def node(**keywords: object) -> JsonObject:
    return {**NODE, "$defs": {"Node": keywords}}


LOOPS: dict[str, JsonObject] = {
    "itself": {"$ref": "#"},
    "each other": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    "allOf": {"allOf": [{"$ref": "#"}]},
    "not": {"not": {"$ref": "#"}},
    "if": {"if": {"$ref": "#"}, "then": {}},
    "dependentSchemas": {"dependentSchemas": {"a": {"$ref": "#"}}},
    "anchor": {"$anchor": "me", "anyOf": [{"$ref": "#me"}, {}]},
    "dynamic": {"$dynamicAnchor": "me", "$dynamicRef": "#me"},
    # Seen first below a property, where the way back is fine, and then on the value itself, where it is not.
    "hidden behind a property": {
        "properties": {"r": {"$ref": "#/$defs/Q"}},
        "$ref": "#/$defs/Q",
        "$defs": {"Q": {"$ref": "#"}},
    },
    "behind two": {
        **NODE,
        "$defs": {
            "Node": {"properties": {"r": {"$ref": "#/$defs/Q"}}, "$ref": "#/$defs/Q"},
            "Q": {"allOf": [NODE, NODE]},
        },
    },
}


def test_loop_on_the_same_value_is_refused(subtests: pytest.Subtests) -> None:
    for name, schema in LOOPS.items():
        with (
            subtests.test(repr(name)),
            pytest.raises(BadSchema, match="these references lead back here without looking at a part of the value"),
        ):
            measure_cost(schema)


def test_chain_length_is_limited() -> None:
    definitions: JsonObject = {f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(300)}
    with pytest.raises(BadSchema, match="or form too long a chain"):
        measure_cost({"$ref": "#/$defs/d0", "$defs": definitions | {"d300": {}}})


def test_visits_count_every_check_once(subtests: pytest.Subtests) -> None:
    rows: list[tuple[JsonObject, int]] = [
        ({}, 1),
        ({"properties": {"a": {}, "b": True}}, 3),
        ({"allOf": [{}, {}], "not": {}}, 4),
        ({"$ref": "#/$defs/a", "$defs": {"a": {}, "unused": {"allOf": [{}, {}]}}}, 2),
        ({"required": ["a", "b"]}, 3),
        ({"enum": [1, 2, 3]}, 1),
        ({"enum": [{"a": 1}, [2], 3]}, 4),
        ({"items": {"$ref": "#"}}, 3),
    ]
    for schema, visits in rows:
        with subtests.test(repr((schema, visits))):
            assert measure_cost(schema).visits == visits


GROWTH: dict[str, tuple[JsonObject, int]] = {
    "no recursion": ({"anyOf": [{"properties": {"a": {}}}, {"properties": {"a": {}}}]}, 1),
    "a list": (node(properties={"next": NODE}), 1),
    "a tree": (node(properties={"parts": {"items": NODE}}), 1),
    "two ways to different parts": (node(properties={"left": NODE, "right": NODE}), 1),
    "any JSON": (node(additionalProperties=NODE, items=NODE), 1),
    "named and other members": (node(properties={"a": NODE}, additionalProperties=NODE), 1),
    "a union": (node(anyOf=[{"properties": {"r": NODE}}, {"properties": {"r": NODE}}]), 2),
    "a union of three": (node(oneOf=[{"items": NODE}] * 3), 3),
    "a definition used twice": (
        {
            "allOf": [{"$ref": "#/$defs/R"}, {"$ref": "#/$defs/R"}],
            "$defs": {"R": {"properties": {"r": {"$ref": "#"}}}},
        },
        2,
    ),
    "a union of unions": (node(anyOf=[{"anyOf": [{"items": NODE}] * 2}] * 2), 4),
    "a pattern beside a name": (node(properties={"r": NODE}, patternProperties={"^r$": NODE}), 2),
    "two patterns": (node(patternProperties={"^r": NODE, "r$": NODE}), 2),
    "items and contains": (node(items=NODE, contains=NODE), 2),
    "through another": (
        {
            **NODE,
            "$defs": {
                "Node": {"anyOf": [{"properties": {"r": {"$ref": "#/$defs/Other"}}}] * 2},
                "Other": {"properties": {"r": NODE}},
            },
        },
        2,
    ),
}


def test_growth_counts_repeated_checks_of_a_part(subtests: pytest.Subtests) -> None:
    for name, (schema, growth) in GROWTH.items():
        with subtests.test(repr(name)):
            assert measure_cost(schema).growth == growth


def test_recursive_schema_validates() -> None:
    validator = Validator(node(type="object", properties={"next": NODE}, additionalProperties=False))
    assert validator.accepts({"next": {"next": {}}})
    assert not validator.accepts({"next": {"next": {"other": {}}}})
