"""Types, schemas and values belong together: what a type holds, its schema accepts and binding gives back."""

import contextlib
import datetime
import decimal
import enum
import itertools
import uuid
from typing import Any, Literal, NamedTuple

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.harness.seeds import examples
from toolhall.model.errors import BadArguments
from toolhall.schema.signature import read_signature
from toolhall.schema.types import decoder_of, schemas_of, to_json
from toolhall.schema.validator import Validator

NUMBERS = itertools.count()  # two types of one module need two names


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Typed(NamedTuple):
    """A type, and how to make its values."""

    hint: Any
    values: st.SearchStrategy[Any]


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
utc = st.just(datetime.UTC)
PLAIN = [
    Typed(bool, st.booleans()),
    Typed(int, st.integers(-(2**63), 2**64 - 1)),
    Typed(float, st.floats(allow_nan=False, allow_infinity=False)),
    Typed(str, text),
    Typed(Colour, st.sampled_from(Colour)),
    Typed(Literal["a", "b"], st.sampled_from(["a", "b"])),
    Typed(Literal[1, 2, 3], st.sampled_from([1, 2, 3])),
    Typed(datetime.datetime, st.datetimes(timezones=utc)),
    Typed(datetime.date, st.dates()),
    Typed(datetime.time, st.times()),
    Typed(datetime.timedelta, st.timedeltas(datetime.timedelta(-1_000), datetime.timedelta(1_000))),
    Typed(uuid.UUID, st.uuids()),
    Typed(bytes, st.binary(max_size=5)),
    Typed(decimal.Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3)),
]


def several(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda each: Typed(list[each.hint], st.lists(each.values, max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda each: Typed(dict[str, each.hint], st.dictionaries(text, each.values, max_size=3))),  # type: ignore[name-defined]
        inner.map(lambda each: Typed(each.hint | None, st.none() | each.values)),
        inner.map(lambda each: Typed(tuple[each.hint, ...], st.lists(each.values, max_size=3).map(tuple))),  # type: ignore[name-defined]
        st.tuples(inner, inner).map(pair),
        st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3).map(struct),
    )


def pair(parts: tuple[Typed, Typed]) -> Typed:
    first, second = parts
    return Typed(tuple[first.hint, second.hint], st.tuples(first.values, second.values))  # type: ignore[name-defined]


def struct(fields: list[tuple[Typed, bool]]) -> Typed:
    """A struct with these fields, some of which may be left out."""
    named = [(f"f{number}", each, optional) for number, (each, optional) in enumerate(fields)]
    declared = [(name, each.hint | None, None) if optional else (name, each.hint) for name, each, optional in named]
    made: Any = msgspec.defstruct(f"Made{next(NUMBERS)}", sorted(declared, key=len), kw_only=True)
    values = st.fixed_dictionaries(
        {name: each.values | st.none() if optional else each.values for name, each, optional in named}
    )
    return Typed(made, values.map(lambda given: made(**given)))


types = st.recursive(st.sampled_from(PLAIN), several, max_leaves=4)


@st.composite
def typed_values(draw: st.DrawFn) -> tuple[Any, Any]:
    chosen = draw(types)
    return chosen.hint, draw(chosen.values)


def taking(hint: Any) -> Any:
    def take(value: Any) -> None: ...

    take.__annotations__ = {"value": hint}
    return read_signature(take, 0)


@settings(max_examples=examples(300))
@given(typed_values())
def test_type_schema_accepts_every_value_of_the_type_and_binding_restores_it(case: tuple[Any, Any]) -> None:
    hint, value = case
    signature = taking(hint)
    arguments = msgspec.json.decode(to_json({"value": value}))
    assert Validator(signature.input).problems(arguments, 100) == []
    bound = signature.bind(arguments)["value"]
    assert bound == value
    assert type(bound) is type(value)


@settings(max_examples=examples(200))
@given(typed_values(), types)
def test_type_schema_accepted_value_of_another_type_is_bound_or_bad_arguments(
    case: tuple[Any, Any], other: Typed
) -> None:
    """What another type's schema accepts can be bound to it, or is refused with a problem that holds no value."""
    _, value = case
    arguments = msgspec.json.decode(to_json({"value": value}))
    signature = taking(other.hint)
    if Validator(signature.input).accepts(arguments):
        with contextlib.suppress(BadArguments):
            signature.bind(arguments)


@given(typed_values())
def test_type_output_schema_accepts_every_result_of_the_type(case: tuple[Any, Any]) -> None:
    hint, value = case
    (schema,) = schemas_of([hint], "serialization")
    encoded = to_json(value)
    assert Validator(schema).accepts(msgspec.json.decode(encoded))
    assert decoder_of(hint)(msgspec.json.decode(encoded)) == value
