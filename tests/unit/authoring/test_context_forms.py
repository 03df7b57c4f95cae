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


def test_form_schema_has_fields_and_required() -> None:
    @dataclasses.dataclass
    class Order:
        name: str
        quantity: int = 1

    assert form_schema(Order) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "quantity": {"type": "integer", "default": 1}},
        "required": ["name"],
    }


def test_form_schema_without_required_fields() -> None:
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


def test_form_field_of_plain_types(subtests: pytest.Subtests) -> None:
    for hint, schema in FIELDS:
        with subtests.test(repr((hint, schema))):
            assert form_schema(form(field=hint))["properties"]["field"] == schema


def test_form_field_of_other_type_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [list[int], dict[str, str], int | str, Literal[1, 2], Address, list[int] | None]
    for hint in rows:
        with (
            subtests.test(repr(hint)),
            pytest.raises(
                TypeError, match="field 'field' cannot be shown in a form: use str, int, float, bool, Literal"
            ),
        ):
            form_schema(form(field=hint))


def test_form_schema_of_non_object_is_refused(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [int, list[str], str | None]
    for hint in rows:
        with subtests.test(repr(hint)), pytest.raises(TypeError, match="is not a form: use a dataclass"):
            form_schema(hint)


def test_form_field_null_default_is_dropped() -> None:
    @dataclasses.dataclass
    class Order:
        name: str | None = None
        size: Size | None = None

    properties = form_schema(Order)["properties"]
    assert properties == {
        "name": {"type": "string"},
        "size": {"type": "string", "title": "Size", "enum": ["large", "small"]},
    }
