"""Forms that a client can show to a person."""

import dataclasses
import enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest

from toolhall.authoring.context import form_schema


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


class Address(msgspec.Struct):
    street: str


def form(**fields: Any) -> Any:
    return msgspec.defstruct("Order", list(fields.items()))


def test_a_form_lists_its_fields_and_which_must_be_filled_in() -> None:
    @dataclasses.dataclass
    class Order:
        name: str
        quantity: int = 1

    assert form_schema(Order) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "quantity": {"type": "integer", "default": 1}},
        "required": ["name"],
    }


def test_a_form_may_need_nothing() -> None:
    class Order(TypedDict, total=False):
        name: str

    assert form_schema(Order) == {"type": "object", "properties": {"name": {"type": "string"}}}


FIELDS: list[tuple[Any, dict[str, Any]]] = [
    (str, {"type": "string"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (bool, {"type": "boolean"}),
    (
        Annotated[str, msgspec.Meta(description="A name", max_length=9)],
        {"type": "string", "description": "A name", "maxLength": 9},
    ),
    (Annotated[int, msgspec.Meta(ge=1)], {"type": "integer", "minimum": 1}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Size, {"type": "string", "title": "Size", "enum": ["large", "small"]}),
    (list[Literal["a", "b"]], {"type": "array", "items": {"enum": ["a", "b"]}}),
    (str | None, {"type": "string"}),
    (Literal["a", "b"] | None, {"type": "string", "enum": ["a", "b"]}),
    (Size | None, {"type": "string", "title": "Size", "enum": ["large", "small"]}),
]


@pytest.mark.parametrize(("hint", "schema"), FIELDS, ids=[str(hint) for hint, _ in FIELDS])
def test_a_plain_field(hint: Any, schema: dict[str, Any]) -> None:
    assert form_schema(form(field=hint))["properties"]["field"] == schema


@pytest.mark.parametrize("hint", [list[int], dict[str, str], int | str, Literal[1, 2], Address, list[int] | None])
def test_a_field_that_cannot_be_shown(hint: Any) -> None:
    with pytest.raises(TypeError, match="field 'field' cannot be shown in a form: use str, int, float, bool, Literal"):
        form_schema(form(field=hint))


@pytest.mark.parametrize("hint", [int, list[str], str | None])
def test_what_is_no_form(hint: Any) -> None:
    with pytest.raises(TypeError, match="is not a form: use a dataclass"):
        form_schema(hint)


def test_a_default_of_null_is_left_out() -> None:
    @dataclasses.dataclass
    class Order:
        name: str | None = None
        size: Size | None = None

    properties = form_schema(Order)["properties"]
    assert properties == {
        "name": {"type": "string"},
        "size": {"type": "string", "title": "Size", "enum": ["large", "small"]},
    }
