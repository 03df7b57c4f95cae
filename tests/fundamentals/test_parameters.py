"""What a tool takes: descriptions, bounds and defaults, written in whichever notation one likes."""

from collections.abc import Sequence
from typing import Annotated, Any

import annotated_types
import msgspec
import pydantic
import pytest

from toolhall import ToolhallError, tool
from toolhall.testing import Client


async def schema_of(function: Any) -> dict[str, Any]:
    async with Client(function) as client:
        (definition,) = await client.list_tools()
    return definition.input


async def refusal(function: Any, **arguments: Any) -> str:
    async with Client(function) as client:
        with pytest.raises(ToolhallError) as caught:
            await client.call_named(function.__name__, arguments)
    return caught.value.message


async def test_parameter_without_default_is_required() -> None:
    @tool
    def pick(city: str, days: int = 3) -> None: ...

    assert await schema_of(pick) == {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 3}},
        "required": ["city"],
        "additionalProperties": False,
    }


async def test_default_is_used_for_missing_argument() -> None:
    @tool
    def pick(city: str, days: int = 3) -> str:
        return f"{city} {days}"

    async with Client(pick) as client:
        assert await client.call(pick, "Oslo") == "Oslo 3"
        assert await client.call(pick, "Oslo", days=5) == "Oslo 5"


async def test_tool_without_parameters_takes_an_empty_object() -> None:
    @tool
    def now() -> str:
        return "noon"

    assert await schema_of(now) == {"type": "object", "properties": {}, "additionalProperties": False}
    assert "/when" in await refusal(now, when="later")


async def test_annotated_string_is_the_description() -> None:
    @tool
    def pick(city: Annotated[str, "City name"]) -> None: ...

    assert (await schema_of(pick))["properties"]["city"] == {"type": "string", "description": "City name"}


@tool
def msgspec_meta(n: Annotated[int, msgspec.Meta(ge=1, le=9, description="A number")]) -> None: ...


@tool
def annotated_type(n: Annotated[int, annotated_types.Ge(1), annotated_types.Le(9), "A number"]) -> None: ...


@tool
def annotated_interval(n: Annotated[int, annotated_types.Interval(ge=1, le=9), "A number"]) -> None: ...


@tool
def pydantic_field(n: Annotated[int, pydantic.Field(ge=1, le=9, description="A number")]) -> None: ...


@pytest.mark.parametrize(
    "function", [msgspec_meta, annotated_type, annotated_interval, pydantic_field], ids=lambda each: each.__name__
)
async def test_parameter_bounds_of_every_notation_are_published_and_enforced(function: Any) -> None:
    expected = {"type": "integer", "minimum": 1, "maximum": 9, "description": "A number"}
    assert (await schema_of(function))["properties"]["n"] == expected
    assert "/n: the value is less than the minimum of 1" in await refusal(function, n=0)
    assert "/n: the value is greater than the maximum of 9" in await refusal(function, n=10)
    async with Client(function) as client:
        await client.call_named(function.__name__, {"n": 9})


async def test_parameter_bounds_of_strings_lists_and_floats_are_published_and_enforced() -> None:
    @tool
    def pick(
        code: Annotated[str, msgspec.Meta(pattern="^[A-Z]+$", min_length=2, max_length=3)],
        parts: Annotated[list[int], annotated_types.Len(1, 2)],
        step: Annotated[float, annotated_types.MultipleOf(0.5), annotated_types.Gt(0), annotated_types.Lt(2)] = 1,
    ) -> None: ...

    properties = (await schema_of(pick))["properties"]
    assert properties["code"] == {"type": "string", "pattern": "^[A-Z]+$", "minLength": 2, "maxLength": 3}
    assert properties["parts"] == {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}
    assert properties["step"] == {
        "type": "number",
        "multipleOf": 0.5,
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 2,
        "default": 1,
    }
    told = await refusal(pick, code="abcd", parts=[], step=0.3)
    assert all(place in told for place in ("/code: ", "/parts: ", "/step: "))


async def test_parameter_bounds_of_list_items_are_enforced() -> None:
    @tool
    def pick(days: list[Annotated[int, annotated_types.Ge(0)]]) -> None: ...

    assert "/days/1: the value is less than the minimum of 0" in await refusal(pick, days=[1, -1])


async def test_parameter_titles_examples_and_extra_keywords_are_published() -> None:
    @tool
    def pick(
        city: Annotated[str, pydantic.Field(title="City", examples=["Oslo"], json_schema_extra={"x-kind": "place"})],
    ) -> None: ...

    expected = {"type": "string", "title": "City", "examples": ["Oslo"], "x-kind": "place"}
    assert (await schema_of(pick))["properties"]["city"] == expected


async def test_all_problems_are_reported_with_paths() -> None:
    @tool
    def pick(city: str, days: Annotated[int, msgspec.Meta(ge=1)], exact: bool = False) -> None: ...

    told = await refusal(pick, days=0, exact="perhaps", extra=1)
    for problem in (
        '"city" is a required property',
        "/days: the value is less than the minimum of 1",
        '/exact: the value is not of type "boolean"',
        "'extra' was unexpected",
    ):
        assert problem in told


async def test_problem_never_contains_the_value() -> None:
    @tool
    def pick(days: int) -> None: ...

    assert "hunter2" not in await refusal(pick, days="hunter2")


async def test_undeclared_argument_is_refused() -> None:
    @tool
    def pick(city: str) -> None: ...

    assert "'colour' was unexpected" in await refusal(pick, city="Oslo", colour="red")


async def test_integral_float_is_an_integer() -> None:
    @tool
    def double(number: int) -> int:
        return number * 2

    async with Client(double) as client:
        assert (await client.call_named("double", {"number": 2.0})).encoded == b"4"


async def test_large_integers_are_exact() -> None:
    @tool
    def same(number: int) -> int:
        return number

    async with Client(same) as client:
        assert await client.call(same, 2**53 + 1) == 2**53 + 1


async def test_keyword_only_parameters_work() -> None:
    @tool
    def pick(*, city: str, days: int = 1) -> str:
        return f"{city} {days}"

    async with Client(pick) as client:
        assert await client.call(pick, city="Oslo") == "Oslo 1"


async def test_sequence_is_a_list() -> None:
    @tool
    def total(numbers: Sequence[int]) -> int:
        return sum(numbers)

    async with Client(total) as client:
        assert await client.call(total, [1, 2, 3]) == 6


async def test_input_option_publishes_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a"],
        "dependentRequired": {"b": ["a"]},
    }

    @tool(input=schema)
    def add(**arguments: int) -> int:
        return sum(arguments.values())

    assert await schema_of(add) == schema
    async with Client(add) as client:
        assert await client.call(add, a=1, b=2) == 3
    assert "/a: " in await refusal(add, a="one")
