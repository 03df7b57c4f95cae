# ruff: noqa: N802 - tests carry the names of their rows
"""Types to schemas, values to JSON and back."""

import collections
import datetime
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import annotated_types
import hypothesis
import msgspec
import pydantic
import pytest
from hypothesis import strategies as st

from toolhall.schema.types import (
    decoder_of,
    drop_closing_items,
    is_pydantic_model,
    schemas_of,
    to_json,
    to_json_within,
    to_msgspec_type,
)
from toolhall.schema.validator import Validator


class Inner(pydantic.BaseModel):
    n: int


class Model(pydantic.BaseModel):
    inner: Inner
    given: int = pydantic.Field(default=1, serialization_alias="Given")


class Folder(pydantic.BaseModel):
    parts: "list[Folder]" = []


def schema_of(hint: Any) -> dict[str, Any]:
    return schemas_of([hint])[0]


def test_is_pydantic_model_without_importing_pydantic() -> None:
    assert is_pydantic_model(Model)
    assert not any(map(is_pydantic_model, (int, Model(inner=Inner(n=1)), "text", msgspec.Struct)))


def test_schema_of_pydantic_model_is_inlined() -> None:
    schema = schema_of(list[Model])
    assert "$ref" not in str(schema)
    assert schema["items"]["properties"]["inner"]["properties"]["n"]["type"] == "integer"


def test_schema_of_recursive_pydantic_model_has_references() -> None:
    schema = schema_of(Folder)
    assert schema["$defs"]["Folder"]["properties"]["parts"]["items"] == {"$ref": "#/$defs/Folder"}


def test_schema_modes_differ_for_aliases_and_defaults() -> None:
    assert list(schemas_of([Model], "validation")[0]["properties"]) == ["inner", "given"]
    assert list(schemas_of([Model], "serialization")[0]["properties"]) == ["inner", "Given"]


def test_schemas_of_same_name_stay_apart() -> None:
    first = msgspec.defstruct("Node", [("a", int)], module="one")
    second = msgspec.defstruct("Node", [("b", int)], module="two")
    assert [list(each["properties"]) for each in schemas_of([first, second])] == [["a"], ["b"]]


def test_to_msgspec_type_plain_type_is_unchanged() -> None:
    for hint in (int, list[int], dict[str, int], Literal["a"], int | None, Any):
        assert to_msgspec_type(hint) is hint


def test_datetime_has_its_format_at_any_depth() -> None:
    expected = {"type": "string", "format": "date-time"}
    assert schema_of(datetime.datetime) == expected
    assert schema_of(list[datetime.datetime])["items"] == expected
    assert expected in schema_of(datetime.datetime | None)["anyOf"]
    assert schema_of(Annotated[datetime.datetime, "When"]) == {**expected, "description": "When"}


def test_meaningless_annotations_are_ignored() -> None:
    assert schema_of(Annotated[int, object(), annotated_types.Predicate(bool)]) == {"type": "integer"}


def test_json_schema_extra_function_is_ignored() -> None:
    def extend(schema: dict[str, Any]) -> None:
        schema["x"] = 1

    assert schema_of(Annotated[int, pydantic.Field(ge=1, json_schema_extra=extend)]) == {
        "type": "integer",
        "minimum": 1,
    }


def test_annotations_are_combined() -> None:
    hint = Annotated[Annotated[int, annotated_types.Ge(1)], annotated_types.Le(3), "A number"]
    assert schema_of(hint) == {"type": "integer", "minimum": 1, "maximum": 3, "description": "A number"}


def test_inexpressible_type_raises() -> None:
    with pytest.raises(TypeError, match="<class 'complex'> is not supported"):
        schema_of(complex)


class Custom(Mapping[str, int]):
    def __init__(self, inner: dict[str, int]) -> None:
        self._inner = inner

    def __getitem__(self, key: str) -> int:
        return self._inner[key]

    def __iter__(self) -> Any:
        return iter(self._inner)

    def __len__(self) -> int:
        return len(self._inner)


def test_to_json_encodes_any_result(subtests: pytest.Subtests) -> None:
    rows: list[tuple[object, bytes]] = [
        (Model(inner=Inner(n=1), given=2), b'{"inner":{"n":1},"Given":2}'),
        ([Inner(n=1)], b'[{"n":1}]'),
        (Custom({"a": 1}), b'{"a":1}'),
        (collections.deque([1, 2]), b"[1,2]"),
        (range(3), b"[0,1,2]"),
        ({"when": datetime.date(2026, 7, 28)}, b'{"when":"2026-07-28"}'),
    ]
    for value, written in rows:
        with subtests.test(repr((value, written))):
            assert to_json(value) == written


def test_to_json_unencodable_value_raises(subtests: pytest.Subtests) -> None:
    rows: list[object] = [object(), 1j, print]
    for value in rows:
        with subtests.test(repr(value)), pytest.raises(NotImplementedError, match="cannot be written as JSON"):
            to_json(value)


def test_decoder_of_returns_declared_type() -> None:
    assert decoder_of(dict[str, Inner])({"a": {"n": 1}}) == {"a": Inner(n=1)}
    assert decoder_of(datetime.date)("2026-07-28") == datetime.date(2026, 7, 28)
    with pytest.raises(msgspec.ValidationError):
        decoder_of(Inner)({"n": "x"})


def test_ambiguous_union_raises() -> None:
    inner = msgspec.defstruct("Same", [("a", int)])
    outer = msgspec.defstruct("Same", [("inner", inner)])
    with pytest.raises(TypeError, match=r"there are two different types .*Same.*; rename one of them"):
        schema_of(outer)


class Edge(msgspec.Struct):
    ends: tuple[int, str]


class Corner(pydantic.BaseModel):
    at: tuple[int, str]


PAIR = {"type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "integer"}, {"type": "string"}]}


def test_tuple_schema_has_no_boolean_items() -> None:
    assert schema_of(tuple[int, str]) == PAIR
    for hint in (
        list[tuple[int, str]],
        dict[str, tuple[int, str]],
        tuple[int, str] | None,
        tuple[tuple[int, str], tuple[int, str]],
        Annotated[tuple[int, str], "Two of them."],
        Edge,
        list[Edge],
        Corner,
    ):
        assert '"items":false' not in msgspec.json.encode(schema_of(hint)).decode()


def test_tuple_schema_accepts_exactly_the_tuple(subtests: pytest.Subtests) -> None:
    rows: list[Any] = [[1], [1, "a", "b"], ["a", 1], [1, "a", None], [], "ab", {"0": 1, "1": "a"}]
    for value in rows:
        with subtests.test(repr(value)):
            for hint, given in ((tuple[int, str], value), (list[tuple[int, str]], [value]), (Edge, {"ends": value})):
                assert not Validator(schema_of(hint)).accepts(given)


def test_tuple_keywords_in_data_are_unchanged() -> None:
    closed = {**PAIR, "items": False}
    extra = {"default": closed, "examples": [closed], "x-own": closed}
    hint = Annotated[dict[str, Any], msgspec.Meta(extra_json_schema=extra)]
    assert schema_of(hint) == {"type": "object", **extra}


def test_items_false_stays_where_it_has_effect(subtests: pytest.Subtests) -> None:
    rows: list[dict[str, int]] = [{}, {"maxItems": 3}]
    for most in rows:
        with subtests.test(repr(most)):
            part = {"type": "array", "prefixItems": [{}, {}], "items": False, **most}
            assert drop_closing_items({"properties": {"a": part}}) == {"properties": {"a": {**part, "items": False}}}


class Counted(Sequence[int]):
    """A sequence that counts how often it is read."""

    def __init__(self) -> None:
        self.written = 0

    def __len__(self) -> int:
        return 1_000

    def __getitem__(self, index: Any) -> Any:
        self.written += 1
        if index >= len(self):
            raise IndexError
        return index


def test_to_json_within_stops_at_the_limit(subtests: pytest.Subtests) -> None:
    rows: list[int] = [0, 1, 99, 100, 4_095, 4_096, 4_097, 65_536, 100_000]
    rows_2: list[str] = ["{}", '{{"a":{}}}', "[{}]", '{{"a":{{"b":{}}}}}']
    for size in rows:
        for wrap in rows_2:
            with subtests.test(repr((size, wrap))):
                whole = wrap.format('"' + "x" * size + '"').encode()
                value = msgspec.json.decode(whole)
                assert to_json_within(value, len(whole)) == whole
                assert to_json_within(value, len(whole) + 1) == whole
                assert to_json_within(value, len(whole) - 1) is None


@hypothesis.given(st.recursive(st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(), st.lists))
def test_to_json_within_equals_to_json(value: object) -> None:
    assert to_json_within(value, 1_000_000) == to_json(value)


@pytest.mark.threat("K21")
def test_K21_to_json_within_stops_encoding_at_the_limit() -> None:
    """Of a list of many parts, only those that fit are ever written: the rest is not even looked at."""
    parts = [Counted() for _ in range(10_000)]
    assert to_json_within(parts, 10_000) is None
    assert 0 < sum(part.written > 0 for part in parts) < 10
