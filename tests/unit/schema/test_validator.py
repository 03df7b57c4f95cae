"""Yes quickly, or every problem with its path and without the value."""

import time
from typing import Any

import pytest

from tests.unit.builders import nested
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import JsonObject
from toolhall.schema.validator import LIST_ALL_MAX_BYTES, MAX_CHOICES, MAX_PROBLEMS, MAX_REASON_LENGTH, Validator

CANARY = "hunter2"


def test_accepted_value_has_no_problems() -> None:
    validator = Validator({"type": "object", "properties": {"a": {"type": "integer"}}})
    assert validator.accepts({"a": 1})
    assert validator.problems({"a": 1}, 8) == []


def test_problems_have_paths() -> None:
    validator = Validator(
        {"properties": {"a/b": {"type": "integer"}, "c": {"items": {"minimum": 5}}}, "required": ["d"]}
    )
    assert set(validator.problems({"a/b": "x", "c": [9, 3]}, 30)) == {
        Problem("/a~1b", 'the value is not of type "integer"'),
        Problem("/c/1", "the value is less than the minimum of 5"),
        Problem("/d", '"d" is a required property'),
    }


VALUES: list[tuple[JsonObject, Any]] = [
    ({"type": "integer"}, CANARY),
    ({"pattern": "^a$"}, CANARY),
    ({"enum": [1, 2]}, CANARY),
    ({"const": 3}, CANARY),
    ({"maxLength": 2}, CANARY),
    ({"minLength": 20}, CANARY),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, CANARY),
    ({"oneOf": [{"type": "string"}, {"minLength": 1}]}, CANARY),
    ({"not": {"type": "string"}}, CANARY),
    ({"if": True, "then": False}, CANARY),
    ({"uniqueItems": True}, [CANARY, CANARY]),
    ({"contains": {"type": "integer"}}, [CANARY]),
    ({"prefixItems": [{"type": "integer"}], "items": False}, [CANARY, CANARY]),
    ({"unevaluatedItems": False}, [CANARY]),
    ({"maxItems": 0}, [CANARY]),
    ({"minItems": 2}, [CANARY]),
    ({"maxProperties": 0}, {"a": CANARY}),
    ({"required": ["b"]}, {"a": CANARY}),
    ({"dependentRequired": {"a": ["b"]}}, {"a": CANARY}),
    ({"additionalProperties": False}, {"a": CANARY}),
    ({"unevaluatedProperties": False}, {"a": CANARY}),
    ({"properties": {"a": {"items": {"type": "null"}}}}, {"a": [{"b": CANARY}]}),
    ({"propertyNames": {"maxLength": 0}}, {"a": CANARY}),
    ({"multipleOf": 5, "maximum": 7, "exclusiveMinimum": 90}, 8191),
]


def test_problem_never_contains_the_value(subtests: pytest.Subtests) -> None:
    rows_2: list[int] = [10, LIST_ALL_MAX_BYTES + 1]
    for schema, value in VALUES:
        for size in rows_2:
            with subtests.test(repr((schema, value, size))):
                problems = Validator(schema).problems(value, size)
                assert problems
                assert not [problem for problem in problems if CANARY in str(problem) or "8191" in str(problem)]


def test_false_schema_has_a_plain_reason() -> None:
    (problem,) = Validator({"additionalProperties": False}).problems({"a": 1}, 7)
    assert problem == Problem("", "no value is allowed here; leave it out")


def test_problems_are_limited() -> None:
    validator = Validator({"items": {"type": "integer"}})
    assert len(validator.problems(["x"] * 100, 400)) == MAX_PROBLEMS


def test_large_value_reports_first_problem_only() -> None:
    validator = Validator({"items": {"type": "integer"}})
    assert validator.problems(["x"] * 5_000, 20_000) == [Problem("/0", 'the value is not of type "integer"')]


def test_paths_and_reasons_are_shortened() -> None:
    validator = Validator({"additionalProperties": {"pattern": "^" + "y" * 500}})
    (problem,) = validator.problems({"x" * 300: ""}, 310)
    assert len(problem.path) == len(problem.reason) == MAX_REASON_LENGTH


def reasons(schema: JsonObject, value: Any) -> list[str]:
    return [str(problem) for problem in Validator(schema).problems(value, 100)]


def test_choices_up_to_twenty_are_listed() -> None:
    names = [f"choice {number}" for number in range(MAX_CHOICES)]
    (told,) = reasons({"enum": names}, CANARY)
    assert all(f'"{name}"' in told for name in names)
    assert reasons({"enum": ["a", 1, None]}, CANARY) == ['/: the value is not one of "a", 1 or null']
    assert reasons({"enum": ["a"]}, CANARY) == ['/: the value is not "a"']
    long = ["y" * 1_000 + str(number) for number in range(MAX_CHOICES)]
    (told,) = reasons({"enum": long}, CANARY)
    assert told.count("...") == MAX_CHOICES


def test_choices_beyond_twenty_are_counted() -> None:
    (told,) = reasons({"enum": list(range(300))}, CANARY)
    assert told.startswith("/: the value is none of the 300 choices, which begin with 0, 1, ")
    assert told.endswith(", 19")


def test_alternatives_report_the_intended_branch() -> None:
    choice: JsonObject = {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "null"}]}
    assert reasons(choice, CANARY) == ['/: the value is not one of "a" or "b"']
    assert reasons(choice, 5) == ['/: the value is not of type "string" or "null"']
    model: JsonObject = {"type": "object", "properties": {"n": {"minimum": 3}}, "required": ["k"]}
    assert set(reasons({"properties": {"m": {"anyOf": [{"type": "null"}, model]}}}, {"m": {"n": 1}})) == {
        "/m/n: the value is less than the minimum of 3",
        '/m/k: "k" is a required property',
    }


def test_report_size_is_limited() -> None:
    """Threat F12: whatever is sent, the answer has at most 8 kB."""
    names = [f"{number:03}" + "n" * 197 for number in range(20)]
    validator = Validator({"properties": {name: {"enum": ["y" * 1_000]} for name in names}})
    problems = validator.problems(dict.fromkeys(names, 0), LIST_ALL_MAX_BYTES)
    assert len(problems) > 10
    assert len(BadArguments(problems).message) < 8_000


def seconds_to_refuse(validator: Validator, value: Any, size: int) -> float:
    start = time.process_time()
    assert validator.problems(value, size)
    return time.process_time() - start


def test_small_value_reports_bounded_problems() -> None:
    """Four kilobytes of empty objects, each of which lacks fifty members."""
    names = [f"a{number}" for number in range(50)]
    row = {"type": "object", "required": names, "properties": {key: {"type": "string"} for key in names}}
    validator = Validator({"items": row})
    assert seconds_to_refuse(validator, [{}] * 1_300, 4_000) < 0.05


def test_recursive_schema_reports_bounded_problems() -> None:
    """A hundred bytes that would be refused 2**60 times."""
    validator = Validator(
        {
            "type": "object",
            "allOf": [{"$ref": "#/$defs/R"}, {"$ref": "#/$defs/R"}],
            "$defs": {"R": {"properties": {"r": {"$ref": "#"}}}},
        }
    )
    assert seconds_to_refuse(validator, nested(60, "r"), 400) < 0.05


def test_large_integers_are_exact() -> None:
    validator = Validator({"maximum": 2**53})
    assert validator.accepts(2**53)
    assert not validator.accepts(2**53 + 1)
    assert Validator({"const": 2**64 + 1}).accepts(2**64 + 1)
    assert not Validator({"const": 2**64 + 1}).accepts(2**64)


def test_integral_float_is_integer_and_boolean_is_not() -> None:
    validator = Validator({"type": "integer"})
    assert validator.accepts(2.0)
    assert not validator.accepts(2.5)
    assert not validator.accepts(True)


def test_formats_are_not_validated() -> None:
    assert Validator({"format": "email"}).accepts("not an address")
