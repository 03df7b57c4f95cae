"""What a condition is asked about: the arguments as sent, and as the function gets them."""

import datetime
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pydantic
import pytest

from toolhall.model.errors import BadArguments
from toolhall.model.json import JsonObject
from toolhall.schema.defaults import UNKNOWN, argument_readings
from toolhall.schema.signature import read_signature


def both(function: Any, arguments: JsonObject) -> list[JsonObject]:
    signature = read_signature(function, 0)
    return list(argument_readings(signature.input, arguments, signature.bind))


def test_readings_unchanged_arguments_are_read_once() -> None:
    def add(one: int, words: list[str], more: bool = True) -> None: ...

    sent = {"one": 1, "words": ["a"]}
    assert both(add, sent) == [{**sent, "more": True}]


def test_readings_without_binder_follow_the_schema() -> None:
    schema = {"properties": {"mode": {"default": "delete"}}}
    assert list(argument_readings(schema, {}, None)) == [{"mode": "delete"}]


def test_readings_use_decoded_values() -> None:
    def book(at: datetime.datetime, pair: tuple[int, int], names: set[str], lasts: datetime.timedelta) -> None: ...

    sent = {"at": "2026-01-01t00:00:00+00:00", "pair": [1, 2], "names": ["b", "a"], "lasts": "PT60S"}
    got = {"at": "2026-01-01T00:00:00Z", "pair": [1, 2], "names": ["a", "b"], "lasts": "PT60S"}
    assert both(book, sent) == [sent, got]


def test_readings_path_is_a_string() -> None:
    def remove(file: Path) -> None: ...

    assert both(remove, {"file": "a/./b//c"}) == [{"file": "a/./b//c"}, {"file": "a/b/c"}]


def test_readings_have_defaults_in_both() -> None:
    def take(number: float, mode: str = "keep") -> None: ...

    assert both(take, {"number": 2}) == [{"number": 2, "mode": "keep"}, {"number": 2.0, "mode": "keep"}]


def test_readings_refused_by_the_function_raise() -> None:
    def take(at: datetime.timedelta) -> None: ...

    with pytest.raises(BadArguments):
        both(take, {"at": "soon"})


class Model(pydantic.BaseModel):
    """Holds what has no JSON of its own."""

    model_config = pydantic.ConfigDict(extra="allow", validate_by_name=True)

    place: IPv4Address = IPv4Address("127.0.0.1")
    mode: str = pydantic.Field(default="keep", alias="Mode", serialization_alias="how")


def test_readings_unencodable_value_is_unknown() -> None:
    def take(model: Model) -> None: ...

    sent, got = both(take, {"model": {"place": "127.0.0.1", "mode": "delete", "other": 1}})
    assert sent["model"]["Mode"] == "keep"
    assert got == {"model": {"place": UNKNOWN, "Mode": "delete", "other": 1}}, "by whichever name it was sent"


class Listed(pydantic.RootModel[list[int]]):
    """A list by another name."""


class Choosy(pydantic.BaseModel):
    """Has no one name for its member."""

    mode: str = pydantic.Field(default="keep", validation_alias=pydantic.AliasChoices("a", "b"))


def test_readings_of_special_pydantic_models() -> None:
    def take(numbers: Listed, choosy: Choosy) -> None: ...

    _, got = both(take, {"numbers": [1], "choosy": {}})
    assert got == {"numbers": [1], "choosy": UNKNOWN}


def _broken() -> str:
    raise OSError


@dataclass
class Broken:
    """Fails while it is made."""

    mode: str = field(default_factory=_broken)


def test_readings_failing_binder_gives_unknown() -> None:
    def take(broken: Broken, mode: str, more: int = 1) -> None: ...

    _, got = both(take, {"broken": {}, "mode": "x"})
    assert got == {"broken": UNKNOWN, "mode": UNKNOWN, "more": 1}
