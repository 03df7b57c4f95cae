# ruff: noqa: N802 - tests carry the names of their rows
"""F13: from level 4 on, a tool from outside is handed only the arguments that its definition names."""

from typing import Any

import msgspec
import pytest

from tests.unit.builders import call_of, entry_named
from toolhall.execution.schema_worker import ProcessValidator
from toolhall.model.caller import Allow
from toolhall.model.errors import BadArguments
from toolhall.model.json import JsonObject
from toolhall.pipeline.states import Admitted, Valid
from toolhall.pipeline.validate import Validate
from toolhall.registry.snapshot import Entry

OPEN: JsonObject = {"type": "object", "properties": {"a": {"type": "integer"}}}
# What each schema names, and what it does not.
NAMING: dict[str, tuple[JsonObject, list[str], list[str]]] = {
    "open": (OPEN, ["a"], ["b", "A", ""]),
    "said to be open": ({**OPEN, "additionalProperties": True}, ["a"], ["b"]),
    "empty schema of others": ({**OPEN, "additionalProperties": {}}, ["a"], ["b"]),
    "names nothing": ({"type": "object"}, [], ["a"]),
    "by pattern": ({"type": "object", "patternProperties": {"^x-": {}}}, ["x-1"], ["y", "a-x-"]),
    "by reference": (
        {"$ref": "#/$defs/A", "$defs": {"A": {"properties": {"a": {}}}, "B": {"properties": {"b": {}}}}},
        ["a"],
        ["b"],
    ),
    "by anchor": ({"$ref": "#it", "$defs": {"A": {"$anchor": "it", "properties": {"a": {}}}}}, ["a"], ["b"]),
    "in branches": (
        {"allOf": [{"properties": {"a": {}}}], "anyOf": [{"oneOf": [{"properties": {"b": {}}}]}]},
        ["a", "b"],
        ["c"],
    ),
    "on a condition": (
        {"if": {"properties": {"a": {}}}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}},
        ["a", "b", "c"],
        ["d"],
    ),
    "in a part": ({"type": "object", "properties": {"a": {"properties": {"b": {}}}}}, ["a"], ["b"]),
    "as what may not be": (
        {"properties": {"a": {}}, "not": {"properties": {"b": {"const": 1}}, "required": ["b"]}},
        ["a"],
        ["b"],
    ),
    "all of a kind": ({"type": "object", "additionalProperties": {"type": ["null", "string"]}}, ["a", "b"], []),
}


def call_at_level(level: int, schema: JsonObject, arguments: dict[str, Any], *, foreign: bool = True) -> Admitted:
    """A call of a tool with this schema that was allowed at this level."""
    entry = entry_named(input=schema)
    tool = msgspec.structs.replace(entry.tool, foreign=foreign)
    shown = Entry(tool, entry.runner, entry.input_validator, entry.output_validator, entry.id)
    return Admitted(call_of(arguments=arguments, size=10), shown, Allow("grant-7", level))


@pytest.fixture
def validate() -> Validate:
    """The stage; no check here is so costly that it would be made elsewhere."""
    return Validate(ProcessValidator())


@pytest.mark.threat("F13")
@pytest.mark.parametrize("case", NAMING)
def test_F13_undeclared_argument_of_an_external_tool_is_refused_by_name_at_level_5(
    validate: Validate, case: str
) -> None:
    """However a schema names its arguments, these pass at level 5 and others are refused by name."""
    schema, known, unknown = NAMING[case]
    for name in known:
        value = 1 if "integer" in str(schema) else None
        assert isinstance(validate(call_at_level(5, schema, {name: value})), Valid)
    for name in unknown:
        with pytest.raises(BadArguments, match="does not name this argument") as caught:
            validate(call_at_level(5, schema, {name: "hunter2"}))
        assert [problem.path for problem in caught.value.problems] == [f"/{name}"]
        assert "hunter2" not in caught.value.message


@pytest.mark.threat("F13")
@pytest.mark.parametrize("level", range(11))
def test_F13_undeclared_argument_of_an_external_tool_is_refused_from_level_4_on(validate: Validate, level: int) -> None:
    """Below level 4 an open schema is what its author made it."""
    call = call_at_level(level, OPEN, {"a": 1, "b": 2})
    if level < 4:
        assert isinstance(validate(call), Valid)
    else:
        with pytest.raises(BadArguments):
            validate(call)


@pytest.mark.threat("F13")
def test_F13_undeclared_argument_of_an_own_tool_with_an_open_schema_is_accepted(validate: Validate) -> None:
    """The operator's own tools are closed where they are made; an author who opens one means it."""
    assert isinstance(validate(call_at_level(9, OPEN, {"b": 2}, foreign=False)), Valid)


@pytest.mark.threat("F13")
def test_F13_refusal_of_a_thousand_undeclared_arguments_lists_twenty_and_no_escape_sequence(validate: Validate) -> None:
    """A refusal lists some of them, cut short, with nothing that a terminal would obey."""
    arguments = {f"{number}\x1b[2J" + "x" * 1_000: 1 for number in range(1_000)}
    with pytest.raises(BadArguments) as caught:
        validate(call_at_level(4, OPEN, arguments))
    assert len(caught.value.problems) == 20
    assert len(caught.value.message) < 8_192
    assert "\x1b" not in caught.value.message
