"""Signatures: what a function takes, how arguments become parameters, what it returns."""

import dataclasses
import datetime
import enum
import importlib
import uuid
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from toolhall.model.content import Image, Reply, Text
from toolhall.model.errors import BadArguments, Problem
from toolhall.model.tool import Output
from toolhall.schema.signature import MAX_AUTHOR_TEXT, BadSignature, output_of, read_signature
from toolhall.schema.validator import MAX_PROBLEMS


def signature(**hints: Any) -> Any:
    """The signature of a function with these parameters, none of them with a default."""
    namespace: dict[str, Any] = {}
    exec(f"def made({', '.join(hints)}): ...", namespace)
    namespace["made"].__annotations__ = hints
    return read_signature(namespace["made"], 0)


def test_read_signature_skips_hidden_parameters() -> None:
    def method(self: object, ctx: object, city: str) -> None: ...

    assert list(read_signature(method, 2).input["properties"]) == ["city"]


def test_bind_without_parameters() -> None:
    found = signature()
    assert found.input == {"type": "object", "properties": {}, "additionalProperties": False}
    assert found.bind({}) == {}


def test_bind_decodes_to_declared_types() -> None:
    class Colour(enum.Enum):
        RED = "red"

    found = signature(colour=Colour, day=datetime.date, pair=tuple[int, str])
    assert found.bind({"colour": "red", "day": "2026-07-28", "pair": [1, "a"]}) == {
        "colour": Colour.RED,
        "day": datetime.date(2026, 7, 28),
        "pair": (1, "a"),
    }


def test_bind_leaves_defaults_to_the_function() -> None:
    def pick(city: str = "Oslo", days: int = 3) -> None: ...

    found = read_signature(pick, 0)
    assert found.bind({}) == {}
    assert found.bind({"days": 5}) == {"days": 5}
    assert "required" not in found.input


def test_bind_integral_float_becomes_int() -> None:
    found = signature(n=int, deep=dict[str, list[int]], x=float)
    bound = found.bind({"n": 2.0, "deep": {"a": [1.0, 2]}, "x": 0.5})
    assert bound == {"n": 2, "deep": {"a": [1, 2]}, "x": 0.5}
    assert type(bound["n"]) is int
    assert type(bound["deep"]["a"][0]) is int


def test_bind_fractional_float_for_int_is_refused() -> None:
    with pytest.raises(BadArguments):
        signature(n=int).bind({"n": 2.5})


@pytest.mark.parametrize(
    ("hint", "value", "problem"),
    [
        (
            datetime.datetime,
            "hunter2",
            Problem("/x", "Invalid RFC3339 encoded datetime; write it like 2026-12-01T12:00:00Z"),
        ),
        (datetime.date, "hunter2", Problem("/x", "Invalid RFC3339 encoded date; write it like 2026-12-01")),
        (bytes, "hunter2!", Problem("/x", "Invalid base64 encoded string; write it like aGVsbG8=")),
        (
            list[datetime.date],
            ["2026-07-28", "hunter2"],
            Problem("/x/1", "Invalid RFC3339 encoded date; write it like 2026-12-01"),
        ),
        (
            dict[str, datetime.date],
            {"a": "hunter2"},
            Problem("/x/a", "Invalid RFC3339 encoded date; write it like 2026-12-01"),
        ),
    ],
    ids=str,
)
def test_bind_wrong_form_is_reported_with_its_path(hint: Any, value: Any, problem: Problem) -> None:
    with pytest.raises(BadArguments) as caught:
        signature(x=hint).bind({"x": value})
    assert caught.value.problems == (problem,)


class Stock(pydantic.BaseModel):
    code: str
    day: datetime.date = datetime.date(2026, 7, 28)
    count: int = 0

    @pydantic.field_validator("code")
    @classmethod
    def is_code(cls, code: str) -> str:
        if not code.startswith("SKU-"):
            raise ValueError("a code begins with SKU-, as on the label")
        return code

    @pydantic.field_validator("count")
    @classmethod
    def is_even(cls, count: int) -> int:
        if count % 2:
            raise AssertionError("only pairs are sold")  # what `assert` raises
        return count


@dataclasses.dataclass
class Span:
    start: datetime.date
    end: datetime.date

    def __post_init__(self) -> None:
        if self.end < self.start:
            raise ValueError("the end comes before the start")


def refusal(hint: Any, value: Any) -> list[str]:
    with pytest.raises(BadArguments) as caught:
        signature(x=hint).bind({"x": value})
    return list(map(str, caught.value.problems))


def test_bind_validator_message_is_reported_with_its_path() -> None:
    assert refusal(list[Stock], [{"code": "hunter2", "day": "hunter2", "count": 3}, {"code": "SKU-1"}]) == [
        "/x/0/code: a code begins with SKU-, as on the label",
        "/x/0/day: Input should be a valid date or datetime",
        "/x/0/count: only pairs are sold",
    ]


def test_bind_post_init_message_is_reported_with_its_path() -> None:
    late = {"start": "2026-07-28", "end": "2026-07-27"}
    assert refusal(dict[str, Span], {"a": late}) == ["/x/a: the end comes before the start"]


def test_bind_reports_every_wrong_form() -> None:
    class Trip(TypedDict):
        days: list[datetime.date]
        legs: NotRequired[dict[str, tuple[uuid.UUID, datetime.time] | None]]

    trip = {"days": ["2026-07-28", "no", "nor this"], "legs": {"a": ["x", "y"], "b": None}}
    assert refusal(Trip | None, trip) == [
        "/x/days/1: Invalid RFC3339 encoded date; write it like 2026-12-01",
        "/x/days/2: Invalid RFC3339 encoded date; write it like 2026-12-01",
        "/x/legs/a/0: Invalid UUID; write it like 123e4567-e89b-12d3-a456-426614174000",
        "/x/legs/a/1: Invalid RFC3339 encoded time; write it like 12:00:00",
    ]
    with pytest.raises(BadArguments) as caught:
        signature(a=datetime.date, b=int, c=Stock).bind({"a": "x", "b": 2.5, "c": {"code": "x"}})
    assert [problem.path for problem in caught.value.problems] == ["/a", "/b", "/c/code"]


def test_bind_problems_are_limited() -> None:
    assert len(refusal(list[datetime.date], ["x"] * 1_000)) == MAX_PROBLEMS
    assert refusal(list[datetime.date], ["x"] * 100_000) == [
        "/x/0: Invalid RFC3339 encoded date; write it like 2026-12-01"
    ]


class Number(pydantic.BaseModel):
    word: str

    @pydantic.field_validator("word")
    @classmethod
    def read(cls, word: str) -> str:
        return str(int(word))


class Quoting(pydantic.BaseModel):
    word: str = ""
    number: int = 0

    @pydantic.field_validator("word")
    @classmethod
    def refuse_word(cls, word: str) -> str:
        raise ValueError(f"Invalid {word}")

    @pydantic.field_validator("number")
    @classmethod
    def refuse_number(cls, number: int) -> int:
        raise ValueError(f"{number} is odd")


def test_bind_author_message_masks_the_value() -> None:
    assert refusal(Quoting, {"word": "hunter2"}) == ["/x/word: Invalid the value"]
    assert refusal(Quoting, {"number": 411151}) == ["/x/number: the value is odd"]


def test_bind_author_message_without_value_is_unchanged() -> None:
    """Even where the value is one of its words."""
    assert refusal(Stock, {"code": "label"}) == ["/x/code: a code begins with SKU-, as on the label"]
    assert refusal(Span, {"start": "2026-07-28", "end": "2026-07-27"}) == ["/x: the end comes before the start"]


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Home(pydantic.BaseModel):
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Tall(pydantic.BaseModel):
    word: str

    @pydantic.field_validator("word")
    @classmethod
    def refuse(cls, word: str) -> str:
        raise ValueError("\x1b[31m" + "no\u202e " * 1_000)


def test_bind_author_message_is_shortened_and_sanitized() -> None:
    (told,) = refusal(Tall, {"word": "x"})
    assert len(told) <= MAX_AUTHOR_TEXT + len("/x/word: ")
    assert told.startswith("/x/word: no no no")
    assert told.isprintable()


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Number, {"word": "hunter2"}),
        (Quoting, {"word": "hunter2"}),
        (Quoting, {"word": "x - at `$hunter2`"}),
        (Quoting, {"number": 411151}),
        (Number, {"word": "x - at `$hunter2`"}),
        (Home, {"pet": {"kind": "hunter2"}}),
        (uuid.UUID, "hunter2"),
        (Literal["a", "b"], "hunter2"),
        (Literal[1, 2], 411151),
        (Annotated[str, msgspec.Meta(max_length=3)], "hunter2"),
    ],
    ids=str,
)
def test_bind_problem_never_contains_the_value(hint: Any, value: Any) -> None:
    with pytest.raises(BadArguments) as caught:
        signature(x=hint).bind({"x": value})
    assert "hunter2" not in str(caught.value)
    assert "411151" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("hint", "output"),
    [
        (None, Output("none")),
        (type(None), Output("none")),
        (Text, Output()),
        (Reply, Output()),
        (list[Image], Output()),
        (tuple[Text, ...], Output()),
        (Image | None, Output()),
        (list[Text | Image], Output()),
        (int, Output("schema", {"type": "integer"})),
        (Any, Output("schema", {})),
        (list[int], Output("schema", {"type": "array", "items": {"type": "integer"}})),
    ],
    ids=str,
)
def test_output_of_return_types(hint: Any, output: Output) -> None:
    assert output_of(hint) == output


def test_output_without_return_type_is_unstated() -> None:
    assert signature().output == Output()


def test_output_type_given_by_returns() -> None:
    def pick() -> Reply:
        return Reply()

    assert read_signature(pick, 0, list[int]).output.schema == {"type": "array", "items": {"type": "integer"}}


def test_parameter_of_inexpressible_type_is_named() -> None:
    with pytest.raises(BadSignature, match="parameter 'second': type <class 'complex'> is not supported"):
        signature(first=int, second=complex)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of pydantic's, on a Python that its first line does not know
def test_pydantic_1_model_is_named_with_the_fix() -> None:
    old = importlib.import_module("pydantic.v1")
    model: Any = type("Order", (old.BaseModel,), {"__annotations__": {"id": int}})
    for hint in (model, list[model]):
        with pytest.raises(BadSignature, match=r"'order': Order is a model of pydantic 1; .*'toolhall\[pydantic\]'$"):
            signature(order=hint)
