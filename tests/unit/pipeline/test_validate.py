"""Arguments against the input schema, here or elsewhere."""

import pytest

from tests.unit.builders import call_of, entry_named, nested
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.caller import Allow
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.json import Json, JsonObject
from toolhall.pipeline.states import Admitted, Valid
from toolhall.pipeline.validate import IN_LOOP_BUDGET, Validate, validation_cost
from toolhall.registry.snapshot import Entry
from toolhall.schema.validator import Validator

SCHEMA: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
NODE = {"$ref": "#/$defs/N"}
RECURSIVE: JsonObject = {
    "type": "object",
    "properties": {"a": NODE},
    "$defs": {"N": {"anyOf": [{"properties": {"a": NODE}}, {"properties": {"a": NODE}}]}},
}


class FixedValidator(ProcessValidator):
    """A validator outside the loop that reports the problems that the test gave it."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.asked: list[tuple[JsonObject, Json, int]] = []
        self._problems = list(problems)

    async def problems(self, schema: JsonObject, value: Json, size: int) -> list[Problem]:
        self.asked.append((schema, value, size))
        return self._problems


def admitted(entry: Entry, arguments: JsonObject, size: int = 10) -> Admitted:
    return Admitted(call_of(arguments=arguments, size=size), entry, Allow("grant-7"))


def test_validate_accepts_valid_arguments_in_the_event_loop() -> None:
    elsewhere = FixedValidator()
    valid = Validate(elsewhere)(admitted(entry_named(input=SCHEMA), {"a": 1}))
    assert isinstance(valid, Valid)
    assert (valid.arguments, valid.verdict) == ({"a": 1}, Allow("grant-7"))
    assert elsewhere.asked == []


def test_validate_error_lists_every_problem_and_repeats_no_value() -> None:
    entry = entry_named(input={**SCHEMA, "required": ["b"]})
    with pytest.raises(BadArguments) as caught:
        Validate(FixedValidator())(admitted(entry, {"a": "hunter2"}))
    assert {problem.path for problem in caught.value.problems} == {"/a", "/b"}
    assert "hunter2" not in caught.value.message


async def test_validate_costly_arguments_are_validated_outside_the_event_loop() -> None:
    elsewhere, entry = FixedValidator(), entry_named(input=SCHEMA)
    size = IN_LOOP_BUDGET // entry.input_validator.cost.visits + 1
    waiting = Validate(elsewhere)(admitted(entry, {"a": "anything"}, size))
    assert not isinstance(waiting, Valid)
    assert isinstance(await waiting, Valid)
    assert elsewhere.asked == [(SCHEMA, {"a": "anything"}, size)]


async def test_validate_problems_found_outside_the_event_loop_raise_bad_arguments() -> None:
    entry = entry_named(input=SCHEMA)
    waiting = Validate(FixedValidator(Problem("/a", "is wrong")))(admitted(entry, {"a": 1}, IN_LOOP_BUDGET))
    assert not isinstance(waiting, Valid)
    with pytest.raises(BadArguments, match="/a: is wrong"):
        await waiting


def test_validate_arguments_within_the_budget_are_validated_in_the_event_loop() -> None:
    entry = entry_named(input=SCHEMA)
    size = IN_LOOP_BUDGET // entry.input_validator.cost.visits
    assert isinstance(Validate(FixedValidator())(admitted(entry, {"a": 1}, size)), Valid)


def test_validation_cost_is_visits_times_bytes() -> None:
    assert validation_cost(Validator(SCHEMA), {"a": 1}, 1_000) == 2_000


def test_validation_cost_of_branching_recursion_doubles_with_each_level() -> None:
    validator = Validator(RECURSIVE)
    one, two = (validation_cost(validator, nested(depth), 100) for depth in (10, 11))
    assert two == 2 * one
    assert validation_cost(validator, nested(60), 400) > IN_LOOP_BUDGET


def test_validation_cost_counts_the_depth_of_arrays() -> None:
    validator = Validator(RECURSIVE)
    assert validation_cost(validator, {"a": [[[1]]]}, 10) == validation_cost(
        validator, {"a": {"b": {"c": {"d": 1}}}}, 10
    )


def test_validation_cost_of_linear_recursion_does_not_depend_on_depth() -> None:
    plain = Validator({"type": "object", "properties": {"a": {"$ref": "#"}}})
    assert validation_cost(plain, nested(60), 100) == validation_cost(plain, {}, 100)
