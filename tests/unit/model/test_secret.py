"""A secret says nothing of itself."""

import copy
import json
import pickle
from collections.abc import Callable

import msgspec
import pytest

from toolhall.model.caller import Caller
from toolhall.model.secret import Secret
from toolhall.schema.types import to_json

VALUE = "correct-horse"


SHOWN: dict[str, Callable[[object], object]] = {
    "repr": repr,
    "str": str,
    "ascii": ascii,
    "dir": dir,
    "format": lambda each: f"{each}",
    "wide": lambda each: f"{each:>40}",
    "percent": lambda each: "%s" % each,  # noqa: UP031 - as logging does
    "in a list": lambda each: str([each]),
    "in a caller": lambda each: repr(Caller("ci", credential=each)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("show", SHOWN.values(), ids=SHOWN)
def test_secret_is_not_shown_by_any_formatting(show: Callable[[object], object]) -> None:
    assert VALUE not in str(show(Secret(VALUE)))


@pytest.mark.parametrize(
    "write",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        msgspec.json.encode,
        msgspec.msgpack.encode,
        msgspec.to_builtins,
        to_json,
        json.dumps,
        vars,
        bytes,
        iter,
        len,
    ],
    ids=lambda write: f"{write.__module__}.{write.__qualname__}",
)
def test_secret_cannot_be_serialized_or_copied(write: Callable[[object], object]) -> None:
    with pytest.raises((TypeError, NotImplementedError)) as failure:
        write(Secret(VALUE))
    assert VALUE not in str(failure.value)


def test_secret_equality() -> None:
    assert Secret(VALUE) == Secret(VALUE)
    assert Secret(VALUE) != Secret(VALUE + "x")
    assert Secret(VALUE) != VALUE
    assert hash(Secret(VALUE)) == hash(Secret(VALUE))
    assert Secret("gr\u00fcn-\ud800") == Secret("gr\u00fcn-\ud800")
    assert Secret(VALUE).reveal() == VALUE


def test_secret_derived_is_computed_once() -> None:
    secret = Secret(VALUE)
    assert secret.derived(lambda value: [value]) is secret.derived(lambda value: [value])


def test_secret_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 4 characters") as failure:
        Secret("abc")
    assert "abc" not in str(failure.value)
