"""The compiled validator judges like the reference implementation, and never repeats a value."""

from typing import Any

import jsonschema
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from toolhall.model.errors import Problem
from toolhall.schema.cost import BadSchema, measure_cost
from toolhall.schema.validator import LIST_ALL_MAX_BYTES, MAX_PROBLEMS, Validator

names = st.sampled_from(["a", "b", "ab", "x/y"])
small = st.integers(-3, 3)
words = st.sampled_from(["", "a", "ab", "abc", "é", "1"])
scalars = st.one_of(st.none(), st.booleans(), small, st.sampled_from([0.5, 1.0, -2.0]), words)
values = st.recursive(
    scalars, lambda parts: st.lists(parts, max_size=3) | st.dictionaries(names, parts, max_size=3), max_leaves=8
)
KINDS = ["null", "boolean", "integer", "number", "string", "array", "object"]
patterns = st.sampled_from(["^a", "b$", "^[a-z]*$", "\\d", "."])
counts = st.integers(0, 3)


def maps(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(names, schemas, min_size=1, max_size=2)


def combined(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A schema object of a few keywords, some of which hold schemas."""
    lists = st.lists(schemas, min_size=1, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(KINDS) | st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minimum": small,
        "exclusiveMaximum": small,
        "multipleOf": st.integers(1, 3),
        "minLength": counts,
        "maxLength": counts,
        "pattern": patterns,
        "items": schemas,
        "prefixItems": lists,
        "contains": schemas,
        "minItems": counts,
        "maxItems": counts,
        "uniqueItems": st.booleans(),
        "properties": maps(schemas),
        "patternProperties": st.dictionaries(patterns, schemas, min_size=1, max_size=1),
        "additionalProperties": schemas,
        "propertyNames": schemas,
        "required": st.lists(names, max_size=2, unique=True),
        "minProperties": counts,
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=1), max_size=1),
        "dependentSchemas": maps(schemas),
        "allOf": lists,
        "anyOf": lists,
        "oneOf": lists,
        "not": schemas,
        "if": schemas,
        "then": schemas,
        "else": schemas,
        "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
        "unevaluatedProperties": schemas,
        "unevaluatedItems": schemas,
    }
    chosen = st.sets(st.sampled_from(sorted(keywords)), min_size=1, max_size=3)
    return chosen.flatmap(lambda keys: st.fixed_dictionaries({key: keywords[key] for key in sorted(keys)}))


schemas: st.SearchStrategy[Any] = st.recursive(st.booleans() | st.just({}), combined, max_leaves=5)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    root = draw(combined(schemas))
    return {**root, "$defs": {"one": draw(schemas), "two": draw(st.booleans() | st.just({"type": "integer"}))}}


def compiled(schema: dict[str, Any]) -> Validator:
    try:
        return Validator(schema)
    except BadSchema as error:
        assume("lead back here" not in str(error))
        raise


@settings(max_examples=examples(150))
@given(documents(), values)
def test_validator_agrees_with_the_reference_implementation(schema: dict[str, Any], value: Any) -> None:
    validator = compiled(schema)
    expected = jsonschema.Draft202012Validator(schema).is_valid(value)
    assert validator.accepts(value) == expected
    assert bool(validator.problems(value, 100)) != expected
    assert bool(validator.problems(value, LIST_ALL_MAX_BYTES + 1)) != expected


CANARY = "hunter2hunter2"
canaries = st.recursive(
    st.just(CANARY) | st.just(5_318_008) | st.none(),
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(names, parts, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(150))
@given(documents(), canaries)
def test_validator_problem_never_repeats_a_value(schema: dict[str, Any], value: Any) -> None:
    problems = compiled(schema).problems(value, 100)
    assert len(problems) <= MAX_PROBLEMS
    for problem in problems:
        assert isinstance(problem, Problem)
        assert CANARY not in str(problem)
        assert "5318008" not in str(problem)


@given(documents())
def test_validator_cost_is_at_least_one_check_and_reproducible(schema: dict[str, Any]) -> None:
    bounds = compiled(schema).cost
    assert bounds.visits >= 1
    assert bounds.growth >= 1
    assert measure_cost(schema) == bounds
